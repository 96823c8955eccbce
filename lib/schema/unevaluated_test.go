package schema

import (
	"fmt"
	"strings"
	"testing"

	"forge/lib/fail"
)

// What only a branch looks at counts where the value fits that branch; each row
// is a schema, what it allows and what it does not.
func TestUnevaluated(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{
			`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}},"required":["b"]}],"unevaluatedProperties":false}`,
			[]string{`{}`, `{"a":"x"}`, `{"b":"x"}`, `{"a":"x","b":"x"}`, `[]`, `1`},
			[]string{`{"c":1}`, `{"a":1,"b":"x"}`, `{"a":"x","b":1}`},
		},
		{
			`{"oneOf":[{"properties":{"k":{"const":1},"a":{}},"required":["k"]},{"properties":{"k":{"const":2},"b":{}},"required":["k"]}],"unevaluatedProperties":{"type":"null"}}`,
			[]string{`{"k":1,"a":0}`, `{"k":2,"b":0}`, `{"k":1,"b":null}`, `{"k":1,"c":null}`},
			[]string{`{"k":1,"b":0}`, `{"k":2,"a":0}`, `{"k":1,"c":0}`},
		},
		{
			`{"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"properties":{"a":{}}},"else":{"properties":{"b":{}}},"unevaluatedProperties":false}`,
			[]string{`{"k":1}`, `{"k":1,"a":0}`, `{"b":0}`},
			[]string{`{"k":1,"b":0}`, `{"a":0}`, `{"k":2}`},
		},
		{
			`{"if":{"properties":{"k":{"const":1}}},"unevaluatedProperties":false}`,
			[]string{`{}`, `{"k":1}`},
			[]string{`{"k":2}`, `{"a":0}`},
		},
		{
			`{"dependentSchemas":{"a":{"properties":{"b":{}}}},"properties":{"a":{}},"unevaluatedProperties":false}`,
			[]string{`{"a":1,"b":1}`, `{"a":1}`},
			[]string{`{"b":1}`},
		},
		{ // a pattern of a branch, a name of another that it matches, one that always counts
			`{"anyOf":[{"patternProperties":{"^x":{"type":"string"}},"required":["x1"]},{"properties":{"xy":{"type":"integer"}},"required":["xy"]}],"properties":{"x0":{}},"unevaluatedProperties":false}`,
			[]string{`{"x1":"s","x2":"s"}`, `{"xy":1,"x0":[]}`, `{"x1":"s","xy":"s"}`, `{"x1":"s","x0":"s"}`},
			[]string{`{"xy":1,"x1":"s"}`, `{"x1":"s","y":1}`, `{"xy":1,"x2":1}`},
		},
		{ // in a branch of a branch, and by another unevaluatedProperties
			`{"anyOf":[{"properties":{"a":{}},"required":["a"],"anyOf":[{"properties":{"b":{"const":1}},"required":["b"]},true]},{"properties":{"z":{"const":1}},"required":["z"],"unevaluatedProperties":{"type":"integer"}}],"unevaluatedProperties":false}`,
			[]string{`{"a":0}`, `{"a":0,"b":1}`, `{"z":1,"q":3}`},
			[]string{`{"a":0,"b":2}`, `{"b":1}`, `{"z":1,"q":"x"}`, `{"q":3}`},
		},
		{
			`{"not":{"properties":{"a":{"const":1}},"required":["a"]},"unevaluatedProperties":false}`,
			[]string{`{}`},
			[]string{`{"a":2}`},
		},
		{
			`{"prefixItems":[true],"anyOf":[{"prefixItems":[true,{"const":1}]},{"prefixItems":[true,{"const":2},true]}],"unevaluatedItems":false}`,
			[]string{`[]`, `[0]`, `[0,1]`, `[0,2,3]`},
			[]string{`[0,3]`, `[0,1,3]`, `[0,2,3,4]`},
		},
		{
			`{"contains":{"type":"string"},"unevaluatedItems":{"type":"integer"}}`,
			[]string{`["a",1]`, `["a"]`},
			[]string{`["a",null]`, `[1]`},
		},
		{
			`{"if":{"contains":{"const":"a"}},"then":{"if":{"contains":{"const":"b"}}},"unevaluatedItems":false}`,
			[]string{`["a"]`, `["a","b","a"]`, `[]`},
			[]string{`["b"]`, `["a","c"]`},
		},
		{ // as unevaluatedItems sees them, dependentSchemas and patterns are not there
			`{"dependentSchemas":{"a":{"items":true}},"unevaluatedItems":false}`,
			[]string{`[]`, `{"a":1}`},
			[]string{`[1]`},
		},
		{ // 2019-09: contains does not count
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","contains":{"type":"string"},"unevaluatedItems":{"type":"integer"}}`,
			[]string{`{}`},
			[]string{`["a",1]`, `["a"]`},
		},
	} {
		s := ready(t, c.schema)
		for _, text := range c.yes {
			if err := s.Check(parse(t, text)); err != nil {
				t.Errorf("%s: %s: %v", c.schema, text, err)
			}
		}
		for _, text := range c.no {
			if s.Check(parse(t, text)) == nil {
				t.Errorf("%s: %s is allowed", c.schema, text)
			}
		}
	}
}

// What branches ask again and again is bounded, by what is written and by how
// often one value is asked.
func TestUnevaluatedBounds(t *testing.T) {
	many := func(n int, f func(i int) string) string {
		var out []string
		for i := range n {
			out = append(out, f(i))
		}
		return strings.Join(out, ",")
	}
	for want, text := range map[string]string{
		"6 patterns stand in branches alone, at most 5": `{"anyOf":[` + many(6, func(i int) string { return fmt.Sprintf(`{"patternProperties":{"^%d":true}}`, i) }) + `],"unevaluatedProperties":false}`,
		"contains stands in 6 branches, at most 5":      `{"anyOf":[` + many(6, func(i int) string { return fmt.Sprintf(`{"contains":{"const":%d}}`, i) }) + `],"unevaluatedItems":false}`,
		"the schema says it of more than 50000 names": `{"prefixItems":[` + many(400, func(int) string { return "true" }) + `],"anyOf":[{"prefixItems":[` +
			many(800, func(int) string { return "true" }) + `]}],"unevaluatedItems":false}`,
		"asks one value too often": `{"anyOf":[` + many(25, func(i int) string {
			return fmt.Sprintf(`{"properties":{"p%d":true},"anyOf":[%s]}`, i, many(80, func(j int) string { return fmt.Sprintf(`{"properties":{"q%d":true}}`, 80*i+j) }))
		}) + `],"unevaluatedProperties":false}`,
		"it asks without end": `{"oneOf":[{"type":"string"},{"type":"object","properties":{"a":{"$ref":"#"}}}],"unevaluatedProperties":false}`,
	} {
		_, err := Lower(parse(t, text))
		if fail.KindOf(err) != fail.SchemaUnsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// Guards within guards double what a value costs with each level.
	nested := func(n int) string {
		text := `{"type":"string"}`
		for range n {
			text = `{"oneOf":[{"properties":{"a":` + text + `}},{"required":["b"]}],"unevaluatedProperties":false}`
		}
		return text
	}
	if _, err := Lower(parse(t, nested(4))); err != nil {
		t.Error(err)
	}
	if _, err := Lower(parse(t, nested(12))); err == nil || !strings.Contains(err.Error(), "asks one value too often") {
		t.Error(err)
	}
}

// A dynamic reference to the one anchor of its name is a reference like another;
// with two it is refused.
func TestDynamic(t *testing.T) {
	for _, text := range []string{
		`{"$dynamicAnchor":"node","properties":{"next":{"$dynamicRef":"#node"},"n":{"type":"integer"}}}`,
		`{"$ref":"#/$defs/n","$defs":{"n":{"$anchor":"node","properties":{"next":{"$dynamicRef":"#node"},"n":{"type":"integer"}}}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"next":{"$recursiveRef":"#"},"n":{"type":"integer"}}}`,
	} {
		s := ready(t, text)
		if err := s.Check(parse(t, `{"next":{"next":{"n":1}}}`)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := s.Check(parse(t, `{"next":{"next":{"n":"1"}}}`)); err == nil || !strings.Contains(err.Error(), "/next/next/n: want integer") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		`{"$ref":"#/$defs/list","$defs":{"list":{"$id":"list","items":{"$dynamicRef":"#it"},"$defs":{"it":{"$dynamicAnchor":"it"}}},"it":{"$dynamicAnchor":"it","type":"string"}}}`:         "2 schemas have the anchor",
		`{"$ref":"#/$defs/list","$defs":{"list":{"$id":"list","items":{"$dynamicRef":"#no%64e"},"$defs":{"it":{"$dynamicAnchor":"node"}}},"it":{"$dynamicAnchor":"node","type":"string"}}}`: "2 schemas have the anchor",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"$defs":{"a":{"$id":"a","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}}}`:                "2 schemas have the anchor",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"$recursiveRef":"#/a"}}`:                                                                                        `want "#"`,
		`{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a","$ref":"#a"}}`:                                                                                                                   "beside $ref",
		`{"$dynamicAnchor":"#a"}`:             `"#a" is no name`,
		`{"$dynamicRef":"#a"}`:                "points at no schema of this document",
		`{"$recursiveRef":"#"}`:               `keyword "$recursiveRef" is not in 2020-12`,
		`{"$dynamicRef":"https://x.test/#a"}`: "is outside this document; nothing is fetched",
	} {
		_, err := Lower(parse(t, text))
		if fail.KindOf(err) != fail.SchemaUnsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
