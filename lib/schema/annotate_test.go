package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestBinds(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"properties":{"in":{"type":"string","x-bind":"ro"}}}`, `{"in":"/a"}`, `[{/in /a ro}]`},
		{`{"properties":{"in":{"type":"string","x-bind":"ro"}}}`, `{"out":"/a"}`, `[]`},
		{`{"properties":{"x-bind":{"type":"string"}}}`, `{"x-bind":"rw"}`, `[]`},
		{
			`{"properties":{"b":{"type":"string","x-bind":"rw"},"a":{"type":["string","null"],"x-bind":"ro"}}}`,
			`{"a":null,"b":"/b"}`, `[{/b /b rw}]`,
		},
		{`{"properties":{"o":{"type":"object","properties":{"p":{"type":"string","x-bind":"ro"}}}}}`, `{"o":{"p":"x"}}`, `[{/o/p x ro}]`},
		{`{"properties":{"l":{"type":"array","items":{"type":"string","x-bind":"ro"}}}}`, `{"l":["b","a"]}`, `[{/l/0 b ro} {/l/1 a ro}]`},
		{
			`{"properties":{"l":{"prefixItems":[{"type":"string","x-bind":"ro"}],"items":{"type":"string","x-bind":"rw"}}}}`,
			`{"l":["b","a"]}`, `[{/l/0 b ro} {/l/1 a rw}]`,
		},
		{
			`{"patternProperties":{"^in":{"type":"string","x-bind":"ro"}},"additionalProperties":{"type":"string","x-bind":"rw"}}`,
			`{"in~1":"a","out/":"b"}`, `[{/in~01 a ro} {/out~1 b rw}]`,
		},
		{
			`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"p":{"$ref":"#/$defs/p"}}},"p":{"type":"string","x-bind":"ro"}}}`,
			`{"p":"x"}`, `[{/p x ro}]`,
		},
		{
			`{"$defs":{"t":{"type":"object","properties":{"p":{"type":"string","x-bind":"rw"},"kids":{"type":"array","items":{"$ref":"#/$defs/t"}}}}},"$ref":"#/$defs/t"}`,
			`{"p":"1","kids":[{"p":"2","kids":[{"p":"3"}]}]}`, `[{/p 1 rw} {/kids/0/p 2 rw} {/kids/0/kids/0/p 3 rw}]`,
		},
		{`{"properties":{"in":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"x-bind":"ro"}}}`, `{"in":"/a"}`, `[{/in /a ro}]`},
		// Nobody refers to it, so it binds nothing.
		{`{"$defs":{"p":{"type":"string","x-bind":"rw"}},"type":"object"}`, `{"p":"/a"}`, `[]`},
	} {
		s := ready(t, c.schema)
		v := parse(t, c.value)
		if err := s.Check(v); err != nil {
			t.Errorf("%s: %s: %v", c.schema, c.value, err)
		}
		bs := s.Binds(v)
		if got := fmt.Sprint(bs); got != c.want {
			t.Errorf("%s: %s\n got %s\nwant %s", c.schema, c.value, got, c.want)
		}
		ro, rw := s.Modes()
		for _, b := range bs {
			if b.Mode == "ro" && !ro || b.Mode == "rw" && !rw {
				t.Errorf("%s: binds %s, but Modes says %t, %t", c.schema, b.Mode, ro, rw)
			}
		}
		if strings.Contains(c.want, "[]") && c.schema[:8] == `{"$defs"` && (ro || rw) {
			t.Errorf("%s: Modes says %t, %t", c.schema, ro, rw)
		}
	}
}

// TestTwoModes: what only a value brings together is refused with the value.
func TestTwoModes(t *testing.T) {
	s := ready(t, `{"patternProperties":{"^a":{"type":"string","x-bind":"ro"},"z$":{"type":"string","x-bind":"rw"}}}`)
	if err := s.Check(parse(t, `{"ab":"x","yz":"x"}`)); err != nil {
		t.Error(err)
	}
	err := s.Check(parse(t, `{"az":"x"}`))
	if err == nil || err.Error() != "input: /az: want one mode at one place, got ro and rw" {
		t.Errorf("got %v", err)
	}
}

// TestOverlap: a path that is bound is never kept back, whatever names it.
func TestOverlap(t *testing.T) {
	const bind, redact = `{"type":"string","x-bind":"ro"}`, `{"x-redact":true}`
	for text, refused := range map[string]bool{
		`{"patternProperties":{"^a":` + bind + `,"b$":` + redact + `}}`:                                                    true,
		`{"patternProperties":{"^a":` + bind + `,"^ab":` + redact + `}}`:                                                   true,
		`{"patternProperties":{"^ab*":` + bind + `,"^ac":` + redact + `}}`:                                                 true,
		`{"patternProperties":{"^in_":` + bind + `,"^secret_":` + redact + `}}`:                                            false,
		`{"patternProperties":{"_in$":` + bind + `,"^.*_key$":` + redact + `}}`:                                            false,
		`{"patternProperties":{"^a|b":` + bind + `,"^c":` + redact + `}}`:                                                  true,
		`{"patternProperties":{"^a":` + bind + `},"anyOf":[{"properties":{"ab":` + redact + `}},true]}`:                    true,
		`{"patternProperties":{"^a":` + bind + `},"additionalProperties":` + redact + `}`:                                  false,
		`{"patternProperties":{"^a":` + redact + `},"additionalProperties":` + bind + `}`:                                  false,
		`{"patternProperties":{"^a":` + bind + `},"allOf":[{"additionalProperties":` + redact + `}]}`:                      true,
		`{"patternProperties":{"^a":` + redact + `},"allOf":[{"additionalProperties":` + bind + `}]}`:                      true,
		`{"patternProperties":{"^a":{"properties":{"p":` + bind + `}},"b$":{"properties":{"p":` + redact + `}}}}`:          true,
		`{"patternProperties":{"^a":{"properties":{"p":` + bind + `}},"b$":{"properties":{"q":` + redact + `}}}}`:          false,
		`{"patternProperties":{"^a":{"items":` + bind + `},"b$":{"type":"array","contains":{"const":1},"x-redact":true}}}`: true,
	} {
		_, err := Lower(parse(t, text))
		if got := err != nil && strings.Contains(err.Error(), "a path that is bound cannot be kept back"); got != refused || !refused && err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	var all []string
	for i := range 2400 {
		all = append(all, fmt.Sprintf(`"p%d":{"properties":{"q":true}}`, i))
	}
	text := `{"properties":{` + strings.Join(all, ",") + `,"z":{"allOf":[` + bind + `],"x-redact":true}}}`
	if _, err := Lower(parse(t, text)); err == nil || !strings.Contains(err.Error(), "cannot be kept back") {
		t.Errorf("behind 2,400 others: %v", err)
	}
}

// TestTold: what is kept back is not shown as a default or an example.
func TestTold(t *testing.T) {
	for text, want := range map[string]string{
		`{"x-redact":true,"default":"hunter2secret"}`:                                                         "/default: a default or an example of a value that is kept back",
		`{"x-redact":true,"examples":["hunter2secret"]}`:                                                      "/examples: a default or an example of a value that is kept back",
		`{"properties":{"p":{"$ref":"#/$defs/s","default":"x"}},"$defs":{"s":{"x-redact":true}}}`:             "/properties/p/default: a default or an example of a value that is kept back",
		`{"properties":{"p":{"$ref":"#/$defs/s","x-redact":true}},"$defs":{"s":{"default":"x"}}}`:             "/properties/p/x-redact: a default or an example of a value that is kept back",
		`{"properties":{"p":{"anyOf":[{"x-redact":true},{"type":"null"}],"default":"x"}}}`:                    "/properties/p/default: a default or an example of a value that is kept back",
		`{"properties":{"p":{"anyOf":[{"x-redact":true},{"type":"null"}],"default":null},"q":{"default":1}}}`: "",
		`{"x-redact":false,"default":"x"}`:                                                                    "",
	} {
		_, err := Lower(parse(t, text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestContentSchema: it is a schema, though nothing is checked by it.
func TestContentSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"require":["a"]}`:                 `unknown keyword "require"`,
		`{"properties":{"a":{"x-ro":1}}}`:   `unknown keyword "x-ro"`,
		`{"properties":{"a":{"type":"x"}}}`: `unknown type "x"`,
		`{"type":"string","x-bind":"ro"}`:   "/contentSchema/x-bind: under contentSchema it names no value of the input",
		`{"items":{"x-redact":true}}`:       "/contentSchema/items/x-redact: under contentSchema it names no value of the input",
		`{"type":"object"}`:                 "",
		`{"$ref":"#"}`:                      "",
		`true`:                              "",
	} {
		_, err := Lower(parse(t, `{"contentMediaType":"application/json","contentSchema":`+in+`}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ schema, value, want, secrets string }{
		{`{"properties":{"t":{"x-redact":true}}}`, `{"t":"s","u":"v"}`, `{"t":"<redacted>","u":"v"}`, `[s]`},
		{`{"properties":{"t":{"x-redact":false}}}`, `{"t":"s"}`, `{"t":"s"}`, `[]`},
		{`{"properties":{"t":{"x-redact":true}}}`, `{"t":{"a":["x",12.50,true,null,"x",""]}}`, `{"t":"<redacted>"}`, `[a x 12.50 12.5]`},
		{`{"x-redact":true}`, `{"t":"s"}`, `"<redacted>"`, `[t s]`},
		{`{"oneOf":[{"properties":{"t":{"x-redact":true}}},{"properties":{"t":{"type":"integer"}}}]}`, `{"t":5}`, `{"t":"<redacted>"}`, `[5 5.0]`},
		{`{"items":{"properties":{"t":{"x-redact":true}}}}`, `[{"t":"a"},{"t":"b"}]`, `[{"t":"<redacted>"},{"t":"<redacted>"}]`, `[a b]`},
		{`{"additionalProperties":{"x-redact":true},"properties":{"a":{}}}`, `{"a":1,"b":2}`, `{"a":1,"b":"<redacted>"}`, `[2 2.0]`},
		{`{"patternProperties":{"^k":{"x-redact":true}}}`, `{"key":1,"b":2}`, `{"key":"<redacted>","b":2}`, `[1 1.0]`},
		{
			`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{}},"properties":{"t":{"$ref":"#/definitions/n","x-redact":true}}}`,
			`{"t":"s"}`, `{"t":"<redacted>"}`, `[s]`,
		},
		{`{"if":{"required":["k"]},"then":{"properties":{"t":{"x-redact":true}}}}`, `{"t":"s"}`, `{"t":"<redacted>"}`, `[s]`},
		{`{"dependentSchemas":{"k":{"properties":{"t":{"x-redact":true}}}}}`, `{"t":"s"}`, `{"t":"<redacted>"}`, `[s]`},
		{`{"contains":{"$ref":"#/$defs/s"},"$defs":{"s":{"x-redact":true}}}`, `["s"]`, `["<redacted>"]`, `[s]`},
		{`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":{"x-redact":true}}`, `{"b":"s"}`, `{"b":"<redacted>"}`, `[s]`},
		{
			`{"$defs":{"t":{"properties":{"p":{"x-redact":true},"n":{"$ref":"#/$defs/t"}}}},"$ref":"#/$defs/t"}`,
			`{"n":{"n":{"p":"s"}}}`, `{"n":{"n":{"p":"<redacted>"}}}`, `[s]`,
		},
		{`{"x-redact":true}`, `[1e20,-12345678.50,1.5e-7,1E16]`, `"<redacted>"`, `[1e20 100000000000000000000 100000000000000000000.0 1e+20 -12345678.50 -12345678.5 1.5e-7 0.00000015 1.5e-07 1E16 10000000000000000 10000000000000000.0 1e+16]`},
		{`{"properties":{"x-redact":{"type":"string"},"d":{"default":{"x-redact":true}}}}`, `{"x-redact":"a","d":"b"}`, `{"x-redact":"a","d":"b"}`, `[]`},
	} {
		s := ready(t, c.schema)
		masked, secrets := s.Redact(parse(t, c.value))
		if masked.String() != c.want || fmt.Sprint(secrets) != c.secrets {
			t.Errorf("%s: %s\n got %s %v\nwant %s %s", c.schema, c.value, masked, secrets, c.want, c.secrets)
		}
		if s.HasRedact() != (c.secrets != "[]") {
			t.Errorf("%s: HasRedact %t", c.schema, s.HasRedact())
		}
	}
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"integer"}`, `1.0`, `1`},
		{`{"type":"integer"}`, `1e2`, `100`},
		{`{"type":"integer"}`, `-0.0`, `0`},
		{`{"type":"integer"}`, `1e300`, `1e300`},
		{`{"type":"number"}`, `1.0`, `1.0`},
		{`{"type":["integer","null"]}`, `1.0`, `1`},
		{`{"type":["integer","number"]}`, `1.0`, `1.0`},
		{`{"properties":{"a":{"type":"integer"},"b":{}}}`, `{"b":1.0,"a":2.0,"c":1.50}`, `{"b":1.0,"a":2,"c":1.50}`},
		{`{"items":{"anyOf":[{"type":"integer"},{"type":"string"}]}}`, `[1.0,"a"]`, `[1,"a"]`},
		{`{"$defs":{"n":{"type":"integer"}},"additionalProperties":{"$ref":"#/$defs/n"}}`, `{"x":5E0}`, `{"x":5}`},
	} {
		s := ready(t, c.schema)
		if got := s.Normalize(parse(t, c.value)).String(); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.schema, c.value, got, c.want)
		}
	}
}

func TestWire(t *testing.T) {
	var props []string
	for i := range 400 {
		props = append(props, fmt.Sprintf(`"a%03d":{"type":"string","description":%q}`, i, strings.Repeat("x", 80)))
	}
	wide := `{"type":"object","properties":{` + strings.Join(props, ",") + `}}`
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 9) + `{}` + strings.Repeat(`}}`, 9)
	for _, c := range []struct{ schema, want, reason string }{
		{`{"type":"object"}`, `{"type":"object","properties":{}}`, ``},
		{
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"a","type":"object","properties":{"a":{"type":"string","title":"A","x-bind":"ro"},"x-bind":{"x-redact":true}}}`,
			`{"type":"object","properties":{"a":{"type":"string","title":"A"},"x-bind":{}}}`, ``,
		},
		{
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n","description":"b"},"c":{"$ref":"#/$defs/n","maxLength":2}},"$defs":{"n":{"type":"string","description":"n"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"n"},"b":{"type":"string","description":"b"},"c":{"maxLength":2,"allOf":[{"type":"string","description":"n"}]}}}`, ``,
		},
		{
			`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/f"}}},"f":false}}`,
			`{"type":"object","properties":{"b":{"not":{}}}}`, ``,
		},
		{
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"t":{"items":[{"type":"string"}],"additionalItems":false}},"dependencies":{"a":["b"],"c":{"required":["d"]}}}`,
			`{"type":"object","properties":{"t":{"prefixItems":[{"type":"string"}],"items":false}},"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]}}}`, ``,
		},
		{
			`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","type":"object","properties":{"n":{"minimum":1,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false}}}`,
			`{"type":"object","properties":{"n":{"exclusiveMinimum":1,"maximum":5}}}`, ``,
		},
		{`{"type":"object","anyOf":[{"required":["a"]}]}`, ``, `root "anyOf"`},
		{`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{}}}`, ``, `root "allOf"`},
		{`{}`, ``, `root without "type":"object"`},
		{`true`, ``, `root without "type":"object"`},
		{`{"type":"object","properties":{"n":{"$ref":"#"}}}`, ``, `cyclic $ref at the root`},
		{
			`{"type":"object","$comment":"a","properties":{"a":{"$comment":"b","x-redact":true}}}`,
			`{"type":"object","properties":{"a":{}}}`, ``,
		},
		{
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"a":{"contains":{"const":1},"unevaluatedItems":false}}}`,
			``, `unevaluatedItems and contains, which mean something else in 2020-12, at /properties/a`,
		},
		{
			`{"type":"object","properties":{"a":{"contains":{"const":1},"unevaluatedItems":false}}}`,
			`{"type":"object","properties":{"a":{"contains":{"const":1},"unevaluatedItems":false}}}`, ``,
		},
		{`{"type":"wibble"}`, ``, `schema: /type: unknown type "wibble"`},
		{wide, ``, `48832 bytes after inlining, at most 32768`},
		{deep, ``, `nested 19 deep after inlining, at most 16`},
	} {
		shown, reason := Wire(parse(t, c.schema))
		if reason != c.reason || c.reason == "" && shown.String() != c.want {
			t.Errorf("%.300s\n got %s %q\nwant %s %q", c.schema, shown, reason, c.want, c.reason)
		}
		if c.reason != "" {
			continue
		}
		if _, err := Lower(shown); err != nil {
			t.Errorf("%s: what is shown does not lower: %v", c.schema, err)
		}
		if again, _ := Wire(shown); again.String() != shown.String() {
			t.Errorf("%s: shown again: %s", c.schema, again)
		}
	}
}
