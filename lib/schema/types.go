package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"forge/lib/wire"
)

var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// otherTypes are words of other languages for a type, folded, each with the type
// and, where it says as much, the format.
var otherTypes = map[string]string{
	"dict": "object", "map": "object", "hashmap": "object", "treemap": "object", "struct": "object", "record": "object", "json": "object",
	"table": "object", "mapping": "object", "dictionary": "object", "hash": "object",
	"float": "number", "float32": "number", "float64": "number", "double": "number", "decimal": "number", "real": "number", "numeric": "number",
	"int": "integer", "int8": "integer", "int16": "integer", "int32": "integer", "int64": "integer", "long": "integer", "short": "integer",
	"uint": "integer", "uint8": "integer", "uint16": "integer", "uint32": "integer", "uint64": "integer", "bigint": "integer", "byte": "integer",
	"i8": "integer", "i16": "integer", "i32": "integer", "i64": "integer", "u8": "integer", "u16": "integer", "u32": "integer", "u64": "integer",
	"usize": "integer", "isize": "integer", "f32": "number", "f64": "number",
	"str": "string", "text": "string", "char": "string", "varchar": "string", "bytes": "string", "bytearray": "string", "uint8array": "string",
	"buffer": "string", "blob": "string", "binary": "string", "regexp": "string", "regex": "string", "pattern": "string", "symbol": "string",
	"list": "array", "tuple": "array", "set": "array", "frozenset": "array", "hashset": "array", "slice": "array", "vec": "array", "vector": "array",
	"sequence": "array", "iterable": "array", "arraylist": "array", "collection": "array",
	"bool": "boolean", "none": "null", "nil": "null", "undefined": "null", "void": "null", "nonetype": "null",

	"datetime": "string date-time", "timestamp": "string date-time", "guid": "string uuid", "url": "string uri",
	"path": "string", "file": "string", "filepath": "string", "filename": "string", "directory": "string", "folder": "string",
	"password": "string password", "timedelta": "string duration", "ipaddress": "string ip", "emailaddress": "string email",
}

// anyTypes are words, folded, for what has no type to name.
var anyTypes = []string{"any", "unknown", "anything", "mixed", "variant", "dynamic"}

// typeWord returns the JSON type that a word of another language means, or "".
func typeWord(s string) string {
	if t, ok := (&typeReader{}).word(s); ok && len(t.types) == 1 {
		return t.types[0]
	}
	return wire.Nearest(s, types)
}

// A meaning is what the text of a type means: some types, and what is said of
// the values that have them. It has none if every value is meant.
type meaning struct {
	types         []string
	ref, format   string
	items, values *meaning // of arrays, of objects
	enum          []wire.Value
	anyOf         []*meaning // instead of all that
}

// members prints a meaning as the members of a schema.
func (m *meaning) members() []wire.Member {
	var ms []wire.Member
	put := func(name string, v wire.Value) { ms = append(ms, wire.Member{Name: name, Value: v}) }
	if len(m.anyOf) > 0 {
		vs := make([]wire.Value, len(m.anyOf))
		for i, o := range m.anyOf {
			vs[i] = o.schema()
		}
		put("anyOf", wire.ArrayOf(vs...))
	}
	if m.ref != "" {
		put("$ref", wire.StringOf(m.ref))
	}
	list := make([]wire.Value, len(m.types))
	for i, t := range m.types {
		list[i] = wire.StringOf(t)
	}
	switch {
	case len(list) == 1:
		put("type", list[0])
	case len(list) > 1:
		put("type", wire.ArrayOf(list...))
	}
	if len(m.enum) > 0 {
		put("enum", wire.ArrayOf(m.enum...))
	}
	if m.format != "" {
		put("format", wire.StringOf(m.format))
	}
	if m.items != nil && !m.items.any() {
		put("items", m.items.schema())
	}
	if m.values != nil && !m.values.any() {
		put("additionalProperties", m.values.schema())
	}
	return ms
}

func (m *meaning) schema() wire.Value { return wire.ObjectOf(m.members()...) }

func (m *meaning) any() bool { return len(m.types)+len(m.ref)+len(m.enum)+len(m.anyOf) == 0 }

// alone says whether a meaning is some types and no more.
func (m *meaning) alone() bool {
	return len(m.types) > 0 && len(m.ref)+len(m.format)+len(m.enum)+len(m.anyOf) == 0 &&
		(m.items == nil || m.items.any()) && (m.values == nil || m.values.any())
}

// or joins a meaning with another.
func (m *meaning) or(o *meaning) *meaning {
	switch {
	case m.any() || o.any():
		return &meaning{}
	case len(m.anyOf) > 0:
		return &meaning{anyOf: append(slices.Clip(m.anyOf), o)}
	case !m.joins(o):
		return &meaning{anyOf: []*meaning{m, o}}
	}
	out := *m
	for _, t := range o.types {
		if !slices.Contains(m.types, t) {
			out.types = append(slices.Clip(out.types), t)
		}
	}
	out.enum = append(slices.Clip(m.enum), o.enum...)
	if len(m.enum) > 0 && o.null() {
		out.enum = append(out.enum, wire.Value{})
	}
	out.format += o.format // one of them has strings
	out.items, out.values = cmp.Or(m.items, o.items), cmp.Or(m.values, o.values)
	return &out
}

// joins says whether one schema without anyOf can say both.
func (m *meaning) joins(o *meaning) bool {
	enums := len(m.enum) > 0 && len(o.enum) > 0
	shared := slices.ContainsFunc(m.types, func(t string) bool { return slices.Contains(o.types, t) })
	return m.ref+o.ref == "" && len(o.anyOf) == 0 &&
		(enums || len(m.enum)+len(o.enum) == 0 || o.null()) &&
		(enums || !shared || m.alone() && o.alone())
}

func (m *meaning) null() bool { return m.alone() && len(m.types) == 1 && m.types[0] == "null" }

// typeHint says what to write for a type that means m.
func typeHint(m *meaning) string {
	v := m.schema().String()
	switch ms := m.members(); {
	case m.any():
		return `leave "type" out: without it every type is allowed`
	case m.alone():
		return "write " + ms[0].Value.String()
	case len(ms) == 2 && len(m.types) == 1 && m.format != "":
		return `write "` + m.types[0] + `", and "format":"` + m.format + `"`
	default:
		return "write " + v[1:len(v)-1]
	}
}

// unknownType says what to write for a type that holds w, which names none.
func (d *document) unknownType(n *node, v, w wire.Value) string {
	objects := 0
	for _, w := range v.Items() {
		if w.Type() == wire.Object {
			objects++
		}
	}
	refs := d.names()
	m, ok := readType(w.Text(), refs)
	switch word := fold(w.Text()); {
	case objects > 0 && objects == len(v.Items()):
		return `write "anyOf"`
	case objects > 0:
		return `write "anyOf", and each word as {"type":"string"}`
	case w.Type() == wire.Null:
		return `write "null" in quotes`
	case w.Type() != wire.String:
		return oneOfTypes()
	case word == "enum" && n.has("enum"):
		return `leave "type" out: "enum" says it`
	case word == "enum":
		return `leave "type" out, and write the allowed values, as "enum":["a","b"]`
	case ok && slices.Contains(pathWords, word) && !n.has("x-bind"):
		return `write "string", and "x-bind":"ro" or "rw" if the tool opens it`
	case !ok:
		if near := wire.Nearest(w.Text(), types); near != "" && !strings.ContainsAny(w.Text(), "[]<>(){}|,") {
			return "write " + strconv.Quote(near)
		}
		return oneOfTypes()
	case v.Type() == wire.Array && !m.any() && !(m.alone() && len(m.types) == 1):
		if m, ok = readTypes(v.Items(), refs); !ok {
			return oneOfTypes()
		}
	}
	// What stands beside it, stays.
	if n.has("format") {
		m.format = ""
	}
	if n.has("items") {
		m.items = nil
	}
	return typeHint(m)
}

func oneOfTypes() string { return "write one of " + strings.Join(types, ", ") }

// readTypes returns what a list of types means.
func readTypes(words []wire.Value, refs map[string]string) (all *meaning, ok bool) {
	if len(words) > maxTypes {
		return nil, false
	}
	for _, w := range words {
		m, ok := readType(w.Text(), refs)
		switch {
		case !ok:
			return nil, false
		case all == nil:
			all = m
		default:
			all = all.or(m)
		}
	}
	return all, true
}

// names are the references to the definitions of the root, by their names.
func (d *document) names() map[string]string {
	refs := map[string]string{}
	for _, word := range []string{"definitions", "$defs"} {
		defs, _ := d.root().get(word)
		for _, m := range defs.Members() {
			refs[m.Name] = "#/" + word + "/" + wire.Escape(m.Name)
		}
	}
	return refs
}

// A typeReader reads the text of a type in another language: Optional[List[int]],
// string | null, Map<string, number>, Date[].
type typeReader struct {
	toks []string
	refs map[string]string // a $ref for each name of a definition
}

// The bounds on what is read, for a hint.
const (
	maxType  = 200 // bytes
	maxTypes = 20  // in a list
)

// readType returns what the text of a type means, if it is understood.
func readType(text string, refs map[string]string) (*meaning, bool) {
	if len(text) > maxType {
		return nil, false
	}
	r := &typeReader{typeTokens().FindAllString(text, -1), refs}
	m, ok := r.union()
	for ok && r.take(",") {
		var o *meaning
		if o, ok = r.union(); ok {
			m = m.or(o)
		}
	}
	return m, ok && len(r.toks) == 0
}

var typeTokens = pattern(`[\pL_$][\pL\pN_$.:]*|[0-9]+|'[^']*'|"[^"]*"|\.\.\.|\S`)

func (r *typeReader) peek(toks ...string) bool {
	return len(r.toks) > 0 && slices.Contains(toks, r.toks[0])
}

func (r *typeReader) take(toks ...string) bool {
	if !r.peek(toks...) {
		return false
	}
	r.toks = r.toks[1:]
	return true
}

func (r *typeReader) union() (*meaning, bool) {
	m, ok := r.one()
	for ok && r.take("|", "or", "/") {
		var o *meaning
		if o, ok = r.one(); ok {
			m = m.or(o)
		}
	}
	return m, ok
}

// one reads a type with the [] and ? behind it.
func (r *typeReader) one() (*meaning, bool) {
	m, ok := r.atom()
	for ok && len(r.toks) > 0 {
		switch {
		case len(r.toks) > 1 && r.toks[0] == "[" && r.toks[1] == "]":
			r.toks = r.toks[2:]
			m = &meaning{types: []string{"array"}, items: m}
		case r.take("?"):
			m = m.or(&meaning{types: []string{"null"}})
		default:
			return m, true
		}
	}
	return m, ok
}

func (r *typeReader) atom() (*meaning, bool) {
	switch {
	case len(r.toks) == 0:
		return nil, false
	case r.take("("):
		m, ok := r.union()
		return m, ok && r.take(")")
	case len(r.toks) > 1 && r.toks[0] == "[" && r.toks[1] == "]": // of Go
		r.toks = r.toks[2:]
		m, ok := r.one()
		return &meaning{types: []string{"array"}, items: m}, ok
	case r.take("["):
		args, ok := r.args("]")
		return listOf(args), ok
	}
	tok := r.toks[0]
	r.toks = r.toks[1:]
	if len(tok) > 1 && (tok[0] == '\'' || tok[0] == '"') {
		return &meaning{types: []string{"string"}, enum: []wire.Value{wire.StringOf(tok[1 : len(tok)-1])}}, true
	}
	open := ""
	if r.peek("[", "<", "(") && !(len(r.toks) > 1 && r.toks[1] == "]") {
		open = r.toks[0]
		r.toks = r.toks[1:]
	}
	if open == "" {
		if r.take("of") {
			m, ok := r.one()
			return r.generic(tok, []*meaning{m}, ok)
		}
		return r.word(tok)
	}
	if open == "(" { // varchar(255), decimal(10, 2)
		for len(r.toks) > 0 && !r.take(")") {
			r.toks = r.toks[1:]
		}
		return r.word(tok)
	}
	args, ok := r.args(map[string]string{"[": "]", "<": ">"}[open])
	return r.generic(tok, args, ok)
}

// args reads types up to a bracket. "…" and numbers, as the length of an array,
// are left out.
func (r *typeReader) args(end string) (args []*meaning, ok bool) {
	for !r.take(end) {
		if len(r.toks) > 0 && (r.toks[0] == "..." || r.toks[0][0] >= '0' && r.toks[0][0] <= '9') {
			r.toks = r.toks[1:]
		} else {
			m, ok := r.union()
			if !ok {
				return nil, false
			}
			args = append(args, m)
		}
		if !r.take(",", ";") && !r.peek(end) {
			return nil, false
		}
	}
	return args, true
}

func listOf(args []*meaning) *meaning {
	m := &meaning{types: []string{"array"}}
	if len(args) == 1 {
		m.items = args[0]
	}
	return m
}

// generic is what a type with arguments means.
func (r *typeReader) generic(tok string, args []*meaning, ok bool) (*meaning, bool) {
	if !ok || len(args) == 0 {
		return nil, false
	}
	null := &meaning{types: []string{"null"}}
	switch name := fold(tok[strings.LastIndexAny(tok, ".:")+1:]); name {
	case "optional", "option", "nullable", "maybe":
		return args[0].or(null), true
	case "union", "oneof", "anyof", "either", "literal":
		m := args[0]
		for _, o := range args[1:] {
			m = m.or(o)
		}
		return m, true
	case "annotated", "final", "readonly", "promise":
		return args[0], true
	case "array":
		return listOf(args), true
	default:
		switch t, _, _ := strings.Cut(otherTypes[name], " "); t {
		case "array":
			return listOf(args), true
		case "object":
			if len(args) == 1 { // map[string]int, of Go
				m, ok := r.one()
				return &meaning{types: []string{"object"}, values: m}, ok
			}
			return &meaning{types: []string{"object"}, values: args[len(args)-1]}, len(args) == 2
		}
	}
	return nil, false
}

// word is what a type without arguments means.
func (r *typeReader) word(tok string) (*meaning, bool) {
	if ref, ok := r.refs[tok]; ok && !slices.Contains(types, tok) {
		return &meaning{ref: ref}, true
	}
	last := tok[strings.LastIndexAny(tok, ".:")+1:]
	name := fold(last)
	say, ok := otherTypes[name]
	switch {
	case tok == "Date": // of JavaScript
		say = "string date-time"
	case ok:
	case slices.Contains(types, name):
		say = name
	case slices.Contains(anyTypes, name):
		return &meaning{}, true
	case formats[strings.ToLower(last)] != nil:
		say = "string " + strings.ToLower(last)
	case strings.HasSuffix(name, "s") && len(name) > 3: // list of strings
		return r.word(name[:len(name)-1])
	default:
		return nil, false
	}
	t, format, _ := strings.Cut(say, " ")
	return &meaning{types: []string{t}, format: format}, true
}
