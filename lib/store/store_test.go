package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"forge/lib/fail"
)

// open returns a store in a fresh directory, itself not made yet.
func open(t *testing.T) *Store {
	t.Helper()
	st, err := Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func mkdir(t *testing.T, mode os.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpen(t *testing.T) {
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, uid := "/usr", "0"
	if os.Geteuid() == 0 {
		foreign, uid = mkdir(t, 0o700, tmp, "foreign"), "12345"
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
	}
	me := strconv.Itoa(os.Geteuid())
	for _, c := range []struct {
		home, kind, message, hint string
	}{
		{filepath.Join(tmp, "missing"), "", "", ""},
		{mkdir(t, 0o700, tmp, "own"), "", "", ""},
		{mkdir(t, 0o755, tmp, "readable"), "", "", ""},
		{"relative", "usage", `store "relative": not an absolute path`, "set FORGE_HOME or --home to an absolute path"},
		{"", "usage", `store "": not an absolute path`, "set FORGE_HOME or --home to an absolute path"},
		{file, "io_error", `store "` + file + `": not a directory`, "set FORGE_HOME to a directory"},
		{filepath.Join(file, "x"), "io_error", "stat " + file + "/x: not a directory", ""},
		{mkdir(t, 0o770, tmp, "group"), "io_error", `"` + tmp + `/group": others may write to it (mode 0770)`, "chmod go-w " + tmp + "/group"},
		{mkdir(t, 0o702, tmp, "others"), "io_error", `"` + tmp + `/others": others may write to it (mode 0702)`, "chmod go-w " + tmp + "/others"},
		{foreign, "io_error", `"` + foreign + `": owned by uid ` + uid + `, and you are uid ` + me, "use sudo -H, or set FORGE_HOME to a directory of your own"},
	} {
		st, err := Open(c.home)
		e := fail.Of(err)
		if e == nil {
			e = &fail.Error{}
		}
		if string(e.Kind) != c.kind || e.Message != c.message || e.Hint != c.hint {
			t.Errorf("%q: %s %q, hint %q", c.home, e.Kind, e.Message, e.Hint)
		}
		if err == nil && st.Root != c.home {
			t.Errorf("%q: root %q", c.home, st.Root)
		}
	}
	if _, err := os.Lstat(filepath.Join(tmp, "missing")); err == nil {
		t.Error("opening a store made it")
	}
}

func TestLayout(t *testing.T) {
	st := &Store{Root: "/h"}
	p := Place{Session, "/h/sessions/s"}
	sum := sha256.Sum256([]byte("/h/sessions/s\x00csv_stats"))
	for got, want := range map[string]string{
		st.Audit():                          "/h/audit",
		st.Segment(1):                       "/h/audit/audit-000001.jsonl",
		st.Segment(123456):                  "/h/audit/audit-123456.jsonl",
		st.NextSegment(2):                   "/h/audit/audit-000002.jsonl.tmp",
		st.Checkpoints():                    "/h/audit/checkpoints",
		st.Keys():                           "/h/keys",
		st.Config():                         "/h/config.toml",
		st.AuditFile("id"):                  "/h/audit/id",
		st.Ledger("ab"):                     "/h/ledger/ab.json",
		st.Policy():                         "/h/policy.json",
		st.ToolState(p.Root, "csv_stats"):   "/h/state/" + hex.EncodeToString(sum[:])[:32] + ".json",
		st.SessionState("s"):                "/h/state/session-s.json",
		st.Cache(strings.Repeat("ab", 32)):  "/h/cache/ab/" + strings.Repeat("ab", 32) + ".json",
		st.Run("20261130T191500Z-0a0b0c0d"): "/h/runs/20261130T191500Z-0a0b0c0d",
		p.Tool("csv_stats"):                 "/h/sessions/s/tools/csv_stats.json",
		p.ToolsLock():                       "/h/sessions/s/tools/.lock",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if st.ToolState("/h", "x") == st.ToolState("/h/x", "") {
		t.Error("two tools share a state")
	}
}

func TestPlaces(t *testing.T) {
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := mkdir(t, 0o755, tmp, "home")
	st := &Store{Root: filepath.Join(home, ".forge")}
	mkdir(t, 0o700, st.Root)
	plain := mkdir(t, 0o755, home, "plain", "deep")
	work := mkdir(t, 0o755, home, "work", "deep", "er")
	project := mkdir(t, 0o755, home, "work", ".forge")
	inner := mkdir(t, 0o755, home, "work", "inner")
	mkdir(t, 0o700, inner, ".forge")
	open := mkdir(t, 0o755, home, "open")
	mkdir(t, 0o775, open, ".forge")
	linked := mkdir(t, 0o755, home, "linked")
	if err := os.Symlink(project, filepath.Join(linked, ".forge")); err != nil {
		t.Fatal(err)
	}
	file := mkdir(t, 0o755, home, "file")
	if err := os.WriteFile(filepath.Join(file, ".forge"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	outside := mkdir(t, 0o755, tmp, "outside", "below")
	mkdir(t, 0o700, tmp, "outside", ".forge")
	mkdir(t, 0o700, tmp, ".forge") // above HOME
	way := filepath.Join(tmp, "way")
	if err := os.Symlink(home, way); err != nil {
		t.Fatal(err)
	}
	shared := mkdir(t, 0o755, home, "shared")
	mkdir(t, 0o702, shared, ".forge", "tools")
	within := mkdir(t, 0o755, home, "work", "within")
	mkdir(t, 0o720, within, ".forge")
	for name, c := range map[string]struct {
		w    Where
		want string // scopes, where the project is, and which is ignored
	}{
		"nothing":                  {Where{Dir: plain, Home: home}, "user"},
		"session":                  {Where{Session: "s", Dir: plain, Home: home}, "session user"},
		"task":                     {Where{Session: "s", Task: "k", Dir: plain, Home: home}, "task session user"},
		"task without session":     {Where{Task: "k", Dir: plain, Home: home}, "user"},
		"project":                  {Where{Dir: filepath.Join(home, "work"), Home: home}, "project=" + project + " user"},
		"project above":            {Where{Session: "s", Dir: work, Home: home}, "session project=" + project + " user"},
		"the nearest":              {Where{Dir: inner, Home: home}, "project=" + inner + "/.forge user"},
		"others may write":         {Where{Dir: open, Home: home}, "user, not " + open + "/.forge"},
		"others may write tools":   {Where{Dir: shared, Home: home}, "user, not " + shared + "/.forge/tools"},
		"below, others may write":  {Where{Dir: within, Home: home}, "project=" + project + " user"},
		"a link":                   {Where{Dir: linked, Home: home}, "user"},
		"a file":                   {Where{Dir: file, Home: home}, "user"},
		"home itself":              {Where{Dir: home, Home: home}, "user"},
		"above home":               {Where{Dir: tmp, Home: home}, "user"},
		"not below home":           {Where{Dir: outside, Home: home}, "project=" + tmp + "/outside/.forge user"},
		"home unset":               {Where{Dir: work}, "user"},
		"the directory is gone":    {Where{Dir: filepath.Join(home, "gone"), Home: home}, "user"},
		"no directory":             {Where{Home: home}, "user"},
		"home through a link":      {Where{Dir: home, Home: way}, "user"},
		"through a link to it":     {Where{Dir: filepath.Join(way, "work"), Home: home}, "project=" + project + " user"},
		"home that does not exist": {Where{Dir: inner, Home: "/nowhere"}, "project=" + inner + "/.forge user"},
	} {
		places, ignored := st.Places(c.w)
		var got []string
		for _, p := range places {
			word := string(p.Scope)
			if p.Scope == Project {
				word += "=" + p.Root
			}
			got = append(got, word)
		}
		g := strings.Join(got, " ")
		if e := fail.Of(ignored); e != nil {
			path := strings.TrimPrefix(e.Hint, "chmod go-w ")
			if e.Kind != fail.IOError || !strings.HasPrefix(e.Message, strconv.Quote(path)+": others may write to it (mode 07") {
				t.Errorf("%s: %s, hint %s", name, e, e.Hint)
			}
			g += ", not " + path
		}
		if g != c.want {
			t.Errorf("%s: %s, want %s", name, g, c.want)
		}
	}
	places, _ := st.Places(Where{Session: "s", Task: "k", Dir: plain, Home: home})
	for i, want := range []string{"/sessions/s/tasks/k", "/sessions/s", ""} {
		if got := places[i].Root; got != st.Root+want {
			t.Errorf("place %d: %s", i, got)
		}
	}

	// The store is no project, under whatever name.
	other := &Store{Root: project}
	if places, _ := other.Places(Where{Dir: work, Home: home}); len(places) != 1 {
		t.Errorf("the store is a project: %v", places)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(project, 12345, 0); err != nil {
			t.Fatal(err)
		}
		places, ignored := st.Places(Where{Dir: work, Home: home})
		if len(places) != 1 || fail.KindOf(ignored) != fail.IOError || !strings.Contains(ignored.Error(), "owned by uid 12345") {
			t.Errorf("another's directory is a project: %v, ignored %v", places, ignored)
		}
	}
}

// /proc is another file system everywhere; what lies across a border is not
// looked at.
func TestBorder(t *testing.T) {
	var root, shm syscall.Stat_t
	dir, err := os.MkdirTemp("/dev/shm", "forge-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if syscall.Stat("/", &root) != nil || syscall.Stat(dir, &shm) != nil || root.Dev == shm.Dev {
		t.Fatal("/dev/shm is no file system of its own here")
	}
	visited := []string{}
	upward(Where{Dir: dir, Home: "/nowhere"}, func(d string) bool {
		visited = append(visited, d)
		return false
	})
	if got := strings.Join(visited, " "); got != dir+" /dev/shm" {
		t.Errorf("visited %s", got)
	}
}

func TestNewProject(t *testing.T) {
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := mkdir(t, 0o755, tmp, "home")
	st, err := Open(filepath.Join(home, ".forge"))
	if err != nil {
		t.Fatal(err)
	}
	deep := mkdir(t, 0o755, home, "repo", "a", "b")
	mkdir(t, 0o755, home, "repo", ".git")
	w := Where{Dir: deep, Home: home}
	want := filepath.Join(home, "repo", ".forge")

	p, err := st.ProjectToBe(w)
	if err != nil || p != (Place{Project, want}) {
		t.Fatalf("%v %v", p, err)
	}
	if _, err := os.Lstat(want); err == nil {
		t.Fatal("asking made it")
	}
	for range 2 { // the second time it is there
		if p, err := st.NewProject(w); err != nil || p != (Place{Project, want}) {
			t.Fatalf("%v %v", p, err)
		}
	}
	if fi, err := os.Lstat(want); err != nil || fi.Mode() != 0o700|os.ModeDir {
		t.Errorf("%v %v", fi, err)
	}
	if b, err := os.ReadFile(filepath.Join(want, ".gitignore")); err != nil || string(b) != ".gitignore\n.lock\n.new-*\n.swept\n" {
		t.Errorf("%q %v", b, err)
	}

	plain := mkdir(t, 0o755, home, "plain")
	mkdir(t, 0o755, home, ".git") // home itself is never looked at
	for dir, store := range map[string]*Store{plain: st, home: st, deep: {Root: want}} {
		_, err := store.NewProject(Where{Dir: dir, Home: home})
		e := fail.Of(err)
		if e == nil || e.Kind != fail.NotFound || e.Hint != "mkdir -m 700 "+dir+"/.forge" ||
			e.Message != "project scope: no .git above "+strconv.Quote(dir)+" and below your home" {
			t.Errorf("%s: %v", dir, e)
		}
	}

	// What has the name and is no directory is not written through.
	elsewhere := mkdir(t, 0o700, tmp, "elsewhere")
	link := mkdir(t, 0o755, home, "link")
	mkdir(t, 0o755, link, ".git")
	file := mkdir(t, 0o755, home, "file")
	mkdir(t, 0o755, file, ".git")
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(link, ".forge")), os.WriteFile(filepath.Join(file, ".forge"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{link, file} {
		_, err := st.NewProject(Where{Dir: dir, Home: home})
		if fail.KindOf(err) != fail.IOError || err.Error() != strconv.Quote(dir+"/.forge")+": not a directory" {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("%v %v", entries, err)
	}
	// One that others may write to is told, not taken.
	open := mkdir(t, 0o755, home, "open")
	mkdir(t, 0o755, open, ".git")
	mkdir(t, 0o770, open, ".forge")
	_, err = st.NewProject(Where{Dir: open, Home: home})
	if e := fail.Of(err); e == nil || e.Kind != fail.IOError || e.Hint != "chmod go-w "+open+"/.forge" {
		t.Errorf("%+v", e)
	}
}
