package differential

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"forge/lib/wire"
)

type dialect int

const (
	draft4 dialect = iota
	draft6
	draft7
	draft2019
	draft2020
)

var dialects = [...]struct {
	name, uri string
	draft     *jsonschema.Draft
}{
	{"draft-04", "http://json-schema.org/draft-04/schema#", jsonschema.Draft4},
	{"draft-06", "http://json-schema.org/draft-06/schema#", jsonschema.Draft6},
	{"draft-07", "http://json-schema.org/draft-07/schema#", jsonschema.Draft7},
	{"2019-09", "https://json-schema.org/draft/2019-09/schema", jsonschema.Draft2019},
	{"2020-12", "https://json-schema.org/draft/2020-12/schema", jsonschema.Draft2020},
}

func (d dialect) String() string           { return dialects[d].name }
func (d dialect) uri() string              { return dialects[d].uri }
func (d dialect) draft() *jsonschema.Draft { return dialects[d].draft }

// since says which dialects know a keyword that not all of them know.
var since = map[string][2]dialect{
	"const": {draft6, draft2020}, "contains": {draft6, draft2020}, "propertyNames": {draft6, draft2020},
	"if": {draft7, draft2020}, "dependencies": {draft4, draft7}, "additionalItems": {draft4, draft2019},
	"dependentRequired": {draft2019, draft2020}, "dependentSchemas": {draft2019, draft2020},
	"unevaluatedProperties": {draft2019, draft2020}, "unevaluatedItems": {draft2019, draft2020},
	"minContains": {draft2019, draft2020}, "prefixItems": {draft2020, draft2020},
	"$recursiveRef": {draft2019, draft2019}, "$dynamicRef": {draft2020, draft2020},
}

func (d dialect) knows(word string) bool {
	s, ok := since[word]
	return !ok || s[0] <= d && d <= s[1]
}

// A kind is what a schema speaks of.
type kind int

const (
	objects kind = iota
	arrays
	texts
	numbers
)

// own are the keywords for each kind, the frequent ones more than once.
var own = [...][]string{
	objects: strings.Fields(`properties properties properties properties required required required patternProperties patternProperties
		additionalProperties propertyNames minProperties maxProperties dependencies dependencies
		dependentRequired dependentSchemas dependentSchemas unevaluatedProperties`),
	arrays:  strings.Fields(`items items prefixItems prefixItems contains contains minItems maxItems uniqueItems unevaluatedItems`),
	texts:   strings.Fields(`minLength maxLength pattern pattern format format`),
	numbers: strings.Fields(`minimum maximum exclusiveMinimum exclusiveMaximum multipleOf numberFormat`),
}

// looks are the keywords by which unevaluated* is said of less.
var looks = [...][]string{
	objects: strings.Fields(`properties properties properties patternProperties required`),
	arrays:  strings.Fields(`prefixItems prefixItems prefixItems prefixItems contains contains items`),
}

// inPlace are the keywords for all of them.
var inPlace = strings.Fields(`allOf anyOf anyOf oneOf not if if enum const annotation`)

// What schemas and values are made of: little, so that they speak of the same.
var (
	names    = strings.Fields(`a b c ab bc x1 x2`)
	oddNames = []string{"", "é", "a/b", "m~n", "%25", "$ref", "id", "items", "const", "if"}
	patterns = []string{"^a", "b", "^x", "c$", "[0-9]", "^.$", "^[a-c]+$", "^(ab|x1)$", "é|^$"}
	words    = []string{"", "a", "b", "ab", "abc", "bca", "x1", "x2", "é", "éa", "日本", "1", "a b"}
	numerals = strings.Fields(`-2 -1 0 1 2.0 3 1.5 0.5 1e2 -0.25`)
	lows     = strings.Fields(`-2 -1 -0.25 0 0.0 0.5 1`)
	highs    = strings.Fields(`1 1.0 1.5 2 3 1e2`)
	steps    = strings.Fields(`1 2 0.5 1.5 0.25 1e1 3.0 0.1`)
)

// A gen writes one schema.
type gen struct {
	*rand.Rand
	dialect dialect
	hard    bool            // unevaluated* in many places
	left    int             // schemas that it may still hold
	kinds   map[string]kind // of the names
	word    string          // definitions or $defs
	defs    []*def
	root    def
	at      int  // the definition that is being written, -1 for the root
	naming  bool // below propertyNames
}

// A def is one of the definitions, or the root.
type def struct {
	name    string
	id      string // if it is a resource of its own
	anchor  string
	kind    kind
	dynamic bool   // it has the dynamic anchor, or the recursive one
	inner   string // the definition that it has, as a resource of its own
}

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](r interface{ IntN(int) int }, xs []T) T { return xs[r.IntN(len(xs))] }

func (g *gen) kind() kind {
	if g.hard && g.chance(40) {
		return pick(g, []kind{objects, arrays})
	}
	return pick(g, []kind{objects, objects, objects, arrays, arrays, texts, texts, numbers, numbers, numbers})
}

// An object collects members; the first of a name stays.
type object []wire.Member

func (o *object) put(name string, v wire.Value) {
	if !o.has(name) {
		*o = append(*o, wire.Member{Name: name, Value: v})
	}
}

func (o object) has(name string) bool {
	return slices.ContainsFunc(o, func(m wire.Member) bool { return m.Name == name })
}

func (o object) value() wire.Value { return wire.ObjectOf(o...) }

func with(name string, v wire.Value) wire.Value {
	return wire.ObjectOf(wire.Member{Name: name, Value: v})
}

func text(s string) wire.Value { return wire.StringOf(s) }

func num(s string) wire.Value { return wire.NumberOf(s) }

func list(words []string) wire.Value {
	vs := make([]wire.Value, len(words))
	for i, s := range words {
		vs[i] = text(s)
	}
	return wire.ArrayOf(vs...)
}

// document is a random schema in a random dialect.
func document(r *rand.Rand) (wire.Value, dialect) {
	g := &gen{Rand: r, left: 20 + r.IntN(30), kinds: map[string]kind{}, at: -1}
	g.dialect = pick(r, []dialect{draft4, draft6, draft7, draft7, draft2019, draft2019, draft2019, draft2020, draft2020, draft2020, draft2020})
	g.hard = g.dialect >= draft2019 && g.chance(40)
	for _, name := range append([]string{"0", "1", "2", "3"}, names...) {
		g.kinds[name] = g.kind() // of members, and of items by their place
	}
	if g.dialect == draft2020 && g.chance(1) {
		return wire.BoolOf(g.chance(50)), g.dialect
	}
	g.plan()
	root := object{}
	if g.dialect != draft2020 || g.chance(50) {
		root.put("$schema", text(g.dialect.uri()))
	}
	g.sign(&root, g.root)
	k := g.kind()
	if g.hard && g.chance(80) {
		k = pick(g, []kind{objects, arrays})
		g.branches(&root, k, 3, false)
	} else {
		for _, m := range g.open(g.schema(k, 3, false)).Members() {
			root.put(m.Name, m.Value)
		}
	}
	var defs object
	for i, d := range g.defs {
		g.at = i
		g.left = max(g.left, 16)
		o := object{}
		g.sign(&o, *d)
		for _, m := range g.open(g.schema(d.kind, 2, false)).Members() {
			o.put(m.Name, m.Value)
		}
		if d.inner != "" {
			o.put(g.word, with(d.inner, g.leaf(d.kind)))
		}
		defs.put(d.name, o.value())
	}
	if len(defs) > 0 {
		root.put(g.word, defs.value())
	}
	v := root.value()
	if g.dialect == draft7 && g.chance(50) && features(v)["items: list"] {
		// Without $schema, a list as items is draft-07 to us.
		v = wire.ObjectOf(slices.DeleteFunc(root, func(m wire.Member) bool { return m.Name == "$schema" })...)
	}
	return v, g.dialect
}

// plan decides what definitions there are, and their names.
func (g *gen) plan() {
	g.word = "$defs"
	if g.dialect <= draft7 || g.chance(20) {
		g.word = "definitions"
	}
	g.root = def{id: pick(g, []string{"", "", "", "root.json", "https://forge.test/s/root.json", "urn:forge:root"})}
	if g.dialect >= draft2019 && g.chance(15) {
		g.root.anchor = "top"
	}
	for i := range g.IntN(4) {
		d := &def{name: pick(g, []string{"d", "d", "d", "d/", "d~", "d%"}) + strconv.Itoa(i), kind: g.kind()}
		if g.chance(30) {
			d.id = pick(g, []string{"", "sub/"}) + "d" + strconv.Itoa(i) + ".json"
			if strings.HasPrefix(g.root.id, "urn:") {
				d.id = "urn:forge:d" + strconv.Itoa(i)
			}
			d.inner = pick(g, []string{"", "e", "d0", "d0"})
		}
		if g.chance(40) && (g.dialect >= draft2019 || d.id == "" && g.dialect >= draft4) {
			d.anchor = "at" + strconv.Itoa(i)
		}
		g.defs = append(g.defs, d)
	}
	if g.dialect < draft2019 || !g.chance(30) {
		return
	}
	for range 1 + g.IntN(10)/9 {
		d := &g.root
		if len(g.defs) > 0 && g.chance(50) {
			d = pick(g, g.defs)
		}
		d.dynamic = true
		if g.dialect == draft2020 {
			d.anchor = "node"
		}
	}
}

// sign writes the names that d has.
func (g *gen) sign(o *object, d def) {
	word := "$id"
	if g.dialect == draft4 {
		word = "id"
	}
	if d.id != "" {
		o.put(word, text(d.id))
	}
	switch {
	case d.anchor != "" && g.dialect <= draft7:
		o.put(word, text("#"+d.anchor))
	case d.anchor != "" && d.dynamic && g.dialect == draft2020:
		o.put("$dynamicAnchor", text(d.anchor))
	case d.anchor != "":
		o.put("$anchor", text(d.anchor))
	}
	if g.dialect == draft2019 && (d.id != "" || d.name == "") && (d.dynamic || g.chance(5)) {
		o.put("$recursiveAnchor", wire.BoolOf(d.dynamic))
	}
}

// open is a schema to which other members may be added.
func (g *gen) open(v wire.Value) wire.Value {
	if _, ref := v.Get("$ref"); v.Type() != wire.Object || ref && g.dialect <= draft7 {
		return with("allOf", wire.ArrayOf(v))
	}
	return v
}

// owner is the resource that definition i is in; -1 is the root.
func (g *gen) owner(i int) int {
	if i >= 0 && g.defs[i].id == "" {
		return -1
	}
	return i
}

func (g *gen) def(i int) *def {
	if i < 0 {
		return &g.root
	}
	return g.defs[i]
}

// uri names resource i, from wherever; "" if it has no name.
func (g *gen) uri(i int) string {
	dir := ""
	switch g.root.id {
	case "", "root.json":
		dir = "/"
	case "https://forge.test/s/root.json":
		dir = pick(g, []string{"/s/", "https://forge.test/s/"})
	}
	id := g.def(i).id
	if id == "" {
		return ""
	}
	return dir + strings.TrimPrefix(id, "https://forge.test/s/")
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25")

// to is a reference to definition i, "" if there is none.
func (g *gen) to(i int, anchored bool) string {
	d, owner := g.def(i), g.owner(i)
	var frags []string
	switch {
	case anchored:
		frags = []string{"#" + d.anchor}
	case owner == i:
		frags = []string{"#"}
		if d.inner != "" {
			frags = append(frags, "#/"+g.word+"/"+d.inner)
		}
	default:
		frags = []string{"#/" + g.word + "/" + escapes.Replace(d.name)}
	}
	if d.anchor != "" {
		frags = append(frags, "#"+d.anchor)
	}
	frag := pick(g, frags)
	here := g.owner(g.at)
	switch {
	case here == owner && (g.def(owner).id == "" || g.chance(70)):
		return frag
	case here == -1 && i >= 0 && owner == i && !anchored && g.chance(30):
		return "#/" + g.word + "/" + escapes.Replace(d.name)
	case here == -1 && i >= 0 && owner == i && g.chance(50):
		return d.id + frag
	}
	uri := g.uri(owner)
	if uri == "" {
		return ""
	}
	return uri + strings.TrimSuffix(frag, "#")
}

// refer writes a reference to something of that kind. Without a step into the
// value it leads only to definitions further on, so that there is no cycle.
func (g *gen) refer(o *object, k kind, step bool) {
	if slices.ContainsFunc([]string{"$ref", "$dynamicRef", "$recursiveRef"}, o.has) {
		return // two of them are refused
	}
	var is []int
	for i, d := range g.defs {
		if (step || i > g.at) && (d.kind == k || g.chance(15)) {
			is = append(is, i)
		}
	}
	if step && g.chance(40) {
		is = append(is, -1)
	}
	if g.dialect == draft2019 && step && !g.naming && g.chance(40) {
		// Below propertyNames the other validator takes the root of the dynamic
		// scope to be propertyNames itself: $recursiveRef then leads to where it
		// stands. The scope begins at the root, 2019-09 core, 8.2.4.2.
		o.put("$recursiveRef", text("#"))
		return
	}
	if len(is) == 0 {
		return
	}
	i := pick(g, is)
	if d := g.def(i); g.dialect == draft2020 && d.anchor != "" && (d.dynamic || g.chance(10)) {
		if ref := g.to(i, true); ref != "" {
			o.put("$dynamicRef", text(ref))
		}
		return
	}
	if ref := g.to(i, false); ref != "" {
		o.put("$ref", text(ref))
	}
}

// schema is one that speaks of a kind of values. step says that the value was
// stepped into since the definition began.
func (g *gen) schema(k kind, deep int, step bool) wire.Value {
	if g.left--; deep <= 0 || g.left <= 8 {
		return g.leaf(k)
	}
	if g.chance(3) {
		return g.boolean(g.chance(70))
	}
	o := object{}
	if g.chance(15) {
		g.refer(&o, k, step)
		if len(o) > 0 && g.dialect <= draft7 {
			if g.chance(2) {
				o.put("minLength", num("1"))
			}
			if g.chance(10) {
				o.put("description", text("a reference"))
			}
			return o.value()
		}
	}
	if g.hard && k <= arrays && g.chance(25) {
		g.branches(&o, k, deep, step)
		return o.value()
	}
	if g.chance(45) {
		o.put("type", g.typ(k))
	}
	for range 1 + g.IntN(3) {
		words := own[k]
		switch {
		case g.chance(30):
			words = inPlace
		case g.hard && k <= arrays && g.chance(60):
			words = looks[k]
		}
		g.add(&o, pick(g, words), k, deep, step)
	}
	return o.value()
}

// branches writes a schema whose unevaluated* sees what branches look at.
func (g *gen) branches(o *object, k kind, deep int, step bool) {
	if g.chance(30) {
		o.put("type", g.typ(k))
	}
	words := strings.Fields("allOf allOf anyOf anyOf oneOf oneOf if if not $ref $ref")
	if k == objects {
		words = append(words, "dependentSchemas", "dependentSchemas")
	}
	for range 1 + g.IntN(3) {
		g.add(o, pick(g, words), k, deep, step)
	}
	for range g.IntN(4) {
		g.add(o, pick(g, looks[k]), k, deep, step)
	}
	g.add(o, []string{"unevaluatedProperties", "unevaluatedItems"}[k], k, deep, step)
}

func (g *gen) typ(k kind) wire.Value {
	name := []string{"object", "array", "string", "number"}[k]
	if k == numbers && g.chance(50) {
		name = "integer"
	}
	if g.chance(85) {
		return text(name)
	}
	words := []string{name}
	for _, w := range []string{"null", "boolean", "string", "integer"} {
		if w != name && g.chance(40) {
			words = append(words, w)
		}
	}
	return list(words)
}

// boolean is a boolean schema, or what draft-04 writes instead.
func (g *gen) boolean(b bool) wire.Value {
	switch {
	case g.dialect > draft4:
		return wire.BoolOf(b)
	case b:
		return wire.ObjectOf()
	}
	return with("not", wire.ObjectOf())
}

// leaf is a schema without schemas of the same depth below it.
func (g *gen) leaf(k kind) wire.Value {
	o := object{}
	switch {
	case g.chance(4) || g.hard && g.chance(12):
		return g.boolean(g.chance(85))
	case k == arrays && g.hard && g.chance(50):
		g.add(&o, "prefixItems", k, 1, true)
		return o.value()
	case g.chance(20) || g.left < 0:
		o.put("type", g.typ(k))
		return o.value()
	case k == objects && g.chance(70):
		name := pick(g, names)
		o.put("properties", with(name, g.leaf(numbers)))
		if g.chance(60) {
			o.put("required", list([]string{name}))
		}
		return o.value()
	case k == objects:
		o.put("required", list([]string{pick(g, names)}))
		return o.value()
	case k == arrays:
		g.add(&o, pick(g, own[arrays]), k, 1, true)
		return o.value()
	case g.chance(40):
		g.add(&o, pick(g, []string{"const", "enum"}), k, 1, true)
		if len(o) > 0 {
			return o.value()
		}
	}
	g.add(&o, pick(g, own[k]), k, 1, true)
	return o.value()
}

// branch is a schema about the same value, often one that fits few values.
func (g *gen) branch(k kind, deep int, step bool) wire.Value {
	v := g.schema(k, deep-1, step)
	if v.Type() != wire.Object || k != objects || !g.chance(50) {
		return v
	}
	if _, ref := v.Get("$ref"); ref && g.dialect <= draft7 {
		return v
	}
	var known []string
	ps, _ := v.Get("properties")
	for _, m := range ps.Members() {
		known = append(known, m.Name)
	}
	if _, has := v.Get("required"); !has && len(known) > 0 {
		return v.Set("required", list(known[:1]))
	}
	return v
}

func (g *gen) name() string {
	if g.chance(3) {
		return pick(g, oddNames)
	}
	return pick(g, names)
}

func (g *gen) names(most int) []string {
	var out []string
	for range 1 + g.IntN(most) {
		if name := g.name(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// below is a schema about a part of the value.
func (g *gen) below(k kind, deep int) wire.Value { return g.schema(k, deep-1, true) }

func (g *gen) member(name string, deep int) wire.Value {
	k, known := g.kinds[name]
	if !known || g.chance(25) {
		k = g.kind()
	}
	return g.below(k, deep)
}

// add writes one keyword, if the dialect knows it.
func (g *gen) add(o *object, word string, k kind, deep int, step bool) {
	if word == "prefixItems" && g.dialect < draft2020 {
		word = "items"
	}
	if !g.dialect.knows(word) || o.has(word) {
		return
	}
	several := func(least, more int, one func(i int) wire.Value) wire.Value {
		var vs []wire.Value
		for i := range least + g.IntN(more) {
			vs = append(vs, one(i))
		}
		return wire.ArrayOf(vs...)
	}
	here := func(int) wire.Value { return g.branch(k, deep, step) }
	item := func() wire.Value { return g.below(g.kind(), deep) }
	place := func(i int) wire.Value { return g.member(strconv.Itoa(i), deep) }
	switch word {
	case "properties":
		var ms object
		for _, name := range g.names(3) {
			ms.put(name, g.member(name, deep))
		}
		o.put(word, ms.value())
	case "patternProperties":
		var ms object
		for range 1 + g.IntN(2) {
			ms.put(pick(g, patterns), item())
		}
		o.put(word, ms.value())
	case "required":
		o.put(word, list(g.names(2)))
	case "additionalProperties", "additionalItems":
		if g.chance(50) {
			o.put(word, wire.BoolOf(g.chance(20)))
		} else {
			o.put(word, item())
		}
	case "propertyNames":
		was := g.naming
		g.naming = true
		o.put(word, g.below(texts, min(deep, 2)))
		g.naming = was
	case "minProperties", "minItems", "minLength":
		o.put(word, g.count(0, 2))
	case "maxProperties", "maxItems", "maxLength":
		o.put(word, g.count(2, 4))
	case "dependencies", "dependentRequired", "dependentSchemas":
		var ms object
		for _, name := range g.names(2) {
			switch {
			case word == "dependentSchemas" || word == "dependencies" && g.chance(50):
				ms.put(name, here(0))
			case g.dialect > draft4 && g.chance(5): // draft-04 wants one name at least
				ms.put(name, wire.ArrayOf())
			default:
				ms.put(name, list(g.names(2)))
			}
		}
		o.put(word, ms.value())
	case "unevaluatedProperties", "unevaluatedItems":
		if g.chance(55) {
			o.put(word, wire.BoolOf(g.chance(5)))
		} else {
			o.put(word, item())
		}
	case "items":
		if g.dialect == draft2020 || g.chance(40) {
			o.put(word, item())
			return
		}
		o.put(word, several(1, 3, place))
		if g.chance(25) {
			g.add(o, "additionalItems", k, deep, step)
		}
	case "prefixItems":
		o.put(word, several(1, 3, place))
	case "contains":
		o.put(word, item())
		if g.dialect < draft2019 || !g.chance(40) {
			return
		}
		if g.chance(5) {
			o.put("maxContains", num("2"))
		}
		o.put("minContains", num(pick(g, []string{"0", "0", "0.0", "1", "1.0", "1", "1", "1", "0", "2"})))
	case "uniqueItems":
		o.put(word, wire.BoolOf(g.chance(85)))
	case "pattern":
		o.put(word, text(pick(g, patterns)))
	case "format":
		name := pick(g, formatNames)
		if strings.HasPrefix(name, "uri") {
			// The other validator lets characters through that stand in no URI,
			// or only in some places: RFC 3986, 2.
			if o.has("pattern") {
				return
			}
			o.put("pattern", text(uriPattern))
		}
		o.put(word, text(name))
	case "numberFormat":
		if o.has("type") && !g.chance(5) {
			return
		}
		o.put("type", text("integer"))
		o.put("format", text(pick(g, edgeNames)))
	case "minimum":
		o.put(word, num(pick(g, lows)))
	case "maximum":
		o.put(word, num(pick(g, highs)))
	case "exclusiveMinimum", "exclusiveMaximum":
		limit, pool := "minimum", lows
		if word == "exclusiveMaximum" {
			limit, pool = "maximum", highs
		}
		if g.dialect == draft4 {
			o.put(limit, num(pick(g, pool)))
			o.put(word, wire.BoolOf(g.chance(80)))
		} else {
			o.put(word, num(pick(g, pool)))
		}
	case "multipleOf":
		o.put(word, num(pick(g, steps)))
	case "allOf":
		o.put(word, several(1, 2, here))
	case "anyOf", "oneOf":
		o.put(word, several(2, 2, here))
	case "not":
		o.put(word, g.branch(k, deep-1, step))
	case "if":
		o.put(word, here(0))
		alone := g.chance(3) || g.hard && g.chance(25)
		if !alone && g.chance(70) {
			o.put("then", here(0))
		}
		if !alone && (g.chance(50) || !o.has("then")) {
			o.put("else", here(0))
		}
	case "$ref":
		if g.dialect >= draft2019 {
			g.refer(o, k, step)
		}
	case "const":
		o.put(word, g.literal(k, 1))
	case "enum":
		var vs []wire.Value
		seen := map[string]bool{}
		for range 1 + g.IntN(3) {
			if v := g.literal(k, 1); !seen[v.String()] {
				seen[v.String()] = true
				vs = append(vs, v)
			}
		}
		o.put(word, wire.ArrayOf(vs...))
	case "annotation":
		m := pick(g, annotations)
		o.put(m.Name, m.Value)
	}
}

const uriPattern = "^[!#$&-;=?-Z_a-z~]*$"

// annotations say nothing, whatever they hold.
var annotations = []wire.Member{
	{Name: "title", Value: text("a title")},
	{Name: "$comment", Value: text("a comment")},
	{Name: "deprecated", Value: wire.BoolOf(true)},
	{Name: "default", Value: with("$ref", text("#/nowhere"))},
	{Name: "default", Value: with("$id", text("https://forge.test/s/root.json"))},
	{Name: "default", Value: with("id", text("#at0"))},
	{Name: "examples", Value: wire.ArrayOf(with("$anchor", text("at0")), with("unevaluatedItems", num("1")))},
}

// count is a length, sometimes written with a point.
func (g *gen) count(least, most int) wire.Value {
	s := strconv.Itoa(least + g.IntN(most-least+1))
	if g.chance(20) {
		s += ".0"
	}
	return num(s)
}

// literal is a value of a kind, for const and enum. None equals another that is
// written differently: up to draft-07, the other validator takes no enum with
// both.
func (g *gen) literal(k kind, deep int) wire.Value {
	switch {
	case g.chance(6):
		return pick(g, []wire.Value{{}, wire.BoolOf(true), wire.BoolOf(false)})
	case k == texts || deep == 0 && g.chance(50):
		return text(pick(g, words))
	case k == numbers || deep == 0:
		return num(pick(g, numerals))
	case k == objects:
		var ms object
		for _, name := range g.names(2) {
			ms.put(name, g.literal(min(g.kinds[name]+2, numbers), 0))
		}
		return ms.value()
	}
	var vs []wire.Value
	for range g.IntN(3) {
		vs = append(vs, g.literal(numbers, 0))
	}
	return wire.ArrayOf(vs...)
}

// holds says how a keyword holds schemas.
var holds = map[string]string{
	"additionalProperties": "one", "propertyNames": "one", "additionalItems": "one", "contains": "one", "not": "one",
	"if": "one", "then": "one", "else": "one", "unevaluatedProperties": "one", "unevaluatedItems": "one",
	"prefixItems": "list", "allOf": "list", "anyOf": "list", "oneOf": "list", "items": "list",
	"properties": "named", "patternProperties": "named", "$defs": "named", "definitions": "named",
	"dependentSchemas": "named", "dependencies": "named",
}

// positions yields every schema in a schema, and the JSON Pointer to it.
func positions(v wire.Value) iter.Seq2[string, wire.Value] {
	return func(yield func(string, wire.Value) bool) {
		var visit func(at string, v wire.Value) bool
		visit = func(at string, v wire.Value) bool {
			if v.Type() == wire.Array {
				for i, it := range v.Items() {
					if !visit(at+"/"+strconv.Itoa(i), it) {
						return false
					}
				}
				return true
			}
			if !yield(at, v) {
				return false
			}
			for _, m := range v.Members() {
				at := at + "/" + wire.Escape(m.Name)
				switch holds[m.Name] {
				case "one", "list":
					if !visit(at, m.Value) {
						return false
					}
				case "named":
					for _, c := range m.Value.Members() {
						if c.Value.Type() == wire.Array {
							continue // of dependencies, names
						}
						if !visit(at+"/"+wire.Escape(c.Name), c.Value) {
							return false
						}
					}
				}
			}
			return true
		}
		visit("", v)
	}
}

// wanted are the keywords, and forms of them, that must take part.
var wanted = regexp.MustCompile(`,\s*`).Split(`type,type: list,const,enum,minimum,maximum,exclusiveMinimum,exclusiveMaximum,exclusiveMinimum: true,
exclusiveMaximum: true,multipleOf,minLength,maxLength,minItems,maxItems,minProperties,maxProperties,a limit 2.0,pattern,format,
format of numbers,properties,required,patternProperties,additionalProperties,additionalProperties: schema,propertyNames,
items: list,items: schema,items beside prefixItems,prefixItems,additionalItems,contains,minContains: 0,minContains: 1,uniqueItems,
allOf,anyOf,oneOf,not,if,then,else,if alone,dependencies: names,dependencies: schema,dependentRequired,dependentSchemas,
unevaluatedProperties: false,unevaluatedProperties: schema,unevaluatedItems: false,unevaluatedItems: schema,$ref,$ref with siblings,
$ref: pointer,$ref: anchor,$ref: other resource,$defs,definitions,$anchor,$id,$id within,id,$dynamicAnchor,$dynamicRef,
$recursiveAnchor,$recursiveRef,true or false,default,no $schema,(draft-04),(draft-06),(draft-07),(2019-09),(2020-12)`, -1)

// features are the keywords, and the forms of some, that a schema has.
func features(author wire.Value) map[string]bool {
	out := map[string]bool{}
	unevaluated := false
	for at, n := range positions(author) {
		if n.Type() == wire.Bool {
			out["true or false"] = true
		}
		if _, has := n.Get("$schema"); at == "" && !has {
			out["no $schema"] = true
		}
		for _, m := range n.Members() {
			word, v := m.Name, m.Value
			out[word] = true
			unevaluated = unevaluated || strings.HasPrefix(word, "unevaluated")
			switch word {
			case "type":
				out["type: list"] = out["type: list"] || v.Type() == wire.Array
			case "exclusiveMinimum", "exclusiveMaximum":
				out[word+": true"] = out[word+": true"] || v.String() == "true"
			case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains":
				out["a limit 2.0"] = out["a limit 2.0"] || strings.Contains(v.Text(), ".")
				if word == "minContains" {
					out[word+": "+v.Text()[:1]] = true
				}
			case "items":
				out[word+": "+form(v)] = true
				if _, has := n.Get("prefixItems"); has {
					out["items beside prefixItems"] = true
				}
			case "additionalProperties", "unevaluatedProperties", "unevaluatedItems":
				out[word+": "+form(v)] = true
			case "dependencies":
				for _, c := range v.Members() {
					out[word+": "+map[bool]string{true: "names", false: "schema"}[c.Value.Type() == wire.Array]] = true
				}
			case "format":
				out["format: "+v.Text()] = true
				out["format of numbers"] = out["format of numbers"] || !slices.Contains(formatNames, v.Text())
			case "$id", "id":
				out["$id within"] = out["$id within"] || at != "" && !strings.HasPrefix(v.Text(), "#")
			case "$ref":
				out["$ref with siblings"] = out["$ref with siblings"] || at != "" && len(n.Members()) > 1
				uri, frag, _ := strings.Cut(v.Text(), "#")
				switch {
				case uri != "":
					out["$ref: other resource"] = true
				case strings.HasPrefix(frag, "/"):
					out["$ref: pointer"] = true
				case frag != "":
					out["$ref: anchor"] = true
				}
			case "if":
				_, then := n.Get("then")
				_, other := n.Get("else")
				out["if alone"] = out["if alone"] || !then && !other
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, has bool) bool { return !has })
	if unevaluated {
		out["(unevaluated*)"] = true
	}
	return out
}

// form is how a schema, or a list of them, is written.
func form(v wire.Value) string {
	switch v.Type() {
	case wire.Array:
		return "list"
	case wire.Bool:
		return v.Text()
	}
	return "schema"
}

// edges are the formats of numbers, which lib/schema takes for limits, and the
// integers about those: the second and third are the limits.
var edges = map[string][]string{
	"int8":   {"-129", "-128", "127", "128"},
	"uint8":  {"-1", "0", "255", "256"},
	"int16":  {"-32769", "-32768", "32767", "32768"},
	"uint16": {"-1", "0", "65535", "65536"},
	"int32":  {"-2147483649", "-2147483648", "2147483647", "2147483648"},
	"uint64": {"-1", "0", "18446744073709551615", "18446744073709551616"},
}

var edgeNames = slices.Sorted(maps.Keys(edges))

// limits is such a format for the other validator.
func limits(name string) *jsonschema.Format {
	low, _ := new(big.Rat).SetString(edges[name][1])
	high, _ := new(big.Rat).SetString(edges[name][2])
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		if x, ok := new(big.Rat).SetString(n.String()); !ok || x.Cmp(low) < 0 || x.Cmp(high) > 0 {
			return fmt.Errorf("%s is no %s", n, name)
		}
		return nil
	}}
}
