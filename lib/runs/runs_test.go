package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/redact"
	"forge/lib/store"
	"forge/lib/wire"
)

var start = time.Date(2026, 11, 30, 19, 15, 0, 0, time.FixedZone("x", 3600))

func fresh(t *testing.T) *Run {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	st.Now = func() time.Time { return start }
	return New(st)
}

func TestID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID(start)
		if !regexp.MustCompile(`^20261130T181500Z-[0-9a-f]{8}$`).MatchString(id) {
			t.Fatal(id)
		}
		seen[id] = true
	}
	if len(seen) < 999 {
		t.Errorf("%d of 1,000 ids differ", len(seen))
	}
}

func TestNewWritesNothing(t *testing.T) {
	r := fresh(t)
	if _, err := os.Lstat(filepath.Dir(filepath.Dir(r.Dir))); err == nil {
		t.Error("naming a run made the store")
	}
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{r.Dir, r.Artifacts()} {
		if fi, err := os.Stat(dir); err != nil || fi.Mode() != 0o700|os.ModeDir {
			t.Errorf("%s: %v %v", dir, fi, err)
		}
	}
}

func TestFinish(t *testing.T) {
	for _, sync := range []store.Sync{store.Synced, store.Renamed} {
		r := fresh(t)
		m := &Manifest{
			Tool: "t", Version: 2, Digest: "d", Input: wire.ObjectOf(), Binds: []Bind{}, Files: []File{},
			Sandbox: Sandbox{"none", "bwrap", map[string]any{"wall_s": 5}}, Outcome: OK, Cache: "none",
		}
		sum, err := r.Finish(m, sync)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(r.Dir, "run_manifest.json"))
		want := `{"format":"forge.run/1","run":"` + r.ID + `","tool":"t","version":2,"digest":"d","started":"","ended":"","ms":0,"input":{},` +
			`"binds":[],"sandbox":{"network":"none","label":"bwrap","limits":{"wall_s":5}},"outcome":"ok","exit":0,` +
			`"stdout":{"bytes":0,"truncated":false},"stderr":{"bytes":0},"files":[],"cache":"none"}` + "\n"
		if err != nil || string(b) != want || sum != wire.Sum(b) {
			t.Errorf("%s %v\nwant %s", b, err, want)
		}
	}
}

func collect(t *testing.T, r *Run) string {
	t.Helper()
	files, short := r.Collect(context.Background(), redact.New(nil))
	if short != "" {
		t.Fatal(short)
	}
	b, _ := json.Marshal(files)
	return string(b)
}

func TestCollect(t *testing.T) {
	r := fresh(t)
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(r.Artifacts(), name) }
	if err := errors.Join(
		os.WriteFile(at("b"), []byte("hello"), 0o600), os.WriteFile(at("a"), nil, 0o400),
		os.MkdirAll(at("d/e"), 0o700), os.WriteFile(at("d/e/f"), []byte("hello"), 0o600), os.MkdirAll(at("empty"), 0o700),
		os.Symlink("/etc/passwd", at("link")), os.Symlink("/", at("root")), os.Symlink("b", at("own")),
		unix.Mkfifo(at("pipe"), 0o600), os.WriteFile(at("x\xffy\n"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	const empty, hello = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	want := fmt.Sprintf(`[{"path":"a","bytes":0,"sha256":"%s"},{"path":"b","bytes":5,"sha256":"%s"},{"path":"d/e/f","bytes":5,"sha256":"%s"},{"path":"x�y\n","bytes":0,"sha256":"%s"}]`, empty, hello, hello, empty)
	if got := collect(t, r); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if _, err := os.Stat(r.Artifacts()); err != nil {
		t.Error("artifacts that hold something are gone")
	}
}

func TestCollectNothing(t *testing.T) {
	r := fresh(t)
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, r); got != "[]" {
		t.Error(got)
	}
	if _, err := os.Stat(r.Artifacts()); err == nil {
		t.Error("empty artifacts stay")
	}
	if files, short := New(r.st).Collect(context.Background(), redact.New(nil)); files == nil || len(files) > 0 || short == "" {
		t.Errorf("no directory: %v %q", files, short)
	}
}
