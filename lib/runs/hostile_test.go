package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/redact"
)

// made returns a run whose directories exist. What a test closed is opened
// again, so that it can be removed.
func made(t *testing.T) *Run {
	t.Helper()
	r := fresh(t)
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+rwX", r.Dir).Run() })
	return r
}

func at(r *Run, name string) string { return filepath.Join(r.Artifacts(), name) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	write(t, path, "")
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// isFull says what the last look of Bound finds.
func isFull(r *Run) bool {
	_, stop := r.Bound(context.Background())
	return stop()
}

// within fails where f takes longer than a second: far more than it should.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

// nest makes directories within each other, by descriptor: their path is longer
// than a path may be.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	for i := 0; err == nil && i < depth; i++ {
		err = unix.Mkdirat(fd, "d", 0o700)
		if err == nil {
			var next int
			next, err = unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
			unix.Close(fd)
			fd = next
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
}

func TestDeep(t *testing.T) {
	r := made(t)
	nest(t, r.Artifacts(), 5000)
	write(t, at(r, "z"), "z")
	within(t, "a look", func() {
		if !isFull(r) {
			t.Error("5,000 levels, and not full")
		}
	})
	within(t, "the list", func() {
		files, short := r.Collect(context.Background(), redact.New(nil))
		if len(files) != 1 || short != "directories lie deeper than 32" {
			t.Errorf("%v %q", files, short)
		}
	})
	// At the bound it is seen, one below it is not.
	r = made(t)
	nest(t, r.Artifacts(), maxDepth-1)
	write(t, at(r, strings.Repeat("d/", maxDepth-1)+"f"), "")
	if files, short := r.Collect(context.Background(), redact.New(nil)); len(files) != 1 || short != "" || isFull(r) {
		t.Errorf("%v %q", files, short)
	}
	if os.Mkdir(at(r, strings.Repeat("d/", maxDepth-1)+"e"), 0o700); !isFull(r) {
		t.Error("a level too deep, and not full")
	}
}

func TestSparse(t *testing.T) {
	r := made(t)
	sparse(t, at(r, "0"), ArtifactBytes)
	if err := os.Link(at(r, "0"), at(r, "again")); err != nil {
		t.Fatal(err)
	}
	if isFull(r) {
		t.Error("at the bound, and full")
	}
	os.Remove(at(r, "again"))
	for i := 1; i < 30; i++ {
		sparse(t, at(r, fmt.Sprintf("%02d", i)), ArtifactBytes)
	}
	if !isFull(r) {
		t.Error("30 GiB, and not full")
	}
	began := time.Now()
	files, short := r.Collect(context.Background(), redact.New(nil))
	hashed := 0
	for _, f := range files {
		if f.SHA256 != "" {
			hashed++
		}
	}
	if len(files) != 30 || hashed != 2 || files[29].Bytes != ArtifactBytes || short != "more than 2147483648 bytes: not all files have a digest" {
		t.Errorf("%d files, %d with a digest, %q", len(files), hashed, short)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	// A signal ends the hashing, not the list.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	within(t, "a list cut short", func() {
		files, short := r.Collect(ctx, redact.New(nil))
		if len(files) != 30 || files[29].SHA256 != "" || short != "cut short" {
			t.Errorf("%d files, %q", len(files), short)
		}
	})
}

// A tool may close its directories and files to us, but not keep what is in
// them, nor its run, from the record.
func TestClosed(t *testing.T) {
	for _, mode := range []os.FileMode{0, 0o300, 0o500, 0o600} {
		r := made(t)
		if err := errors.Join(os.MkdirAll(at(r, "d/e"), 0o700), os.WriteFile(at(r, "d/e/f"), []byte("x"), 0o600),
			os.Chmod(at(r, "d/e/f"), 0), os.Chmod(at(r, "d/e"), mode), os.Chmod(at(r, "d"), mode), os.Chmod(r.Artifacts(), mode)); err != nil {
			t.Fatal(err)
		}
		if isFull(r) {
			t.Errorf("%v: full", mode)
		}
		files, short := r.Collect(context.Background(), redact.New(nil))
		if len(files) != 1 || files[0].Path != "d/e/f" || files[0].SHA256 == "" || short != "" {
			t.Errorf("%v: %v %q", mode, files, short)
		}
	}
	r := made(t)
	os.Mkdir(at(r, "d"), 0o700)
	sparse(t, at(r, "d/f"), ArtifactBytes+1)
	os.Chmod(at(r, "d"), 0o300)
	if !isFull(r) {
		t.Error("what is behind a closed door does not count")
	}
}

func TestCollectMany(t *testing.T) {
	r := made(t)
	for i := range maxFiles {
		write(t, at(r, fmt.Sprint(i)), "")
	}
	if files, short := r.Collect(context.Background(), redact.New(nil)); len(files) != maxFiles || short != "" {
		t.Errorf("%d files, %q", len(files), short)
	}
	write(t, at(r, "more"), "")
	if files, short := r.Collect(context.Background(), redact.New(nil)); len(files) != maxFiles || short != "there are more than 1000 files" {
		t.Errorf("%d files, %q", len(files), short)
	}
}

// Names hold no value that is kept back.
func TestCollectMasked(t *testing.T) {
	r := made(t)
	os.Mkdir(at(r, "in-hunter2-hunter2"), 0o700)
	write(t, at(r, "in-hunter2-hunter2/hunter2-hunter2.txt"), "")
	files, short := r.Collect(context.Background(), redact.New([]string{"hunter2-hunter2"}))
	if len(files) != 1 || files[0].Path != "in-<redacted>/<redacted>.txt" || short != "" {
		t.Errorf("%v %q", files, short)
	}
}

func TestBound(t *testing.T) {
	r := made(t)
	ctx, stop := r.Bound(context.Background())
	write(t, at(r, "small"), "small")
	time.Sleep(3 * boundEvery)
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
	os.Mkdir(at(r, "d"), 0o700)
	for i := range maxEntries {
		write(t, at(r, "d/"+fmt.Sprint(i)), "")
	}
	if err := errors.Join(os.Chmod(at(r, "d"), 0o300), os.Chmod(r.Artifacts(), 0o300)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), ErrFull) || !stop() {
			t.Errorf("%v", context.Cause(ctx))
		}
	case <-time.After(20 * time.Second):
		t.Error("over the bound, and nobody says so")
	}
	// What was full counts, also where it is no longer.
	if os.RemoveAll(at(r, "d")); !stop() {
		t.Error("was full, and nobody says so")
	}
	again, stopped := r.Bound(context.Background())
	if stopped() || errors.Is(context.Cause(again), ErrFull) {
		t.Error("not full, and called so")
	}
}

// Who closes a directory again and again is full at last, or read; it does not
// stay unseen. As root, modes do not matter.
func TestBoundRace(t *testing.T) {
	r := made(t)
	os.Mkdir(at(r, "d"), 0o700)
	sparse(t, at(r, "d/f"), 2*ArtifactBytes)
	ctx, stop := r.Bound(context.Background())
	defer stop()
	for end := time.After(20 * time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-end:
			t.Fatal("not seen")
		default:
			os.Chmod(at(r, "d"), 0)
		}
	}
}

// What was removed and is still open, or mapped, is counted, by descendants and
// from /artifacts alone.
func TestUnlinked(t *testing.T) {
	r := made(t)
	const child = `
import mmap, os, sys, time
a, other = sys.argv[1:]
def gone(path, n):
    f = open(path, "w+b")
    f.write(b"x" * n)
    f.flush()
    os.unlink(path)
    return f
keep = [gone(a + "/x", 1 << 20), gone(a + "/y (z)", 1 << 20), gone(other + "/x", 1 << 20)]
again = os.dup(keep[0].fileno())
f = gone(a + "/m", 1 << 20)
m = mmap.mmap(f.fileno(), 1 << 20)
f.close()
if os.fork() == 0:
    keep.append(gone(a + "/c", 1 << 20))
    print("ready", flush=True)
time.sleep(60)
`
	cmd := exec.Command("/usr/bin/python3", "-c", child, r.Artifacts(), t.TempDir())
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	out.Read(make([]byte, 6))
	if got := unlinked(r.Artifacts()); got < 4<<20 || got > 4<<20+64<<10 {
		t.Errorf("%d bytes, want 4 MiB", got)
	}
	if got := unlinked("/elsewhere"); got != 0 {
		t.Errorf("%d bytes elsewhere", got)
	}
	if r.full(context.Background(), 0) || r.full(context.Background(), 1<<60) {
		t.Error("4 MiB, and full")
	}
}

// Wherever the tool leaves no way in, the whole output stays beside, and no
// temporary name does.
func TestOutputPlaced(t *testing.T) {
	full := func(r *Run) string { return at(r, spillName) }
	for name, c := range map[string]struct {
		harm func(r *Run) error
		in   bool
	}{
		"closed":      {func(r *Run) error { return os.Chmod(r.Artifacts(), 0) }, true},
		"read-only":   {func(r *Run) error { return os.Chmod(r.Artifacts(), 0o500) }, true},
		"a directory": {func(r *Run) error { return os.Mkdir(full(r), 0) }, true},
		"a tree": {func(r *Run) error {
			return errors.Join(os.MkdirAll(full(r)+"/d", 0o700), os.Chmod(full(r)+"/d", 0), os.Chmod(full(r), 0o500), os.Chmod(r.Artifacts(), 0))
		}, true},
		"both names": {func(r *Run) error { return errors.Join(os.Mkdir(full(r), 0), os.Mkdir(full(r)+".tool", 0)) }, false},
	} {
		r := made(t)
		if err := c.harm(r); err != nil {
			t.Fatal(err)
		}
		o := r.NewOutput(10, redact.New(nil))
		o.Write(numbered(1000))
		path, short := o.Close()
		want := full(r)
		if !c.in {
			want = filepath.Join(r.Dir, spillName)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != string(numbered(1000)) || path != want || short != "" {
			t.Errorf("%s: %q %q %v", name, path, short, err)
		}
		if left, _ := filepath.Glob(r.Dir + "/.new-*"); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// Too much to mask: nothing of the output is stored.
func TestOutputWithheld(t *testing.T) {
	r := made(t)
	mask := redact.New([]string{strings.Repeat("x", 2<<20)})
	o, e := r.NewOutput(10, mask), NewErrors(mask)
	for range 100 {
		o.Write(numbered(1000))
		e.Write(numbered(1000))
	}
	path, short := o.Close()
	if path != "" || short != mask.Over() || o.Head() != redact.Mask || e.Tail() != redact.Mask || o.Total != 100_000 || o.Bytes() != nil {
		t.Errorf("%q %q %q", path, short, o.Head())
	}
	if left, _ := filepath.Glob(r.Dir + "/*/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// What fits is still the answer.
	o = r.NewOutput(100, mask)
	o.Write([]byte("answer"))
	if o.Close(); string(o.Bytes()) != "answer" || o.Head() != redact.Mask {
		t.Errorf("%q %q", o.Bytes(), o.Head())
	}
}
