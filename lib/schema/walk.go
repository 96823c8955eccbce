package schema

import (
	"encoding/binary"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"forge/lib/wire"
)

// maxSteps bounds one walk through a value and the positions that look at it,
// well below a second of work: one for each value met, the positions visited
// where a set of them is met first, and what patterns cost. It counts work, not
// time, so that one value costs the same each time: a value that Normalize,
// Binds or Redact could not walk to its end is one that Check refuses.
const maxSteps = 10_000_000

// A walk steps through a value together with the set of positions that look at
// each part of it. Sets, and the ways between them, are worked out once. What
// exceeds maxSteps, or the deadline of its Check, panics with errSteps or
// errDeadline.
type walk struct {
	over bool // every position that may look, not only those that surely do
	left int
	m    *meter // of the Check that it is part of, or nil
	sets map[string]*set
	keys map[*node]map[string]bool // the canonical values of large enums that were asked for

	sure  *walk // the same for the positions that surely look, once asked for
	tries int   // how many oneOfs were tried form by form
}

// A set of positions that look at one place, and what they say together.
type set struct {
	nodes   []*node
	hidden  bool // x-redact
	ro, rw  bool // x-bind
	unique  bool
	integer bool              // a position takes integers and no other numbers
	numbers map[float64]*lits // of const and enum

	guarded   int // whether a name that nothing describes is one to keep back: 1, -1; 0 until asked for
	patterned bool
	described map[string]bool // the names under properties; nil until asked for
	names     map[string]*set // where names lead, as far as known
	other     *set            // where a name leads that nothing describes
	tuple     int             // the items that have positions of their own; -1 until asked for
	items     []*set          // where they lead, and at the end where the rest does
}

// lits are the numbers that one float64 stands for: one, as Lower sees to it.
type lits struct {
	text string
	many bool
}

// same says whether a number is the one that is known, if one is.
func (l *lits) same(w *walk, text string) bool {
	if l.many {
		return false
	}
	if l.text == text {
		return true
	}
	w.charge(50)
	a, okA := new(big.Rat).SetString(l.text)
	b, okB := new(big.Rat).SetString(text)
	return okA && okB && a.Cmp(b) == 0
}

func (s *Schema) walk(over bool, m *meter) *walk {
	return &walk{over: over, left: maxSteps, m: m, sets: map[string]*set{}}
}

func (w *walk) charge(n int) {
	if w.left -= n; w.left < 0 {
		panic(errSteps)
	}
	w.m.poll()
}

// within runs a walk, and says whether it came to its end.
func within(f func()) (done bool) {
	defer func() {
		if p := recover(); p == errSteps {
			done = false
		} else if p != nil {
			panic(p)
		}
	}()
	f()
	return true
}

// start is the set of positions that look at the root of a value.
func (w *walk) start(d *document) *set { return w.set([]*node{d.root()}) }

func key(nodes []*node) string {
	ids := make([]int, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	slices.Sort(ids)
	b := make([]byte, 0, 3*len(ids))
	for _, id := range slices.Compact(ids) {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return string(b)
}

// set is the set of these positions and of all that look at the same value.
func (w *walk) set(from []*node) *set {
	w.charge(len(from))
	before := key(from)
	if t, ok := w.sets[before]; ok {
		return t
	}
	nodes := w.closure(from)
	after := key(nodes)
	t, ok := w.sets[after]
	if !ok {
		t = w.describe(nodes)
		w.sets[after] = t
	}
	w.sets[before] = t
	return t
}

// closure adds to a set the positions that look at the same value.
func (w *walk) closure(from []*node) []*node {
	in := make(map[*node]bool, len(from))
	var out []*node
	var visit func(n *node)
	visit = func(n *node) {
		w.charge(4)
		if in[n] {
			return
		}
		in[n] = true
		out = append(out, n)
		if n.ref != nil {
			visit(n.ref)
		}
		words := inPlace
		if !w.over {
			words = words[:1] // allOf
		}
		for _, word := range words {
			for _, e := range n.kids[word] {
				visit(e.to)
			}
		}
	}
	for _, n := range from {
		visit(n)
	}
	return out
}

func (w *walk) describe(nodes []*node) *set {
	w.charge(8 * len(nodes))
	t := &set{nodes: nodes, tuple: -1, names: map[string]*set{}}
	for _, n := range nodes {
		r, _ := n.get("x-redact")
		t.hidden = t.hidden || r.Text() == "true"
		b, _ := n.get("x-bind")
		t.ro, t.rw = t.ro || b.Text() == "ro", t.rw || b.Text() == "rw"
		u, _ := n.get("uniqueItems")
		t.unique = t.unique || u.Text() == "true"
		t.integer = t.integer || mayBe(n, "integer") && !mayBe(n, "number")
		t.patterned = t.patterned || len(n.kids["patternProperties"]) > 0
	}
	own := false // the numbers of one node are shared
	for _, n := range nodes {
		if n.literals == nil {
			continue
		}
		if t.numbers == nil {
			t.numbers = n.literals
			continue
		}
		if !own {
			w.charge(4 * len(t.numbers))
			t.numbers, own = maps.Clone(t.numbers), true
		}
		w.charge(4 * len(n.literals))
		for f, l := range n.literals {
			if known, ok := t.numbers[f]; !ok {
				t.numbers[f] = l
			} else if l.many || !known.same(w, l.text) {
				t.numbers[f] = &lits{text: l.text, many: true}
			}
		}
	}
	return t
}

// member is the set that looks at a member of an object that t looks at.
func (w *walk) member(t *set, name string) *set {
	w.charge(1)
	if next, ok := t.names[name]; ok {
		return next
	}
	if t.described == nil {
		t.described = map[string]bool{}
		for _, n := range t.nodes {
			w.charge(1 + 4*len(n.props))
			for p := range n.props {
				t.described[p] = true
			}
		}
	}
	plain := !t.patterned && !t.described[name]
	if plain && t.other != nil {
		return t.other
	}
	next := w.set(w.members(t, name))
	if plain {
		t.other = next
	} else {
		t.names[name] = next
	}
	return next
}

func (w *walk) members(t *set, name string) []*node {
	w.charge(4 * len(t.nodes))
	var out []*node
	for _, n := range t.nodes {
		described := false
		if c, ok := n.props[name]; ok {
			out = append(out, c)
			described = true
		}
		for i, e := range n.kids["patternProperties"] {
			w.charge(4 + (1+len(name))*n.sizes[i]/4)
			if n.patterns[i].MatchString(name) {
				out = append(out, e.to)
				described = true
			}
		}
		if !described {
			for _, e := range n.kids["additionalProperties"] {
				out = append(out, e.to)
			}
		}
		if w.over {
			for _, e := range n.kids["unevaluatedProperties"] {
				out = append(out, e.to)
			}
		}
	}
	return out
}

// stranger says whether nothing describes a name of an object, and its value
// must not be shown: what a closed object does not know may be anything, and
// what stands beside a secret may be that secret, misspelled.
func (w *walk) stranger(t *set, name string) bool {
	if w.describes(t.nodes, name) {
		return false
	}
	if t.guarded == 0 {
		t.guarded = -1
		for _, n := range t.nodes {
			closed := w.closes(n, "additionalProperties") || w.closes(n, "unevaluatedProperties")
			for _, c := range n.props {
				closed = closed || w.set([]*node{c}).hidden
			}
			if closed {
				t.guarded = 1
				break
			}
		}
	}
	return t.guarded > 0
}

// describes says whether one of the positions has a name under properties or a
// pattern for it.
func (w *walk) describes(nodes []*node, name string) bool {
	for _, n := range nodes {
		w.charge(4)
		if n.props[name] != nil {
			return true
		}
		for i := range n.kids["patternProperties"] {
			w.charge(4 + (1+len(name))*n.sizes[i]/4)
			if n.patterns[i].MatchString(name) {
				return true
			}
		}
	}
	return false
}

// closes says whether a keyword of a position lets nothing through.
func (w *walk) closes(n *node, word string) bool {
	for _, e := range n.kids[word] {
		exact := &walk{left: w.left, m: w.m}
		for _, c := range exact.closure([]*node{e.to}) {
			if isFalse(c) {
				return true
			}
		}
	}
	return false
}

// item is the set that looks at item i of an array that t looks at.
func (w *walk) item(t *set, i int) *set {
	w.charge(1)
	if t.tuple < 0 {
		t.tuple = 0
		for _, n := range t.nodes {
			tuple, _ := n.tuple()
			t.tuple = max(t.tuple, len(tuple))
		}
		w.charge(4*len(t.nodes) + t.tuple)
		t.items = make([]*set, t.tuple+1)
	}
	i = min(i, t.tuple)
	if t.items[i] == nil {
		t.items[i] = w.set(w.itemsAt(t, i))
	}
	return t.items[i]
}

func (w *walk) itemsAt(t *set, i int) []*node {
	w.charge(4 * len(t.nodes))
	var out []*node
	for _, n := range t.nodes {
		if tuple, rest := n.tuple(); i < len(tuple) {
			out = append(out, tuple[i].to)
		} else {
			for _, e := range rest {
				out = append(out, e.to)
			}
		}
		if w.over {
			for _, word := range []string{"contains", "unevaluatedItems"} {
				for _, e := range n.kids[word] {
					out = append(out, e.to)
				}
			}
		}
	}
	return out
}

// tuple returns the schemas of the first items, each its own, and that of the
// rest.
func (n *node) tuple() (tuple, rest []edge) {
	if v, ok := n.get("items"); ok && v.Type() == wire.Array {
		return n.kids["items"], n.kids["additionalItems"]
	}
	return n.kids["prefixItems"], n.kids["items"]
}

// step goes one step down a value and its positions.
func (w *walk) step(v wire.Value, t *set, step string) (wire.Value, *set) {
	if v.Type() == wire.Array {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(v.Items()) {
			return wire.Value{}, w.set(nil)
		}
		return v.Items()[i], w.item(t, i)
	}
	next, _ := v.Get(step)
	return next, w.member(t, step)
}

// down goes all steps of a path.
func (w *walk) down(d *document, v wire.Value, path []string) (wire.Value, *set) {
	t := w.start(d)
	for _, step := range path {
		v, t = w.step(v, t, step)
	}
	return v, t
}
