package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

func temps(t *testing.T, dir string) (n int) {
	t.Helper()
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
		if strings.HasPrefix(d.Name(), tempPrefix) {
			n++
		}
		return nil
	})
	return n
}

func TestWriteFile(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	st := open(t)
	path := filepath.Join(st.Root, "tools", "x.json")
	for _, s := range []Sync{Synced, Renamed} {
		for _, text := range []string{"one\n", "", strings.Repeat("longer", 1000)} {
			if err := st.WriteFile(path, []byte(text), s); err != nil {
				t.Fatal(err)
			}
			if b, err := ReadFile(path, 1<<20); err != nil || string(b) != text {
				t.Fatalf("%.20q %v", b, err)
			}
		}
	}
	for p, want := range map[string]fs.FileMode{
		path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir, st.Root: 0o700 | fs.ModeDir, filepath.Join(st.Root, "README"): 0o600,
	} {
		if fi, err := os.Lstat(p); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v %v", p, fi.Mode(), err)
		}
	}
	// A link in its place is replaced, not followed.
	other := filepath.Join(t.TempDir(), "other")
	os.Remove(path)
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if err := st.WriteFile(path, []byte("x"), Renamed); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("%v %v", fi, err)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("written through a link")
	}
	// What cannot be placed leaves nothing.
	dir := filepath.Join(st.Root, "tools", "dir")
	mkdir(t, 0o700, dir, "full")
	if err := st.WriteFile(dir, []byte("x"), Renamed); fail.KindOf(err) != fail.IOError {
		t.Errorf("%v", err)
	}
	if n := temps(t, st.Root); n != 0 {
		t.Errorf("%d temporary files left", n)
	}
}

// A project's .forge is a place of its own: it gets no README of the store.
func TestReadmeOnlyInStore(t *testing.T) {
	st := open(t)
	project := filepath.Join(t.TempDir(), ".forge")
	if err := st.WriteFile(filepath.Join(project, "tools", "x.json"), nil, Renamed); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Join(project, "README"), st.Root} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was made", p)
		}
	}
}

// However a reader meets a writer, it sees one of the texts, whole.
func TestWriteFileWhole(t *testing.T) {
	st := open(t)
	path := filepath.Join(st.Root, "x")
	texts := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 50_000)}
	if err := st.WriteFile(path, texts[0], Renamed); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				b, err := ReadFile(path, 1<<20)
				if err != nil || !bytes.Equal(b, texts[0]) && !bytes.Equal(b, texts[1]) {
					t.Errorf("%d bytes, %v", len(b), err)
					return
				}
			}
		})
	}
	for i := range 400 {
		if err := st.WriteFile(path, texts[i%2], Renamed); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestCreateFile(t *testing.T) {
	st := open(t)
	path := filepath.Join(st.Root, "deep", "x")
	var made, taken atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			switch err := st.CreateFile(path, []byte("mine"), Synced); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, fs.ErrExist):
				taken.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || taken.Load() != 15 {
		t.Errorf("%d made it, %d found it taken", made.Load(), taken.Load())
	}
	if b, err := ReadFile(path, 100); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("a second name is left: %v", err)
	}
	if n := temps(t, st.Root); n != 0 {
		t.Errorf("%d temporary files left", n)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int{"empty": 0, "ten": 10, "eleven": 11} {
		if err := os.WriteFile(at(name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("ten", at("link")), os.Symlink("nothing", at("dangling")),
		os.Mkdir(at("dir"), 0o700), unix.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"empty":    "0 bytes",
		"ten":      "10 bytes",
		"eleven":   `io_error read "` + at("eleven") + `": 11 bytes, at most 10: too large`,
		"link":     "io_error open " + at("link") + ": too many levels of symbolic links",
		"dangling": "io_error open " + at("dangling") + ": too many levels of symbolic links",
		"dir":      `io_error read "` + at("dir") + `": not a regular file`,
		"pipe":     `io_error read "` + at("pipe") + `": not a regular file`,
		"missing":  "not there",
		"ten/x":    "io_error open " + at("ten/x") + ": not a directory",
	} {
		b, err := ReadFile(at(name), 10)
		var got string
		switch {
		case err == nil:
			got = map[int]string{0: "0 bytes", 10: "10 bytes"}[len(b)]
		case errors.Is(err, fs.ErrNotExist):
			got = "not there"
		default:
			got = string(fail.KindOf(err)) + " " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := ReadFile(at("eleven"), 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	// A file of /proc says it has no bytes, and has some.
	if b, err := ReadFile("/proc/self/status", 1<<20); err != nil || len(b) < 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := ReadFile("/proc/self/status", 10); fail.KindOf(err) != fail.IOError || !strings.HasSuffix(err.Error(), "more than 10 bytes") {
		t.Errorf("%v", err)
	}
}

func TestLock(t *testing.T) {
	st := open(t)
	ctx := context.Background()
	path := st.AuditFile("lock")
	unlock, err := st.Lock(ctx, path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(path); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}

	// Held: busy when the wait is over, in the words of the table.
	began := time.Now()
	_, err = st.Lock(ctx, path, 50*time.Millisecond)
	e := fail.Of(err)
	if e == nil || e.Kind != fail.Busy || e.Message != `lock "`+path+`": held for more than 50ms` ||
		e.Hint != "try again; fuser "+path+" names who holds it" || e.Details["retry_after_s"] != 1 {
		t.Errorf("%+v", e)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("gave up after %s", took)
	}
	// Cancelled: the context's own error.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := st.Lock(short, path, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}

	// Those two gave up in the kernel's queue and must not keep what they are
	// handed: who waits after them gets it.
	got := make(chan error)
	go func() {
		again, err := st.Lock(ctx, path, 10*time.Second)
		if err == nil {
			again()
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	unlock()
	if err := <-got; err != nil {
		t.Errorf("handed over: %v", err)
	}
	if again, err := st.Lock(ctx, path, time.Second); err != nil {
		t.Errorf("free: %v", err)
	} else {
		again()
	}
	// A link in its place is not followed.
	os.Remove(path)
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Lock(ctx, path, time.Second); fail.KindOf(err) != fail.IOError {
		t.Errorf("%v", err)
	}
}

func TestLockExcludes(t *testing.T) {
	st := open(t)
	path := filepath.Join(st.StateDir(), ".lock")
	var inside, total atomic.Int32 // the race detector knows nothing of flock
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				unlock, err := st.Lock(context.Background(), path, 30*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two inside")
				}
				total.Add(1)
				inside.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if total.Load() != 320 {
		t.Errorf("%d turns", total.Load())
	}
}

// A process that is killed gives its lock up; one that stands still keeps it.
func TestLockOfAnotherProcess(t *testing.T) {
	st := open(t)
	path := filepath.Join(st.Root, "lock")
	if err := st.WriteFile(path, nil, Renamed); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("flock", "--no-fork", path, "sh", "-c", "echo held; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Lock(context.Background(), path, 100*time.Millisecond); fail.KindOf(err) != fail.Busy {
		t.Errorf("stopped holder: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	unlock, err := st.Lock(context.Background(), path, 5*time.Second)
	if err != nil {
		t.Fatalf("killed holder: %v", err)
	}
	unlock()
}

func TestSweep(t *testing.T) {
	st := open(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	st.Now = func() time.Time { return now }
	dir := mkdir(t, 0o700, st.Root, "tools")
	for name, age := range map[string]time.Duration{
		".new-old": time.Hour + time.Second, ".new-young": time.Hour - time.Second, ".new-future": -time.Hour,
		"x.json": 100 * time.Hour, ".lock": 100 * time.Hour, "new-x": 100 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, now.Add(-age), now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	sub := mkdir(t, 0o700, dir, ".new-dir", "full")
	if err := os.Chtimes(filepath.Dir(sub), now, now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	st.sweep(dir)
	st.sweep(filepath.Join(st.Root, "missing"))
	entries, _ := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != ".lock .new-future .new-young .swept new-x x.json" {
		t.Errorf("left: %s", got)
	}
	// Looked over once, it is left alone for an hour.
	late := filepath.Join(dir, ".new-late")
	if err := errors.Join(os.WriteFile(late, nil, 0o600), os.Chtimes(late, now, now.Add(-2*time.Hour))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		gone  bool
	}{{59 * time.Minute, false}, {61 * time.Minute, true}} {
		now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(c.after)
		if err := st.WriteFile(filepath.Join(dir, "y.json"), nil, Renamed); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(late); (err != nil) != c.gone {
			t.Errorf("after %s: %v", c.after, err)
		}
	}
}
