package schema

import (
	"strings"
	"testing"
)

// TestReadType holds what the texts of types mean, as a schema.
func TestReadType(t *testing.T) {
	refs := map[string]string{"Node": "#/$defs/Node", "string": "#/$defs/string"}
	for _, c := range []struct{ text, want string }{
		{`String`, `{"type":"string"}`},
		{`List[int]`, `{"type":"array","items":{"type":"integer"}}`},
		{`typing.List[str]`, `{"type":"array","items":{"type":"string"}}`},
		{`std::vector<double>`, `{"type":"array","items":{"type":"number"}}`},
		{`Array<{`, ``},
		{`string[][]`, `{"type":"array","items":{"type":"array","items":{"type":"string"}}}`},
		{`(string|number)[]`, `{"type":"array","items":{"type":["string","number"]}}`},
		{`[]string`, `{"type":"array","items":{"type":"string"}}`},
		{`map[string]int`, `{"type":"object","additionalProperties":{"type":"integer"}}`},
		{`map[string][]int`, `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}`},
		{`map[string]`, ``},
		{`string, null`, `{"type":["string","null"]}`},
		{`[int]`, `{"type":"array","items":{"type":"integer"}}`},
		{`[string, number]`, `{"type":"array"}`},
		{`tuple[int, ...]`, `{"type":"array","items":{"type":"integer"}}`},
		{`Tuple[int, str]`, `{"type":"array"}`},
		{`[f32; 3]`, `{"type":"array","items":{"type":"number"}}`},
		{`array of strings`, `{"type":"array","items":{"type":"string"}}`},
		{`list of dict[str, float]`, `{"type":"array","items":{"type":"object","additionalProperties":{"type":"number"}}}`},
		{`Record<string, unknown>`, `{"type":"object"}`},
		{`HashMap<String, Vec<u8>>`, `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}`},
		{`Optional[List[str]]`, `{"type":["array","null"],"items":{"type":"string"}}`},
		{`Optional[datetime.date]`, `{"type":["string","null"],"format":"date"}`},
		{`date | int`, `{"type":["string","integer"],"format":"date"}`},
		{`date | string`, `{"anyOf":[{"type":"string","format":"date"},{"type":"string"}]}`},
		{`List[int] | List[str] | None`, `{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"string"}},{"type":"null"}]}`},
		{`'a' | "b"`, `{"type":"string","enum":["a","b"]}`},
		{`Literal["a", "b"] | None`, `{"type":["string","null"],"enum":["a","b",null]}`},
		{`"a" | int`, `{"anyOf":[{"type":"string","enum":["a"]},{"type":"integer"}]}`},
		{`Node`, `{"$ref":"#/$defs/Node"}`},
		{`Node[]`, `{"type":"array","items":{"$ref":"#/$defs/Node"}}`},
		{`Node | null`, `{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]}`},
		{`string | null`, `{"type":["string","null"]}`},
		{`string or number`, `{"type":["string","number"]}`},
		{`str | str`, `{"type":"string"}`},
		{`any | null`, `{}`},
		{`list[Any]`, `{"type":"array"}`},
		{`varchar(255)`, `{"type":"string"}`},
		{`decimal(10, 2)`, `{"type":"number"}`},
		{`Date`, `{"type":"string","format":"date-time"}`},
		{`IPv4`, `{"type":"string","format":"ipv4"}`},
		{"int" + strings.Repeat("[]", 80), strings.Repeat(`{"type":"array","items":`, 80) + `{"type":"integer"}` + strings.Repeat("}", 80)},
		{strings.Repeat("List[", 30) + "Any" + strings.Repeat("]", 30), strings.Repeat(`{"type":"array","items":`, 29) + `{"type":"array"}` + strings.Repeat("}", 29)},
		{``, ``},
		{`"`, ``},
		{`string |`, ``},
		{`List[`, ``},
		{`List[int`, ``},
		{`List[]`, `{"type":"array","items":{"type":"array"}}`},
		{`ss`, ``},
		{`Optional[]`, ``},
		{`Wibble[int]`, ``},
	} {
		m, ok := readType(c.text, refs)
		got := ""
		if ok {
			got = m.schema().String()
		}
		if got != c.want {
			t.Errorf("%s means %s, want %s", c.text, got, c.want)
		}
	}
}
