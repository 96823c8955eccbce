package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"forge/lib/fail"
)

func TestParse(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ in, want, err string }{
		{in: ` {"b":1.50,"a":[true,false,null,"x"]} `, want: `{"b":1.50,"a":[true,false,null,"x"]}`},
		{in: `"a\/b"`, want: `"a/b"`},
		{in: `"\u0041\n\u0001\u007f\u2028"`, want: "\"A\\n\\u0001\\u007f\u2028\""},
		{in: `"\ud83d\ude00"`, want: `"😀"`},
		{in: `280571172992510140037611932413038677189525`, err: "line 1 column 1: number: 42 characters, at most 40"},
		{in: `-0`, want: `0`},
		{in: `-0.0`, want: `-0.0`},
		{in: `1e308`, want: `1e308`},
		{in: `{}`, want: `{}`},
		{in: `[]`, want: `[]`},
		{in: deep(64), want: deep(64)},
		{in: deep(65), err: "line 1 column 65: nested deeper than 64"},
		{in: ``, err: "empty"},
		{in: "  \n ", err: "empty"},
		{in: `{"a":`, err: "line 1 column 5: unexpected end of JSON input"},
		{in: `{} {}`, err: "line 1 column 4: invalid character '{' after top-level value"},
		{in: "{\n \"a\": nan}", err: "line 2 column 8: invalid character 'a' in literal null (expecting 'u')"},
		{in: `{"a":1,"a":2}`, err: `line 1 column 8: a name stands twice in the object`},
		{in: `{"a":1,"\u0061":2}`, err: `line 1 column 8: a name stands twice in the object`},
		{in: "\ufeff{}", err: "line 1 column 1: byte order mark"},
		{in: "\"\xff\"", err: "line 1 column 2: invalid UTF-8"},
		{in: `"\ud800"`, err: "line 1 column 1: lone surrogate in a string"},
		{in: `"\ud800\n"`, err: "line 1 column 1: lone surrogate in a string"},
		{in: `"\ud800\ud800"`, err: "line 1 column 1: lone surrogate in a string"},
		{in: `"\udc00\ud800"`, err: "line 1 column 1: lone surrogate in a string"},
		{in: `"a\u0000b"`, err: "line 1 column 1: U+0000 in a string"},
		{in: `{"a\u0000":1}`, err: "line 1 column 2: U+0000 in a string"},
		{in: `1e309`, err: "line 1 column 1: number: exponent beyond 308"},
		{in: `9e308`, err: "line 1 column 1: number: out of range"},
		{in: `1e-999999999999`, err: "line 1 column 1: number: exponent beyond 308"},
		{in: `{"a":[0],"b/~\n":[{},{"pw":1234567890e999}]}`, err: `line 1 column 28: number at /b~1~0\n/1/pw: exponent beyond 308`},
		{in: `{"a":{"b":0},"c":[1,9.9e308]}`, err: `line 1 column 21: number at /c/1: out of range`},
		{in: `{"o":{"a":1},"u":[{"secret":1,"secret":2}]}`, err: `line 1 column 31: a name stands twice in the object at /u/0`},
		{in: `{"` + strings.Repeat("x", 500_000) + `":1e309}`, err: `line 1 column 500005: number at /` + strings.Repeat("x", 97) + `…: exponent beyond 308`},
		{in: `"` + strings.Repeat("x", 4<<20) + `"`, err: "more than 4194304 bytes"},
	} {
		v, err := Parse([]byte(c.in), Instance)
		name := c.in[:min(len(c.in), 40)]
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err || fail.KindOf(err) != fail.BadInput {
				t.Errorf("Parse(%q): %v (%s), want %s", name, err, fail.KindOf(err), c.err)
			}
		case err != nil:
			t.Errorf("Parse(%q): %v", name, err)
		case v.String() != c.want:
			t.Errorf("Parse(%q) = %s, want %s", name, v, c.want)
		}
	}
}

func TestOutputKeepsLiterals(t *testing.T) {
	in := `{"n":` + strings.Repeat("9", 5000) + `,"e":1e99999,"s":"\u0000"}`
	v, err := Parse([]byte(in), Output)
	if err != nil {
		t.Fatal(err)
	}
	if v.String() != in {
		t.Errorf("got %.60s", v)
	}
}

func TestManyNames(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"x":0`)
	for i := range 1000 {
		b.WriteString(`,"k` + strings.Repeat("a", i) + `":1`)
	}
	if _, err := Parse([]byte(b.String()+`}`), Request); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse([]byte(b.String()+`,"x":1}`), Request); err == nil {
		t.Fatal("a name that stands twice in a large object passed")
	}
}

func TestDecode(t *testing.T) {
	type limits struct {
		Wall int64 `json:"wall_s"`
	}
	type req struct {
		Name   string          `json:"name"`
		Tags   []string        `json:"tags"`
		Limits *limits         `json:"limits"`
		Bools  map[string]bool `json:"bools"`
		Raw    Value           `json:"raw"`
	}
	for _, c := range []struct{ in, err string }{
		{`{"name":"a","tags":["x"],"limits":{"wall_s":3},"bools":{"q":true},"raw":[1.0]}`, ""},
		{`{"Name":"a"}`, `the value: unknown member "Name"`},
		{`{"nam":"a"}`, `the value: unknown member "nam"`},
		{`{"name":1}`, `/name: number, want a string`},
		{`{"limits":{"wall_s":1.5}}`, `/limits/wall_s: number, want a whole number`},
		{`{"limits":{"wall":1}}`, `/limits: unknown member "wall"`},
		{`{"tags":[1]}`, `/tags/0: number, want a string`},
		{`[]`, `the value: array, want an object`},
		{`{"name":null}`, `/name: null, want a string`},
	} {
		v, err := Parse([]byte(c.in), Request)
		if err != nil {
			t.Fatal(err)
		}
		var r req
		err = Decode(v, &r)
		if got := ""; err != nil {
			got = err.Error()
			if got != c.err {
				t.Errorf("Decode(%s): %s, want %s", c.in, got, c.err)
			}
		} else if c.err != "" {
			t.Errorf("Decode(%s) passed, want %s", c.in, c.err)
		}
	}
	var r req
	v, _ := Parse([]byte(`{"name":"a","later":1,"limits":{"wall_s":3}}`), Request)
	if err := DecodeRecord(v, &r); err != nil || r.Limits.Wall != 3 {
		t.Errorf("DecodeRecord: %v %+v", err, r)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"name", "description", "input_schema"}
	for in, want := range map[string]string{
		"NAME": "name", "nmae": "name", "descripton": "description", "zzz": "", "inputSchema": "input_schema",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEnvelope(t *testing.T) {
	e := Envelope{OK: true, Data: StringOf("<&>"), Extra: []Member{{"files", ArrayOf()}}}
	b, err := Encode(e)
	if want := `{"ok":true,"data":"<&>","meta":{},"files":[]}`; err != nil || string(b) != want {
		t.Errorf("got %s %v, want %s", b, err, want)
	}
	e = Envelope{Error: fail.New(fail.NotFound, "forge-list shows the tools", "tool %q", "x")}
	b, err = Encode(e)
	if want := `{"ok":false,"error":{"kind":"not_found","message":"tool \"x\"","hint":"forge-list shows the tools"},"meta":{}}`; err != nil || string(b) != want {
		t.Errorf("got %s %v, want %s", b, err, want)
	}
}

// What parses prints to a text that parses to the same bytes, is what
// encoding/json understands, and never holds a raw control character.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0,"\u00e9\ud83d\ude00"]}`, `"\ud800"`, `{"a":1,"a":2}`, "\xff", `1e400`, `[[[]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Parse(in, Instance)
		if err != nil {
			if fail.KindOf(err) != fail.BadInput {
				t.Fatalf("kind %s", fail.KindOf(err))
			}
			return
		}
		out := v.Bytes()
		again, err := Parse(out, Instance)
		if err != nil || !bytes.Equal(again.Bytes(), out) {
			t.Fatalf("%q prints %q, which reads as %v %v", in, out, again, err)
		}
		var std any
		dec := json.NewDecoder(bytes.NewReader(in))
		dec.UseNumber()
		if err := dec.Decode(&std); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", in, err)
		}
		if got := again.Any(); !reflect.DeepEqual(normal(std), normal(got)) {
			t.Fatalf("%q: encoding/json reads %v, we read %v", in, std, got)
		}
	})
}

// normal folds -0, which we read as 0.
func normal(x any) any {
	switch x := x.(type) {
	case json.Number:
		if x == "-0" {
			return json.Number("0")
		}
	case []any:
		for i := range x {
			x[i] = normal(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = normal(x[k])
		}
	}
	return x
}
