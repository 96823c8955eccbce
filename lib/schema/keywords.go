package schema

import (
	"strings"

	"forge/lib/wire"
)

// A dialect is a draft by the year or number it is known under.
type dialect int

const (
	draft4 dialect = iota
	draft6
	draft7
	draft2019
	draft2020
)

func (d dialect) String() string {
	return [...]string{"draft-04", "draft-06", "draft-07", "2019-09", "2020-12"}[d]
}

var dialects = map[string]dialect{
	"http://json-schema.org/draft-04/schema":       draft4,
	"http://json-schema.org/draft-06/schema":       draft6,
	"http://json-schema.org/draft-07/schema":       draft7,
	"https://json-schema.org/draft/2019-09/schema": draft2019,
	"https://json-schema.org/draft/2020-12/schema": draft2020,
}

// A keyword is what a schema may say, the dialects that know it, and where it
// holds further schemas.
type keyword struct {
	from, to   dialect
	holds      holds
	annotation bool
}

// in says whether a dialect knows a keyword.
func (k keyword) in(d dialect) bool { return k.from <= d && d <= k.to }

type holds int

const (
	nothing holds = iota
	one           // a schema
	several       // a list of schemas
	named         // an object of schemas
	either        // a schema, or a list of them
	mixed         // an object of schemas or lists of names
)

var keywords = map[string]keyword{
	"$schema": {draft4, draft2020, nothing, true}, "$comment": {draft4, draft2020, nothing, true},
	"title": {draft4, draft2020, nothing, true}, "description": {draft4, draft2020, nothing, true},
	"default": {draft4, draft2020, nothing, true}, "examples": {draft4, draft2020, nothing, true},
	"deprecated": {draft4, draft2020, nothing, true}, "readOnly": {draft4, draft2020, nothing, true},
	"writeOnly": {draft4, draft2020, nothing, true}, "contentEncoding": {draft4, draft2020, nothing, true},
	"contentMediaType": {draft4, draft2020, nothing, true}, "contentSchema": {draft4, draft2020, one, true},
	"discriminator": {draft4, draft2020, nothing, true},
	"x-bind":        {draft4, draft2020, nothing, true}, "x-redact": {draft4, draft2020, nothing, true},

	"id": {draft4, draft4, nothing, false}, "$id": {draft6, draft2020, nothing, false},
	"$anchor": {draft2019, draft2020, nothing, false}, "$ref": {draft4, draft2020, nothing, false},
	"$dynamicAnchor": {draft2020, draft2020, nothing, false}, "$dynamicRef": {draft2020, draft2020, nothing, false},
	"$recursiveAnchor": {draft2019, draft2019, nothing, false}, "$recursiveRef": {draft2019, draft2019, nothing, false},
	"definitions": {draft4, draft2020, named, true}, "$defs": {draft4, draft2020, named, true},

	"type": {draft4, draft2020, nothing, false}, "enum": {draft4, draft2020, nothing, false},
	"const": {draft6, draft2020, nothing, false}, "format": {draft4, draft2020, nothing, false},
	"multipleOf": {draft4, draft2020, nothing, false},
	"minimum":    {draft4, draft2020, nothing, false}, "maximum": {draft4, draft2020, nothing, false},
	"exclusiveMinimum": {draft4, draft2020, nothing, false}, "exclusiveMaximum": {draft4, draft2020, nothing, false},
	"minLength": {draft4, draft2020, nothing, false}, "maxLength": {draft4, draft2020, nothing, false},
	"pattern":  {draft4, draft2020, nothing, false},
	"minItems": {draft4, draft2020, nothing, false}, "maxItems": {draft4, draft2020, nothing, false},
	"uniqueItems":   {draft4, draft2020, nothing, false},
	"minProperties": {draft4, draft2020, nothing, false}, "maxProperties": {draft4, draft2020, nothing, false},
	"required":          {draft4, draft2020, nothing, false},
	"dependentRequired": {draft2019, draft2020, nothing, false},
	"minContains":       {draft2019, draft2020, nothing, false}, "maxContains": {draft2019, draft2020, nothing, false},

	"properties": {draft4, draft2020, named, false}, "patternProperties": {draft4, draft2020, named, false},
	"additionalProperties": {draft4, draft2020, one, false}, "propertyNames": {draft6, draft2020, one, false},
	"items": {draft4, draft2020, either, false}, "additionalItems": {draft4, draft2019, one, false},
	"prefixItems": {draft2020, draft2020, several, false}, "contains": {draft6, draft2020, one, false},
	"allOf": {draft4, draft2020, several, false}, "anyOf": {draft4, draft2020, several, false},
	"oneOf": {draft4, draft2020, several, false}, "not": {draft4, draft2020, one, false},
	"if": {draft7, draft2020, one, false}, "then": {draft7, draft2020, one, false},
	"else":             {draft7, draft2020, one, false},
	"dependencies":     {draft4, draft7, mixed, false},
	"dependentSchemas": {draft2019, draft2020, named, false},

	"unevaluatedProperties": {draft2019, draft2020, one, false},
	"unevaluatedItems":      {draft2019, draft2020, one, false},
}

// annotationTypes are what annotations must be to stand in a schema that is
// shown to clients, which check it against its metaschema.
var annotationTypes = map[string]wire.Type{
	"$comment": wire.String, "title": wire.String, "description": wire.String,
	"contentEncoding": wire.String, "contentMediaType": wire.String,
	"examples": wire.Array, "deprecated": wire.Bool, "readOnly": wire.Bool, "writeOnly": wire.Bool,
}

// values are the types of what the other keywords hold, if they hold no schema;
// a default and a const may be anything.
var values = map[string]int{
	"$schema": typeString, "$id": typeString, "id": typeString, "$anchor": typeString, "$ref": typeString,
	"$dynamicAnchor": typeString, "$dynamicRef": typeString, "$recursiveAnchor": typeBool, "$recursiveRef": typeString,
	"type": typeString | typeArray, "enum": typeArray, "format": typeString, "pattern": typeString,
	"multipleOf": typeNumber, "minimum": typeNumber, "maximum": typeNumber, "exclusiveMinimum": typeNumber, "exclusiveMaximum": typeNumber,
	"minLength": typeNumber, "maxLength": typeNumber, "minItems": typeNumber, "maxItems": typeNumber,
	"minProperties": typeNumber, "maxProperties": typeNumber, "minContains": typeNumber, "maxContains": typeNumber,
	"uniqueItems": typeBool, "required": typeArray, "dependentRequired": typeObject,
	"discriminator": typeObject, "x-bind": typeString, "x-redact": typeBool,
}

// takes says whether a keyword may hold a value like v, to go by its type. A
// boolean is a schema, but one that nobody writes under most keywords.
func takes(word string, v wire.Value) bool {
	bits := typeAny
	switch k := keywords[word]; {
	case k.holds == one, k.holds == either:
		bits = typeObject
		if word == "items" {
			bits |= typeArray
		}
		if word == "items" || strings.HasPrefix(word, "additional") || strings.HasPrefix(word, "unevaluated") {
			bits |= typeBool
		}
	case k.holds == several:
		bits = typeArray
	case k.holds == named, k.holds == mixed:
		bits = typeObject
	case annotationTypes[word] != wire.Null:
		bits = typeBits[annotationTypes[word].String()]
	case values[word] != 0:
		bits = values[word]
	}
	return bits&typeBits[v.Type().String()] != 0 || bits&typeObject != 0 && v.Type() == wire.String && typeWord(v.Text()) != ""
}
