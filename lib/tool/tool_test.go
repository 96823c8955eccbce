package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

func TestParseName(t *testing.T) {
	for in, ok := range map[string]bool{
		"fib": true, "csv.stats": true, "a1_b2.c3": true, "a": true, strings.Repeat("a", 48): true,
		"": false, strings.Repeat("a", 49): false, "Fib": false, "1a": false, "a..b": false, "a__b": false, "a._b": false,
		"a.": false, ".a": false, "_a": false, "a/b": false, "..": false, "a\x00b": false, "fіb": false, "a-b": false,
		"a b": false, "a\n": false, strings.Repeat("é", 150): false, "--check": false,
	} {
		_, err := ParseName(in)
		if (err == nil) != ok || (!ok && fail.KindOf(err) != fail.NameInvalid) {
			t.Errorf("ParseName(%q): %v", in, err)
		}
	}
	if _, err := ParseName("CSV-Stats"); fail.Of(err).Hint != "write csv_stats" {
		t.Errorf("hint %q", fail.Of(err).Hint)
	}
}

func TestReserved(t *testing.T) {
	for in, want := range map[string]string{
		"forge.tool": "forge_*", "forge_x": "forge_*", "skill.a": "skill_*", "change_plan": "change_*", "run": "run",
		"me.fib": "me.*", "me_fib": "me.*", "runner": "", "forget": "", "mean": "",
	} {
		if got := Name(in).Reserved(false); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	if got := Name("me.fib").Reserved(true); got != "" {
		t.Errorf("saved me.fib: %q", got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"fib", "fib", true},
		{"fib", "fibo", false},
		{"csv.*", "csv.stats", true},
		{"csv_*", "csv.stats", true},
		{"csv.*", "csv_stats", true},
		{"csv_stats", "csv.stats", true},
		{"*", "a", true},
		{"", "a", false},
		{"a?c", "abc", true},
		{"*_secret_*", "my.secret.key", true},
		{"[a]", "a", false},
		{strings.Repeat("*a", 24) + "b", strings.Repeat("a", 48), false},
	} {
		if got := Name(c.name).Match(c.glob); got != c.want {
			t.Errorf("%s matches %s: %v", c.glob, c.name, got)
		}
	}
}

func request(t *testing.T, text string) Request {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.Request)
	if err != nil {
		t.Fatal(err)
	}
	var r Request
	if err := wire.Decode(v, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

const fib = `{"name":"fib","description":"The nth number.","input_schema":{"type":"object","properties":{"n":{"type":"integer","maximum":1e3}}},"impl":"print('<&>\\u2028')\n","meta":{"deterministic":true,"capabilities":["write","read"],"limits":{"wall_s":5},"x":{"b":1,"a":2}}}`

func TestEncode(t *testing.T) {
	tl, err := New(request(t, fib))
	if err != nil {
		t.Fatal(err)
	}
	b := tl.Encode()
	s := sha256.Sum256(b[:len(b)-78])
	if hex.EncodeToString(s[:]) != tl.Digest || b[len(b)-1] != '\n' {
		t.Errorf("digest %s of %s", tl.Digest, b)
	}
	want := `{"format":"forge.tool/1","name":"fib","description":"The nth number.","runtime":"python3","input_schema":{"type":"object","properties":{"n":{"type":"integer","maximum":1e3}}},"meta":{"deterministic":true,"capabilities":["read","write"],"limits":{"wall_s":5},"x":{"b":1,"a":2}},"impl":"print('<&>` + `\\u2028')\n","digest":"` + tl.Digest + `"}` + "\n"
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	again, err := Parse(b)
	if err != nil || again.Digest != tl.Digest || again.Impl != tl.Impl {
		t.Errorf("read back: %v %+v", err, again)
	}
	for i := range b {
		c := append([]byte(nil), b...)
		c[i] ^= 1
		if _, err := Parse(c); fail.KindOf(err) != fail.RegistryMalformed {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	// A file with a right digest that is not as Encode writes it.
	loose := strings.Replace(string(b[:len(b)-78]), `"meta":{`, `"meta": {`, 1)
	s = sha256.Sum256([]byte(loose))
	if _, err := Parse([]byte(loose + `,"digest":"` + hex.EncodeToString(s[:]) + "\"}\n")); fail.KindOf(err) != fail.RegistryMalformed {
		t.Errorf("loose file: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		old, now string
		kind     fail.Kind
		msg      string
	}{
		{`"fib"`, `"Fib"`, fail.NameInvalid, `name "Fib" is not a tool name`},
		{`The nth number.`, ``, fail.LintFailed, `description is empty`},
		{`The nth number.`, `a\u202eb`, fail.LintFailed, `description byte 1: U+202E is a control or invisible character`},
		{`The nth number.`, `a\u200bb`, fail.LintFailed, `description byte 1: U+200B is a control or invisible character`},
		{`The nth number.`, `a\nb`, fail.LintFailed, `description byte 1: U+000A is a control or invisible character`},
		{`The nth number.`, strings.Repeat("é", 1001), fail.LintFailed, `description of 1001 characters, at most 1000`},
		{`"type":"object",`, `"type":"array",`, fail.SchemaUnsupported, `input_schema: the root's type is not "object"`},
		{`"type":"object",`, `"type":["object"],`, fail.SchemaUnsupported, `input_schema: the root's type is not "object"`},
		{`"wall_s":5`, `"wall_s":0`, fail.BadInput, `meta.limits.wall_s: 0 is not above 0`},
		{`"wall_s":5`, `"wall_s":"5"`, fail.BadInput, `meta: /limits/wall_s: string, want a whole number`},
		{`"wall_s":5`, `"wall":5`, fail.BadInput, `meta: /limits: unknown member "wall"`},
		{`"read"`, `"raed"`, fail.BadInput, `meta.capabilities: unknown capability "raed"`},
		{`"read"`, `"write"`, fail.BadInput, `meta.capabilities: "write" stands twice`},
		{`"deterministic"`, `"Deterministic"`, fail.BadInput, `meta: the value: unknown member "Deterministic"`},
		{`"x":{"b":1,"a":2}`, `"x":[]`, fail.BadInput, `meta.x: array, want an object`},
		{`"x":{"b":1,"a":2}`, `"secrets":["key"]`, fail.BadInput, `meta.secrets: "key" is not a secret's name`},
	} {
		r := request(t, strings.Replace(fib, c.old, c.now, 1))
		_, err := New(r)
		if err == nil {
			err = CheckDescription(r.Description)
		}
		if err == nil || fail.KindOf(err) != c.kind || err.Error() != c.msg {
			t.Errorf("%.30s: %v (%s), want %s", c.now, err, fail.KindOf(err), c.msg)
		}
	}
}

func TestEffective(t *testing.T) {
	l := &Limits{WallS: 400, MemoryMB: 100}
	got, clamped := l.Effective(Limits{WallS: 300, CPUS: 10, MemoryMB: 4096, OutputBytes: 1 << 24})
	if got != (Limits{300, 10, 100, 4 << 20}) || len(clamped) != 1 || clamped["wall_s"] != int64(300) {
		t.Errorf("got %+v %v", got, clamped)
	}
}

func TestManifest(t *testing.T) {
	m, err := ParseManifest([]byte("name = \"csv.sum\"\ndescription = \"d\"\n[meta]\ndeterministic = true\n[input_schema]\ntype = \"object\"\n[input_schema.properties.n]\ntype = \"number\"\nminimum = 0.5\n"))
	if err != nil || m.ImplFile != "tool.py" || !m.HasSchema {
		t.Fatalf("%+v %v", m, err)
	}
	if got := m.Request.InputSchema.String(); got != `{"properties":{"n":{"minimum":0.5,"type":"number"}},"type":"object"}` {
		t.Error(got)
	}
	for in, want := range map[string]string{
		"name = ":                "tool.toml line 1: unexpected EOF; expected value",
		"nam = \"x\"":            `tool.toml: unknown member "nam"`,
		"name = 5":               `tool.toml: line 1 (last key "name"): incompatible types: TOML value has type int64; destination has type string`,
		"impl_file = \"../x\"":   `tool.toml: impl_file "../x" is not a file name`,
		"runtime = \"ruby\"":     `runtime "ruby" is not known`,
		"[meta]\nx = 1979-05-27": "tool.toml: meta/x: a time.Time has no place in JSON; write it as a string",
	} {
		if _, err := ParseManifest([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	tl, _ := New(Request{Name: "a", Description: "d", InputSchema: wire.ObjectOf(wire.Member{Name: "type", Value: wire.StringOf("object")}), Impl: "x"})
	f.Add(tl.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		head := b[:max(0, len(b)-78)]
		b = append(append([]byte{}, head...), `,"digest":"`+wire.Sum(head)+"\"}\n"...)
		tl, err := Parse(b)
		if err == nil && string(tl.Encode()) != string(b) {
			t.Fatalf("%q prints as %q", b, tl.Encode())
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("csv.stats")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err == nil && (string(n) != s || strings.ContainsAny(s, "/\x00-") || strings.Contains(n.Wire(), "__")) {
			t.Fatalf("%q passed", s)
		}
	})
}

func TestRules(t *testing.T) {
	for in, ok := range map[string]bool{
		"python3": true, "python3.11": true, "python3.9": true, "python": false, "python3.": false, "python3.111": false,
		"python3.x": false, "python311": false, "python3.1/": false,
	} {
		if isPython(in) != ok {
			t.Errorf("isPython(%q) is not %v", in, ok)
		}
	}
	for in, ok := range map[string]bool{
		"API_KEY": true, "_A1": true, "1A": false, "": false, "key": false, "A-B": false,
		strings.Repeat("A", 64): true, strings.Repeat("A", 65): false,
	} {
		if isSecretName(in) != ok {
			t.Errorf("isSecretName(%q) is not %v", in, ok)
		}
	}
}

// The parser recurses into brackets and costs the square of a dotted key: both
// are bounded before it sees them.
func TestManifestBounds(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":   "[meta]\nx = " + strings.Repeat("[", 200_000),
		"inline":     "[meta]\nx = " + strings.Repeat("{a=", 60_000),
		"dotted key": "meta." + strings.Repeat("a.", 20_000) + "a = 1",
		"header":     "[meta." + strings.Repeat("a.", 20_000) + "a]",
		"size":       strings.Repeat("# comment\n", 40_000),
	} {
		began := time.Now()
		if _, err := ParseManifest([]byte(text)); fail.KindOf(err) != fail.BadInput {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"[audit]\nsegment_mb = 128":  "",
		"[audit]\nsegment_mb = 0":    "config.toml: audit.segment_mb: 0 is not from 1 to 4096",
		"[audit]\nsegment_mb = 5000": "config.toml: audit.segment_mb: 5000 is not from 1 to 4096",
		"[audit]\nsegment = 1":       `config.toml: unknown member "audit.segment"`,
		"[Audit]\nsegment_mb = 1":    `config.toml: unknown member "Audit"`,
		"[audit":                     "config.toml line 1: expected '.' or ']' to end table name, but got '\\x00' instead",
	} {
		c, err := ParseConfig([]byte(text))
		switch {
		case want == "" && (err != nil || strings.Contains(text, "128") != (c.SegmentMB == 128)):
			t.Errorf("%q: %+v %v", text, c, err)
		case want != "" && (err == nil || fail.KindOf(err) != fail.ConfigMalformed || err.Error() != want):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
