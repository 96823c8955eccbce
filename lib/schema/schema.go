// Package schema decides whether a value may start a tool.
//
// An author's schema, in any dialect from draft-04 to 2020-12, is checked in
// full and lowered to a minimal draft-07 document of our own, which an engine
// enforces. What cannot be lowered without loss is refused by name when the
// tool is forged, so nothing is ever silently unenforced:
//
//	{"type":"object","properties":{"in":{"type":"string","x-bind":"ro"}},"require":["in"]}
//
//	schema: /require: unknown keyword "require"
//	hint: write "required"
//
// Two annotations are Forge's own. "x-bind":"ro" or "rw" makes a string a path
// that the sandbox shows to the tool; it stands where it holds for every value,
// reached only through properties, items, $ref and allOf. "x-redact":true keeps
// a value out of everything that is stored.
//
// Nothing is fetched. Numbers are compared as the numbers they are: a value in
// which two different ones look alike to the engine, where that could matter,
// is refused. Whatever goes wrong while a value is checked, a panic or the
// deadline, refuses it. The rules are in forge(7), SCHEMAS.
package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// deadline bounds one Check, all of it: a union that recurses costs without end.
const deadline = 2 * time.Second

// A Schema is ready to check values. It may be used by several at once.
type Schema struct {
	doc      *document
	engine   engine
	patterns map[string]string // lowered pattern to the author's
	integers bool
	redacts  bool
	ro, rw   bool
}

// Compile readies a schema from the author's form, which holds the annotations,
// and from what Lower made of it. Errors are of kind schema_unsupported.
func Compile(author, lowered wire.Value) (s *Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, unexpected(p)
		}
	}()
	d, err := index(author)
	if err != nil {
		return nil, err
	}
	if err := d.annotations(); err != nil {
		return nil, err
	}
	e, err := newEngine(lowered)
	if err != nil {
		return nil, d.refuse("", "", "forge the tool again", "the lowered schema cannot be compiled: %s", err)
	}
	s = &Schema{doc: d, engine: e, patterns: map[string]string{}}
	for _, n := range d.nodes {
		if err := n.compile(d); err != nil {
			return nil, err
		}
		s.note(n)
	}
	for n := range d.reachable() {
		mode, _ := n.get("x-bind")
		s.ro = s.ro || mode.Text() == "ro"
		s.rw = s.rw || mode.Text() == "rw"
	}
	return s, nil
}

// note remembers what a position says that Check and the walks need.
func (s *Schema) note(n *node) {
	if p, ok := n.get("pattern"); ok {
		s.patterns[s.doc.pattern(p.Text()).told()] = p.Text()
	}
	for _, word := range []string{"const", "enum"} {
		v, _ := n.get(word)
		numbers(v, func(lit string) {
			f, err := strconv.ParseFloat(lit, 64)
			if err != nil {
				return
			}
			if n.literals == nil {
				n.literals = map[float64]*lits{}
			}
			// Two of one float64 are one number: Lower saw to it.
			n.literals[f] = &lits{text: lit}
		})
	}
	s.integers = s.integers || mayBe(n, "integer")
	r, _ := n.get("x-redact")
	s.redacts = s.redacts || r.Text() == "true"
}

func unexpected(p any) error {
	return fail.New(fail.SchemaUnsupported, "simplify the schema", "schema: unexpected fault: %v", p)
}

// Normalize returns v with numbers as the schema wants them: 1.0 and 1e2 are
// 1 and 100 where it says integer, at most 40 characters long. All else stays
// token for token; and so does all of a v that is too much for Check.
func (s *Schema) Normalize(v wire.Value) wire.Value {
	if !s.integers {
		return v
	}
	out := v
	if !within(func() {
		w := s.walk(true, nil)
		out = w.normalize(v, w.start(s.doc))
	}) {
		return v
	}
	return out
}

func (w *walk) normalize(v wire.Value, at *set) wire.Value {
	if len(at.nodes) == 0 {
		return v
	}
	switch v.Type() {
	case wire.Number:
		if at.integer {
			return whole(v)
		}
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, it := range v.Items() {
			items[i] = w.normalize(it, w.item(at, i))
		}
		return wire.ArrayOf(items...)
	case wire.Object:
		ms := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			ms[i] = wire.Member{Name: m.Name, Value: w.normalize(m.Value, w.member(at, m.Name))}
		}
		return wire.ObjectOf(ms...)
	}
	return v
}

// whole writes a number without point and exponent, if it is an integer of at
// most 40 characters.
func whole(v wire.Value) wire.Value {
	i := strings.IndexAny(v.Text(), "eE")
	switch {
	case isZero(v.Text()):
		if !strings.ContainsAny(v.Text(), ".eE") {
			return v
		}
		return wire.NumberOf("0")
	case i >= 0:
		// Beyond, no literal in bounds is such an integer, and to find out takes long.
		if e, err := strconv.Atoi(v.Text()[i+1:]); err != nil || e > 80 || e < -80 {
			return v
		}
	case !strings.Contains(v.Text(), "."):
		return v
	}
	if r, ok := rat(v); ok && r.IsInt() && len(r.Num().String()) <= 40 {
		return wire.NumberOf(r.Num().String())
	}
	return v
}

// isZero says whether a literal is 0, however it is written.
func isZero(lit string) bool {
	for _, c := range []byte(lit) {
		switch {
		case c == 'e' || c == 'E':
			return true
		case c >= '1' && c <= '9':
			return false
		}
	}
	return true
}

// A Bind is a path that the input names where the schema says x-bind.
type Bind struct {
	Pointer string // where in the input
	Path    string // what it says
	Mode    string // ro or rw
}

// Binds lists the paths that v names, in the order of v; null names none. v
// must have passed Check: of one that is too much for it, none are listed.
func (s *Schema) Binds(v wire.Value) []Bind {
	if !s.ro && !s.rw {
		return nil
	}
	var bs []Bind
	if !within(func() {
		s.walk(false, nil).binds(s.doc, v, func(path []string, b Bind, _ bool) {
			b.Pointer = pointer(path)
			bs = append(bs, b)
		})
	}) {
		return nil
	}
	return bs
}

// binds calls see with each bind; twice says that the schema names two modes
// for it, of which ro is told.
func (w *walk) binds(d *document, v wire.Value, see func(path []string, b Bind, twice bool)) {
	var way []string
	var visit func(v wire.Value, at *set)
	visit = func(v wire.Value, at *set) {
		if len(at.nodes) == 0 {
			return
		}
		switch v.Type() {
		case wire.String:
			switch {
			case at.ro:
				see(way, Bind{Path: v.Text(), Mode: "ro"}, at.rw)
			case at.rw:
				see(way, Bind{Path: v.Text(), Mode: "rw"}, false)
			}
		case wire.Array:
			for i, it := range v.Items() {
				way = append(way, strconv.Itoa(i))
				visit(it, w.item(at, i))
				way = way[:len(way)-1]
			}
		case wire.Object:
			for _, m := range v.Members() {
				way = append(way, m.Name)
				visit(m.Value, w.member(at, m.Name))
				way = way[:len(way)-1]
			}
		}
	}
	visit(v, w.start(d))
}

// Modes says which modes of x-bind the schema uses.
func (s *Schema) Modes() (ro, rw bool) { return s.ro, s.rw }

// HasRedact says whether any position says x-redact.
func (s *Schema) HasRedact() bool { return s.redacts }

const masked = "<redacted>"

// Redact returns v with every value replaced where the schema, by whatever
// branch, says x-redact; and the texts of the strings, names and numbers that
// were in them, each once, the numbers also as others print them, for masking
// what the tool prints. A v that is too much for
// Check is replaced as a whole.
func (s *Schema) Redact(v wire.Value) (wire.Value, []string) {
	if !s.redacts {
		return v, nil
	}
	var secrets []string
	seen := map[string]bool{}
	secret := func(leaf string) {
		if leaf != "" && !seen[leaf] {
			seen[leaf] = true
			secrets = append(secrets, leaf)
		}
	}
	out := v
	if !within(func() {
		w := s.walk(true, nil)
		out = w.redact(v, w.start(s.doc), secret)
	}) {
		leaves(v, secret)
		out = wire.StringOf(masked)
	}
	return out, secrets
}

func (w *walk) redact(v wire.Value, at *set, secret func(string)) wire.Value {
	if len(at.nodes) == 0 {
		return v
	}
	if at.hidden {
		leaves(v, secret)
		return wire.StringOf(masked)
	}
	switch v.Type() {
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, it := range v.Items() {
			items[i] = w.redact(it, w.item(at, i), secret)
		}
		return wire.ArrayOf(items...)
	case wire.Object:
		ms := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			ms[i] = wire.Member{Name: m.Name, Value: w.redact(m.Value, w.member(at, m.Name), secret)}
		}
		return wire.ObjectOf(ms...)
	}
	return v
}

func leaves(v wire.Value, secret func(string)) {
	switch v.Type() {
	case wire.String:
		secret(v.Text())
	case wire.Number:
		secret(v.Text())
		respell(v, secret)
	case wire.Array:
		for _, it := range v.Items() {
			leaves(it, secret)
		}
	case wire.Object:
		for _, m := range v.Members() {
			secret(m.Name)
			leaves(m.Value, secret)
		}
	}
}

// respell tells a number as programs print it that have read it: the shortest
// text of its float64, plain and with the exponents of C and of JavaScript, the
// float that an integer became, and its digits.
func respell(v wire.Value, secret func(string)) {
	if w := whole(v); w.Text() != v.Text() {
		secret(w.Text())
	}
	f, err := strconv.ParseFloat(v.Text(), 64)
	if err != nil {
		return
	}
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if len(plain) <= 40 {
		secret(plain)
		if !strings.Contains(plain, ".") {
			secret(plain + ".0")
		}
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		exp := strconv.FormatFloat(f, 'e', -1, 64)
		secret(exp)
		secret(strings.Replace(exp, "e-0", "e-", 1))
	}
}

// collide says where a number of v has the float64, which is how the engine
// compares, of a different one that it may be compared with: one of a const or
// enum there, or of the array that must be unique; nil, "" if none has. It
// walks all of v, so that what a walk of Normalize or Redact costs is known to
// be in bounds.
func (w *walk) collide(d *document, v wire.Value) (path []string, lit string) {
	// Each group is the numbers of one comparison by their float64.
	type group struct {
		by    map[float64]*lits
		grows bool // compares the numbers of v with each other
	}
	var way []string
	var visit func(v wire.Value, at *set, groups []group) bool
	visit = func(v wire.Value, at *set, groups []group) bool {
		if at.numbers != nil {
			groups = append(groups[:len(groups):len(groups)], group{by: at.numbers})
		}
		if at.unique && v.Type() == wire.Array {
			groups = append(groups[:len(groups):len(groups)], group{map[float64]*lits{}, true})
		}
		if len(at.nodes) == 0 && len(groups) == 0 {
			return false
		}
		switch v.Type() {
		case wire.Number:
			if len(groups) == 0 {
				break
			}
			w.charge(4 * len(groups))
			f, err := strconv.ParseFloat(v.Text(), 64)
			for _, g := range groups {
				other, known := g.by[f]
				if err != nil || known && !other.same(w, v.Text()) {
					path, lit = slices.Clone(way), v.Text()
					return true
				}
				if g.grows && !known {
					g.by[f] = &lits{text: v.Text()}
				}
			}
		case wire.Array:
			for i, it := range v.Items() {
				way = append(way, strconv.Itoa(i))
				if visit(it, w.item(at, i), groups) {
					return true
				}
				way = way[:len(way)-1]
			}
		case wire.Object:
			for _, m := range v.Members() {
				way = append(way, m.Name)
				if visit(m.Value, w.member(at, m.Name), groups) {
					return true
				}
				way = way[:len(way)-1]
			}
		}
		return false
	}
	visit(v, w.start(d), nil)
	return path, lit
}
