// Package redact masks values that must not be stored or shown, as a text and
// as a stream. It is pure.
package redact

import (
	"bytes"
	"io"
	"slices"

	"forge/lib/wire"
)

// Mask is what a masked value becomes.
const Mask = "<redacted>"

// minLen is the shortest value that is masked inside a text: a shorter one
// would corrupt what merely looks like it.
const minLen = 8

// Masker replaces a set of values, in the forms they take in a tool's output:
// literal, and escaped as in a JSON string.
type Masker struct {
	forms [][]byte // longest first
	keep  int      // bytes a form may still be cut in
}

// New returns a masker for values; those under 8 bytes are left alone.
func New(values []string) *Masker {
	m := &Masker{}
	for _, v := range values {
		if len(v) < minLen {
			continue
		}
		quoted := wire.StringOf(v).Bytes()
		for _, f := range [][]byte{[]byte(v), quoted[1 : len(quoted)-1]} {
			if !slices.ContainsFunc(m.forms, func(g []byte) bool { return bytes.Equal(f, g) }) {
				m.forms = append(m.forms, f)
			}
			m.keep = max(m.keep, len(f)-1)
		}
	}
	slices.SortStableFunc(m.forms, func(a, b []byte) int { return len(b) - len(a) })
	return m
}

// String returns s with every value replaced.
func (m *Masker) String(s string) string {
	if len(m.forms) == 0 {
		return s
	}
	out, _ := m.mask(nil, []byte(s), 0)
	return string(out)
}

// mask appends b to dst with every form that begins before the last keep bytes
// replaced, and returns the rest: a form that begins there may go on, or be the
// beginning of a longer one.
func (m *Masker) mask(dst, b []byte, keep int) (out, rest []byte) {
	for {
		at, n := -1, 0
		for _, f := range m.forms {
			if i := bytes.Index(b, f); i >= 0 && (at < 0 || i < at) {
				at, n = i, len(f)
			}
		}
		if border := max(0, len(b)-keep); at < 0 || at >= border {
			return append(dst, b[:border]...), b[border:]
		}
		dst = append(append(dst, b[:at]...), Mask...)
		b = b[at+n:]
	}
}

// Writer masks what is written to it, across the borders of writes. Close
// writes what it held back; it does not close w.
func (m *Masker) Writer(w io.Writer) io.WriteCloser { return &writer{m: m, w: w} }

type writer struct {
	m    *Masker
	w    io.Writer
	held []byte
}

func (w *writer) Write(p []byte) (int, error) {
	if len(w.m.forms) == 0 {
		return w.w.Write(p)
	}
	out, rest := w.m.mask(nil, append(w.held, p...), w.m.keep)
	w.held = bytes.Clone(rest)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error {
	out, _ := w.m.mask(nil, w.held, 0)
	w.held = nil
	_, err := w.w.Write(out)
	return err
}
