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
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// deadline bounds one Check: a union that recurses costs without end.
const deadline = 2 * time.Second

// A Schema is ready to check values. It may be used by several at once.
type Schema struct {
	doc      *document
	engine   engine
	patterns map[string]string // lowered pattern to the author's
	compares bool              // uniqueItems, or const or enum with numbers, stands somewhere
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
		re, _ := s.doc.translate(p.Text())
		s.patterns[re] = p.Text()
	}
	for _, word := range []string{"const", "enum"} {
		v, _ := n.get(word)
		numbers(v, func(lit string) {
			if r, ok := new(big.Rat).SetString(lit); ok {
				n.literals = append(n.literals, r)
			}
		})
	}
	s.compares = s.compares || n.literals != nil || n.unique()
	s.integers = s.integers || mayBe(n, "integer")
	r, _ := n.get("x-redact")
	s.redacts = s.redacts || r.Text() == "true"
}

func unexpected(p any) error {
	return fail.New(fail.SchemaUnsupported, "simplify the schema", "schema: unexpected fault: %v", p)
}

// Normalize returns v with numbers as the schema wants them: 1.0 and 1e2 are
// 1 and 100 where it says integer, at most 40 characters long. All else stays
// token for token.
func (s *Schema) Normalize(v wire.Value) wire.Value {
	if !s.integers {
		return v
	}
	return s.normalize(v, s.start(true))
}

func (s *Schema) normalize(v wire.Value, at []*node) wire.Value {
	if len(at) == 0 {
		return v
	}
	switch v.Type() {
	case wire.Number:
		if !strings.ContainsAny(v.Text(), ".eE") {
			return v
		}
		for _, n := range at {
			if !mayBe(n, "integer") || mayBe(n, "number") {
				continue
			}
			if r, ok := rat(v); ok && r.IsInt() && len(r.Num().String()) <= 40 {
				return wire.NumberOf(r.Num().String())
			}
		}
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, it := range v.Items() {
			items[i] = s.normalize(it, s.item(at, i, true))
		}
		return wire.ArrayOf(items...)
	case wire.Object:
		ms := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			ms[i] = wire.Member{Name: m.Name, Value: s.normalize(m.Value, s.member(at, m.Name, true))}
		}
		return wire.ObjectOf(ms...)
	}
	return v
}

// A Bind is a path that the input names where the schema says x-bind.
type Bind struct {
	Pointer string // where in the input
	Path    string // what it says
	Mode    string // ro or rw
}

// Binds lists the paths that v names, in the order of v; null names none. v
// must have passed Check.
func (s *Schema) Binds(v wire.Value) []Bind {
	var bs []Bind
	if s.ro || s.rw {
		s.binds(v, s.start(false), nil, func(path []string, b Bind, _ bool) {
			b.Pointer = pointer(path)
			bs = append(bs, b)
		})
	}
	return bs
}

// binds calls see with each bind; twice says that the schema names two modes
// for it, of which ro is told.
func (s *Schema) binds(v wire.Value, at []*node, path []string, see func(path []string, b Bind, twice bool)) {
	if len(at) == 0 {
		return
	}
	switch v.Type() {
	case wire.String:
		modes := map[string]bool{}
		for _, n := range at {
			if m, ok := n.get("x-bind"); ok {
				modes[m.Text()] = true
			}
		}
		switch {
		case modes["ro"]:
			see(path, Bind{Path: v.Text(), Mode: "ro"}, modes["rw"])
		case modes["rw"]:
			see(path, Bind{Path: v.Text(), Mode: "rw"}, false)
		}
	case wire.Array:
		for i, it := range v.Items() {
			s.binds(it, s.item(at, i, false), append(path[:len(path):len(path)], strconv.Itoa(i)), see)
		}
	case wire.Object:
		for _, m := range v.Members() {
			s.binds(m.Value, s.member(at, m.Name, false), append(path[:len(path):len(path)], m.Name), see)
		}
	}
}

// Modes says which modes of x-bind the schema uses.
func (s *Schema) Modes() (ro, rw bool) { return s.ro, s.rw }

// HasRedact says whether any position says x-redact.
func (s *Schema) HasRedact() bool { return s.redacts }

const masked = "<redacted>"

// Redact returns v with every value replaced where the schema, by whatever
// branch, says x-redact; and the texts of the strings and numbers that were in
// them, each once, for masking what the tool prints.
func (s *Schema) Redact(v wire.Value) (wire.Value, []string) {
	if !s.redacts {
		return v, nil
	}
	var secrets []string
	seen := map[string]bool{}
	out := s.redact(v, s.start(true), func(leaf string) {
		if leaf != "" && !seen[leaf] {
			seen[leaf] = true
			secrets = append(secrets, leaf)
		}
	})
	return out, secrets
}

func (s *Schema) redact(v wire.Value, at []*node, secret func(string)) wire.Value {
	if len(at) == 0 {
		return v
	}
	if redacted(at) {
		leaves(v, secret)
		return wire.StringOf(masked)
	}
	switch v.Type() {
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, it := range v.Items() {
			items[i] = s.redact(it, s.item(at, i, true), secret)
		}
		return wire.ArrayOf(items...)
	case wire.Object:
		ms := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			ms[i] = wire.Member{Name: m.Name, Value: s.redact(m.Value, s.member(at, m.Name, true), secret)}
		}
		return wire.ObjectOf(ms...)
	}
	return v
}

func redacted(at []*node) bool {
	for _, n := range at {
		if r, ok := n.get("x-redact"); ok && r.Text() == "true" {
			return true
		}
	}
	return false
}

func leaves(v wire.Value, secret func(string)) {
	switch v.Type() {
	case wire.String, wire.Number:
		secret(v.Text())
	case wire.Array:
		for _, it := range v.Items() {
			leaves(it, secret)
		}
	case wire.Object:
		for _, m := range v.Members() {
			leaves(m.Value, secret)
		}
	}
}

func (n *node) unique() bool {
	u, _ := n.get("uniqueItems")
	return u.Text() == "true"
}

// collide says where a number of v has the float64, which is how the engine
// compares, of a different one that it may be compared with: one of a const or
// enum there, or of the array that must be unique; nil, "" if none has.
func (s *Schema) collide(v wire.Value) (path []string, lit string) {
	if !s.compares {
		return nil, ""
	}
	// Each group is the numbers of one comparison by their float64.
	type group struct {
		by    map[float64]*big.Rat
		grows bool // compares the numbers of v with each other
	}
	var walk func(v wire.Value, path []string, at []*node, groups []group) bool
	walk = func(v wire.Value, way []string, at []*node, groups []group) bool {
		for _, n := range at {
			if n.literals != nil {
				g := group{by: map[float64]*big.Rat{}}
				for _, r := range n.literals {
					f, _ := r.Float64()
					g.by[f] = r // literals of one position differ there: Lower saw to it
				}
				groups = append(groups[:len(groups):len(groups)], g)
			}
			if v.Type() == wire.Array && n.unique() {
				groups = append(groups[:len(groups):len(groups)], group{map[float64]*big.Rat{}, true})
			}
		}
		if len(at) == 0 && len(groups) == 0 {
			return false
		}
		switch v.Type() {
		case wire.Number:
			r, ok := rat(v)
			f, err := strconv.ParseFloat(v.Text(), 64)
			for _, g := range groups {
				other, known := g.by[f]
				if !ok || err != nil || known && other.Cmp(r) != 0 {
					path, lit = way, v.Text()
					return true
				}
				if g.grows {
					g.by[f] = r
				}
			}
		case wire.Array:
			for i, it := range v.Items() {
				if walk(it, append(way[:len(way):len(way)], strconv.Itoa(i)), s.item(at, i, true), groups) {
					return true
				}
			}
		case wire.Object:
			for _, m := range v.Members() {
				if walk(m.Value, append(way[:len(way):len(way)], m.Name), s.member(at, m.Name, true), groups) {
					return true
				}
			}
		}
		return false
	}
	walk(v, nil, s.start(true), nil)
	return path, lit
}

var errDeadline = fmt.Errorf("more than %s", deadline)

// run asks the engine, for at most the deadline. What panics, costs too much or
// runs on is not allowed; what runs on ends at its next error, or with the
// process.
func (s *Schema) run(v wire.Value) (raws []raw, err error) {
	type answer struct {
		raws []raw
		err  error
	}
	done := make(chan answer, 1)
	m := &meter{}
	m.left.Store(maxRaws)
	go func() {
		metering.Lock()
		defer metering.Unlock()
		metering.now.Store(m)
		defer metering.now.Store(nil)
		defer func() {
			if p := recover(); p == errSpent {
				done <- answer{err: errSpent}
			} else if p != nil {
				done <- answer{err: fmt.Errorf("unexpected fault: %v", p)}
			}
		}()
		done <- answer{raws: s.engine.check(plain(v))}
	}()
	t := time.NewTimer(deadline)
	defer t.Stop()
	select {
	case a := <-done:
		return a.raws, a.err
	case <-t.C:
		m.left.Store(0)
		return nil, errDeadline
	}
}
