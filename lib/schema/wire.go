package schema

import (
	"fmt"
	"slices"
	"strconv"

	"forge/lib/wire"
)

// What MCP clients bear: DESIGN §6.
const (
	maxShownBytes = 32 << 10
	maxShownDepth = 16 // arrays and objects within each other
)

// Wire returns the schema as MCP may show it: the author's without x-bind,
// x-redact and $comment, each $ref replaced by what it means, tuples and dependencies
// written as in 2020-12, "properties" always there, so that it stands in
// draft-07 and in 2020-12 alike. reason says why it cannot be shown, as
//
//	root "anyOf"
//	cyclic $ref at /$defs/node
//	40210 bytes after inlining, at most 32768
//
// and is "" if it can. A schema that Lower refuses is never shown.
func Wire(author wire.Value) (shown wire.Value, reason string) {
	defer func() {
		if p := recover(); p != nil {
			shown, reason = wire.Value{}, fmt.Sprintf("unexpected fault: %v", p)
		}
	}()
	if _, err := Lower(author); err != nil {
		return wire.Value{}, err.Error()
	}
	d, err := index(author)
	if err != nil {
		return wire.Value{}, err.Error()
	}
	w := &shower{doc: d, on: map[*node]bool{}, sizes: map[*node]int{}}
	v := w.show(d.root())
	if w.reason != "" {
		return wire.Value{}, w.reason
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "if", "enum", "const"} {
		if _, ok := v.Get(word); ok {
			return wire.Value{}, "root " + strconv.Quote(word)
		}
	}
	if t, _ := v.Get("type"); t.Type() != wire.String || t.Text() != "object" {
		return wire.Value{}, `root without "type":"object"`
	}
	if _, ok := v.Get("properties"); !ok {
		v = v.Set("properties", wire.ObjectOf())
	}
	if n := depth(v); n > maxShownDepth {
		return wire.Value{}, fmt.Sprintf("nested %d deep after inlining, at most %d", n, maxShownDepth)
	}
	if n := len(v.Bytes()); n > maxShownBytes {
		return wire.Value{}, fmt.Sprintf("%d bytes after inlining, at most %d", n, maxShownBytes)
	}
	return v, ""
}

func depth(v wire.Value) int {
	n := 0
	for _, it := range v.Items() {
		n = max(n, depth(it))
	}
	for _, m := range v.Members() {
		n = max(n, depth(m.Value))
	}
	if v.Type() == wire.Array || v.Type() == wire.Object {
		n++
	}
	return n
}

type shower struct {
	doc    *document
	on     map[*node]bool // positions on the way
	sizes  map[*node]int  // the bytes that each shows of itself
	shown  int            // bytes, with those that other words take the place of
	reason string
}

// maxWritten bounds the bytes that are written out on the way to what is shown.
const maxWritten = 4 * maxShownBytes

// size is about what a position shows, without what its schemas do.
func (w *shower) size(n *node) int {
	size, known := w.sizes[n]
	if known {
		return size
	}
	size = 2
	for _, m := range n.v.Members() {
		if slices.Contains(hidden, m.Name) {
			continue
		}
		size += len(m.Name) + 4
		es := n.under(m.Name)
		for _, e := range es {
			size += len(e.name) + 4
		}
		if len(es) == 0 || m.Name == "dependencies" {
			size += len(m.Value.Bytes())
		}
	}
	w.sizes[n] = size
	return size
}

// hidden are keywords that mean nothing once references are gone, or are ours.
var hidden = []string{
	"$schema", "$comment", "$id", "id", "$anchor", "$ref", "$defs", "definitions",
	"$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
	"discriminator", "contentSchema", "x-bind", "x-redact",
}

func (w *shower) show(n *node) wire.Value {
	if w.reason != "" {
		return n.v
	}
	if w.shown += w.size(n); w.shown > maxWritten {
		w.reason = fmt.Sprintf("more than %d bytes after inlining", maxShownBytes)
	}
	if w.doc.dialect == draft2019 && n.has("unevaluatedItems") && w.doc.contains {
		w.reason = "unevaluatedItems and contains, which mean something else in 2020-12, at " + where(n.at)
	}
	if w.on[n] && w.reason == "" {
		w.reason = "cyclic $ref at " + where(n.at)
	}
	if w.reason != "" || n.v.Type() != wire.Object {
		return n.v
	}
	w.on[n] = true
	defer delete(w.on, n)
	var ms []wire.Member
	put := func(name string, v wire.Value) { ms = append(ms, wire.Member{Name: name, Value: v}) }
	asserts := false
	for _, m := range n.v.Members() {
		if slices.Contains(hidden, m.Name) {
			continue
		}
		asserts = asserts || !keywords[m.Name].annotation
		w.member(n, m, put)
	}
	if n.ref == nil {
		return wire.ObjectOf(ms...)
	}
	to := w.show(n.ref)
	if to.Type() == wire.Bool {
		if to = wire.ObjectOf(); n.ref.v.Text() == "false" {
			to = object("not", wire.ObjectOf())
		}
	}
	v := wire.ObjectOf(ms...)
	if !asserts { // what is said at the place of use wins
		for _, m := range ms {
			to = to.Set(m.Name, m.Value)
		}
		return to
	}
	all, _ := v.Get("allOf")
	return v.Set("allOf", wire.ArrayOf(append(slices.Clone(all.Items()), to)...))
}

// member shows one keyword of n.
func (w *shower) member(n *node, m wire.Member, put func(string, wire.Value)) {
	tuple := false
	if v, ok := n.get("items"); ok {
		tuple = v.Type() == wire.Array
	}
	list := func(es []edge) wire.Value {
		vs := make([]wire.Value, len(es))
		for i, e := range es {
			vs[i] = w.show(e.to)
		}
		return wire.ArrayOf(vs...)
	}
	members := func(es []edge) wire.Value {
		ms := make([]wire.Member, len(es))
		for i, e := range es {
			ms[i] = wire.Member{Name: e.name, Value: w.show(e.to)}
		}
		return wire.ObjectOf(ms...)
	}
	es := n.under(m.Name)
	switch h := keywords[m.Name].holds; {
	case m.Name == "items" && tuple:
		put("prefixItems", list(es))
	case m.Name == "additionalItems":
		if tuple {
			put("items", w.show(es[0].to))
		}
	case m.Name == "dependencies":
		var names []wire.Member
		for _, d := range m.Value.Members() {
			if d.Value.Type() == wire.Array {
				names = append(names, d)
			}
		}
		if len(names) > 0 {
			put("dependentRequired", wire.ObjectOf(names...))
		}
		if len(es) > 0 {
			put("dependentSchemas", members(es))
		}
	case w.doc.dialect == draft4 && (m.Name == "exclusiveMinimum" || m.Name == "exclusiveMaximum"):
		// said with the limit
	case w.doc.dialect == draft4 && (m.Name == "minimum" || m.Name == "maximum"):
		excl := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[m.Name]
		if x, _ := n.get(excl); x.Text() == "true" {
			put(excl, m.Value)
		} else {
			put(m.Name, m.Value)
		}
	case h == one || h == either:
		put(m.Name, w.show(es[0].to))
	case h == several:
		put(m.Name, list(es))
	case h == named:
		put(m.Name, members(es))
	default:
		put(m.Name, m.Value)
	}
}
