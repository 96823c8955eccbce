package redact

import (
	"bytes"
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	m := New([]string{"hunter2hunter2", "short", "with\"quote\nline", "hunter2hunter2-long"})
	for in, want := range map[string]string{
		"":                             "",
		"a hunter2hunter2 b":           "a <redacted> b",
		"hunter2hunter2-long":          "<redacted>",
		"hunter2hunter2hunter2hunter2": "<redacted><redacted>",
		"short":                        "short",
		`{"x":"with\"quote\nline"}`:    `{"x":"<redacted>"}`,
		"with\"quote\nline":            "<redacted>",
		"hunter2hunter":                "hunter2hunter",
	} {
		if got := m.String(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// However a stream is cut, it masks to what the whole text masks to.
func FuzzWriter(f *testing.F) {
	f.Add("xx secret-value-1 yy secret-value-1", 3)
	f.Add("secret-secret-value-1", 1)
	f.Fuzz(func(t *testing.T, s string, step int) {
		m := New([]string{"secret-value-1", "secret-secret", "value-1-secret-value", "secret-v"})
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
		if want := m.String(s); out.String() != want || strings.Contains(want, "secret-v") {
			t.Fatalf("%q in steps of %d: %q, want %q", s, step, out.String(), want)
		}
	})
}
