package schema

import (
	"slices"
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

// nearestWord is wire.Nearest, but for prefixes and folded separators too.
func nearestWord(s string, names []string) string {
	if near := wire.Nearest(s, names); near != "" {
		return near
	}
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", "$", "").Replace(s))
	}
	slices.Sort(names)
	for _, n := range names {
		if fold(n) == fold(s) {
			return n
		}
	}
	return ""
}

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
