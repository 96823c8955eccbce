package schema

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"forge/lib/wire"
)

// instead says what to write for words that are often met and are no keywords.
var instead = map[string]string{
	"nullable":              `write "type":["string","null"], with the type it has`,
	"optional":              `leave the name out of the object's "required"`,
	"example":               `write "examples":[…]`,
	"$dynamicRef":           `write "$ref" to the definition itself, or declare 2020-12`,
	"$dynamicAnchor":        `write "$anchor" and "$ref", or declare 2020-12`,
	"$recursiveRef":         `write "$ref":"#"`,
	"$recursiveAnchor":      `leave it out and write "$ref":"#"`,
	"$vocabulary":           `leave it out`,
	"dependencies":          `write "dependentRequired" or "dependentSchemas"`,
	"additionalItems":       `write "prefixItems" for the list and "items" for the rest`,
	"prefixItems":           `write "items":[…], or declare 2020-12`,
	"id":                    `write "$id"`,
	"desc":                  `write "description"`,
	"parameters":            `write "properties"`,
	"fields":                `write "properties"`,
	"extends":               `write "allOf":[{"$ref":…}]`,
	"divisibleBy":           `write "multipleOf"`,
	"disallow":              `write "not":{"type":…}`,
	"values":                `write "enum"`,
	"choices":               `write "enum"`,
	"options":               `write "enum"`,
	"min":                   `write "minimum", "minLength" or "minItems"`,
	"max":                   `write "maximum", "maxLength" or "maxItems"`,
	"regex":                 `write "pattern"`,
	"unevaluatedProperties": `write "additionalProperties", or declare 2020-12`,
	"unevaluatedItems":      `declare 2020-12`,
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

// nearestWord is wire.Nearest, but for folded separators too.
func nearestWord(s string, names []string) string {
	slices.Sort(names)
	return cmp.Or(wire.Nearest(s, names), same(s, names))
}

// otherFormats are formats that are not checked here, folded, and those that are
// and may be meant. Of those without one none is near, but their letters.
var otherFormats = map[string]string{
	"guid": "uuid", "uuid1": "uuid", "uuid3": "uuid", "uuid4": "uuid", "uuid5": "uuid", "uuid6": "uuid", "uuid7": "uuid", "uuid8": "uuid",
	"url": "uri", "iri": "uri", "irireference": "uri-reference", "host": "hostname", "idnhostname": "hostname", "idnemail": "email",
	"timestamp": "date-time", "ipaddress": "ip", "cidrv4": "ipv4network", "cidrv6": "ipv6network", "cidr": "ipvanynetwork",
	"ulid": "", "cuid": "", "cuid2": "", "nanoid": "", "xid": "", "ksuid": "",
}

// formatHint says what to write for a format that is not checked.
func formatHint(n *node, name string) string {
	patterned := n.has("pattern")
	for _, e := range n.kids["allOf"] {
		patterned = patterned || e.to.has("pattern")
	}
	var names []string
	switch {
	case n.types&typeString != 0:
		names = append(slices.Collect(maps.Keys(formats)), formatHints...)
	case n.types&typeInteger != 0:
		names = append(slices.Collect(maps.Keys(integerFormats)), "float", "double")
	}
	slices.Sort(names)
	near := cmp.Or(same(name, names), otherFormats[fold(name)])
	_, known := otherFormats[fold(name)]
	switch {
	case n.types&typeString == 0 && near != "":
		return "write " + strconv.Quote(near)
	case n.types&(typeString|typeInteger) == 0:
		return "leave it out"
	case n.types&typeString == 0:
		return `leave it out, or write "minimum" and "maximum"`
	case patterned && same(name, names) == "":
		return `leave it out: the "pattern" says it`
	case n.has("enum"):
		return `leave it out: the "enum" says it`
	case slices.Contains(pathWords, fold(name)):
		return `leave it out, and write "x-bind":"ro" or "rw" if the tool opens it`
	case near == "" && !known && len(name) > 3:
		near = wire.Nearest(name, names)
	}
	if near != "" {
		return "write " + strconv.Quote(near) + `; or a "pattern"`
	}
	return `write a "pattern" instead, or leave it out`
}

// pathWords are words for a path, folded.
var pathWords = []string{"path", "file", "filepath", "filename", "directory", "directorypath", "dir", "folder"}

var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typeWord returns the JSON type that a word of another language means.
func typeWord(s string) string {
	switch strings.ToLower(s) {
	case "dict", "map", "hashmap", "struct", "record", "json", "table", "mapping":
		return "object"
	case "float", "float32", "float64", "double", "decimal", "real", "numeric":
		return "number"
	case "int", "int32", "int64", "long", "uint", "short", "bigint", "byte":
		return "integer"
	case "str", "text", "char", "varchar", "path", "date", "datetime", "uuid", "url", "uri", "bytes", "file":
		return "string"
	case "list", "tuple", "set", "slice", "vec", "sequence", "arraylist":
		return "array"
	case "bool":
		return "boolean"
	case "none", "nil", "undefined", "void", "nonetype":
		return "null"
	}
	return wire.Nearest(s, types)
}
