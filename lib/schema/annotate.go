package schema

import (
	"slices"
	"strings"

	"forge/lib/wire"
)

// exactWords are the keywords whose schemas hold for every value there is.
var exactWords = []string{
	"properties", "patternProperties", "additionalProperties", "items", "prefixItems", "additionalItems", "allOf",
}

// annotations checks that x-bind and x-redact stand where they can be held.
func (d *document) annotations() error {
	for _, n := range d.nodes {
		if n.v.Type() != wire.Object {
			continue
		}
		if v, ok := n.get("x-redact"); ok {
			if v.Type() != wire.Bool {
				return d.refuse(n.at, "x-redact", "write true", "%s, want true or false", short(v))
			}
			if d.within(n, "contentSchema") != "" {
				return d.refuse(n.at, "x-redact", "write it beside contentSchema", "under contentSchema it names no value of the input")
			}
			if word := d.within(n, "not", "if", "contains", "propertyNames"); word != "" {
				return d.refuse(n.at, "x-redact", "write it at the property itself",
					"under %s it names no value to keep back", word)
			}
		}
		if err := d.bindable(n); err != nil {
			return err
		}
	}
	if err := d.told(); err != nil {
		return err
	}
	return d.reach()
}

// told refuses a default or examples for a value that is kept back: schemas are
// shown to whoever may call.
func (d *document) told() error {
	const redacts, tells = 1, 2
	of := make([]int, len(d.nodes)) // what a position says of one value, and 4 once that is known
	var visit func(n *node) int
	visit = func(n *node) int {
		if of[n.id] != 0 { // no position asks for itself: see cycles
			return of[n.id]
		}
		bits := 4
		if v, _ := n.get("x-redact"); v.Text() == "true" {
			bits |= redacts
		}
		if v, ok := n.get("default"); ok && v.Type() != wire.Null {
			bits |= tells
		}
		if v, _ := n.get("examples"); len(v.Items()) > 0 {
			bits |= tells
		}
		if n.ref != nil {
			bits |= visit(n.ref)
		}
		for _, word := range inPlace {
			for _, e := range n.kids[word] {
				bits |= visit(e.to)
			}
		}
		of[n.id] = bits
		return bits
	}
	for _, n := range d.nodes {
		if visit(n)&(redacts|tells) != redacts|tells {
			continue
		}
		word := "x-redact"
		for _, w := range []string{"examples", "default"} {
			if n.has(w) {
				word = w
			}
		}
		return d.refuse(n.at, word, "leave default and examples out of what is kept back", "a default or an example of a value that is kept back is shown to every caller")
	}
	return nil
}

// within returns the first of the words under which a position stands.
func (d *document) within(n *node, words ...string) string {
	for ; n != nil; n = n.parent {
		if slices.Contains(words, n.via) {
			return n.via
		}
	}
	return ""
}

// bindable checks an x-bind by itself.
func (d *document) bindable(n *node) error {
	v, ok := n.get("x-bind")
	if !ok {
		return nil
	}
	if v.Type() != wire.String || v.Text() != "ro" && v.Text() != "rw" {
		return d.refuse(n.at, "x-bind", `write "ro" or "rw"`, "%s, want \"ro\" or \"rw\"", short(v))
	}
	if n.types&typeString == 0 || n.types&^(typeString|typeNull) != 0 {
		hint := `write "type":"string" beside it`
		if n.types&^typeNull == typeArray {
			hint = `write it into "items"`
			if !n.has("items") {
				hint = `write it into "items", as {"type":"string","x-bind":` + v.String() + `}`
			}
		}
		return d.refuse(n.at, "x-bind", hint, "only a string names a path")
	}
	if d.within(n, "contentSchema") != "" {
		return d.refuse(n.at, "x-bind", "write x-bind at a string of the input itself", "under contentSchema it names no value of the input")
	}
	if v, ok := n.get("default"); ok && v.Type() != wire.Null {
		return d.refuse(n.at, "default", "leave it out; a default is not applied, so it binds nothing", "a default beside x-bind")
	}
	return nil
}

// The types a value may have, one bit each.
const (
	typeNull = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
	typeAny = 1<<iota - 1
)

var typeBits = map[string]int{
	"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber | typeInteger,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// typing notes at each position the types that it lets through, at most.
func (d *document) typing() {
	done := make([]bool, len(d.nodes))
	var visit func(n *node) int
	visit = func(n *node) int {
		if !done[n.id] { // no position asks for itself: see cycles
			n.types = typesOf(n, visit)
			done[n.id] = true
		}
		return n.types
	}
	for _, n := range d.nodes {
		visit(n)
	}
}

// typesOf is what a position lets through, and of finds it for another.
func typesOf(n *node, of func(*node) int) int {
	if n.v.Type() == wire.Bool {
		if n.v.Text() == "true" {
			return typeAny
		}
		return 0
	}
	bits := typeAny
	if v, ok := n.get("type"); ok {
		bits = typeBits[v.Text()]
		for _, it := range v.Items() {
			bits |= typeBits[it.Text()]
		}
	}
	if v, ok := n.get("const"); ok {
		bits &= typeBits[v.Type().String()]
	}
	if v, ok := n.get("enum"); ok {
		sum := 0
		for _, it := range v.Items() {
			sum |= typeBits[it.Type().String()]
		}
		bits &= sum
	}
	if n.ref != nil {
		bits &= of(n.ref)
	}
	for _, e := range n.kids["allOf"] {
		bits &= of(e.to)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if es := n.kids[word]; len(es) > 0 {
			sum := 0
			for _, e := range es {
				sum |= of(e.to)
			}
			bits &= sum
		}
	}
	return bits
}

// reach follows every way into the schema. An x-bind grants access, so each
// way to it must hold for every value; and a key cannot be kept back.
func (d *document) reach() error {
	type state struct {
		n    *node
		word string // the first keyword on the way that may not hold
	}
	seen := map[state]bool{}
	var visit func(st state) error
	visit = func(st state) error {
		if seen[st] {
			return nil
		}
		seen[st] = true
		if v, ok := st.n.get("x-redact"); ok && st.word == "propertyNames" && v.Text() == "true" {
			return d.refuse(st.n.at, "x-redact", "keep secrets out of names", "a name cannot be kept back")
		}
		if st.n.has("x-bind") && st.word != "" {
			hint := "write x-bind at the property itself, outside " + st.word
			if st.word == "anyOf" || st.word == "oneOf" {
				hint = `write x-bind at the property itself, beside "` + st.word + `"`
			}
			return d.refuse(st.n.at, "x-bind", hint, "reached through %s it does not hold for every value", st.word)
		}
		if st.n.ref != nil {
			if err := visit(state{st.n.ref, st.word}); err != nil {
				return err
			}
		}
		var err error
		st.n.all(func(e edge) {
			if err != nil || keywords[e.word].annotation {
				return
			}
			word := st.word
			if word == "" && !slices.Contains(exactWords, e.word) {
				word = e.word
			}
			err = visit(state{e.to, word})
		})
		return err
	}
	if err := visit(state{d.root(), ""}); err != nil {
		return err
	}
	return d.modes()
}

// maxPlaces bounds the places of a value that modes tells apart.
const maxPlaces = 10_000

// modes walks the places of a value, as far as they have names or patterns, and
// refuses two modes at a name, or a mode at a place that may be kept back. Two
// modes at what only patterns name are left to Check.
func (d *document) modes() error {
	var bound *node
	for _, n := range d.nodes {
		if bound == nil && n.has("x-bind") {
			bound = n
		}
	}
	if bound == nil {
		return nil
	}
	for _, n := range d.nodes {
		if err := n.compile(d); err != nil {
			return err
		}
	}
	var err error
	done := within(func() { err = d.placed() })
	if !done {
		return d.refuse(bound.at, "x-bind", "split the tool, or say less beside x-bind",
			"the schema has too many places to see that each has one mode")
	}
	return err
}

func (d *document) placed() error {
	exact, over := &walk{left: maxSteps / 2, sets: map[string]*set{}}, &walk{over: true, left: maxSteps / 2, sets: map[string]*set{}}
	binds, hides := d.leading("x-bind"), d.leading("x-redact")
	type state struct {
		sure, may *set
		hidden    bool
	}
	seen := map[state]bool{}
	var visit func(sure, may *set, hidden bool) error
	visit = func(sure, may *set, hidden bool) error {
		st := state{sure, may, hidden}
		if seen[st] || !slices.ContainsFunc(sure.nodes, func(n *node) bool { return binds[n.id] }) {
			return nil
		}
		if seen[st] = true; len(seen) > maxPlaces {
			panic(errSteps)
		}
		hidden = hidden || may.hidden
		var first *node
		for _, n := range sure.nodes {
			mode, ok := n.get("x-bind")
			if !ok {
				continue
			}
			if hidden {
				hint := "leave x-redact out: the path stands in the manifest of the run"
				if d.within(n, "patternProperties", "additionalProperties") != "" {
					hint += "; or let the patterns begin with other letters, as ^in_ and ^key_"
				}
				return d.refuse(n.at, "x-bind", hint, "a path that is bound cannot be kept back")
			}
			if first != nil {
				if other, _ := first.get("x-bind"); other.Text() != mode.Text() {
					return d.refuse(n.at, "x-bind", "write one mode", "two modes at one place, the other at %s", where(first.at))
				}
			}
			first = n
		}
		var names []string
		items := 0
		for _, n := range may.nodes {
			over.charge(len(n.props))
			for name := range n.props {
				names = append(names, name)
			}
			items = max(items, len(n.kids["prefixItems"]), len(n.kids["items"]))
		}
		slices.Sort(names)
		for _, name := range append(slices.Compact(names), "\x00") {
			if err := visit(exact.member(sure, name), over.member(may, name), hidden); err != nil {
				return err
			}
		}
		for _, n := range sure.nodes {
			for _, word := range []string{"patternProperties", "additionalProperties"} {
				for _, e := range n.kids[word] {
					if !binds[e.to.id] {
						continue
					}
					if err := visit(exact.set([]*node{e.to}), over.set(over.overlapping(may, n, e, hides)), hidden); err != nil {
						return err
					}
				}
			}
		}
		for i := range items + 1 {
			if err := visit(exact.item(sure, i), over.item(may, i), hidden); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(exact.start(d), over.start(d), false)
}

// leading says of each position whether a keyword stands there or further on.
func (d *document) leading(word string) []bool {
	from := make([][]*node, len(d.nodes)) // the ways, backwards
	leads := make([]bool, len(d.nodes))
	var queue []*node
	for _, n := range d.nodes {
		if n.ref != nil {
			from[n.ref.id] = append(from[n.ref.id], n)
		}
		if n.parent != nil {
			from[n.id] = append(from[n.id], n.parent)
		}
		if n.has(word) {
			leads[n.id] = true
			queue = append(queue, n)
		}
	}
	for i := 0; i < len(queue); i++ {
		for _, n := range from[queue[i].id] {
			if !leads[n.id] {
				leads[n.id] = true
				queue = append(queue, n)
			}
		}
	}
	return leads
}

// overlapping returns where a name may lead that leads through e, an edge of n
// under a pattern or under additionalProperties; of the other ways, those on
// which something is kept back.
func (w *walk) overlapping(t *set, n *node, e edge, hides []bool) []*node {
	out := []*node{e.to}
	for _, m := range t.nodes {
		w.charge(1 + len(m.kids["patternProperties"]) + len(n.kids["patternProperties"]))
		for _, f := range m.kids["patternProperties"] {
			if !hides[f.to.id] {
				continue
			}
			if e.word == "patternProperties" && !disjoint(e.name, f.name) || e.word != f.word && m != n && !n.takes(f.name) {
				out = append(out, f.to)
			}
		}
		if e.word == "patternProperties" && (m == n || m.takes(e.name)) {
			continue
		}
		for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
			for _, f := range m.kids[word] {
				if hides[f.to.id] {
					out = append(out, f.to)
				}
			}
		}
	}
	return out
}

// takes says whether n has a schema for the names that fit a pattern.
func (n *node) takes(pattern string) bool {
	return slices.ContainsFunc(n.kids["patternProperties"], func(e edge) bool { return e.name == pattern })
}

// disjoint says of two patterns that no name fits both, where that can be seen:
// each says how a name begins, or how it ends.
func disjoint(a, b string) bool {
	headA, tailA := ends(a)
	headB, tailB := ends(b)
	return !strings.HasPrefix(headA, headB) && !strings.HasPrefix(headB, headA) ||
		!strings.HasSuffix(tailA, tailB) && !strings.HasSuffix(tailB, tailA)
}

// ends returns the letters, digits and the like that each string begins and ends
// with that fits a pattern, "" if it does not say so.
func ends(ecma string) (head, tail string) {
	if strings.ContainsAny(ecma, `|\`) {
		return "", ""
	}
	word := func(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == ' ' || c == ':' || c == '/' }
	if s, ok := strings.CutPrefix(ecma, "^"); ok {
		i := 0
		for i < len(s) && word(s[i]) {
			i++
		}
		if i > 0 && i < len(s) && strings.IndexByte("*?{", s[i]) >= 0 {
			i-- // the last one may not be there
		}
		head = s[:i]
	}
	if s, ok := strings.CutSuffix(ecma, "$"); ok {
		i := len(s)
		for i > 0 && word(s[i-1]) {
			i--
		}
		if i == 0 || strings.IndexByte("^.*+?)", s[i-1]) >= 0 {
			tail = s[i:]
		}
	}
	return head, tail
}

// reachable is every position that surely looks at some place of a value.
func (d *document) reachable() map[*node]bool {
	in := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if in[n] {
			return
		}
		in[n] = true
		if n.ref != nil {
			visit(n.ref)
		}
		for _, word := range exactWords {
			for _, e := range n.kids[word] {
				visit(e.to)
			}
		}
	}
	visit(d.root())
	return in
}

// pointer joins the steps of a JSON Pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString("/" + wire.Escape(p))
	}
	return b.String()
}
