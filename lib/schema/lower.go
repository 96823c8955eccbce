package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"forge/lib/wire"
)

// Lowering is the version of the lowered document. The ledger keeps it beside
// the document; another version is lowered anew. TestLowering holds it to what is
// emitted.
const Lowering = 2

const draft07 = "http://json-schema.org/draft-07/schema#"

// Lower checks the author's schema in full and returns the document that
// enforces it:
//
//	{"$schema":"http://json-schema.org/draft-07/schema#",
//	 "allOf":[{"$ref":"#/definitions/d0"}],
//	 "definitions":{"d0":{…},"d1":{…}}}
//
// It holds keywords of draft-07 that assert and nothing else; each $ref has
// that form. Errors are of kind schema_unsupported, with details pointer,
// keyword and dialect. The rules are in forge(7), SCHEMAS.
func Lower(author wire.Value) (lowered wire.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			lowered, err = wire.Value{}, unexpected(p)
		}
	}()
	d, err := index(author)
	if err != nil {
		return wire.Value{}, err
	}
	if err := d.annotations(); err != nil {
		return wire.Value{}, err
	}
	l := &lowerer{doc: d, def: map[*node]int{}}
	// Every position is lowered, so that what nobody refers to is checked too.
	for _, n := range d.nodes {
		if _, err := l.node(n); err != nil {
			return wire.Value{}, err
		}
	}
	lowered, err = d.lower(d.root())
	if err != nil {
		return wire.Value{}, err
	}
	if n := len(lowered.Bytes()); n > 16*maxBytes {
		return wire.Value{}, d.refuse("", "", "split the tool", "%d bytes when lowered, at most %d", n, 16*maxBytes)
	}
	if _, err := newEngine(lowered); err != nil {
		return wire.Value{}, d.refuse("", "", "simplify the schema", "the validator does not take it: %s", err)
	}
	return lowered, nil
}

// perSchema is what lowering one costs, beside bytes.
const perSchema = 160

type lowerer struct {
	doc   *document
	def   map[*node]int
	queue []*node
	whole bool // lower what is below a position too
	looks int  // names, items and guards written for unevaluated* so far

	guarded *node // a position whose unevaluated* depends on branches
}

// lower returns the lowered document that holds n and what it refers to.
func (d *document) lower(n *node) (wire.Value, error) {
	l := &lowerer{doc: d, def: map[*node]int{}, whole: true}
	root := l.refTo(n)
	defs := []wire.Member{}
	for i := 0; i < len(l.queue); i++ {
		v, err := l.node(l.queue[i])
		if err != nil {
			return wire.Value{}, err
		}
		defs = append(defs, wire.Member{Name: "d" + strconv.Itoa(i), Value: v})
	}
	lowered := wire.ObjectOf(
		wire.Member{Name: "$schema", Value: wire.StringOf(draft07)},
		wire.Member{Name: "allOf", Value: wire.ArrayOf(root)},
		wire.Member{Name: "definitions", Value: wire.ObjectOf(defs...)},
	)
	if l.guarded != nil && costly(lowered) {
		return wire.Value{}, d.refuse(l.guarded.at, "", `write "additionalProperties" or "items" into each branch`,
			"unevaluated beside so many branches asks one value too often")
	}
	return lowered, nil
}

// refTo is the $ref to the definition of n, which stands in the queue.
func (l *lowerer) refTo(n *node) wire.Value {
	i, ok := l.def[n]
	if !ok {
		i = len(l.queue)
		l.def[n] = i
		l.queue = append(l.queue, n)
	}
	return object("$ref", wire.StringOf("#/definitions/d"+strconv.Itoa(i)))
}

func object(name string, v wire.Value) wire.Value {
	return wire.ObjectOf(wire.Member{Name: name, Value: v})
}

// sub lowers a schema below a position: in its place, or, while each position
// is checked by itself, not at all.
func (l *lowerer) sub(n *node) (wire.Value, error) {
	if !l.whole {
		return wire.BoolOf(true), nil
	}
	return l.node(n)
}

// A target collects what a position lowers to: its members, and what must hold
// beside them.
type target struct {
	members []wire.Member
	beside  []wire.Value
}

func (t *target) put(name string, v wire.Value) {
	t.members = append(t.members, wire.Member{Name: name, Value: v})
}

func (t *target) and(name string, v wire.Value) {
	t.beside = append(t.beside, object(name, v))
}

// schema is what a target has collected.
func (t *target) schema() wire.Value {
	if len(t.members) == 0 && len(t.beside) == 1 {
		return t.beside[0]
	}
	if len(t.beside) > 0 {
		t.put("allOf", wire.ArrayOf(t.beside...))
	}
	return wire.ObjectOf(t.members...)
}

func (l *lowerer) node(n *node) (wire.Value, error) {
	if n.v.Type() == wire.Bool {
		return n.v, nil
	}
	if err := l.doc.spend(n, "", perSchema); err != nil { // one that is referred to is lowered there too
		return wire.Value{}, err
	}
	t := &target{}
	if n.ref != nil {
		r := l.refTo(n.ref)
		if l.doc.dialect <= draft7 {
			return r, nil
		}
		t.beside = append(t.beside, r)
	}
	for _, step := range []func(*node, *target) error{
		l.value, l.number, l.text, l.lengths, l.format, l.object, l.array, l.unevaluated, l.logic,
	} {
		if err := step(n, t); err != nil {
			return wire.Value{}, err
		}
	}
	return t.schema(), nil
}

// value lowers type, const and enum.
func (l *lowerer) value(n *node, t *target) error {
	if v, ok := n.get("type"); ok {
		if err := l.typed(n, v); err != nil {
			return err
		}
		t.put("type", v)
	}
	if v, ok := n.get("const"); ok {
		if err := l.exact(n, "const", v); err != nil {
			return err
		}
		if err := l.fitting(n, "const", v); err != nil {
			return err
		}
		t.put("const", v)
	}
	if v, ok := n.get("enum"); ok {
		kept, err := l.enum(n, v)
		if err != nil {
			return err
		}
		if len(v.Bytes()) > maxEnum {
			t.beside = append(t.beside, object("not", object("not", object("enum", wire.ArrayOf(kept...)))))
		} else {
			t.put("enum", wire.ArrayOf(kept...))
		}
	}
	return nil
}

// typed checks that a type names types, each once.
func (l *lowerer) typed(n *node, v wire.Value) error {
	refuse := l.doc.refuse
	words := []wire.Value{v}
	if v.Type() == wire.Array {
		words = v.Items()
		if len(words) == 0 {
			return refuse(n.at, "type", "leave it out, or name a type", "an empty list checks nothing")
		}
	}
	seen := map[string]bool{}
	for _, w := range words {
		if w.Type() != wire.String || !slices.Contains(types, w.Text()) {
			return refuse(n.at, "type", l.doc.unknownType(n, v, w), "unknown type %s", short(w))
		}
		if seen[w.Text()] {
			return refuse(n.at, "type", "write each type once", "%s stands twice", short(w))
		}
		seen[w.Text()] = true
	}
	return nil
}

// enum returns the values of an enum, equal ones once.
func (l *lowerer) enum(n *node, v wire.Value) (kept []wire.Value, err error) {
	if v.Type() != wire.Array || len(v.Items()) == 0 {
		return nil, l.doc.refuse(n.at, "enum", `write the allowed values, as ["a","b"]`, "%s, want a list of values", emptyOr(v))
	}
	seen := map[string]bool{}
	for _, it := range v.Items() {
		if err := l.exact(n, "enum", it); err != nil {
			return nil, err
		}
		k := canonical(it)
		if seen[k] && l.doc.dialect <= draft6 {
			return nil, l.doc.refuse(n.at, "enum", "write each value once", "%s stands twice", short(it))
		}
		if !seen[k] {
			seen[k] = true
			kept = append(kept, it)
		}
	}
	return kept, l.fitting(n, "enum", v.Items()...)
}

// fitting refuses values of const or enum none of which has a type that the
// position names: no value fits both.
func (l *lowerer) fitting(n *node, word string, vs ...wire.Value) error {
	bits := typeAny
	if v, ok := n.get("type"); ok {
		bits = 0
		for _, w := range append([]wire.Value{v}, v.Items()...) {
			bits |= typeBits[w.Text()]
		}
	}
	for _, v := range vs {
		is := typeBits[v.Type().String()]
		if r, ok := rat(v); ok && !r.IsInt() {
			is = typeNumber
		}
		if bits&is != 0 {
			return nil
		}
	}
	return l.doc.refuse(n.at, word, "write the values as the type has them, or another type", "no value of it has the type: nothing fits")
}

func emptyOr(v wire.Value) string {
	if v.Type() == wire.Array {
		return "an empty list"
	}
	return short(v)
}

// maxEnum is the size up to which an enum stands as it is. The engine writes
// all of it into each error, so a larger one stands under two nots, where the
// text is dropped at once.
const maxEnum = 2048

var safeInteger = big.NewRat(1<<53-1, 1)

// exact refuses literals that programs which read numbers as float64 cannot
// tell from their neighbours.
func (l *lowerer) exact(n *node, word string, v wire.Value) error {
	var err error
	numbers(v, func(lit string) {
		if err != nil || smallInt(lit) {
			return
		}
		r, ok := new(big.Rat).SetString(lit)
		switch {
		case !ok || new(big.Rat).Abs(r).Cmp(safeInteger) > 0:
			hint := "write it as a string"
			if own := ownTypes(n); len(own) > 0 && !slices.Contains(own, "string") {
				hint += `, and "type":"string"`
			}
			err = l.doc.refuse(n.at, word, hint, "number %s is beyond 2^53-1", lit)
		case r.Sign() == 0 && strings.HasPrefix(lit, "-"):
			err = l.doc.refuse(n.at, word, "write 0", "%s is 0", lit)
		case !faithful(lit, r):
			err = l.doc.refuse(n.at, word, "write fewer digits, or a string", "number %s has more digits than a float64 holds", lit)
		}
	})
	return err
}

// smallInt says whether a literal is a whole number, written plainly, that every
// float64 holds: most are, and need no more looking at.
func smallInt(lit string) bool {
	digits := strings.TrimPrefix(lit, "-")
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0 && len(digits) <= 15 && (digits[0] != '0' || lit == "0")
}

// numbers calls see with each number in v.
func numbers(v wire.Value, see func(lit string)) {
	switch v.Type() {
	case wire.Number:
		see(v.Text())
	case wire.Array:
		for _, it := range v.Items() {
			numbers(it, see)
		}
	case wire.Object:
		for _, m := range v.Members() {
			numbers(m.Value, see)
		}
	}
}

// faithful says whether the shortest text of the float64 next to a number is
// that number: two faithful numbers are equal where their float64s are.
func faithful(lit string, r *big.Rat) bool {
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return false
	}
	back, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && back.Cmp(r) == 0
}

// canonical is one text for all values that are equal.
func canonical(v wire.Value) string {
	switch v.Type() {
	case wire.Number:
		if smallInt(v.Text()) {
			return v.Text()
		}
		if r, ok := new(big.Rat).SetString(v.Text()); ok {
			return r.RatString()
		}
	case wire.Array:
		var b strings.Builder
		for _, it := range v.Items() {
			b.WriteString("," + canonical(it))
		}
		return "[" + b.String() + "]"
	case wire.Object:
		ms := slices.Clone(v.Members())
		slices.SortFunc(ms, func(a, b wire.Member) int { return strings.Compare(a.Name, b.Name) })
		var b strings.Builder
		for _, m := range ms {
			b.WriteString("," + wire.StringOf(m.Name).String() + ":" + canonical(m.Value))
		}
		return "{" + b.String() + "}"
	}
	return v.String()
}

// number lowers the limits of numbers.
func (l *lowerer) number(n *node, t *target) error {
	refuse := l.doc.refuse
	if v, ok := n.get("multipleOf"); ok {
		r, ok := rat(v)
		if !ok || r.Sign() <= 0 {
			return refuse(n.at, "multipleOf", "write a number above 0", "%s, want a number above 0", short(v))
		}
		t.put("multipleOf", v)
	}
	bounds := map[string]*big.Rat{}
	for _, side := range []string{"Minimum", "Maximum"} {
		if err := l.limit(n, t, strings.ToLower(side), "exclusive"+side, bounds); err != nil {
			return err
		}
	}
	for _, p := range [][2]string{
		{"minimum", "maximum"}, {"exclusiveMinimum", "maximum"}, {"minimum", "exclusiveMaximum"}, {"exclusiveMinimum", "exclusiveMaximum"},
	} {
		lo, hi := bounds[p[0]], bounds[p[1]]
		if lo != nil && hi != nil && lo.Cmp(hi) > 0 {
			return refuse(n.at, p[0], "swap them", "%s is above %s: no number fits", p[0], p[1])
		}
	}
	return nil
}

// limit lowers a limit and the exclusive one of the same side, and notes them.
func (l *lowerer) limit(n *node, t *target, limit, excl string, bounds map[string]*big.Rat) error {
	refuse := l.doc.refuse
	v, has := n.get(limit)
	if has {
		r, ok := rat(v)
		if !ok {
			hint := "write a number"
			if v.Type() == wire.Null {
				hint = "leave it out"
			}
			return refuse(n.at, limit, hint, "%s, want a number", short(v))
		}
		bounds[limit] = r
	}
	x, hasExcl := n.get(excl)
	if hasExcl && l.doc.dialect == draft4 {
		if x.Type() != wire.Bool {
			return refuse(n.at, excl, "write true beside "+strconv.Quote(limit), "%s, want true or false in draft-04", short(x))
		}
		if !has {
			return refuse(n.at, excl, "write "+strconv.Quote(limit)+" beside it", "no %q beside it", limit)
		}
		if x.Text() == "true" {
			t.put(excl, v)
			has = false
		}
	} else if hasExcl {
		r, ok := rat(x)
		if !ok {
			hint := "write a number"
			switch {
			case x.Type() == wire.Bool && x.Text() == "false", x.Type() == wire.Null:
				hint = "leave it out"
			case x.Type() == wire.Bool && has:
				hint = `write "` + excl + `":` + v.String() + ` and leave "` + limit + `" out`
			}
			return refuse(n.at, excl, hint, "%s, want a number", short(x))
		}
		bounds[excl] = r
		t.put(excl, x)
	}
	if has {
		t.put(limit, v)
	}
	return nil
}

func rat(v wire.Value) (*big.Rat, bool) {
	if v.Type() != wire.Number {
		return nil, false
	}
	return new(big.Rat).SetString(v.Text())
}

// count reads a length: a whole number of at least 0, also written 2.0.
func (l *lowerer) count(n *node, word string) (wire.Value, *big.Int, error) {
	v, ok := n.get(word)
	if !ok {
		return v, nil, nil
	}
	r, ok := rat(v)
	if !ok || !r.IsInt() || r.Sign() < 0 || r.Cmp(safeInteger) > 0 {
		return v, nil, l.doc.refuse(n.at, word, "write a whole number from 0 on", "%s, want a whole number from 0 on", short(v))
	}
	return wire.NumberOf(r.Num().String()), r.Num(), nil
}

// lengths lowers the six keywords that count.
func (l *lowerer) lengths(n *node, t *target) error {
	for _, p := range [][2]string{{"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}} {
		lo, loN, err := l.count(n, p[0])
		if err != nil {
			return err
		}
		hi, hiN, err := l.count(n, p[1])
		if err != nil {
			return err
		}
		if loN != nil && hiN != nil && loN.Cmp(hiN) > 0 {
			return l.doc.refuse(n.at, p[0], "swap them", "%s is above %s: nothing fits", p[0], p[1])
		}
		if loN != nil {
			t.put(p[0], lo)
		}
		if hiN != nil {
			t.put(p[1], hi)
		}
	}
	return nil
}

// mayBe says whether a position's own type keyword names that type.
func mayBe(n *node, typ string) bool {
	v, _ := n.get("type")
	if v.Type() == wire.String {
		return v.Text() == typ
	}
	return slices.ContainsFunc(v.Items(), func(it wire.Value) bool { return it.Text() == typ })
}

// namesOf reads a list of property names.
func (l *lowerer) namesOf(n *node, word string, v wire.Value) ([]wire.Value, error) {
	if v.Type() != wire.Array {
		hint := listOfNames
		if word == "required" {
			hint = required(n, v)
		}
		return nil, l.doc.refuse(n.at, word, hint, "%s, want a list of names", short(v))
	}
	if l.doc.dialect == draft4 && len(v.Items()) == 0 {
		return nil, l.doc.refuse(n.at, word, "leave it out", "an empty list, want a list of names in draft-04")
	}
	seen := map[string]bool{}
	for _, it := range v.Items() {
		if it.Type() != wire.String {
			return nil, l.doc.refuse(n.at, word, listOfNames, "%s, want a name", short(it))
		}
		if seen[it.Text()] {
			return nil, l.doc.refuse(n.at, word, "write each name once", "%s stands twice", short(it))
		}
		seen[it.Text()] = true
	}
	return v.Items(), nil
}

// object lowers what concerns the members of objects.
func (l *lowerer) object(n *node, t *target) error {
	if v, ok := n.get("required"); ok {
		names, err := l.namesOf(n, "required", v)
		if err != nil {
			return err
		}
		if err := l.possible(n, names); err != nil {
			return err
		}
		if len(names) > 0 {
			t.put("required", v)
		}
	}
	if es := n.under("properties"); n.has("properties") {
		for _, e := range es {
			if e.name == "additionalProperties" && isFalse(e.to) {
				return l.doc.refuse(e.to.at, "", besideProperties(e.name), "a property of that name is forbidden, and no other")
			}
		}
		v, err := l.members(es, func(e edge) string { return e.name })
		if err != nil {
			return err
		}
		t.put("properties", v)
	}
	if n.has("patternProperties") {
		if err := l.patterns(n, t); err != nil {
			return err
		}
	}
	for _, word := range []string{"additionalProperties", "propertyNames"} {
		for _, e := range n.under(word) {
			v, err := l.sub(e.to)
			if err != nil {
				return err
			}
			t.put(word, v)
		}
	}
	return l.dependencies(n, t)
}

// patterns lowers patternProperties. Those that lower to one pattern stand
// beside each other.
func (l *lowerer) patterns(n *node, t *target) error {
	es := n.under("patternProperties")
	var first, again []edge
	res := map[string]string{}
	taken := map[string]bool{}
	for _, e := range es {
		p, err := l.doc.propertyPattern(n, e.name)
		if err != nil {
			return err
		}
		res[e.name] = p.re2
		if taken[p.re2] {
			again = append(again, e)
		} else {
			taken[p.re2] = true
			first = append(first, e)
		}
	}
	v, err := l.members(first, func(e edge) string { return res[e.name] })
	if err != nil {
		return err
	}
	t.put("patternProperties", v)
	for _, e := range again {
		v, err := l.members([]edge{e}, func(e edge) string { return res[e.name] })
		if err != nil {
			return err
		}
		t.and("patternProperties", v)
	}
	return nil
}

// possible refuses a required name that an object may not have: no object fits.
func (l *lowerer) possible(n *node, required []wire.Value) error {
	rest := n.under("additionalProperties")
	if typ, _ := n.get("type"); typ.Text() != "object" || len(rest) == 0 || !isFalse(rest[0].to) || n.has("patternProperties") {
		return nil
	}
	for _, name := range required {
		if n.props[name.Text()] != nil {
			continue
		}
		hint := `describe it under "properties", or leave it out`
		known := sortedKeys(n.props)
		if near := cmp.Or(same(name.Text(), known), wire.Nearest(name.Text(), known)); near != "" {
			hint = fmt.Sprintf("write %q, not %q", near, name.Text())
		}
		return l.doc.refuse(n.at, "required", hint, "no property %s is allowed: no object fits", short(name))
	}
	return nil
}

// members lowers named schemas into an object.
func (l *lowerer) members(es []edge, name func(edge) string) (wire.Value, error) {
	ms := make([]wire.Member, 0, len(es))
	for _, e := range es {
		v, err := l.sub(e.to)
		if err != nil {
			return wire.Value{}, err
		}
		ms = append(ms, wire.Member{Name: name(e), Value: v})
	}
	return wire.ObjectOf(ms...), nil
}

func (l *lowerer) dependencies(n *node, t *target) error {
	var names []wire.Member
	for _, word := range []string{"dependencies", "dependentRequired"} {
		v, ok := n.get(word)
		if !ok {
			continue
		}
		if v.Type() != wire.Object {
			return l.doc.refuse(n.at, word, `write an object, as {"a":["b"]}`, "%s, want an object", short(v))
		}
		for _, m := range v.Members() {
			if word == "dependencies" && m.Value.Type() != wire.Array {
				continue
			}
			items, err := l.namesOf(n, word, m.Value)
			if err != nil {
				return err
			}
			if len(items) > 0 {
				names = append(names, m)
			}
		}
	}
	if len(names) > 0 {
		t.and("dependencies", wire.ObjectOf(names...))
	}
	es := append(n.under("dependencies"), n.under("dependentSchemas")...)
	if len(es) == 0 {
		return nil
	}
	v, err := l.members(es, func(e edge) string { return e.name })
	if err != nil {
		return err
	}
	t.and("dependencies", v)
	return nil
}

// array lowers what concerns the items of arrays.
func (l *lowerer) array(n *node, t *target) error {
	refuse := l.doc.refuse
	if v, ok := n.get("uniqueItems"); ok {
		if v.Type() != wire.Bool {
			return refuse(n.at, "uniqueItems", "write true", "%s, want true or false", short(v))
		}
		if v.Text() == "true" {
			t.put("uniqueItems", v)
		}
	}
	tuple, rest := n.under("prefixItems"), n.under("items")
	if v, ok := n.get("items"); ok && v.Type() == wire.Array {
		tuple, rest = rest, n.under("additionalItems")
	} else if more := n.under("additionalItems"); len(more) > 0 && !isTrue(more[0].to) {
		return refuse(n.at, "additionalItems", `write "items" as a list, or leave it out`, "without a list of items it checks nothing")
	}
	word := "items"
	if len(tuple) > 0 {
		vs := make([]wire.Value, 0, len(tuple))
		for _, e := range tuple {
			v, err := l.sub(e.to)
			if err != nil {
				return err
			}
			vs = append(vs, v)
		}
		t.put("items", wire.ArrayOf(vs...))
		word = "additionalItems"
	}
	for _, e := range rest {
		v, err := l.sub(e.to)
		if err != nil {
			return err
		}
		t.put(word, v)
	}
	return l.contains(n, t)
}

func isTrue(n *node) bool { return n.v.Type() == wire.Bool && n.v.Text() == "true" }

func isFalse(n *node) bool { return n.v.Type() == wire.Bool && n.v.Text() == "false" }

func (l *lowerer) contains(n *node, t *target) error {
	_, lo, err := l.count(n, "minContains")
	if err != nil {
		return err
	}
	_, hi, err := l.count(n, "maxContains")
	if err != nil {
		return err
	}
	es := n.under("contains")
	switch {
	case len(es) == 0 && lo != nil:
		return l.doc.refuse(n.at, "minContains", `write "contains" beside it`, "without contains it checks nothing")
	case len(es) == 0 && hi != nil:
		return l.doc.refuse(n.at, "maxContains", `write "contains" beside it`, "without contains it checks nothing")
	case len(es) == 0:
		return nil
	case hi != nil:
		return l.doc.refuse(n.at, "maxContains", `leave it out; "uniqueItems" and "maxItems" can be checked`, "maxContains is not supported")
	case lo != nil && lo.Cmp(big.NewInt(1)) > 0:
		return l.doc.refuse(n.at, "minContains", `write 1, or "minItems"`, "minContains above 1 is not supported")
	case lo != nil && lo.Sign() == 0:
		return nil // none is enough
	}
	v, err := l.sub(es[0].to)
	if err != nil {
		return err
	}
	t.put("contains", v)
	return nil
}

// logic lowers the combinators.
func (l *lowerer) logic(n *node, t *target) error {
	for _, e := range n.under("allOf") {
		v, err := l.sub(e.to)
		if err != nil {
			return err
		}
		t.beside = append(t.beside, v)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		var vs []wire.Value
		for _, e := range n.under(word) {
			v, err := l.sub(e.to)
			if err != nil {
				return err
			}
			vs = append(vs, v)
		}
		if len(vs) > 0 {
			t.put(word, wire.ArrayOf(vs...))
		}
	}
	switch {
	case !n.has("if") && n.has("then"):
		return l.doc.refuse(n.at, "then", `write "if" beside it`, "without if it checks nothing")
	case !n.has("if") && n.has("else"):
		return l.doc.refuse(n.at, "else", `write "if" beside it`, "without if it checks nothing")
	case n.has("if") && !n.has("then") && !n.has("else") && !l.doc.unevaluated: // which looks at what if looked at
		return l.doc.refuse(n.at, "if", `write "then" or "else" beside it`, "without then and else it checks nothing")
	}
	for _, word := range []string{"not", "if", "then", "else"} {
		for _, e := range n.under(word) {
			v, err := l.sub(e.to)
			if err != nil {
				return err
			}
			t.put(word, v)
		}
	}
	return nil
}
