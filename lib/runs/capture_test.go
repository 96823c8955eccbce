package runs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forge/lib/redact"
)

// output returns an Output of a run whose directories exist.
func output(t *testing.T, cap int64, secrets ...string) *Output {
	t.Helper()
	r := fresh(t)
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	return r.NewOutput(cap, redact.New(secrets))
}

// pieces writes b in pieces of random length, as a pipe gives it.
func pieces(t *testing.T, w interface{ Write([]byte) (int, error) }, b []byte) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for len(b) > 0 {
		n := min(len(b), 1+rnd.IntN(700))
		if k, err := w.Write(b[:n]); k != n || err != nil {
			t.Fatal(k, err)
		}
		b = b[n:]
	}
}

func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d ", i)
	}
	return b.Bytes()[:n]
}

func TestOutput(t *testing.T) {
	const limit = 10_000
	for _, c := range []struct {
		n         int
		truncated bool
	}{{0, false}, {1, false}, {limit - 1, false}, {limit, false}, {limit + 1, true}, {5 * limit, true}} {
		text := numbered(c.n)
		o := output(t, limit)
		pieces(t, o, text)
		path, short := o.Close()
		if o.Total != int64(c.n) || o.Truncated() != c.truncated || short != "" {
			t.Errorf("%d bytes: total %d, truncated %v, short %q", c.n, o.Total, o.Truncated(), short)
		}
		if want := string(text[:min(c.n, headBytes)]); o.Head() != want {
			t.Errorf("%d bytes: a head of %d", c.n, len(o.Head()))
		}
		if !c.truncated {
			if !bytes.Equal(o.Bytes(), text) || path != "" {
				t.Errorf("%d bytes: %d kept, file %q", c.n, len(o.Bytes()), path)
			}
			continue
		}
		if o.Bytes() != nil || path != filepath.Join(o.run.Artifacts(), "full_stdout.bin") {
			t.Errorf("%d bytes: %d counted as the answer, file %q", c.n, len(o.Bytes()), path)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d in the file, %v", c.n, len(got), err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%v %v", fi.Mode(), err)
		}
		if left, _ := filepath.Glob(o.run.Dir + "/.new-*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// What the tool put under our name does not matter, and is not followed.
func TestOutputSquatted(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, squat := range map[string]func(path string) error{
		"a link":      func(p string) error { return os.Symlink(outside, p) },
		"a directory": func(p string) error { return os.MkdirAll(p+"/full", 0o700) },
		"a file":      func(p string) error { return os.WriteFile(p, []byte("mine"), 0o400) },
	} {
		o := output(t, 10)
		if err := squat(filepath.Join(o.run.Artifacts(), spillName)); err != nil {
			t.Fatal(err)
		}
		pieces(t, o, numbered(100))
		path, short := o.Close()
		if b, err := os.ReadFile(path); err != nil || string(b) != string(numbered(100)) || short != "" {
			t.Errorf("%s: %q %q %v", name, b, short, err)
		}
		if _, err := os.Lstat(outside); err == nil {
			t.Errorf("%s: written through it", name)
		}
	}
}

// A disk that takes nothing is not the tool's fault: it is told, and the output
// is read on to its end.
func TestOutputOnNoDisk(t *testing.T) {
	r := fresh(t) // its directory does not exist
	o := r.NewOutput(10, redact.New(nil))
	pieces(t, o, numbered(100_000))
	path, short := o.Close()
	if path != "" || !strings.HasSuffix(short, "no such file or directory") || o.Total != 100_000 || !o.Truncated() {
		t.Errorf("%q %q %d", path, short, o.Total)
	}
	if o.Head() != string(numbered(headBytes)) {
		t.Errorf("a head of %d", len(o.Head()))
	}
}

func TestOutputBound(t *testing.T) {
	for _, c := range []struct {
		n     int
		short string
	}{{29, ""}, {30, ""}, {31, "artifacts are bounded"}, {1000, "artifacts are bounded"}} {
		o := output(t, 10)
		o.Write(numbered(100))
		o.kept = ArtifactBytes - 30 // as after a gigabyte
		o.Write(numbered(c.n))
		path, short := o.Close()
		fi, err := os.Stat(path)
		if err != nil || fi.Size() != 100+min(30, int64(c.n)) || short != c.short || o.Total != 100+int64(c.n) {
			t.Errorf("%d bytes: %v %q total %d", c.n, err, short, o.Total)
		}
	}
}

// Values are masked wherever the pieces, the cap, the head or the tail cut them.
func TestMasked(t *testing.T) {
	const secret, long = "hunter2-hunter2", "hunter2-hunter2-and-more"
	var text, want strings.Builder
	for i := range 3000 {
		s := secret
		if i%3 == 0 {
			s = long
		}
		fmt.Fprintf(&text, "%d %s\n", i, s)
		fmt.Fprintf(&want, "%d <redacted>\n", i)
	}
	for _, limit := range []int64{1, 100, 4096, 5000, 40_000} {
		o := output(t, limit, secret, long)
		pieces(t, o, []byte(text.String()))
		path, _ := o.Close()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want.String() {
			t.Errorf("cap %d: %d bytes, %v", limit, len(got), err)
		}
		if o.Head() != want.String()[:headBytes] {
			t.Errorf("cap %d: head %q", limit, o.Head())
		}
	}
	// Wherever the value lies about the border.
	for at := headBytes - len(long) - 2; at <= headBytes+2; at++ {
		o := output(t, 1<<20, secret, long)
		pieces(t, o, []byte(strings.Repeat("x", at)+long+"yyy"))
		o.Close()
		if strings.Contains(o.Head(), "hunter2") || len(o.Head()) > headBytes {
			t.Errorf("at %d: head ends %q", at, o.Head()[max(0, len(o.Head())-40):])
		}
	}
	for after := tailBytes - len(long) - 2; after <= tailBytes+2; after++ {
		e := NewErrors(redact.New([]string{secret, long}))
		pieces(t, e, []byte(strings.Repeat("x", 20_000)+long+strings.Repeat("y", after)))
		if tail := e.Tail(); strings.Contains(tail, "hunter2") || strings.Contains(tail, "and-more") || len(tail) > tailBytes {
			t.Errorf("%d before the end: tail begins %q", after, tail[:40])
		}
	}
	// Held back to the end, and not lost.
	o := output(t, 1<<20, secret)
	o.Write([]byte("hunter2-hunt"))
	o.Close()
	if o.Head() != "hunter2-hunt" || string(o.Bytes()) != "hunter2-hunt" {
		t.Errorf("%q %q", o.Head(), o.Bytes())
	}
}

func TestHeadIsText(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("x", headBytes-1) + "é": strings.Repeat("x", headBytes-1),
		strings.Repeat("x", headBytes-2) + "é": strings.Repeat("x", headBytes-2) + "é",
		strings.Repeat("x", headBytes-3) + "😀": strings.Repeat("x", headBytes-3),
		"\xff\xfeab": "��ab",
		"":           "",
	} {
		o := output(t, 1<<20)
		o.Write([]byte(in))
		o.Close()
		if o.Head() != want {
			t.Errorf("…%q: …%q", in[max(0, len(in)-6):], o.Head()[max(0, len(o.Head())-6):])
		}
	}
}

func TestErrors(t *testing.T) {
	for _, n := range []int{0, 1, tailBytes - 1, tailBytes, tailBytes + 1, 3*tailBytes + 5, 1 << 20} {
		text := numbered(n)
		e := NewErrors(redact.New(nil))
		pieces(t, e, text)
		if want := string(text[max(0, n-tailBytes):]); e.Tail() != want || e.Total != int64(n) {
			t.Errorf("%d bytes: total %d, a tail of %d", n, e.Total, len(e.Tail()))
		}
	}
	// The tail begins with a whole character.
	e := NewErrors(redact.New(nil))
	e.Write([]byte(strings.Repeat("é", tailBytes) + "x"))
	if tail := e.Tail(); strings.Contains(tail, "�") || len(tail) != tailBytes-1 {
		t.Errorf("%d bytes, begins %q", len(tail), tail[:4])
	}
	e = NewErrors(redact.New(nil))
	e.Write([]byte("\xffbad"))
	if tail := e.Tail(); tail != "�bad" {
		t.Errorf("%q", tail)
	}
}
