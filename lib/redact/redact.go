// Package redact masks values that must not be stored or shown, as a text and
// as a stream. It is pure, and takes a time in proportion to what it reads,
// whatever the values are.
package redact

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"forge/lib/wire"
)

// Mask is what a masked value becomes.
const Mask = "<redacted>"

const (
	// minLen is the shortest value that is masked inside a text: a shorter one
	// would corrupt what merely looks like it.
	minLen = 8

	// Over maxValues or maxBytes of them, in all their forms, nothing is
	// searched for and nothing let through.
	maxValues = 10_000
	maxBytes  = 512 << 10 // 24 bytes of memory each
)

// Masker replaces a set of values, in the forms they take in a tool's output:
// literal, and escaped as JSON printers do. What overlapping values cover
// becomes one mask, so that nothing is left of either.
//
// It is the automaton of Aho and Corasick, "Efficient string matching" (1975):
// one state for each beginning of a form, the root first.
type Masker struct {
	over  string
	nodes []node
	rows  [][256]int32 // every step from the states nearest to the root
}

type node struct {
	child   int32 // the first; ^child is a row where it is below 0
	next    int32 // the next child of the same parent
	fail    int32 // the longest other state that the text so far may be in
	depth   int32 // bytes of the form so far
	longest int32 // bytes of the longest form that ends here
	label   byte
}

// maxRows bounds the rows to 1 MiB.
const maxRows = 1024

// New returns a masker for values; those under 8 bytes are left alone.
func New(values []string) *Masker {
	m := &Masker{nodes: make([]node, 1)}
	count, size := 0, 0
	for _, v := range values {
		if len(v) < minLen {
			continue
		}
		count++
		size += len(v)
		if count > maxValues {
			return &Masker{over: fmt.Sprintf("more than %d values to mask", maxValues)}
		}
		if size <= maxBytes {
			for _, f := range forms(v) {
				m.add(f)
			}
		}
		if size > maxBytes || len(m.nodes) > maxBytes {
			return &Masker{over: fmt.Sprintf("values to mask of more than %d bytes with their escaped forms", maxBytes)}
		}
	}
	if count > 0 {
		m.link()
	}
	return m
}

// Over says why nothing at all is let through: too much to mask. It is "" where
// values are masked one by one.
func (m *Masker) Over() string { return m.over }

// forms returns v as it is, as Forge prints it, and as other JSON printers may:
// characters outside ASCII as they are or escaped, in lower or upper case, a
// slash as it is or escaped. Some are equal.
func forms(v string) []string {
	if !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r >= 0x7f || strings.ContainsRune(`"\/`, r) }) {
		return []string{v}
	}
	quoted := wire.StringOf(v).String()
	out := []string{v, quoted[1 : len(quoted)-1]}
	for _, ascii := range []bool{false, true} {
		for _, format := range []string{`\u%04x`, `\u%04X`} {
			e := escape(v, ascii, format)
			out = append(out, e)
			if strings.Contains(e, "/") {
				out = append(out, strings.ReplaceAll(e, "/", `\/`))
			}
		}
	}
	return out
}

var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func escape(v string, ascii bool, format string) string {
	var b strings.Builder
	for _, r := range v {
		switch s, is := short[r]; {
		case is:
			b.WriteString(s)
		case r > 0xffff && ascii:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, format+format, high, low)
		case r < ' ' || r >= 0x7f && ascii:
			fmt.Fprintf(&b, format, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// add makes the states of one form. Past the bound the caller gives up.
func (m *Masker) add(form string) {
	m.nodes = slices.Grow(m.nodes, min(len(form), maxBytes))
	at := int32(0)
	for i := range len(form) {
		to := m.child(at, form[i])
		if to == 0 {
			if len(m.nodes) > maxBytes {
				return
			}
			to = int32(len(m.nodes))
			m.nodes = append(m.nodes, node{next: m.nodes[at].child, depth: int32(i + 1), label: form[i]})
			m.nodes[at].child = to
		}
		at = to
	}
	m.nodes[at].longest = int32(len(form))
}

// child returns the state that b leads to from at, 0 for none.
func (m *Masker) child(at int32, b byte) int32 {
	c := m.nodes[at].child
	for c != 0 && m.nodes[c].label != b {
		c = m.nodes[c].next
	}
	return c
}

// link finds for each state, those nearest to the root first, where the search
// goes on when a byte leads nowhere.
func (m *Masker) link() {
	order := make([]int32, 1, len(m.nodes))
	for i := 0; i < len(order); i++ {
		at := order[i]
		for c := m.nodes[at].child; c != 0; c = m.nodes[c].next {
			n := &m.nodes[c]
			if at != 0 {
				n.fail = m.step(m.nodes[at].fail, n.label)
			}
			if n.longest == 0 {
				n.longest = m.nodes[n.fail].longest
			}
			order = append(order, c)
		}
	}
	m.rows = make([][256]int32, min(len(order), maxRows))
	for i := range m.rows {
		at := order[i]
		if at != 0 {
			m.rows[i] = m.rows[^m.nodes[m.nodes[at].fail].child]
		}
		for c := m.nodes[at].child; c != 0; c = m.nodes[c].next {
			m.rows[i][m.nodes[c].label] = c
		}
		m.nodes[at].child = ^int32(i)
	}
}

// step returns the state after b.
func (m *Masker) step(at int32, b byte) int32 {
	for {
		n := &m.nodes[at]
		if n.child < 0 {
			return m.rows[^n.child][b]
		}
		if c := m.child(at, b); c != 0 || at == 0 {
			return c
		}
		at = n.fail
	}
}

// String returns s with every value replaced.
func (m *Masker) String(s string) string {
	var b bytes.Buffer
	w := m.Writer(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// Writer masks what is written to it, across the borders of writes: it holds
// back what may be the beginning of a value. Close writes what it held back; it
// does not close w.
func (m *Masker) Writer(w io.Writer) io.WriteCloser {
	switch {
	case m.over != "":
		return &withheld{w: w}
	case len(m.nodes) < 2:
		return through{w}
	}
	return &writer{m: m, w: w}
}

type through struct{ io.Writer }

func (through) Close() error { return nil }

// withheld writes one mask for all that is written to it.
type withheld struct {
	w    io.Writer
	told bool
}

func (h *withheld) Write(p []byte) (int, error) {
	if len(p) > 0 && !h.told {
		h.told = true
		if _, err := io.WriteString(h.w, Mask); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (*withheld) Close() error { return nil }

type writer struct {
	m     *Masker
	w     io.Writer
	at    int32
	held  []byte // not yet written
	base  int    // where held begins, from the beginning of the stream
	found []span // what values cover from there on, in order and apart
	out   []byte
}

// span is what one value covers, or several that overlap.
type span struct {
	from, to int
	told     bool // its mask is written
}

func (w *writer) Write(p []byte) (int, error) {
	w.search(p)
	// A match that is still to come begins in what led to this state.
	if err := w.settle(w.base + len(w.held) - int(w.m.nodes[w.at].depth)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error { return w.settle(w.base + len(w.held)) }

func (w *writer) search(p []byte) {
	root := &w.m.rows[0]
	end := w.base + len(w.held)
	w.held = append(w.held, p...)
	at := w.at
	for i := 0; i < len(p); i++ {
		if at == 0 {
			for i < len(p) && root[p[i]] == 0 {
				i++
			}
			if i == len(p) {
				break
			}
		}
		at = w.m.step(at, p[i])
		if n := int(w.m.nodes[at].longest); n > 0 {
			w.cover(end+i+1-n, end+i+1)
		}
	}
	w.at = at
}

// cover notes a match that ends after all others.
func (w *writer) cover(from, to int) {
	told := false
	for k := len(w.found) - 1; k >= 0 && w.found[k].to > from; k-- {
		from, told = min(from, w.found[k].from), w.found[k].told
		w.found = w.found[:k]
	}
	w.found = append(w.found, span{from, to, told})
}

// settle writes what lies before border, and the mask of what begins there.
func (w *writer) settle(border int) error {
	at, out := w.base, w.out[:0]
	upTo := func(to int) {
		if to > at {
			out = append(out, w.held[at-w.base:to-w.base]...)
			at = to
		}
	}
	for len(w.found) > 0 && w.found[0].from < border {
		f := &w.found[0]
		upTo(f.from)
		if !f.told {
			f.told = true
			out = append(out, Mask...)
		}
		at = min(f.to, border)
		if f.to > border {
			break
		}
		w.found = w.found[1:]
	}
	upTo(border)
	n := border - w.base
	if rest := w.held[n:]; len(rest) <= n {
		w.held = append(w.held[:0], rest...)
	} else {
		w.held = rest // moved once it is worth it
	}
	w.base, w.out = border, out
	_, err := w.w.Write(out)
	return err
}
