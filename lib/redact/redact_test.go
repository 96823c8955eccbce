package redact

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestString(t *testing.T) {
	m := New([]string{"hunter2hunter2", "short", "with\"quote\nline", "hunter2hunter2-long", "2-long-and-longer"})
	for in, want := range map[string]string{
		"":                                       "",
		"a hunter2hunter2 b":                     "a <redacted> b",
		"hunter2hunter2-long":                    "<redacted>",
		"hunter2hunter2 hunter2hunter2":          "<redacted> <redacted>",
		"hunter2hunter2-longhunter2hunter2-long": "<redacted><redacted>",
		"hunter2hunter2hunter2hunter2-hunter2":   "<redacted>-hunter2", // three that overlap
		"hunter2hunter2-long-and-longer":         "<redacted>",         // nothing is left of either
		"short":                                  "short",
		`{"x":"with\"quote\nline"}`:              `{"x":"<redacted>"}`,
		"with\"quote\nline":                      "<redacted>",
		"hunter2hunter":                          "hunter2hunter",
	} {
		if got := m.String(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, m := range []*Masker{New(nil), New([]string{"short"})} {
		if got := m.String("short and sweet"); got != "short and sweet" || m.Over() != "" {
			t.Errorf("%q %q", got, m.Over())
		}
	}
}

// As Python, node, jq, PHP and Forge print a value as JSON.
func TestForms(t *testing.T) {
	m := New([]string{"naïve/pässwörd", "key-\U0001F511-🗝", "bell\a\b\f\x7f\x1b[0m"})
	for _, in := range []string{
		"naïve/pässwörd", `naïve\/pässwörd`, `na\u00efve/p\u00e4ssw\u00f6rd`, `na\u00EFve/p\u00E4ssw\u00F6rd`, `na\u00efve\/p\u00e4ssw\u00f6rd`, `na\u00EFve\/p\u00E4ssw\u00F6rd`,
		"key-🔑-🗝", `key-\ud83d\udd11-\ud83d\udddd`, `key-\uD83D\uDD11-\uD83D\uDDDD`,
		"bell\a\b\f\x7f\x1b[0m", `bell\u0007\b\f\u007f\u001b[0m`, `bell\u0007\u0008\u000c\u007f\u001b[0m`, "bell\\u0007\\b\\f\x7f\\u001b[0m", "bell\\u0007\\b\\f\x7f\\u001B[0m",
	} {
		if got := m.String("<" + in + ">"); got != "<<redacted>>" {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// naive masks as the package says, with a map of the bytes that are covered.
func naive(s string, values []string) string {
	cover := make([]bool, len(s))
	joined := make([]bool, len(s)) // with the byte before
	for _, v := range values {
		for i := 0; i+len(v) <= len(s); i++ {
			if s[i:i+len(v)] == v {
				for j := range len(v) {
					cover[i+j] = true
					joined[i+j] = joined[i+j] || j > 0
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(s) {
		if !cover[i] {
			b.WriteByte(s[i])
		} else if !joined[i] {
			b.WriteString(Mask)
		}
	}
	return b.String()
}

// However a stream is cut, it masks to what the whole text masks to.
func FuzzWriter(f *testing.F) {
	f.Add("xx secret-value-1 yy secret-value-1", 3)
	f.Add("secret-secret-value-1", 1)
	f.Add("secret-value-1-secret-valuesecret-vaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 5)
	f.Fuzz(func(t *testing.T, s string, step int) {
		values := []string{"secret-value-1", "secret-secret", "value-1-secret-value", "secret-v", "aaaaaaaa", "aaaaaaaaaaaaaaaaaaab"}
		m := New(values)
		var out bytes.Buffer
		w := m.Writer(&out)
		if step < 1 {
			step = 1
		}
		for rest := s; rest != ""; {
			n := min(step, len(rest))
			if k, err := w.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		w.Close()
		if want := naive(s, values); out.String() != want || m.String(s) != want || strings.Contains(want, "secret-v") {
			t.Fatalf("%q in steps of %d: %q, want %q", s, step, out.String(), want)
		}
	})
}

// Few letters, so that values lie in and over each other in every way, and more
// states than rows.
func TestRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[rnd.IntN(2)]
		}
		return string(b)
	}
	for round := range 60 {
		values := make([]string, 1+rnd.IntN(200))
		for i := range values {
			values[i] = word(minLen + rnd.IntN(40))
		}
		text := word(1000)
		for range 10 {
			text += values[rnd.IntN(len(values))] + "--" + word(rnd.IntN(30))
		}
		var out bytes.Buffer
		w := New(values).Writer(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(1+rnd.IntN(50), len(rest))
			w.Write(rest[:n])
			rest = rest[n:]
		}
		w.Close()
		if want := naive(text, values); out.String() != want {
			t.Fatalf("round %d: %q\n%q, want\n%q", round, values, out.String(), want)
		}
	}
}

// Too much to mask: nothing goes through.
func TestOver(t *testing.T) {
	many := make([]string, maxValues+1)
	for i := range many {
		many[i] = fmt.Sprintf("value-%08d", i)
	}
	for name, values := range map[string][]string{
		"many": many, "long": {strings.Repeat("x", maxBytes+1)}, "escaped": {strings.Repeat("é", maxBytes/4)},
	} {
		m := New(values)
		var out bytes.Buffer
		w := m.Writer(&out)
		for range 10 {
			io.WriteString(w, values[0])
		}
		w.Close()
		if m.Over() == "" || out.String() != Mask || m.String("anything") != Mask || m.String("") != "" {
			t.Errorf("%s: %q %.100q", name, m.Over(), out.String())
		}
	}
	if m := New(many[:maxValues]); m.Over() != "" || m.String(many[9999]+many[10000]) != Mask+many[10000] {
		t.Errorf("%q", m.Over())
	}
	if m := New([]string{strings.Repeat("x", maxBytes-1)}); m.Over() != "" {
		t.Errorf("%q", m.Over())
	}
}

// count keeps nothing of what is written to it.
type count int

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }

// The time grows with what is read, not with the number or length of the
// values, whatever they are; each case takes a second or so.
func TestLinear(t *testing.T) {
	many := make([]string, maxValues)
	for i := range many {
		many[i] = fmt.Sprintf("common-beginning-%08x", i)
	}
	as := strings.Repeat("a", maxBytes-10)
	for name, c := range map[string]struct {
		values []string
		text   string
		times  int
	}{
		"many":             {many, many[7] + " common-beginning-0000270f common-beginning-zzz", 1 << 20},
		"long and near":    {[]string{as + "b"}, strings.Repeat("a", 1<<15), 3000},
		"long, short, run": {[]string{as + "b", "aaaaaaaa"}, strings.Repeat("a", 1<<15), 3000},
		"forty thousand":   {append(many, append(many, append(many, many...)...)...), "nothing", 1},
	} {
		began := time.Now()
		var out count
		w := New(c.values).Writer(&out)
		piece := []byte(c.text)
		for range c.times {
			w.Write(piece)
		}
		w.Close()
		if x, ok := w.(*writer); ok && cap(x.held)+cap(x.out) > 16*maxBytes {
			t.Errorf("%s: %d bytes held", name, cap(x.held)+cap(x.out))
		}
		took := time.Since(began)
		t.Logf("%s: %s for %d MB", name, took, len(c.text)*c.times>>20)
		if took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	m := New([]string{"hunter2-hunter2", "another-secret-value"})
	piece := []byte(strings.Repeat("0123456789abcdef another line of text\n", 800))
	b.SetBytes(int64(len(piece)))
	w := m.Writer(io.Discard)
	for b.Loop() {
		w.Write(piece)
	}
}
