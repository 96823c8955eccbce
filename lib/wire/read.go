// Package wire is JSON as Forge reads and prints it.
//
// Reading is strict, because what two readers understand differently is a hole:
// valid UTF-8 without a byte order mark, one value and nothing after it, no
// name twice in an object (after unescaping), no lone surrogates, no U+0000,
// bounded size, depth and number literals. encoding/json decides the grammar;
// this package adds what it lets through. Numbers are never converted: a Value
// keeps the literal. The rules are in forge(7), STANDARD INPUT.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"forge/lib/fail"
)

// Limits bound what Parse accepts.
type Limits struct {
	Size    int  // bytes of the whole text
	Depth   int  // arrays and objects within each other
	Values  int  // values in all, 0: no bound; each takes some hundred bytes
	Keep    int  // levels of arrays and objects taken apart, 0: all
	Numbers bool // literals of at most 40 characters and exponent 308
	NUL     bool // let U+0000 stand in strings (never in names)
}

const maxDepth = 512

// The bounds of DESIGN §3: what a schema checks, what a command is asked, what
// a tool or a sibling answers, and what our own files hold.
var (
	Instance = Limits{Size: 4 << 20, Depth: 64, Values: 200_000, Numbers: true}
	Request  = Limits{Size: 8 << 20, Depth: 128, Values: 300_000}
	Output   = Limits{Size: 16 << 20, Depth: maxDepth, Keep: 1, NUL: true}
	File     = Limits{Size: 64 << 20, Depth: maxDepth, NUL: true}
)

// Read reads r to its end and parses it. Errors: bad_input, io_error.
func Read(r io.Reader, lim Limits) (Value, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(lim.Size)+1))
	if err != nil {
		return Value{}, fail.New(fail.IOError, "", "%w", err)
	}
	return Parse(b, lim)
}

// Parse returns the one value that text holds. Errors are of kind bad_input
// and name line and column, counted from 1, the column in bytes. They hold no
// number and, but for the way to a value, no name: those may be secret.
func Parse(text []byte, lim Limits) (Value, error) {
	if len(text) > lim.Size {
		return Value{}, fail.New(fail.BadInput, "pass less, or large data as a file",
			"more than %d bytes", lim.Size)
	}
	if strings.HasPrefix(string(text[:min(3, len(text))]), "\ufeff") {
		return Value{}, bad(text, 0, "write UTF-8 without a byte order mark", "byte order mark")
	}
	if !utf8.Valid(text) {
		return Value{}, bad(text, firstInvalid(text), "write UTF-8", "invalid UTF-8")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		if len(strings.TrimSpace(string(text[:min(64, len(text))]))) == 0 {
			return Value{}, fail.New(fail.BadInput, "pass one JSON value on standard input", "empty")
		}
		syn, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return Value{}, fail.New(fail.BadInput, "", "%w", err)
		}
		return Value{}, bad(text, max(0, int(syn.Offset)-1), "pass exactly one JSON value", "%s", err)
	}
	p := parser{text: text, lim: lim}
	v, err := p.value(1, true)
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// bad is an error of kind bad_input at an offset of text.
func bad(text []byte, at int, hint, format string, args ...any) error {
	line, col := Line(text, at)
	return fail.New(fail.BadInput, hint, "line %d column %d: %s", line, col, fmt.Sprintf(format, args...))
}

// Line turns an offset into a line and a column in bytes, both from 1.
func Line(text []byte, at int) (line, col int) {
	before := string(text[:min(at, len(text))])
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// A parser walks text that encoding/json has found to be well formed.
type parser struct {
	text   []byte
	lim    Limits
	at     int
	values int
	way    []step // to the value that is read
}

// A step is a name, or the index of an item.
type step struct {
	name string
	item int // -1: a name
}

// place is " at " and the pointer to the value that is read, long names cut; ""
// for the root. Neither numbers nor names stand in an error otherwise: what
// they are part of may be secret, and no schema has been asked yet.
func (p *parser) place() string {
	if len(p.way) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(" at ")
	for _, s := range p.way {
		if b.Len() > 1000 {
			b.WriteString("…")
			break
		}
		b.WriteByte('/')
		if s.item >= 0 {
			b.WriteString(strconv.Itoa(s.item))
			continue
		}
		name, more := s.name, ""
		if len(name) > 100 {
			cut := 97
			for !utf8.RuneStart(name[cut]) {
				cut--
			}
			name, more = name[:cut], "…"
		}
		// Quoted, it has no control characters and no line ends.
		name = strconv.Quote(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		b.WriteString(name[1:len(name)-1] + more)
	}
	return b.String()
}

func (p *parser) blanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// value walks one value. It is taken apart if build says so; else only checked,
// and an array or object becomes its text.
func (p *parser) value(depth int, build bool) (Value, error) {
	p.blanks()
	v := Value{pos: p.at}
	if p.values++; p.lim.Values > 0 && p.values > p.lim.Values {
		return v, bad(p.text, p.at, "pass large data as a file", "more than %d values", p.lim.Values)
	}
	var err error
	switch c := p.text[p.at]; c {
	case '{', '[':
		if depth > p.lim.Depth {
			return v, bad(p.text, p.at, "flatten the value", "nested deeper than %d", p.lim.Depth)
		}
		whole := build && (p.lim.Keep == 0 || depth <= p.lim.Keep)
		if c == '{' {
			err = p.object(&v, depth, whole)
		} else {
			err = p.array(&v, depth, whole)
		}
		if build && !whole && err == nil {
			v.text = string(p.text[v.pos:p.at])
		}
	case '"':
		v.typ = String
		v.text, err = p.str(p.lim.NUL)
	case 't':
		v.typ, v.text = Bool, "true"
		p.at += 4
	case 'f':
		v.typ, v.text = Bool, "false"
		p.at += 5
	case 'n':
		p.at += 4
	default:
		v.typ = Number
		v.text, err = p.number()
	}
	return v, err
}

func (p *parser) object(v *Value, depth int, build bool) error {
	v.typ = Object
	p.at++
	var names nameSet
	for {
		p.blanks()
		switch p.text[p.at] {
		case '}':
			p.at++
			return nil
		case ',':
			p.at++
			p.blanks()
		}
		start := p.at
		name, err := p.str(false)
		if err != nil {
			return err
		}
		if names.repeats(name) {
			return bad(p.text, start, "write each name once", "a name stands twice in the object%s", p.place())
		}
		p.blanks()
		p.at++ // the colon
		p.way = append(p.way, step{name, -1})
		m, err := p.value(depth+1, build)
		if err != nil {
			return err
		}
		p.way = p.way[:len(p.way)-1]
		if build {
			v.members = append(v.members, Member{name, m})
		}
	}
}

// nameSet finds a name that stands twice; past a few names it is a map, so that
// a large object costs no square.
type nameSet struct {
	few  []string
	many map[string]bool
}

func (s *nameSet) repeats(name string) bool {
	if s.many == nil {
		if slices.Contains(s.few, name) {
			return true
		}
		if s.few = append(s.few, name); len(s.few) == 16 {
			s.many = make(map[string]bool, 64)
			for _, n := range s.few {
				s.many[n] = true
			}
		}
		return false
	}
	if s.many[name] {
		return true
	}
	s.many[name] = true
	return false
}

func (p *parser) array(v *Value, depth int, build bool) error {
	v.typ = Array
	v.items = []Value{}
	p.at++
	for i := 0; ; i++ {
		p.blanks()
		switch p.text[p.at] {
		case ']':
			p.at++
			return nil
		case ',':
			p.at++
		}
		p.way = append(p.way, step{"", i})
		it, err := p.value(depth+1, build)
		if err != nil {
			return err
		}
		p.way = p.way[:len(p.way)-1]
		if build {
			v.items = append(v.items, it)
		}
	}
}

// str reads a string. encoding/json turns a lone surrogate into U+FFFD, so two
// different texts would become one value: it is refused here.
func (p *parser) str(nul bool) (string, error) {
	start := p.at
	p.at++
	from := p.at
	for p.text[p.at] != '"' && p.text[p.at] != '\\' {
		p.at++
	}
	if p.text[p.at] == '"' { // the common case: nothing to unescape
		s := string(p.text[from:p.at])
		p.at++
		return s, nil
	}
	out := append([]byte(nil), p.text[from:p.at]...)
	for {
		switch c := p.text[p.at]; c {
		case '"':
			p.at++
			return string(out), nil
		case '\\':
			e := p.text[p.at+1]
			p.at += 2
			switch e {
			case 'b':
				out = append(out, '\b')
			case 'f':
				out = append(out, '\f')
			case 'n':
				out = append(out, '\n')
			case 'r':
				out = append(out, '\r')
			case 't':
				out = append(out, '\t')
			case 'u':
				r := p.hex4()
				if utf16.IsSurrogate(r) {
					low := rune(-1)
					if p.text[p.at] == '\\' && p.text[p.at+1] == 'u' {
						p.at += 2
						low = p.hex4()
					}
					if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
						return "", bad(p.text, start, "write the character itself, or both halves", "lone surrogate in a string")
					}
				}
				if r == 0 && !nul {
					return "", bad(p.text, start, "leave U+0000 out; pass binary data as base64 or in a file", "U+0000 in a string")
				}
				out = utf8.AppendRune(out, r)
			default: // quote, backslash, slash
				out = append(out, e)
			}
		default:
			out = append(out, c)
			p.at++
		}
	}
}

func (p *parser) hex4() rune {
	n, _ := strconv.ParseUint(string(p.text[p.at:p.at+4]), 16, 32)
	p.at += 4
	return rune(n)
}

// number reads a literal. Beyond the bounds the checks that follow cost more
// than they tell: a validator took 5 seconds over 901 bytes of them.
func (p *parser) number() (string, error) {
	start := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[p.at]) >= 0 {
		p.at++
	}
	lit := string(p.text[start:p.at])
	if !p.lim.Numbers {
		return lit, nil
	}
	if len(lit) > 40 {
		return "", bad(p.text, start, "pass it as a string", "number%s: %d characters, at most 40", p.place(), len(lit))
	}
	if i := strings.IndexAny(lit, "eE"); i >= 0 {
		if e, err := strconv.Atoi(strings.TrimPrefix(lit[i+1:], "+")); err != nil || e > 308 || e < -308 {
			return "", bad(p.text, start, "pass it as a string", "number%s: exponent beyond 308", p.place())
		}
	}
	if _, err := strconv.ParseFloat(lit, 64); err != nil {
		return "", bad(p.text, start, "pass it as a string", "number%s: out of range", p.place())
	}
	if lit == "-0" {
		lit = "0"
	}
	return lit, nil
}
