package schema

import (
	"regexp"
	"slices"
	"strings"

	"forge/lib/wire"
)

// A cover is what a position looks at of a value, and so what unevaluated* does
// not: of an object or of an array, as the keyword asks.
type cover struct {
	all      bool
	names    []string
	patterns []string // lowered
	items    int      // the first so many
	contains []*node  // 2020-12: the items that fit one of these
}

func (c cover) empty() bool {
	return !c.all && len(c.names) == 0 && len(c.patterns) == 0 && c.items == 0 && len(c.contains) == 0
}

// covers is what a position, with all that looks at the same value, looks at:
// always, and when the value fits a guard.
type covers struct {
	always cover
	when   []guarded
}

type guarded struct {
	guard wire.Value // lowered
	cover
}

// maxLooks bounds what unevaluated* lowers to, all in all.
const maxLooks = 50000

// unevaluated lowers unevaluatedProperties and unevaluatedItems. What is looked
// at whatever the value is, is excepted by name, pattern or place. What only a
// branch looks at is excepted where the value fits that branch:
//
//	{"anyOf":[{"properties":{"a":true}},B],"unevaluatedProperties":U}
//
//	{"properties":{"a":true},"additionalProperties":U,
//	 "if":{"anyOf":[A]},"else":{"properties":{"a":U}}}
func (l *lowerer) unevaluated(n *node, t *target) error {
	for _, word := range []string{"unevaluatedProperties", "unevaluatedItems"} {
		for _, e := range n.under(word) {
			if isTrue(e.to) {
				continue
			}
			var c covers
			if err := l.look(n, n, word, nil, &c); err != nil {
				return err
			}
			if l.looks > maxLooks {
				return l.doc.tooManyLooks(n, word)
			}
			if c.always.all {
				continue
			}
			u, err := l.sub(e.to)
			if err != nil {
				return err
			}
			if u.Type() != wire.Bool {
				u = l.fits(e.to) // it may stand more than once
			}
			rest := &target{}
			if word == "unevaluatedProperties" {
				err = l.restOfObject(n, &c, u, rest)
			} else {
				err = l.restOfArray(n, &c, u, rest)
			}
			if err != nil {
				return err
			}
			if l.looks > maxLooks {
				return l.doc.tooManyLooks(n, word)
			}
			if len(c.when) > 0 {
				if l.guarded = n; n.refersBack(len(l.doc.nodes)) {
					return l.doc.refuse(n.at, word, `write "additionalProperties" or "items" into each branch`,
						"beside branches, and within itself, it asks without end")
				}
			}
			var all []wire.Value
			for _, w := range c.when {
				if w.all {
					all = append(all, w.guard)
				}
			}
			t.beside = append(t.beside, unless(all, rest.schema()))
		}
	}
	return nil
}

func (d *document) tooManyLooks(n *node, word string) error {
	return d.refuse(n.at, word, `write "additionalProperties" or "items"`, "the schema says it of more than %d names, items and branches", maxLooks)
}

// unless is a schema that asks for v where no guard fits. What is wrong is told
// of v alone.
func unless(guards []wire.Value, v wire.Value) wire.Value {
	if len(guards) == 0 {
		return v
	}
	return wire.ObjectOf(
		wire.Member{Name: "if", Value: object("anyOf", wire.ArrayOf(guards...))},
		wire.Member{Name: "else", Value: v})
}

// maxPatterns bounds the patterns, or contains, that only branches have: each
// set of them is asked for.
const maxPatterns = 5

// restOfObject asks u of the members that nothing has looked at.
func (l *lowerer) restOfObject(n *node, c *covers, u wire.Value, t *target) error {
	names := c.guards(func(c cover) []string { return c.names })
	patterns := c.guards(func(c cover) []string { return c.patterns })
	var always, some []string // patterns
	for _, p := range sortedKeys(patterns) {
		re := regexp.MustCompile(p)
		for name, gs := range names {
			switch {
			case len(gs) == 0 || !re.MatchString(name):
			case len(patterns[p]) == 0:
				names[name] = nil
			default:
				names[name] = append(gs, patterns[p]...)
			}
		}
		if len(patterns[p]) == 0 {
			always = append(always, p)
		} else {
			some = append(some, p)
		}
	}
	if len(some) > maxPatterns {
		return l.doc.refuse(n.at, "unevaluatedProperties", `write "additionalProperties" into each branch`,
			"%d patterns stand in branches alone, at most %d", len(some), maxPatterns)
	}
	// For each set of those: unless a pattern out of it counts, all but what is
	// known by name or by a pattern of the set.
	for set := range 1 << len(some) {
		counts, out := always, []wire.Value(nil)
		for i, p := range some {
			if set&(1<<i) != 0 {
				counts = append(slices.Clip(counts), p)
			} else {
				out = append(out, patterns[p]...)
			}
		}
		l.looks += lengths(sortedKeys(names)) + lengths(counts) + len(out)
		rest := &target{}
		if len(names) > 0 {
			rest.put("properties", allOf(sortedKeys(names), wire.BoolOf(true)))
		}
		if len(counts) > 0 {
			rest.put("patternProperties", allOf(counts, wire.BoolOf(true)))
		}
		rest.put("additionalProperties", u)
		t.beside = append(t.beside, unless(out, rest.schema()))
	}
	// Names of the same guards are asked for together.
	groups := map[string][]string{}
	for _, name := range sortedKeys(names) {
		if gs := names[name]; len(gs) > 0 {
			key := wire.ArrayOf(gs...).String()
			groups[key] = append(groups[key], name)
		}
	}
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		l.looks += lengths(group) + len(names[group[0]])
		t.beside = append(t.beside, unless(names[group[0]], object("properties", allOf(group, u))))
	}
	return nil
}

// guards are those under which something is looked at, by its name: none for
// what always is.
func (c *covers) guards(pick func(cover) []string) map[string][]wire.Value {
	out := map[string][]wire.Value{}
	for _, name := range pick(c.always) {
		out[name] = nil
	}
	for _, w := range c.when {
		for _, name := range pick(w.cover) {
			if gs, known := out[name]; !known || gs != nil {
				out[name] = append(gs, w.guard)
			}
		}
	}
	return out
}

// allOf is an object with v under each name.
func allOf(names []string, v wire.Value) wire.Value {
	ms := make([]wire.Member, len(names))
	for i, name := range names {
		ms[i] = wire.Member{Name: name, Value: v}
	}
	return wire.ObjectOf(ms...)
}

// restOfArray asks u of the items that nothing has looked at.
func (l *lowerer) restOfArray(n *node, c *covers, u wire.Value, t *target) error {
	contains := []wire.Value{u}
	for _, to := range c.always.contains {
		contains = append(contains, l.fits(to))
	}
	var some []guarded // whose contains counts when they do
	end := c.always.items
	for _, w := range c.when {
		end = max(end, w.items)
		if len(w.contains) > 0 {
			some = append(some, w)
		}
	}
	if len(some) > maxPatterns {
		return l.doc.refuse(n.at, "unevaluatedItems", `write "items" into each branch`,
			"contains stands in %d branches, at most %d", len(some), maxPatterns)
	}
	for set := range 1 << len(some) {
		fits, out := contains, []wire.Value(nil)
		for i, w := range some {
			if set&(1<<i) == 0 {
				out = append(out, w.guard)
				continue
			}
			for _, to := range w.contains {
				fits = append(slices.Clip(fits), l.fits(to))
			}
		}
		want := fits[0]
		if len(fits) > 1 {
			want = object("anyOf", wire.ArrayOf(fits...))
		}
		l.looks += end + len(fits) + len(out)
		t.beside = append(t.beside, unless(out, items(end, want, true)))
		for i := c.always.items; i < end && l.looks <= maxLooks; i++ {
			gs := slices.Clip(out)
			for _, w := range c.when {
				if w.items > i {
					gs = append(gs, w.guard)
				}
			}
			l.looks += i + len(gs)
			t.beside = append(t.beside, unless(gs, items(i, want, false)))
		}
	}
	return nil
}

// items asks v of item n, or, with rest, of it and all after it.
func items(n int, v wire.Value, rest bool) wire.Value {
	ahead := slices.Repeat([]wire.Value{wire.BoolOf(true)}, n)
	switch {
	case !rest:
		return object("items", wire.ArrayOf(append(ahead, v)...))
	case n == 0:
		return object("items", v)
	}
	return wire.ObjectOf(
		wire.Member{Name: "items", Value: wire.ArrayOf(ahead...)},
		wire.Member{Name: "additionalItems", Value: v})
}

// fits is a schema for what fits a position.
func (l *lowerer) fits(n *node) wire.Value {
	if !l.whole {
		return wire.BoolOf(true)
	}
	return l.refTo(n)
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// look adds to c what n looks at, where the value fits all guards; from is the
// position that asks.
func (l *lowerer) look(from, n *node, word string, guards []wire.Value, c *covers) error {
	if n.v.Type() == wire.Bool || l.looks > maxLooks {
		return nil // the caller refuses
	}
	own, err := l.own(from, n, word)
	if err != nil {
		return err
	}
	l.looks += (1 + len(guards)) * (1 + lengths(own.names) + lengths(own.patterns))
	switch {
	case l.looks > maxLooks:
		return nil
	case own.empty():
	case len(guards) == 0:
		c.always.add(own)
	default:
		g := guards[0]
		if len(guards) > 1 {
			g = object("allOf", wire.ArrayOf(guards...))
		}
		c.when = append(c.when, guarded{g, own})
	}
	visit := func(to *node, more ...wire.Value) error {
		return l.look(from, to, word, append(slices.Clip(guards), more...), c)
	}
	if n.ref != nil {
		if err := visit(n.ref); err != nil {
			return err
		}
	}
	for _, e := range n.under("allOf") {
		if err := visit(e.to); err != nil {
			return err
		}
	}
	for _, w := range []string{"anyOf", "oneOf"} {
		for _, e := range n.under(w) {
			if err := visit(e.to, l.fits(e.to)); err != nil {
				return err
			}
		}
	}
	for _, e := range n.under("if") {
		if err := visit(e.to, l.fits(e.to)); err != nil {
			return err
		}
		for _, then := range n.under("then") {
			if err := visit(then.to, l.fits(e.to)); err != nil {
				return err
			}
		}
		for _, other := range n.under("else") {
			if err := visit(other.to, object("not", l.fits(e.to))); err != nil {
				return err
			}
		}
	}
	if word == "unevaluatedItems" {
		return nil // of an array, dependentSchemas says nothing
	}
	for _, e := range n.under("dependentSchemas") {
		if err := visit(e.to, object("required", wire.ArrayOf(wire.StringOf(e.name)))); err != nil {
			return err
		}
	}
	return nil
}

// lengths counts names, the long ones more than once.
func lengths(names []string) (n int) {
	for _, name := range names {
		n += 1 + len(name)/64
	}
	return n
}

// own is what n itself looks at.
func (l *lowerer) own(from, n *node, word string) (c cover, err error) {
	c.all = n != from && n.has(word)
	if word == "unevaluatedItems" {
		tuple, rest := n.tuple()
		c.all = c.all || len(rest) > 0
		c.items = len(tuple)
		for _, e := range n.under("contains") {
			if l.doc.dialect >= draft2020 {
				c.contains = append(c.contains, e.to)
			}
		}
		return c, nil
	}
	c.all = c.all || n.has("additionalProperties")
	for _, e := range n.under("properties") {
		c.names = append(c.names, e.name)
	}
	for _, e := range n.under("patternProperties") {
		p, err := l.doc.propertyPattern(n, e.name)
		if err != nil {
			return c, err
		}
		c.patterns = append(c.patterns, p.re2)
	}
	return c, nil
}

func (c *cover) add(d cover) {
	c.all = c.all || d.all
	c.names = append(c.names, d.names...)
	c.patterns = append(c.patterns, d.patterns...)
	c.items = max(c.items, d.items)
	c.contains = append(c.contains, d.contains...)
}

// costly says whether the guards of a lowered document make it too dear: they
// ask again what the branches were asked, and each of theirs within.
func costly(lowered wire.Value) bool {
	defs, _ := lowered.Get("definitions")
	one := asking{defs: defs, guards: true}
	all := asking{defs: defs, guards: true, steps: true}
	bare := asking{defs: defs, steps: true}
	for _, d := range defs.Members() {
		ref := object("$ref", wire.StringOf("#/definitions/"+d.Name))
		if one.count(ref) > maxAsked || all.count(ref) > maxAgain*bare.count(ref) {
			return true
		}
	}
	return false
}

const (
	maxAsked = 5000 // schemas that look at one value
	maxAgain = 50   // times that guards make a value dearer, with all that is in it
)

// asking counts the schemas that a lowered document asks: of one value, or, with
// steps, of all that is in it, once for each name; and with guards or without.
type asking struct {
	defs          wire.Value
	guards, steps bool
	known         map[string]int
}

func (a *asking) count(v wire.Value) int {
	n := 1
	if ref, ok := v.Get("$ref"); ok {
		name := strings.TrimPrefix(ref.Text(), "#/definitions/")
		c, known := a.known[name]
		if !known {
			if a.known == nil {
				a.known = map[string]int{}
			}
			a.known[name] = 0 // on the way: what refers back is no dearer
			def, _ := a.defs.Get(name)
			c = a.count(def)
			a.known[name] = c
		}
		n += c
	}
	guard := len(v.Members()) == 2 && v.Members()[1].Name == "else" // as unless makes it
	for _, m := range v.Members() {
		switch m.Name {
		case "if":
			if a.guards || !guard {
				n += a.count(m.Value)
			}
		case "not", "then", "else":
			n += a.count(m.Value)
		case "allOf", "anyOf", "oneOf":
			for _, it := range m.Value.Items() {
				n += a.count(it)
			}
		case "dependencies":
			n += a.each(m.Value)
		case "properties", "patternProperties":
			if a.steps {
				n += a.each(m.Value)
			}
		case "items", "additionalItems", "additionalProperties", "contains", "propertyNames":
			switch {
			case !a.steps:
			case m.Value.Type() == wire.Array:
				for _, it := range m.Value.Items() {
					n += a.count(it)
				}
			default:
				n += a.count(m.Value)
			}
		}
	}
	return min(n, 1<<40)
}

func (a *asking) each(v wire.Value) (n int) {
	for _, m := range v.Members() {
		if m.Value.Type() != wire.Array { // names
			n += a.count(m.Value)
		}
	}
	return n
}

// refersBack says whether what n holds and refers to leads to n again.
func (n *node) refersBack(positions int) bool {
	seen := make([]bool, positions)
	var visit func(m *node) bool
	visit = func(m *node) bool {
		if seen[m.id] {
			return m == n
		}
		seen[m.id] = true
		found := m.ref != nil && visit(m.ref)
		m.all(func(e edge) {
			if keywords[e.word].annotation { // $defs: only what is referred to counts
				return
			}
			found = found || visit(e.to)
		})
		return found
	}
	return visit(n)
}
