package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"forge/lib/wire"
)

// instead says what to write for keywords of another dialect.
var instead = map[string]string{
	"$dynamicRef":           `write "$ref" to the definition itself, or declare 2020-12`,
	"$dynamicAnchor":        `write "$anchor" and "$ref", or declare 2020-12`,
	"$recursiveRef":         `write "$ref":"#"`,
	"$recursiveAnchor":      `leave it out and write "$ref":"#"`,
	"dependencies":          `write "dependentRequired" or "dependentSchemas"`,
	"additionalItems":       `write "prefixItems" for the list and "items" for the rest`,
	"prefixItems":           `write "items":[…], or declare 2020-12`,
	"id":                    `write "$id"`,
	"unevaluatedProperties": `write "additionalProperties", or declare 2020-12`,
	"unevaluatedItems":      `declare 2020-12`,
}

// otherWords are words of other languages and libraries, folded, and the
// keyword that says the same.
var otherWords = map[string]string{
	"parameters": "properties", "params": "properties", "arguments": "properties", "args": "properties",
	"fields": "properties", "props": "properties", "property": "properties", "attributes": "properties", "members": "properties",
	"values": "enum", "choices": "enum", "options": "enum", "allowedvalues": "enum", "possiblevalues": "enum", "enumvalues": "enum",
	"ge": "minimum", "gte": "minimum", "minvalue": "minimum", "minimumvalue": "minimum", "gt": "exclusiveMinimum",
	"le": "maximum", "lte": "maximum", "maxvalue": "maximum", "maximumvalue": "maximum", "lt": "exclusiveMaximum",
	"divisibleby": "multipleOf", "minlen": "minLength", "maxlen": "maxLength",
	"regex": "pattern", "regexp": "pattern", "source": "pattern",
	"of": "items", "element": "items", "elements": "items", "itemtype": "items", "elementtype": "items", "unique": "uniqueItems",
	"additional": "additionalProperties", "additionalprops": "additionalProperties", "mandatory": "required",
	"desc": "description", "defaultvalue": "default", "constant": "const",
	"secret": "x-redact", "sensitive": "x-redact", "xsecret": "x-redact", "xsensitive": "x-redact",
}

// otherHints are for words, folded, that no keyword replaces as it stands.
var otherHints = map[string]string{
	"example": `write "examples":[…]`, "extends": `write "allOf":[{"$ref":…}]`, "disallow": `write "not":{"type":…}`,
	"vocabulary": "leave it out",
}

// oddWords are such words too, and what to write depends on where they stand; ""
// if they are not what they seem.
var oddWords = map[string]func(n *node, v wire.Value) string{
	"nullable":   nullable,
	"optional":   func(n *node, v wire.Value) string { return needed(n, !isYes(v)) },
	"mandatory":  mandatory,
	"isrequired": mandatory,
	"min":        func(n *node, _ wire.Value) string { return limit(n, "min") },
	"max":        func(n *node, _ wire.Value) string { return limit(n, "max") },
	"minsize":    func(n *node, _ wire.Value) string { return limit(n, "min") },
	"maxsize":    func(n *node, _ wire.Value) string { return limit(n, "max") },
	"length":     func(*node, wire.Value) string { return `write "minLength" and "maxLength"` },
	"components": func(_ *node, v wire.Value) string {
		if s, ok := v.Get("schemas"); !ok || s.Type() != wire.Object {
			return ""
		}
		return `write what stands under "schemas" as "$defs", and "#/$defs/NAME"`
	},
}

// unknown says what to write for a word that is no keyword.
func (d *document) unknown(n *node, m wire.Member) string {
	if n.parent == nil {
		if way := wrapped(n.v); way != "" {
			return "the schema is what stands under " + strconv.Quote(way)
		}
	}
	own := ownTypes(n)
	property := schemaLike(m.Value) && (len(own) == 0 || slices.Contains(own, "object"))
	if hint := otherHints[fold(m.Name)]; hint != "" {
		return hint
	}
	if f := oddWords[fold(m.Name)]; f != nil && !property {
		if hint := f(n, m.Value); hint != "" {
			return hint
		}
	}
	word := otherWords[fold(m.Name)]
	if !takes(word, m.Value) || word == "properties" && schemaLike(m.Value) || property && keywords[word].holds != nothing {
		word = ""
	}
	word = cmp.Or(d.sameKeyword(m.Name), word, d.nearKeyword(m, property))
	typ, isType := readType(m.Value.Text(), d.names())
	switch {
	case word != "":
		return "write " + strconv.Quote(word)
	case property && n.via == "properties" && unescape(n.at) == "properties":
		return `write it into the outer "properties"`
	case property:
		return `write it under "properties"`
	case isType && m.Value.Type() == wire.String && !slices.ContainsFunc(n.v.Members(), isKeyword):
		return `write it under "properties", as ` + typ.schema().String()
	case strings.HasPrefix(m.Name, "x-"):
		return `leave it out; the annotations are "x-bind" and "x-redact"`
	}
	return "leave it out; what is not a keyword is not enforced"
}

func isKeyword(m wire.Member) bool {
	_, ok := keywords[m.Name]
	return ok
}

// noSchema says what to write for a value that stands where a schema should.
func (d *document) noSchema(n *node) string {
	v := n.v
	if misplaced(n) {
		return besideProperties(unescape(n.at))
	}
	if v.Type() == wire.String {
		for _, word := range []string{"true", "false"} {
			if strings.EqualFold(v.Text(), word) {
				return "write " + word
			}
		}
		if m, ok := readType(v.Text(), d.names()); ok {
			return "write " + m.schema().String()
		}
		if near := wire.Nearest(v.Text(), types); near != "" {
			return "write " + object("type", wire.StringOf(near)).String()
		}
	}
	return `write an object, as {"type":"string"}`
}

func besideProperties(word string) string {
	return "write " + strconv.Quote(word) + ` beside "properties", not in it`
}

// misplaced says whether a property reads like a keyword of the object that has
// the properties: {"properties":{"a":{…},"required":["a"]}}. Among properties
// that are all written as types, it is one of them.
func misplaced(n *node) bool {
	word := unescape(n.at)
	if _, ok := keywords[word]; !ok || n.via != "properties" || !takes(word, n.v) {
		return false
	}
	all, _ := n.parent.get("properties")
	return slices.ContainsFunc(all.Members(), func(m wire.Member) bool {
		return m.Value.Type() != wire.String || typeWord(m.Value.Text()) == ""
	})
}

// dialectHint says what to write for a $schema that is none of ours.
func dialectHint(v wire.Value) string {
	if m := draftName().FindString(strings.ToLower(v.Text())); m != "" {
		for uri, d := range dialects {
			if fold(strings.ReplaceAll(m, "-0", "")) == fold(strings.ReplaceAll(d.String(), "-0", "")) {
				if d <= draft7 {
					uri += "#"
				}
				return "write " + strconv.Quote(uri)
			}
		}
	}
	return `write "https://json-schema.org/draft/2020-12/schema" or leave it out`
}

// draftName is the name of a dialect, and not a part of a longer one.
var draftName = pattern(`\bdraft[- ]?0?[467]\b|\b2019-09\b|\b2020-12\b`)

// sameKeyword is the keyword that a word is but for case and separators, one of
// the dialect before one of another.
func (d *document) sameKeyword(word string) string {
	names := sortedKeys(keywords)
	ours := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !keywords[name].in(d.dialect) })
	return cmp.Or(same(word, ours), same(word, names))
}

// nearKeyword is the keyword that a word likely misspells, among those of the
// dialect that may hold its value. property says that the word may just as well
// be the name of one: a short keyword is near to too many of these.
func (d *document) nearKeyword(m wire.Member, property bool) string {
	if len(m.Name) < 3 {
		return ""
	}
	var words []string
	for word, k := range keywords {
		if k.in(d.dialect) && takes(word, m.Value) && (!property || len(word) > 5) {
			words = append(words, word)
		}
	}
	return wire.Nearest(m.Name, words)
}

// ownTypes are the types that a position itself names, in whatever language.
func ownTypes(n *node) []string {
	v, _ := n.get("type")
	words := v.Items()
	if v.Type() == wire.String {
		words = []wire.Value{v}
	}
	var out []string
	for _, w := range words {
		if t := typeWord(w.Text()); t != "" && w.Type() == wire.String {
			out = append(out, t)
		}
	}
	return out
}

// schemaLike says whether a value reads like a schema, which an object of
// schemas does not.
func schemaLike(v wire.Value) bool {
	if t, _ := v.Get("type"); t.Type() == wire.String && typeWord(t.Text()) != "" || t.Type() == wire.Array {
		return true
	}
	for word, want := range map[string]wire.Type{
		"$ref": wire.String, "properties": wire.Object, "enum": wire.Array, "anyOf": wire.Array, "oneOf": wire.Array, "allOf": wire.Array,
	} {
		if m, ok := v.Get(word); ok && m.Type() == want {
			return true
		}
	}
	return false
}

// Under these words, what defines a tool or an answer has the schema, what has
// it, and another.
var (
	wrappers = []string{"parameters", "input_schema", "inputSchema", "args_schema", "schema"}
	outer    = []string{"function", "json_schema", "tool"}
	outputs  = []string{"output_schema", "outputSchema", "returns"}
)

// wrapped returns the way to the schema in what is none, but defines a tool.
func wrapped(v wire.Value) string {
	if _, ok := v.Get("properties"); ok {
		return ""
	}
	others := slices.ContainsFunc(v.Members(), func(m wire.Member) bool { // all of them properties?
		return schemaLike(m.Value) && !slices.Contains(wrappers, m.Name) && !slices.Contains(outputs, m.Name)
	})
	for _, word := range wrappers {
		if in, ok := v.Get(word); ok && schemaLike(in) && !others {
			return word
		}
	}
	for _, word := range outer {
		if in, ok := v.Get(word); ok {
			if way := wrapped(in); way != "" {
				return word + "/" + way
			}
		}
	}
	return ""
}

// limit names the limits that min or max mean for the types of a position.
func limit(n *node, side string) string {
	of := map[string]string{
		"number": side + "imum", "integer": side + "imum", "string": side + "Length", "array": side + "Items", "object": side + "Properties",
	}
	var words []string
	for _, t := range ownTypes(n) {
		if w := of[t]; w != "" && !slices.Contains(words, strconv.Quote(w)) {
			words = append(words, strconv.Quote(w))
		}
	}
	if len(words) == 0 {
		return fmt.Sprintf("write %q, %q or %q", of["number"], of["string"], of["array"])
	}
	return "write " + strings.Join(words, " or ")
}

// nullable says how a position lets null through.
func nullable(n *node, v wire.Value) string {
	null := wire.StringOf("null")
	holds := func(list wire.Value, it wire.Value) bool {
		return slices.ContainsFunc(list.Items(), func(o wire.Value) bool { return canonical(o) == canonical(it) })
	}
	for _, word := range []string{"$ref", "allOf", "const", "not"} {
		if n.has(word) && isYes(v) {
			return `write "anyOf":[{"` + word + `":…},{"type":"null"}]`
		}
	}
	var say []string
	if own := ownTypes(n); len(own) > 0 && !slices.Contains(own, "null") {
		list := make([]wire.Value, 0, len(own)+1)
		for _, t := range own {
			list = append(list, wire.StringOf(t))
		}
		say = append(say, `"type":`+wire.ArrayOf(append(list, null)...).String())
	}
	if enum, ok := n.get("enum"); ok && !holds(enum, wire.Value{}) {
		say = append(say, `null into "enum"`)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if union, ok := n.get(word); ok && !holds(union, object("type", null)) {
			say = append(say, `{"type":"null"} into `+strconv.Quote(word))
		}
	}
	if len(say) == 0 || !isYes(v) {
		return "leave it out"
	}
	return "write " + strings.Join(say, ", and ")
}

// isYes reads true, in quotes too.
func isYes(v wire.Value) bool {
	return (v.Type() == wire.Bool || v.Type() == wire.String) && strings.EqualFold(v.Text(), "true")
}

// mandatory says what to write for a word that means required, true or false.
func mandatory(n *node, v wire.Value) string {
	if v.Type() != wire.Bool {
		return ""
	}
	return needed(n, isYes(v))
}

// needed says how the object that holds a property asks for it, or does not.
func needed(n *node, yes bool) string {
	listed := false
	if n.via == "properties" {
		list, _ := n.parent.get("required")
		listed = slices.ContainsFunc(list.Items(), func(it wire.Value) bool {
			return it.Type() == wire.String && it.Text() == unescape(n.at)
		})
	}
	switch {
	case n.via != "properties" || yes == listed:
		return "leave it out"
	case yes:
		return `write the name into the "required" list of the object that holds it, and leave this out`
	}
	return `leave it out, and the name out of the object's "required"`
}

const listOfNames = `write a list of names, as ["a","b"]`

// required says what to write for a "required" that is no list.
func required(n *node, v wire.Value) string {
	word := v.Type() == wire.Bool || v.Type() == wire.String && (isYes(v) || strings.EqualFold(v.Text(), "false"))
	switch {
	case !word:
		return listOfNames
	case !isYes(v) || n.via == "properties" && !n.has("properties"):
		return needed(n, isYes(v))
	case n.via == "properties":
		return listOfNames + `; or the name into the "required" list of the object that holds it, and leave this out`
	case n.has("properties"):
		return listOfNames
	}
	return "leave it out"
}

// fold makes words alike that differ in case and separators.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", "$", "", " ", "").Replace(s))
}

// same returns the name that is s but for case and separators, or "".
func same(s string, names []string) string {
	for _, n := range names {
		if fold(n) == fold(s) {
			return n
		}
	}
	return ""
}

// otherFormats are formats that are not checked here, folded, and the one that is
// and may be meant. Those without one are near to others by their letters alone.
var otherFormats = map[string]string{
	"guid": "uuid", "uuid1": "uuid", "uuid3": "uuid", "uuid4": "uuid", "uuid5": "uuid", "uuid6": "uuid", "uuid7": "uuid", "uuid8": "uuid",
	"url": "uri", "iri": "uri", "irireference": "uri-reference", "host": "hostname", "idnhostname": "hostname", "idnemail": "email",
	"timestamp": "date-time", "localdatetime": "date-time-local", "localtime": "time-local",
	"ipaddress": "ip", "cidr": "ipvanynetwork", "cidrv4": "ipv4network", "cidrv6": "ipv6network", "ipv4cidr": "ipv4network", "ipv6cidr": "ipv6network",
	"ulid": "", "cuid": "", "cuid2": "", "nanoid": "", "xid": "", "ksuid": "",
}

// formatHint says what to write for a format that is not checked.
func formatHint(n *node, name string) string {
	if n.types&typeString == 0 {
		return numberFormatHint(n, name)
	}
	patterned := n.has("pattern")
	for _, e := range n.kids["allOf"] {
		patterned = patterned || e.to.has("pattern")
	}
	names := append(sortedKeys(formats), formatHints...)
	exact := same(name, names)
	meant, known := otherFormats[fold(name)]
	switch {
	case exact != "":
	case patterned:
		return `leave it out: the "pattern" says it`
	case n.has("enum"):
		return `leave it out: the "enum" says it`
	case slices.Contains(pathWords, fold(name)):
		return `leave it out, and write "x-bind":"ro" or "rw" if the tool opens it`
	case !known && len(name) > 3:
		meant = wire.Nearest(name, names)
	}
	if near := cmp.Or(exact, meant); near != "" {
		return "write " + strconv.Quote(near) + `; or a "pattern"`
	}
	return `write a "pattern" instead, or leave it out`
}

// numberFormatHint is formatHint where no string is let through.
func numberFormatHint(n *node, name string) string {
	if n.types&typeInteger == 0 {
		return "leave it out"
	}
	if exact := same(name, append(sortedKeys(integerFormats), "float", "double")); exact != "" {
		return "write " + strconv.Quote(exact)
	}
	return `leave it out, or write "minimum" and "maximum"`
}

// pathWords are words for a path, folded.
var pathWords = []string{"path", "file", "filepath", "filename", "directory", "directorypath", "dir", "folder"}
