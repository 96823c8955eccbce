package schema

import (
	"fmt"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/wire"
)

func parse(t testing.TB, text string) wire.Value {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.File)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func ready(t testing.TB, text string) *Schema {
	t.Helper()
	author := parse(t, text)
	lowered, err := Lower(author)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s, err := Compile(author, lowered)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// told prints an error as a command does.
func told(err error) string {
	e := fail.Of(err)
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "\nhint: " + e.Hint
}

func TestLower(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{}`, `{}`},
		{`{"title":"a","type":"string","x-redact":true}`, `{"type":"string"}`},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `{"items":[{"type":"string"}],"additionalItems":false}`},
		{`{"$defs":{"n":{"type":"string"}},"$ref":"#/$defs/n","maxLength":4.0}`, `{"maxLength":4,"allOf":[{"$ref":"#/definitions/d1"}]}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `{"exclusiveMinimum":1}`},
		{`{"type":"integer","format":"uint8"}`, `{"type":"integer","allOf":[{"minimum":0,"maximum":255}]}`},
		{
			`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"required":["c"]}}}`,
			`{"allOf":[{"dependencies":{"a":["b"]}},{"dependencies":{"a":{"required":["c"]}}}]}`,
		},
		{`{"contains":{"type":"string"},"minContains":0}`, `{}`},
		{`{"enum":[1,1.0,"a"]}`, `{"enum":[1,"a"]}`},
		{`{"type":"integer","enum":["a",1.0]}`, `{"type":"integer","enum":["a",1.0]}`},
		{`{"required":["a"],"additionalProperties":false}`, `{"required":["a"],"additionalProperties":false}`}, // no object, but all else
		{`{"properties":{"additionalProperties":true,"required":true}}`, `{"properties":{"additionalProperties":true,"required":true}}`},
		{
			`{"allOf":[{"properties":{"a":{}}}],"patternProperties":{"^b":{}},"unevaluatedProperties":false}`,
			`{"patternProperties":{"^b":{}},"allOf":[{"properties":{"a":true},"patternProperties":{"^b":true},"additionalProperties":false},{"properties":{"a":{}}}]}`,
		},
		{`{"pattern":"^.\\s[\\w-]\\/$"}`, `{"pattern":"^[^\\n\\r\\x{2028}\\x{2029}][\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}][\\w\\x{2d}]\\x{2f}$"}`},
		{
			`{"pattern":"^(?!-)(?=..$)[a-z-]+"}`,
			`{"if":{"allOf":[{"pattern":"^(?:[^\\n\\r\\x{2028}\\x{2029}][^\\n\\r\\x{2028}\\x{2029}]$)"},{"pattern":"^(?:[a-z\\x{2d}]+)"}],"not":{"anyOf":[{"pattern":"^(?:-)"}]}},` +
				`"else":{"pattern":"[^\\x{0}-\\x{10ffff}]\\^\\(\\?!-\\)\\(\\?=\\.\\.\\$\\)\\[a-z-\\]\\+"}}`,
		},
		{`{"format":"date"}`, `{"format":"forge-date"}`},
		{`{"format":"password"}`, `{}`},
	} {
		got, err := Lower(parse(t, c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		defs, _ := got.Get("definitions")
		d0, _ := defs.Get("d0")
		if d0.String() != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.schema, d0, c.want)
		}
	}
}

// TestLowerErrors holds what an author is told, in full.
func TestLowerErrors(t *testing.T) {
	old := `"$schema":"http://json-schema.org/draft-07/schema#",`
	for _, c := range []struct{ schema, want string }{
		{
			`[]`,
			"schema: the root: a schema is an object, not a list\nhint: write an object, as {\"type\":\"string\"}",
		},
		{`{"type":"dict"}`, "schema: /type: unknown type \"dict\"\nhint: write \"object\""},
		{`{"type":"str"}`, "schema: /type: unknown type \"str\"\nhint: write \"string\""},
		{
			`{"properties":{"a":{"type":"float"}}}`,
			"schema: /properties/a/type: unknown type \"float\"\nhint: write \"number\"",
		},
		{
			`{"type":["string","List[int]"]}`,
			"schema: /type: unknown type \"List[int]\"\nhint: write \"type\":[\"string\",\"array\"],\"items\":{\"type\":\"integer\"}",
		},
		{
			`{"type":["null",{"type":"string"}]}`,
			"schema: /type: unknown type an object\nhint: write \"anyOf\", and each word as {\"type\":\"string\"}",
		},
		{
			`{"type":"file"}`,
			"schema: /type: unknown type \"file\"\nhint: write \"string\", and \"x-bind\":\"ro\" or \"rw\" if the tool opens it",
		},
		{`{"type":"datetime","format":"date-time"}`, "schema: /type: unknown type \"datetime\"\nhint: write \"string\""},
		{
			`{"type":"function"}`,
			"schema: /type: unknown type \"function\"\nhint: write one of array, boolean, integer, null, number, object, string",
		},
		{
			`{"properties":{"a":"Optional[N]"},"$defs":{"N":{}}}`,
			"schema: /properties/a: a schema is an object, not \"Optional[N]\"\nhint: write {\"anyOf\":[{\"$ref\":\"#/$defs/N\"},{\"type\":\"null\"}]}",
		},
		{
			`{"properties":{"a":"any"}}`,
			"schema: /properties/a: a schema is an object, not \"any\"\nhint: write {}",
		},
		{
			`{"type":"any"}`,
			"schema: /type: unknown type \"any\"\nhint: leave \"type\" out: without it every type is allowed",
		},
		{
			`{"properties":{"a":"string"}}`,
			"schema: /properties/a: a schema is an object, not \"string\"\nhint: write {\"type\":\"string\"}",
		},
		{
			`{"properties":{"a":{"type":"string","required":true}}}`,
			"schema: /properties/a/required: true, want a list of names\nhint: write the name into the \"required\" list of the object that holds it, and leave this out",
		},
		{
			`{"properties":{"type":"string","description":"str"}}`,
			"schema: /properties/type: a schema is an object, not \"string\"\nhint: write {\"type\":\"string\"}",
		},
		{
			`{"properties":{"a":{},"description":"what it does"}}`,
			"schema: /properties/description: a schema is an object, not \"what it does\"\nhint: write \"description\" beside \"properties\", not in it",
		},
		{
			`{"properties":{"additionalProperties":false}}`,
			"schema: /properties/additionalProperties: a property of that name is forbidden, and no other\nhint: write \"additionalProperties\" beside \"properties\", not in it",
		},
		{
			`{"type":"integer","enum":[1.5,"1"]}`,
			"schema: /enum: no value of it has the type: nothing fits\nhint: write the values as the type has them, or another type",
		},
		{
			`{"type":["string","null"],"const":1}`,
			"schema: /const: no value of it has the type: nothing fits\nhint: write the values as the type has them, or another type",
		},
		{
			`{"type":"object","properties":{"a":{}},"additionalProperties":false,"required":["a","zzz"]}`,
			"schema: /required: no property \"zzz\" is allowed: no object fits\nhint: describe it under \"properties\", or leave it out",
		},
		{
			`{"items":[{}],"dependentRequired":{"a":["b"]},"$dynamicRef":"#"}`,
			"schema: /items: a list of schemas is not in 2020-12\nhint: write \"prefixItems\" for the list and \"items\" for the rest",
		},
		{
			`{"properties":["a"]}`,
			"schema: /properties: array, want an object\nhint: write an object, as {\"name\":{\"type\":\"string\"}}",
		},
		{
			`{"additional_properties":false}`,
			"schema: /additional_properties: unknown keyword \"additional_properties\"\nhint: write \"additionalProperties\"",
		},
		{`{"x-redacted":true}`, "schema: /x-redacted: unknown keyword \"x-redacted\"\nhint: write \"x-redact\""},
		{`{"x-bindd":"ro"}`, "schema: /x-bindd: unknown keyword \"x-bindd\"\nhint: write \"x-bind\""},
		{
			`{"x-ui":1}`,
			"schema: /x-ui: unknown keyword \"x-ui\"\nhint: leave it out; the annotations are \"x-bind\" and \"x-redact\"",
		},
		{
			`{"wibble":1}`,
			"schema: /wibble: unknown keyword \"wibble\"\nhint: leave it out; what is not a keyword is not enforced",
		},
		{
			`{"type":"int","enum":[1],"nullable":true}`,
			"schema: /nullable: unknown keyword \"nullable\"\nhint: write \"type\":[\"integer\",\"null\"], and null into \"enum\"",
		},
		{
			`{"nullable":true}`,
			"schema: /nullable: unknown keyword \"nullable\"\nhint: leave it out",
		},
		{
			`{"type":["string","null"],"nullable":"true"}`,
			"schema: /nullable: unknown keyword \"nullable\"\nhint: leave it out",
		},
		{
			`{"const":1,"nullable":true}`,
			"schema: /nullable: unknown keyword \"nullable\"\nhint: write \"anyOf\":[{\"const\":…},{\"type\":\"null\"}]",
		},
		{
			`{"properties":{"a":{"type":"object","properties":{},"required":true}}}`,
			"schema: /properties/a/required: true, want a list of names\nhint: write a list of names, as [\"a\",\"b\"]; or the name into the \"required\" list of the object that holds it, and leave this out",
		},
		{
			`{"properties":{"a":{"required":false}},"required":["a"]}`,
			"schema: /properties/a/required: false, want a list of names\nhint: leave it out, and the name out of the object's \"required\"",
		},
		{
			`{"items":{"required":true}}`,
			"schema: /items/required: true, want a list of names\nhint: leave it out",
		},
		{
			`{"type":["string","array"],"max":3}`,
			"schema: /max: unknown keyword \"max\"\nhint: write \"maxLength\" or \"maxItems\"",
		},
		{
			`{"max":3}`,
			"schema: /max: unknown keyword \"max\"\nhint: write \"maximum\", \"maxLength\" or \"maxItems\"",
		},
		{
			`{"type":"object","note":{"type":"string"}}`,
			"schema: /note: unknown keyword \"note\"\nhint: write it under \"properties\"",
		},
		{
			`{"name":"f","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
			"schema: /name: unknown keyword \"name\"\nhint: the schema is what stands under \"inputSchema\"",
		},
		{`{"ID":"a"}`, "schema: /ID: unknown keyword \"ID\"\nhint: write \"$id\""},
		{`{"Dependencies":{}}`, "schema: /Dependencies: unknown keyword \"Dependencies\"\nhint: write \"dependencies\""},
		{
			`{"type":"integer","format":"timestamp"}`,
			"schema: /format: format \"timestamp\" is not checked here\nhint: leave it out, or write \"minimum\" and \"maximum\"",
		},
		{
			`{"type":"object","min":{"type":"integer"}}`,
			"schema: /min: unknown keyword \"min\"\nhint: write it under \"properties\"",
		},
		{
			`{"type":"object","element":{"type":"string"}}`,
			"schema: /element: unknown keyword \"element\"\nhint: write it under \"properties\"",
		},
		{
			`{"type":"object","parameters":{"type":"string"},"name":{"type":"string"}}`,
			"schema: /parameters: unknown keyword \"parameters\"\nhint: write it under \"properties\"",
		},
		{
			`{"type":"array","x-bind":"rw"}`,
			"schema: /x-bind: only a string names a path\nhint: write it into \"items\", as {\"type\":\"string\",\"x-bind\":\"rw\"}",
		},
		{
			`{"$recursiveRef":"#"}`,
			"schema: /$recursiveRef: keyword \"$recursiveRef\" is not in 2020-12\nhint: write \"$ref\":\"#\"",
		},
		{
			`{"dependencies":{"a":["b"]}}`,
			"schema: /dependencies: keyword \"dependencies\" is not in 2020-12\nhint: write \"dependentRequired\" or \"dependentSchemas\"",
		},
		{
			`{"items":[{}],"prefixItems":[{}]}`,
			"schema: /items: a list of schemas is not in 2020-12\nhint: write \"prefixItems\" for the list and \"items\" for the rest",
		},
		{
			`{"additionalItems":false}`,
			"schema: /additionalItems: keyword \"additionalItems\" is not in 2020-12\nhint: write \"prefixItems\" for the list and \"items\" for the rest",
		},
		{
			`{` + old + `"prefixItems":[{}]}`,
			"schema: /prefixItems: keyword \"prefixItems\" is newer than draft-07\nhint: write \"items\":[…], or declare 2020-12",
		},
		{
			`{` + old + `"items":{},"additionalItems":false}`,
			"schema: /additionalItems: without a list of items it checks nothing\nhint: write \"items\" as a list, or leave it out",
		},
		{`{"minimum":null}`, "schema: /minimum: null, want a number\nhint: leave it out"},
		{
			`{"minimum":5,"exclusiveMinimum":true}`,
			"schema: /exclusiveMinimum: true, want a number\nhint: write \"exclusiveMinimum\":5 and leave \"minimum\" out",
		},
		{
			`{"minimum":5,"maximum":3}`,
			"schema: /minimum: minimum is above maximum: no number fits\nhint: swap them",
		},
		{
			`{"minLength":-1}`,
			"schema: /minLength: -1, want a whole number from 0 on\nhint: write a whole number from 0 on",
		},
		{
			`{"minLength":3,"maxLength":2}`,
			"schema: /minLength: minLength is above maxLength: nothing fits\nhint: swap them",
		},
		{`{"multipleOf":0}`, "schema: /multipleOf: 0, want a number above 0\nhint: write a number above 0"},
		{
			`{"enum":"a"}`,
			"schema: /enum: \"a\", want a list of values\nhint: write the allowed values, as [\"a\",\"b\"]",
		},
		{
			`{"enum":[9007199254740993]}`,
			"schema: /enum: number 9007199254740993 is beyond 2^53-1\nhint: write it as a string",
		},
		{`{"const":-0.0}`, "schema: /const: -0.0 is 0\nhint: write 0"},
		{
			`{"const":0.1000000000000000055511151231257827}`,
			"schema: /const: number 0.1000000000000000055511151231257827 has more digits than a float64 holds\nhint: write fewer digits, or a string",
		},
		{
			`{"pattern":"(?=a)"}`,
			"schema: /pattern: pattern \"(?=a)\": lookaround (?=…) is not supported\nhint: write ^ before it, if it is about the whole string",
		},
		{
			`{"pattern":"a(?=b)"}`,
			"schema: /pattern: pattern \"a(?=b)\": lookaround (?=…) is not supported\nhint: say it without lookaround: a second \"pattern\" under \"allOf\", or under \"not\"",
		},
		{
			`{"pattern":"/^a$/i"}`,
			"schema: /pattern: pattern \"/^a$/i\": the slashes stand for themselves\nhint: write ^a$ without the slashes, and the letters as classes, as [Aa]",
		},
		{
			`{"a":"string[]","b":"int"}`,
			"schema: /a: unknown keyword \"a\"\nhint: write it under \"properties\", as {\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
		},
		{`{"additionalProp":false}`, "schema: /additionalProp: unknown keyword \"additionalProp\"\nhint: leave it out; what is not a keyword is not enforced"},
		{`{"additionalProps":false}`, "schema: /additionalProps: unknown keyword \"additionalProps\"\nhint: write \"additionalProperties\""},
		{
			`{"properties":{"a":{"mandatory":true}}}`,
			"schema: /properties/a/mandatory: unknown keyword \"mandatory\"\nhint: write the name into the \"required\" list of the object that holds it, and leave this out",
		},
		{`{"mandatory":["a"]}`, "schema: /mandatory: unknown keyword \"mandatory\"\nhint: write \"required\""},
		{
			`{"pattern":"^(?!-)a|b"}`,
			"schema: /pattern: pattern \"^(?!-)a|b\": lookaround (?!…) is not supported\nhint: say it without lookaround: a second \"pattern\" under \"allOf\", or under \"not\"",
		},
		{
			`{"pattern":"^(?!-)(a|b"}`,
			"schema: /pattern: pattern \"^(?!-)(a|b\": missing closing )\nhint: write a regular expression of ECMA-262",
		},
		{
			`{"patternProperties":{"^(?!x-)":{}}}`,
			"schema: /patternProperties: pattern \"^(?!x-)\": lookaround is not supported under patternProperties\nhint: say it without lookaround; the names that no pattern matches are for \"additionalProperties\"",
		},
		{
			`{"pattern":"^a{ 1, }$"}`,
			"schema: /pattern: pattern \"^a{ 1, }$\": { 1, } stands for itself\nhint: write {1,}",
		},
		{
			`{"pattern":"(?P=y)"}`,
			"schema: /pattern: pattern \"(?P=y)\": a backreference (?P=…) is not supported\nhint: say it without backreferences; the tool itself may check the rest",
		},
		{
			`{"pattern":"(a)\\1"}`,
			"schema: /pattern: pattern \"(a)\\\\1\": a backreference (\\1) is not supported\nhint: say it without backreferences; the tool itself may check the rest",
		},
		{
			`{"pattern":"(?i)a"}`,
			"schema: /pattern: pattern \"(?i)a\": inline flags (?i…) are not in ECMA-262\nhint: write the letters as classes, as [Aa]",
		},
		{
			`{"pattern":"[[:alpha:]]"}`,
			"schema: /pattern: pattern \"[[:alpha:]]\": a POSIX class ([:…:]) is not in ECMA-262\nhint: write [0-9], [A-Za-z] and the like",
		},
		{
			`{"pattern":"a{2000}"}`,
			"schema: /pattern: pattern \"a{2000}\": a repetition beyond 1000\nhint: write \"maxLength\" for a long bound",
		},
		{
			`{"pattern":"a("}`,
			"schema: /pattern: pattern \"a(\": missing closing )\nhint: write a regular expression of ECMA-262",
		},
		{
			`{"patternProperties":{"\\Qa":{}}}`,
			"schema: /patternProperties: pattern \"\\\\Qa\": \\Q means nothing in ECMA-262\nhint: write a regular expression of ECMA-262",
		},
		{
			`{"format":"datetime"}`,
			"schema: /format: format \"datetime\" is not checked here\nhint: write \"date-time\"; or a \"pattern\"",
		},
		{
			`{"format":"postcode"}`,
			"schema: /format: format \"postcode\" is not checked here\nhint: write a \"pattern\" instead, or leave it out",
		},
		{
			`{"type":"integer","format":"INT32"}`,
			"schema: /format: format \"INT32\" is not checked here\nhint: write \"int32\"",
		},
		{
			`{"type":"string","format":"file"}`,
			"schema: /format: format \"file\" is not checked here\nhint: leave it out, and write \"x-bind\":\"ro\" or \"rw\" if the tool opens it",
		},
		{
			`{"format":"ulid"}`,
			"schema: /format: format \"ulid\" is not checked here\nhint: write a \"pattern\" instead, or leave it out",
		},
		{
			`{"format":"int32"}`,
			"schema: /format: format \"int32\" without type integer\nhint: write \"type\":\"integer\" beside it",
		},
		{
			`{"$ref":"#/$defs/B","$defs":{"A":{}}}`,
			"schema: /$ref: \"#/$defs/B\" points at no schema of this document\nhint: write \"#/$defs/A\"",
		},
		{
			`{"$ref":"Node","$defs":{"Node":{}}}`,
			"schema: /$ref: \"Node\" points at no schema of this document\nhint: write \"#/$defs/Node\"",
		},
		{
			`{"$ref":"#/$defs","$defs":{"A":{}}}`,
			"schema: /$ref: \"#/$defs\" points at no schema of this document\nhint: write \"#/$defs/A\"",
		},
		{
			`{"$ref":"https://example.org/a"}`,
			"schema: /$ref: \"https://example.org/a\" is outside this document; nothing is fetched\nhint: copy the schema into \"$defs\" and write \"#/$defs/NAME\"",
		},
		{
			`{"$ref":"#"}`,
			"schema: the root: a cycle of $ref that never looks further into the value\nhint: step into a property or an item before you refer back",
		},
		{
			`{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`,
			"schema: /$defs/b/$anchor: \"#x\" names two schemas\nhint: write each name once",
		},
		{`{"then":{}}`, "schema: /then: without if it checks nothing\nhint: write \"if\" beside it"},
		{
			`{"if":{}}`,
			"schema: /if: without then and else it checks nothing\nhint: write \"then\" or \"else\" beside it",
		},
		{
			`{"contains":{},"minContains":2}`,
			"schema: /minContains: minContains above 1 is not supported\nhint: write 1, or \"minItems\"",
		},
		{
			`{"contains":{},"maxContains":2}`,
			"schema: /maxContains: maxContains is not supported\nhint: leave it out; \"uniqueItems\" and \"maxItems\" can be checked",
		},
		{
			`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"additionalProperties":true}}`,
			"schema: /properties/additionalProperties: a boolean is no schema in draft-04\nhint: write {} for true and {\"not\":{}} for false",
		},
		{
			`{"$schema":"http://json-schema.org/draft-04/schema#","required":[]}`,
			"schema: /required: an empty list, want a list of names in draft-04\nhint: leave it out",
		},
		{
			`{"$schema":"http://json-schema.org/draft-06/schema#","enum":[1,1.0]}`,
			"schema: /enum: 1.0 stands twice\nhint: write each value once",
		},
		{`{"$anchor":"a.b:c"}`, "schema: /$anchor: \"a.b:c\" is no name\nhint: write a plain name, as \"node\""},
		{`{"$id":"\\d"}`, "schema: /$id: \"\\\\d\" is no URI\nhint: write a URI, or leave it out"},
		{`{"required":["a","a"]}`, "schema: /required: \"a\" stands twice\nhint: write each name once"},
		{`{"description":5}`, "schema: /description: 5, want a string\nhint: write a string, or leave it out"},
		{`{"examples":"a"}`, "schema: /examples: \"a\", want a list\nhint: write a list, or leave it out"},
		{
			`{"discriminator":{"propertyName":"k"}}`,
			"schema: /discriminator: discriminator without oneOf or anyOf\nhint: write \"oneOf\" beside it, or leave it out",
		},
		{
			`{"x-bind":"ro"}`,
			"schema: /x-bind: only a string names a path\nhint: write \"type\":\"string\" beside it",
		},
		{
			`{"properties":{"a":{"type":["string","integer"],"x-bind":"ro"}}}`,
			"schema: /properties/a/x-bind: only a string names a path\nhint: write \"type\":\"string\" beside it",
		},
		{
			`{"properties":{"a":{"type":"string","default":"/tmp","x-bind":"ro"}}}`,
			"schema: /properties/a/default: a default beside x-bind\nhint: leave it out; a default is not applied, so it binds nothing",
		},
		{
			`{"properties":{"a":{"anyOf":[{"type":"string","x-bind":"ro"},{"type":"null"}]}}}`,
			"schema: /properties/a/anyOf/0/x-bind: reached through anyOf it does not hold for every value\nhint: write x-bind at the property itself, beside \"anyOf\"",
		},
		{
			`{"properties":{"a":{"$ref":"#/$defs/p","x-bind":"rw"}},"$defs":{"p":{"type":"string","x-bind":"ro"}}}`,
			"schema: /$defs/p/x-bind: two modes at one place, the other at /properties/a\nhint: write one mode",
		},
		{
			`{"allOf":[{"properties":{"a":{"type":"string","x-bind":"ro"}}}],"properties":{"a":{"type":"string","x-bind":"rw"}}}`,
			"schema: /allOf/0/properties/a/x-bind: two modes at one place, the other at /properties/a\nhint: write one mode",
		},
		{
			`{"properties":{"a":{"type":"string","x-bind":"ro","x-redact":true}}}`,
			"schema: /properties/a/x-bind: a path that is bound cannot be kept back\nhint: leave x-redact out: the path stands in the manifest of the run",
		},
		{
			`{"x-redact":true,"properties":{"a":{"type":"string","x-bind":"ro"}}}`,
			"schema: /properties/a/x-bind: a path that is bound cannot be kept back\nhint: leave x-redact out: the path stands in the manifest of the run",
		},
		{
			`{"dependentSchemas":{"a":{"properties":{"b":{"type":"string","x-bind":"ro"}}}}}`,
			"schema: /dependentSchemas/a/properties/b/x-bind: reached through dependentSchemas it does not hold for every value\nhint: write x-bind at the property itself, outside dependentSchemas",
		},
		{
			`{"not":{"x-redact":true}}`,
			"schema: /not/x-redact: under not it names no value to keep back\nhint: write it at the property itself",
		},
		{
			`{"propertyNames":{"$ref":"#/$defs/s"},"$defs":{"s":{"x-redact":true}}}`,
			"schema: /$defs/s/x-redact: a name cannot be kept back\nhint: keep secrets out of names",
		},
		{`{"x-redact":1}`, "schema: /x-redact: 1, want true or false\nhint: write true"},
		{`{"const":"a\u0000"}`, "schema: /const: U+0000 in a string\nhint: leave it out"},
	} {
		author, err := wire.Parse([]byte(c.schema), wire.File)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Lower(author)
		if fail.KindOf(err) != fail.SchemaUnsupported {
			t.Errorf("%s: kind %q (%v)", c.schema, fail.KindOf(err), err)
			continue
		}
		if got := told(err); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.schema, got, c.want)
		}
	}
}

// TestCheck holds what a caller is told, in full.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"integer"}`, `"12"`, `input: want integer, got string "12"`},
		{
			`{"properties":{"n":{"type":["integer","null"]}}}`, `{"n":"12"}`,
			`input: /n: want integer or null, got string "12"`,
		},
		{
			`{"properties":{"file":{}},"required":["file"]}`, `{"File":1}`,
			"input: /file: want a value, got nothing (nearest: \"File\")\nhint: write \"file\", not \"File\"",
		},
		{
			`{"properties":{"file":{}},"additionalProperties":false}`, `{"fiel":1}`,
			"input: /fiel: want the property \"file\", got property \"fiel\" (nearest: \"file\")\nhint: write \"file\"",
		},
		{
			`{"properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"zzzz":1}`,
			`input: /zzzz: want one of the properties "a", "b", got property "zzzz"`,
		},
		{
			`{"properties":{"m":{"enum":["fast","slow"]}}}`, `{"m":"Fast"}`,
			"input: /m: want one of \"fast\", \"slow\", got string \"Fast\" (nearest: \"fast\")\nhint: write \"fast\"",
		},
		{
			`{"properties":{"m":{"enum":["fast","slow",3]}}}`, `{"m":7}`,
			`input: /m: want one of "fast", "slow", 3, got number 7`,
		},
		{`{"const":"a<b"}`, `"a"`, `input: want "a<b", got string "a"`},
		{`{"minimum":0.1,"exclusiveMaximum":100000}`, `0`, `input: want at least 0.1, got number 0`},
		{`{"exclusiveMaximum":100000}`, `100000`, `input: want less than 100000, got number 100000`},
		{
			`{"type":"integer","format":"int128"}`, `-170141183460469231731687303715884105729`,
			`input: want at least -170141183460469231731687303715884105728, got number -170141183460469231731687303715884105729`,
		},
		{`{"multipleOf":0.01}`, `0.001`, `input: want a multiple of 0.01, got number 0.001`},
		{
			`{"minLength":3,"pattern":"^\\d.$"}`, `"a"`,
			`input: want at least 3 characters, got string "a"; want a match of ^\d.$, got string "a"`,
		},
		{`{"pattern":"^(?!-)[a-z-]+$"}`, `"-a"`, `input: want a match of ^(?!-)[a-z-]+$, got string "-a"`},
		{`{"pattern":"^(?!-)[a-z-]+$","not":{"const":"a"}}`, `"a"`, `input: want what the schema does not exclude, got string "a"`},
		{`{"propertyNames":{"pattern":"^(?!x-)"}}`, `{"x-a":1}`, `input: want a match of ^(?!x-), got name "x-a"`},
		{`{"format":"date"}`, `"2026-02-30"`, `input: want format date, got string "2026-02-30"`},
		{`{"minItems":2,"uniqueItems":true}`, `[]`, `input: want at least 2 items, got array of 0`},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, `input: want items that differ, got items 0 and 2 alike`},
		{
			`{"maxItems":1,"items":{"type":"string"}}`, `["a",1]`,
			`input: want at most 1 item, got array of 2; /1: want string, got number 1`,
		},
		{`{"prefixItems":[{}],"items":false}`, `[1,2]`, `input: want fewer items, got array of 2`},
		{
			`{"contains":{"const":1}}`, `[2]`,
			`input: want an item that fits contains, got array of 1; /0: want 1, got number 2`,
		},
		{`{"minProperties":1}`, `{}`, `input: want at least 1 property, got object`},
		{`{"propertyNames":{"pattern":"^[a-z]+$"}}`, `{"A":1}`, `input: want a match of ^[a-z]+$, got name "A"`},
		{
			`{"dependentRequired":{"user":["password"]}}`, `{"user":"a","pasword":"b"}`,
			"input: /password: want a value, since another property is there, got nothing (nearest: \"pasword\")\nhint: write \"password\", not \"pasword\"",
		},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `5`, `input: want null or string, got number 5`},
		{`{"anyOf":[{"type":["string","null"]},{"type":"integer"}]}`, `[]`, `input: want integer or null or string, got array of 0`},
		{
			`{"oneOf":[{"type":"object","required":["a"]},{"type":"object","required":["b"]}]}`, `5`,
			`input: want object, got number 5`,
		},
		{
			`{"oneOf":[{"type":"integer"},{"minimum":2}]}`, `5`,
			`input: want exactly one of the forms of oneOf (2 forms fit), got number 5`,
		},
		{`{"not":{"const":0}}`, `-0.0`, `input: want what the schema does not exclude, got number -0.0`},
		{`{"properties":{"a":false}}`, `{"a":1}`, `input: /a: want nothing here, got number 1`},
		{
			`{"if":{"properties":{"k":{"const":1}}},"then":{"required":["x"]}}`, `{"k":1}`,
			`input: /x: want a value, got nothing`,
		},
		{
			`{"items":{"type":"string"}}`, `[1,2,3,4,5,6,7,8,9,10,11,12]`,
			`input: /0: want string, got number 1; /1: want string, got number 2; /2: want string, got number 3; /3: want string, got number 4; /4: want string, got number 5; /5: want string, got number 6; /6: want string, got number 7; /7: want string, got number 8; /8: want string, got number 9; /9: want string, got number 10; and 2 more`,
		},
		{
			`{"enum":[5]}`, `5.0000000000000000001`,
			`input: want a number that can be told from its neighbours: fewer digits, or a string, got number 5.0000000000000000001`,
		},
		{
			`{"type":"number"}`, `1e400`,
			`input: want a number of at most 40 characters that a float64 holds, got a longer one`,
		},
		{
			`{"uniqueItems":true}`, `[9007199254740993,9007199254740992]`,
			`input: /1: want a number that can be told from its neighbours: fewer digits, or a string, got number 9007199254740992`,
		},
		{
			`{"properties":{"a/b":{"properties":{"~":{"type":"null"}}}}}`, `{"a/b":{"~":1}}`,
			`input: /a~1b/~0: want null, got number 1`,
		},
		{
			`{"oneOf":[{"properties":{"k":{"const":"a"},"r":{"type":"number"}},"required":["k","r"]},{"properties":{"k":{"const":"b"},"s":{"type":"number"}},"required":["k","s"]}]}`,
			`{"k":"b","s":"1"}`, `input: /s: want number, got string "1"`,
		},
		{
			`{"properties":{"o":{"anyOf":[{"properties":{"k":{"const":"a"}},"required":["k","r"]},{"properties":{"k":{"const":"b"}},"required":["k","s"]}]}}}`,
			`{"o":{"k":"b","x":"1"}}`, `input: /o/s: want a value, got nothing`,
		},
		// What is kept back does not stand in an error either.
		{
			`{"properties":{"t":{"type":"string","x-redact":true,"minLength":9}}}`, `{"t":"s3cret"}`,
			`input: /t: want at least 9 characters, got <redacted>`,
		},
		{
			`{"properties":{"t":{"type":"string","x-redact":true,"pattern":"^(?=.*[A-Z])"}}}`, `{"t":"s3cret"}`,
			`input: /t: want a match of ^(?=.*[A-Z]), got <redacted>`,
		},
		{
			`{"properties":{"t":{"type":"string","x-redact":true}}}`, `{"t":12345}`,
			`input: /t: want string, got <redacted>`,
		},
		{
			`{"properties":{"t":{"enum":["s3cret"],"x-redact":true}}}`, `{"t":"s3creT"}`,
			`input: /t: want another value, got <redacted>`,
		},
		{
			`{"properties":{"t":{"x-redact":true,"additionalProperties":{"type":"integer"}}}}`, `{"t":{"s3cret":"s3cret"}}`,
			`input: /t: want integer, got <redacted>`,
		},
		{
			`{"properties":{"t":{"x-redact":true,"properties":{"a":{}},"additionalProperties":false}}}`, `{"t":{"s3cret":1}}`,
			`input: /t: want no such property, got <redacted>`,
		},
		{
			`{"properties":{"t":{"x-redact":true}},"required":["t"],"maxProperties":0}`, `{"s3cret":"s3cret"}`,
			`input: want at most 0 properties, got object; /t: want a value, got nothing`,
		},
	} {
		s := ready(t, c.schema)
		err := s.Check(parse(t, c.value))
		if fail.KindOf(err) != fail.ValidationFailed {
			t.Errorf("%s: %s: kind %q (%v)", c.schema, c.value, fail.KindOf(err), err)
			continue
		}
		if got := told(err); got != c.want {
			t.Errorf("%s: %s\n got %q\nwant %q", c.schema, c.value, got, c.want)
		}
		details, err := wire.Encode(fail.Of(err).Details)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(c.schema, "x-redact") && strings.Contains(c.value, "s3cret") && !strings.Contains(c.value, `{"s3cret":"s3cret"}`) {
			if all := fmt.Sprint(fail.Of(err)) + string(details); strings.Contains(all, "s3cre") {
				t.Errorf("%s: %s: tells %s", c.schema, c.value, all)
			}
		}
	}
}
