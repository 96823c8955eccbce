package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/schema"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/wire"
)

// open returns the registry of a fresh store with all four scopes.
func open(t *testing.T) *Registry {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(st.Root, "sessions", "s")
	return New(st, []store.Place{
		{Scope: store.Task, Root: filepath.Join(session, "tasks", "k")},
		{Scope: store.Session, Root: session},
		{Scope: store.Project, Root: filepath.Join(t.TempDir(), ".forge")},
		{Scope: store.User, Root: st.Root},
	})
}

func place(t *testing.T, r *Registry, scope store.Scope) store.Place {
	t.Helper()
	p, err := r.Place(scope)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func definition(t *testing.T, name, description string) *tool.Tool {
	t.Helper()
	s, err := wire.Parse([]byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`), wire.Request)
	if err != nil {
		t.Fatal(err)
	}
	d, err := tool.New(tool.Request{Name: name, Description: description, InputSchema: s, Impl: "print(1)"})
	if err != nil {
		t.Fatal(err)
	}
	d.Meta.Capabilities = []string{}
	d.Encode()
	return d
}

// put makes a tool of that name stand in a scope, recorded.
func put(t *testing.T, r *Registry, scope store.Scope, name string) *tool.Tool {
	t.Helper()
	d := definition(t, name, "In scope "+string(scope)+".")
	lowered, err := schema.Lower(d.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Record(d.Digest, Ledger{Seq: 1, Version: 1, Lowering: schema.Lowering, Lowered: lowered})
	if err := errors.Join(err, r.Put(place(t, r, scope), d)); err != nil {
		t.Fatal(err)
	}
	return d
}

// spoil replaces a tool's file.
func spoil(t *testing.T, r *Registry, scope store.Scope, wireName, text string) {
	t.Helper()
	path := place(t, r, scope).Tool(wireName)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// told is an entry or an error in one line, paths left out.
func told(r *Registry, e *Entry, err error) string {
	if err != nil {
		f := fail.Of(err)
		s := fmt.Sprintf("%s: %s [%s]", f.Kind, f.Message, f.Hint)
		for _, p := range r.Places {
			s = strings.ReplaceAll(s, p.Root+"/", strings.ToUpper(string(p.Scope))+"/")
		}
		return strings.ReplaceAll(s, r.st.Root+"/", "STORE/")
	}
	if e == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s in %s, recorded %v", e.Tool.Name, e.Place.Scope, e.Ledger != nil)
}

func TestResolve(t *testing.T) {
	r := open(t)
	for _, c := range []struct {
		scope store.Scope
		name  string
	}{
		{store.User, "everywhere"},
		{store.Project, "everywhere"},
		{store.Session, "everywhere"},
		{store.Task, "everywhere"},
		{store.User, "two"},
		{store.Session, "two"},
		{store.Project, "p.only"},
		{store.User, "csv.stats"},
		{store.User, "under_score"},
		{store.Session, "mixed_name"},
		{store.User, "mixed.name"},
		{store.User, "behind"},
		{store.User, "moved"},
	} {
		put(t, r, c.scope, c.name)
	}
	spoil(t, r, store.Project, "behind", "garbage")
	spoil(t, r, store.Session, "moved", string(put(t, r, store.User, "other").Encode()))
	unrecorded := definition(t, "stranger", "From elsewhere.")
	spoil(t, r, store.Project, "stranger", string(unrecorded.Encode()))
	for _, c := range []struct {
		scope      store.Scope
		name, want string
	}{
		{"", "everywhere", "everywhere in task, recorded true"},
		{store.Task, "everywhere", "everywhere in task, recorded true"},
		{store.Session, "everywhere", "everywhere in session, recorded true"},
		{store.Project, "everywhere", "everywhere in project, recorded true"},
		{store.User, "everywhere", "everywhere in user, recorded true"},
		{"", "two", "two in session, recorded true"},
		{store.Project, "two", `not_found: tool "two" is not in scope project [forge-list shows the tools; nearest: two]`},
		{"", "csv.stats", "csv.stats in user, recorded true"},
		{"", "csv_stats", "csv.stats in user, recorded true"},
		{"", "under_score", "under_score in user, recorded true"},
		{"", "under.score", `not_found: tool "under.score" is in no scope [forge-list shows the tools; nearest: under_score]`},
		{"", "p_only", "p.only in project, recorded true"},
		{"", "mixed_name", "mixed_name in session, recorded true"},
		{"", "mixed.name", "mixed.name in user, recorded true"},
		{"", "stranger", "stranger in project, recorded false"},
		{"", "behind", "registry_malformed: PROJECT/tools/behind.json: the digest does not fit [forge it again with --replace, or remove the file]"},
		{store.User, "behind", "behind in user, recorded true"},
		{"", "moved", `registry_malformed: SESSION/tools/moved.json: the tool in it is named "other" [forge it again with --replace, or remove the file]`},
		{"", "evrywhere", `not_found: tool "evrywhere" is in no scope [forge-list shows the tools; nearest: everywhere]`},
		{"", "zzz", `not_found: tool "zzz" is in no scope [forge-list shows the tools]`},
		{"", "../x", `name_invalid: name "../x" is not a tool name [write lower-case words joined by single dots or underscores, such as csv.stats]`},
	} {
		e, err := r.ResolveIn(c.scope, c.name)
		if got := told(r, e, err); got != c.want {
			t.Errorf("%s in %q: %s\nwant %s", c.name, c.scope, got, c.want)
		}
		if c.scope == "" {
			e, err := r.Resolve(c.name)
			if got := told(r, e, err); got != c.want {
				t.Errorf("Resolve %s: %s", c.name, got)
			}
		}
	}
	e, err := r.Resolve("stranger")
	if err != nil {
		t.Fatal(err)
	}
	u := fail.Of(e.Unrecorded())
	if u.Kind != fail.Unrecorded || u.Details["digest"] != unrecorded.Digest || u.Message != `tool "stranger" in scope project was never recorded in this store` {
		t.Errorf("%+v", u)
	}
	if want := "read it, then: forge-forge --replace < " + place(t, r, store.Project).Tool("stranger"); u.Hint != want {
		t.Errorf("%s, want %s", u.Hint, want)
	}
	if e, _ := r.Resolve("two"); e.Unrecorded() != nil {
		t.Error("a recorded tool is not")
	}
}

func TestPlace(t *testing.T) {
	r := open(t)
	few := New(r.st, r.Places[3:])
	for scope, want := range map[store.Scope]string{
		store.Task:    "not_found: there is no scope task here [set FORGE_SESSION and FORGE_TASK]",
		store.Session: "not_found: there is no scope session here [set FORGE_SESSION]",
		store.Project: "not_found: there is no scope project here [forge-forge --scope project makes .forge beside .git]",
		"galaxy":      `usage: scope "galaxy" is not one [the scopes are: task, session, project, user]`,
		"":            `usage: scope "" is not one [the scopes are: task, session, project, user]`,
	} {
		_, err := few.Place(scope)
		if got := told(r, nil, err); got != want {
			t.Errorf("%q: %s", scope, got)
		}
	}
	if p, err := few.Place(store.User); err != nil || p != r.Places[3] {
		t.Errorf("%v %v", p, err)
	}
}

func TestList(t *testing.T) {
	r := open(t)
	if entries, faults, err := r.List(); len(entries)+len(faults) > 0 || err != nil {
		t.Errorf("%v %v %v", entries, faults, err)
	}
	put(t, r, store.User, "b")
	put(t, r, store.User, "a")
	put(t, r, store.Session, "b")
	put(t, r, store.Task, "c.d")
	put(t, r, store.User, "c_d")
	put(t, r, store.User, "hidden")
	spoil(t, r, store.Session, "hidden", "{}")
	spoil(t, r, store.User, "Not a name", "{}")
	for _, name := range []string{".lock", ".new-0123", ".new-4567.json", "README", "x.json.bak"} {
		os.WriteFile(filepath.Join(place(t, r, store.User).Tools(), name), nil, 0o600)
	}
	os.Mkdir(place(t, r, store.User).Tool("dir"), 0o700)
	os.Symlink("a.json", place(t, r, store.User).Tool("link"))
	entries, faults, err := r.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s/%s/%v", e.Place.Scope, e.Tool.Name, e.Shadowed))
	}
	if g := strings.Join(got, " "); g != "task/c.d/false session/b/false user/a/false user/b/true user/c_d/true user/hidden/true" {
		t.Error(g)
	}
	got = nil
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%s/%s: %s", f.Place.Scope, f.Wire, fail.KindOf(f.Err)))
	}
	if g := strings.Join(got, ", "); g != "session/hidden: registry_malformed, user/Not a name: registry_malformed, user/dir: io_error, user/link: io_error" {
		t.Error(g)
	}
}

func TestFree(t *testing.T) {
	r := open(t)
	put(t, r, store.User, "a.b")
	put(t, r, store.Session, "a.b")
	put(t, r, store.Session, "s_only")
	spoil(t, r, store.User, "bad", "garbage")
	spoil(t, r, store.Session, "bad.too", "")
	spoil(t, r, store.User, "ledger", string(definition(t, "ledger", "Recorded badly.").Encode()))
	spoilLedger(t, r, definition(t, "ledger", "Recorded badly.").Digest, "{}")
	spoil(t, r, store.User, "long", strings.Repeat(" ", tool.MaxFile+1))
	os.Symlink("a_b.json", place(t, r, store.User).Tool("link"))
	for _, c := range []struct {
		scope   store.Scope
		name    string
		replace bool
		want    string
	}{
		{store.User, "new", false, "nothing"},
		{store.User, "a.b", false, "a.b in user, recorded true"},
		{store.User, "a.b", true, "a.b in user, recorded true"},
		{store.Task, "a.b", false, "nothing"},
		{store.Project, "a.b", false, "nothing"},
		{store.User, "a_b", false, `name_taken: name "a_b": "a.b" in scope session has the same wire name a_b [choose another name]`},
		{store.Task, "a_b", true, `name_taken: name "a_b": "a.b" in scope session has the same wire name a_b [choose another name]`},
		{store.User, "s.only", false, `name_taken: name "s.only": "s_only" in scope session has the same wire name s_only [choose another name]`},
		{store.User, "bad", false, "registry_malformed: USER/tools/bad.json: the digest does not fit [forge it again with --replace, or remove the file]"},
		{store.User, "bad", true, "nothing"},
		{store.Session, "bad", false, "nothing"}, // a bad file hides only itself
		{store.User, "ledger", false, `registry_malformed: USER/ledger/DIGEST.json: format "", want "forge.ledger/1" [forge it again with --replace, or remove the file]`},
		{store.User, "ledger", true, "nothing"},
		{store.User, "long", false, `registry_malformed: USER/tools/long.json: read "USER/tools/long.json": 8388609 bytes, at most 8388608: too large [forge it again with --replace, or remove the file]`},
		{store.User, "long", true, "nothing"},
		{store.User, "link", true, "io_error: open USER/tools/link.json: too many levels of symbolic links []"},
	} {
		e, err := r.Free(place(t, r, c.scope), tool.Name(c.name), c.replace)
		got := strings.ReplaceAll(told(r, e, err), definition(t, "ledger", "Recorded badly.").Digest, "DIGEST")
		if got != c.want {
			t.Errorf("%s in %s, replace %v: %s\nwant %s", c.name, c.scope, c.replace, got, c.want)
		}
	}
	e, _ := r.Resolve("s_only")
	if f := fail.Of(Taken(e)); f.Kind != fail.NameTaken || f.Message != `name "s_only" is taken in scope session` || f.Details["digest"] != e.Tool.Digest {
		t.Errorf("%+v", f)
	}
}

func spoilLedger(t *testing.T, r *Registry, digest, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(r.st.LedgerDir(), 0o700), os.WriteFile(r.st.Ledger(digest), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestLedger(t *testing.T) {
	r := open(t)
	d := put(t, r, store.User, "t")
	want := Ledger{Seq: 7, Version: 3, CreatedAt: "2026-11-30T19:15:00Z", CreatedBy: CreatedBy{"p", "s", 5}, Reason: "why", Lowering: 1, Lowered: wire.ObjectOf()}
	if err := os.Remove(r.st.Ledger(d.Digest)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Record(d.Digest, want); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(r.st.Ledger(d.Digest))
	text := `{"format":"forge.ledger/1","seq":7,"version":3,"created_at":"2026-11-30T19:15:00Z","created_by":{"persona":"p","session":"s","uid":5},"listed":false,"reason":"why","lowering":1,"lowered":{}}` + "\n"
	if err != nil || string(b) != text {
		t.Errorf("%s %v", b, err)
	}
	e, err := r.Resolve("t")
	if err != nil || e.Ledger.Version != 3 || e.Ledger.CreatedBy != want.CreatedBy || e.Ledger.Listed {
		t.Errorf("%+v %v", e, err)
	}
	// A later version's member is skipped; what is none is told by its path.
	spoilLedger(t, r, d.Digest, strings.Replace(text, `"seq"`, `"later":1,"seq"`, 1))
	if _, err := r.Resolve("t"); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":   "empty",
		"[]": "the value: array, want an object",
		`{"format":"forge.ledger/1","version":"1"}`: "/version: string, want a whole number",
		`{"format":"forge.ledger/2"}`:               `format "forge.ledger/2", want "forge.ledger/1"`,
	} {
		spoilLedger(t, r, d.Digest, text)
		_, err := r.Resolve("t")
		if fail.KindOf(err) != fail.RegistryMalformed || !strings.HasSuffix(err.Error(), d.Digest+".json: "+want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// Through a link it is none.
	os.Rename(r.st.Ledger(d.Digest), r.st.Root+"/moved")
	os.Symlink(r.st.Root+"/moved", r.st.Ledger(d.Digest))
	if _, err := r.Resolve("t"); fail.KindOf(err) != fail.IOError {
		t.Errorf("%v", err)
	}
}

// A version belongs to a digest: an entry that is there keeps who made it first,
// and its version only grows. One that is no entry is written anew.
func TestRecord(t *testing.T) {
	r := open(t)
	digest := definition(t, "t", "A tool.").Digest
	first := Ledger{Seq: 7, Version: 2, CreatedAt: "2026-11-30T19:15:00Z", CreatedBy: CreatedBy{"p", "s", 5}, Lowering: 1, Lowered: wire.ObjectOf()}
	if _, err := r.Record(digest, first); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spoil       string
		given, want int64 // the version
		listed      bool
	}{
		{"", 1, 2, true}, // what the program knows of it now is taken over
		{"", 3, 3, false},
		{"", 2, 3, false},
		{"{}", 1, 1, false},
	} {
		if c.spoil != "" {
			spoilLedger(t, r, digest, c.spoil)
		}
		given := Ledger{Seq: 9, Version: c.given, CreatedAt: "2026-12-01T00:00:00Z", CreatedBy: CreatedBy{"q", "", 6}, Listed: c.listed, Lowering: 2, Lowered: wire.ObjectOf()}
		want := given
		want.Format, want.Version = ledgerFormat, c.want
		if c.spoil == "" {
			want.Seq, want.CreatedAt, want.CreatedBy = first.Seq, first.CreatedAt, first.CreatedBy
		}
		if got := r.Version(digest, c.given); got != c.want {
			t.Errorf("version %d would be %d, want %d", c.given, got, c.want)
		}
		got, err := r.Record(digest, given)
		stands, rerr := r.ledger(digest)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		for _, l := range []Ledger{got, *stands} {
			if fmt.Sprint(l) != fmt.Sprint(want) {
				t.Errorf("%+v\nwant %+v", l, want)
			}
		}
	}
}

func TestPut(t *testing.T) {
	r := open(t)
	d := put(t, r, store.Project, "a.b")
	p := place(t, r, store.Project)
	b, err := os.ReadFile(p.Tool("a_b"))
	if err != nil || string(b) != string(d.Encode()) {
		t.Errorf("%s %v", b, err)
	}
}

// Each scope has a lock of its own.
func TestLock(t *testing.T) {
	r := open(t)
	ctx := context.Background()
	unlock, err := r.Lock(ctx, place(t, r, store.User))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := r.Lock(short, place(t, r, store.User)); err == nil {
		t.Error("locked twice")
	}
	if other, err := r.Lock(ctx, place(t, r, store.Session)); err != nil {
		t.Error(err)
	} else {
		other()
	}
	unlock()
	if unlock, err = r.Lock(ctx, place(t, r, store.User)); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
}

// Whoever puts a tool into a place clears away what a killed writer left there.
func TestPutSweeps(t *testing.T) {
	r := open(t)
	tools := place(t, r, store.User).Tools()
	old := filepath.Join(tools, ".new-0123456789abcdef")
	then := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.MkdirAll(tools, 0o700), os.WriteFile(old, nil, 0o600), os.Chtimes(old, then, then)); err != nil {
		t.Fatal(err)
	}
	put(t, r, store.User, "t")
	if _, err := os.Lstat(old); err == nil {
		t.Error("what a killed writer left is still there")
	}
}
