package schema

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forge/lib/fail"
)

// TestRandom lowers random schemas that are right in form, and checks random
// values: what lowers compiles, and nothing is a fault.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lowered, allowed := 0, 0
	for range 4000 {
		text := randomSchema(r, 3)
		if r.IntN(2) == 0 {
			text = `{"$defs":{"a":` + randomSchema(r, 2) + `,"b":` + randomSchema(r, 2) + `},"allOf":[` + text + `]}`
		}
		author := parse(t, text)
		low, err := Lower(author)
		if err != nil {
			if faulty(err) || fail.KindOf(err) != fail.SchemaUnsupported {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		lowered++
		s, err := Compile(author, low)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for range 5 {
			v := parse(t, randomValue(r, 3))
			err := s.Check(v)
			if err != nil && (faulty(err) || fail.KindOf(err) != fail.ValidationFailed) {
				t.Errorf("%s: %s: %v", text, v, err)
			}
			if err != nil && strings.HasSuffix(err.Error(), "want another value") {
				t.Errorf("%s: %s is refused, and nothing is told of it", text, v)
			}
			if err == nil {
				allowed++
				if err := s.Check(s.Normalize(v)); err != nil {
					t.Errorf("%s: %s allowed, but not as %s: %v", text, v, s.Normalize(v), err)
				}
			}
			s.Redact(v)
			s.Binds(v)
		}
	}
	if lowered < 1000 || allowed < 1000 {
		t.Errorf("%d lowered, %d values allowed: the generator is no good", lowered, allowed)
	}
}

func randomSchema(r *rand.Rand, deep int) string {
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	if deep == 0 || r.IntN(12) == 0 {
		return pick("true", "false", "{}", `{"type":"string"}`, `{"type":"integer"}`, `{"minimum":1}`, `{"$ref":"#/$defs/a"}`)
	}
	sub := func() string { return randomSchema(r, deep-1) }
	words := map[string]string{}
	for range 1 + r.IntN(4) {
		switch w := pick("type", "const", "enum", "minimum", "maximum", "multipleOf", "minLength", "pattern", "format",
			"required", "properties", "patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems",
			"uniqueItems", "contains", "minContains", "allOf", "anyOf", "oneOf", "not", "if", "dependentRequired",
			"dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minItems", "$ref", "x-redact", "x-bind",
			"exclusiveMaximum", "maxProperties"); w {
		case "type":
			words[w] = pick(`"string"`, `"integer"`, `"object"`, `"array"`, `["string","null"]`, `["number","boolean"]`)
		case "const":
			words[w] = randomValue(r, 1)
		case "enum":
			words[w] = "[" + randomValue(r, 1) + "," + randomValue(r, 1) + "]"
		case "minimum", "maximum", "exclusiveMaximum":
			words[w] = pick("0", "1.5", "-2", "1e2")
		case "multipleOf":
			words[w] = pick("1", "0.5", "3")
		case "minLength", "minItems", "maxProperties":
			words[w] = pick("0", "1", "2.0")
		case "pattern":
			words[w] = pick(`"^a"`, `"[a-c]+$"`, `"\\s."`, `"^(?!a)(?=.*b)"`)
		case "format":
			words[w] = pick(`"date"`, `"uuid"`, `"password"`, `"int8"`, `"base64"`, `"int128"`)
		case "required":
			words[w] = pick(`["a"]`, `["a","b"]`, `[]`)
		case "properties", "dependentSchemas":
			words[w] = `{"a":` + sub() + `,"b":` + sub() + `}`
		case "patternProperties":
			words[w] = `{"^a":` + sub() + `,"b$":` + sub() + `}`
		case "prefixItems", "allOf", "anyOf", "oneOf":
			words[w] = "[" + sub() + "," + sub() + "]"
		case "uniqueItems", "x-redact":
			words[w] = pick("true", "false")
		case "minContains":
			words[w] = pick("0", "1")
		case "if":
			words[w], words["then"] = sub(), sub()
		case "dependentRequired":
			words[w] = `{"a":["b"]}`
		case "$ref":
			words[w] = pick(`"#/$defs/a"`, `"#/$defs/b"`, `"#"`)
		case "x-bind":
			words[w] = pick(`"ro"`, `"rw"`)
		default:
			words[w] = sub()
		}
	}
	var ms []string
	for _, w := range slices.Sorted(maps.Keys(words)) {
		ms = append(ms, fmt.Sprintf("%q:%s", w, words[w]))
	}
	return "{" + strings.Join(ms, ",") + "}"
}

func randomValue(r *rand.Rand, deep int) string {
	n := 9
	if deep == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2:
		return []string{"0", "1", "1.0", "-2", "1.5", "3e0", "9007199254740991"}[r.IntN(7)]
	case 3, 4, 5:
		return []string{`"a"`, `"abc"`, `""`, `" x"`, `"2026-11-30"`}[r.IntN(5)]
	case 6:
		return "100"
	case 7:
		return "[" + randomValue(r, deep-1) + "," + randomValue(r, deep-1) + "]"
	}
	return `{"a":` + randomValue(r, deep-1) + `,"` + []string{"b", "ab", "c"}[r.IntN(3)] + `":` + randomValue(r, deep-1) + `}`
}
