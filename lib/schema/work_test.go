package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// TestWork: a schema is taken or refused within 3 seconds and 256 MiB. Each of
// these took from many seconds to minutes, or gigabytes.
func TestWork(t *testing.T) {
	each := func(n int, f func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, f(i))
		}
		return strings.Join(all, ",")
	}
	long := strings.Repeat("n", 1000)
	name := func(i int) string { return fmt.Sprintf(`"n%04d":true`, i) }
	for _, c := range []struct{ name, schema string }{
		{"bound names and patterns", `{"properties":{` + each(100, func(i int) string { return fmt.Sprintf(`"%s%d":{"type":"string","x-bind":"ro"}`, long, i) }) +
			`},"patternProperties":{` + each(100, func(i int) string { return fmt.Sprintf(`"n{1,50}%d$":true`, i) }) + `}}`},
		{"bound beside recursion", `{"properties":{"p":{"type":"string","x-bind":"ro"},"q":{"$ref":"#/$defs/d0"}},"$defs":{` + each(400, func(i int) string {
			return fmt.Sprintf(`"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"},"c":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},"p":{"type":"string","x-bind":"ro"}}}`,
				i, (i*7+1)%400, (i*3+2)%400, (i+1)%400, (i*5+3)%400)
		}) + `}}`},
		{"one class of sets", `{"pattern":"[` + strings.Repeat(`\\p{L}`, 40_000) + `]"}`},
		{"classes of sets", `{"pattern":"` + strings.Repeat(`[\\p{L}]`, 9_000) + `"}`},
		{"patterns of sets", `{"allOf":[` + each(4000, func(i int) string { return fmt.Sprintf(`{"pattern":"[\\p{L}%c]%d"}`, 'a'+i%20, i) }) + `]}`},
		{"repetitions", `{"pattern":"` + strings.Repeat(`a{1000}`, 3000) + `"}`},
		{"many repetitions", `{"allOf":[` + each(4000, func(i int) string { return fmt.Sprintf(`{"pattern":"a{1000}b{%d}"}`, i%1000) }) + `]}`},
		{"required", `{"required":[` + each(25_000, func(i int) string { return fmt.Sprintf(`"n%d"`, i) }) + `]}`},
		{"required, 5,000", `{"required":[` + each(5000, func(i int) string { return fmt.Sprintf(`"n%d"`, i) }) + `]}`},
		{"required, impossible", `{"type":"object","properties":{` + each(4000, name) + `},"additionalProperties":false,"required":[` + each(5000, func(i int) string { return fmt.Sprintf(`"m%d"`, i) }) + `]}`},
		{"dependentRequired", `{"dependentRequired":{` + each(9000, func(i int) string { return fmt.Sprintf(`"n%d":["a"]`, i) }) + `}}`},
		{"branches of one definition", `{"anyOf":[` + each(2400, func(int) string { return `{"$ref":"#/$defs/D"}` }) + `],"unevaluatedProperties":false,"$defs":{"D":{"properties":{` + each(2400, name) + `}}}}`},
		{"branches of long names", `{"anyOf":[` + each(200, func(int) string { return `{"$ref":"#/$defs/D"}` }) + `],"unevaluatedProperties":false,"$defs":{"D":{"properties":{` +
			each(200, func(i int) string { return fmt.Sprintf(`"%s%d":true`, long, i) }) + `}}}}`},
		{"one long name", `{"properties":{"` + strings.Repeat("n", 125_000) + `":{"properties":{` + each(4900, name) + `}}}}`},
		{"long names, deep", strings.Repeat(`{"properties":{"`+long+`":`, 28) + `{"properties":{` + each(4900, name) + `}}` + strings.Repeat("}}", 28)},
		{"numbers below long names", strings.Repeat(`{"properties":{"`+long+`":`, 28) + `{"enum":[` + counted(30_000) + `]}` + strings.Repeat("}}", 28)},
		{"names and patterns", `{"properties":{` + each(2400, name) + `},"patternProperties":{` + each(2400, func(i int) string { return fmt.Sprintf(`"^n%d[a-z]":true`, i) }) + `},"unevaluatedProperties":false}`},
		{"every level referred to", `{"allOf":[` + each(28, func(i int) string {
			return fmt.Sprintf(`{"properties":{"r%d":{"$ref":"#/$defs/a%s"}}}`, i, strings.Repeat("/properties/p", i))
		}) +
			`],"$defs":{"a":` + strings.Repeat(`{"properties":{"p":`, 28) + `{"properties":{` + each(4800, func(i int) string { return fmt.Sprintf(`"n%d":{"minLength":1}`, i) }) + `}}` + strings.Repeat("}}", 28) + `}}`},
		{"long base", `{"$id":"http://x.test/` + strings.Repeat("a/", 60_000) + `b","properties":{` + each(4000, func(i int) string { return fmt.Sprintf(`"n%d":{"$ref":"#/$defs/a"}`, i) }) + `},"$defs":{"a":true}}`},
		{"long bases", `{"properties":{` + each(2000, func(i int) string {
			return fmt.Sprintf(`"n%d":{"$id":"%d/%s","$ref":"#"}`, i, i, strings.Repeat("a/", 25))
		}) + `}}`},
		{"long reference", `{"properties":{"a":{"$ref":"#/$defs/` + strings.Repeat("a", 60_000) + `"}},"$defs":{` + each(4000, func(i int) string { return fmt.Sprintf(`"a%d":true`, i) }) + `}}`},
		{"items in branches", `{"anyOf":[` + each(70, func(i int) string {
			return `{"prefixItems":[` + each(60, func(int) string { return `{"type":"string"}` }) + `]}`
		}) + `],"unevaluatedItems":false}`},
		{"contains in branches", `{"anyOf":[` + each(5, func(i int) string {
			return `{"contains":{"const":1},"prefixItems":[` + each(900, func(int) string { return `{}` }) + `]}`
		}) + `],"unevaluatedItems":{"type":"string"}}`},
		{"patterns in branches", `{"anyOf":[` + each(5, func(i int) string {
			return fmt.Sprintf(`{"patternProperties":{"^a%d":true},"properties":{`, i) + each(900, name) + `}}`
		}) + `],"unevaluatedProperties":{"type":"string"}}`},
		{"guards within guards", strings.Repeat(`{"anyOf":[true,`, 28) + `{"properties":{` + each(4800, name) + `}}` + strings.Repeat(`],"unevaluatedProperties":false}`, 28)},
		{"dots", `{"allOf":[` + each(100, func(i int) string { return `{"pattern":"` + strings.Repeat(".", 400+i) + `"}` }) + `]}`},
		{"spaces", `{"allOf":[` + each(50, func(i int) string { return `{"pattern":"` + strings.Repeat(`\\S`, 900+i) + `"}` }) + `]}`},
		{"words in classes", `{"pattern":"[` + strings.Repeat(`a-z\\w`, 10_000) + `]"}`},
		{"classes of spaces", `{"pattern":"` + strings.Repeat(`[\\s]?`, 9_000) + `"}`},
		{"alternatives", `{"pattern":"` + strings.Repeat(`a|`, 30_000) + `"}`},
		{"groups", `{"pattern":"` + strings.Repeat(`(`, 30_000) + strings.Repeat(`)`, 30_000) + `"}`},
		{"lookaheads", `{"pattern":"^` + strings.Repeat(`(?=a)`, 12_000) + `"}`},
		{"many oneOf", `{"properties":{` + each(45, func(i int) string {
			return fmt.Sprintf(`"n%d":{"oneOf":[%s]}`, i, each(100, func(i int) string { return fmt.Sprintf(`{"const":"%d","title":"x"}`, i) }))
		}) + `}}`},
		{"an enum of texts", `{"enum":[` + each(20_000, func(i int) string { return fmt.Sprintf(`"t%d"`, i) }) + `]}`},
		{"enums", `{"properties":{` + each(1000, func(i int) string {
			return fmt.Sprintf(`"n%d":{"enum":[%s]}`, i, each(30, func(i int) string { return fmt.Sprintf(`"t%d"`, i) }))
		}) + `}}`},
		{"references of one text", `{"type":"object","description":"` + strings.Repeat("d", 200_000) + `","properties":{` +
			each(100, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i) }) + `},"$defs":{"a":{"properties":{` +
			each(100, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/b"}`, i) }) + `}},"b":{"description":"` + strings.Repeat("d", 20_000) + `"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			author := parse(t, c.schema)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if n := len(c.schema); n > maxBytes {
				t.Logf("%d bytes", n)
			}
			var lowered wire.Value
			soon(t, "Lower", 3*time.Second, func() {
				var err error
				lowered, err = Lower(author)
				if err != nil && fail.KindOf(err) != fail.SchemaUnsupported {
					t.Error(err)
				}
				t.Logf("%.200v", err)
			})
			if lowered.Type() != wire.Null {
				soon(t, "Compile", 3*time.Second, func() { Compile(author, lowered) })
			}
			soon(t, "Wire", 3*time.Second, func() { Wire(author) })
			runtime.ReadMemStats(&after)
			n := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB all in all", n)
			if n > 512 { // allocated, not held, and that twice
				t.Errorf("%d MiB", n)
			}
		})
	}
}
