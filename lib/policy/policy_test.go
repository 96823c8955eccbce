package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/tool"
)

// The numbers of the reference.
func TestDefault(t *testing.T) {
	p, err := Parse([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	for _, p := range []Policy{p, d} {
		got, _ := json.Marshal([]any{p.ForbiddenToolNames, p.Breakers, p.PersonaNamespaces, p.PersonaSecretAllow, p.Limits, p.Approve})
		want := `[null,{"PerToolRPM":30,"PerSessionForgeCount":50,"Failures":5,"CooldownS":60},` +
			`{"assistant":"assistant","browser":"web","coder":"code","homeassistant":"ha","inbox":"inbox","research":"research"},null,` +
			`{"wall_s":300,"cpu_s":300,"memory_mb":4096,"output_bytes":16777216},null]`
		if string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	// Each caller has its own.
	d.PersonaNamespaces["coder"] = "changed"
	again := Default()
	if again.PersonaNamespaces["coder"] != "code" || tool.MaxLimits.WallS != 300 {
		t.Error("the defaults were changed")
	}
}

func TestParse(t *testing.T) {
	ask := func(p *Policy) string {
		return fmt.Sprintf("%v %v %s/%s %v %v %v", p.ForbiddenToolNames, p.Breakers,
			p.PersonaNamespaces["coder"], p.PersonaNamespaces["me"], p.Network("browser"), p.Network("me"), p.Limits)
	}
	base := Default()
	asIs := ask(&base)
	for _, c := range []struct{ in, want, err, hint string }{
		{in: `{}`, want: asIs},
		{in: `{"forbidden_tool_names":["a","b.*"]}`, want: strings.Replace(asIs, "[]", "[a b.*]", 1)},
		{in: `{"forbidden_tool_names":[]}`, want: asIs},
		{in: `{"breakers":{"per_tool_rpm":0,"failures":1000}}`, want: strings.Replace(asIs, "{30 50 5 60}", "{0 50 1000 60}", 1)},
		{in: `{"breakers":{"per_session_forge_count":1,"cooldown_s":2}}`, want: strings.Replace(asIs, "{30 50 5 60}", "{30 1 5 2}", 1)},
		{in: `{"persona_namespaces":{"me":"my.own"}}`, want: strings.Replace(asIs, "code/ true", "code/my.own true", 1)},
		{in: `{"persona_namespaces":{"coder":"dev"}}`, want: strings.Replace(asIs, "code/ true", "dev/ true", 1)},
		{in: `{"persona_sandbox_overrides":{"me":{"network":"allow","loopback":[80],"hosts":["*.x"],"ports":[443]}}}`, want: strings.Replace(asIs, "true false", "true true", 1)},
		{in: `{"persona_sandbox_overrides":{"browser":{"network":"deny"}}}`, want: strings.Replace(asIs, "true false", "false false", 1)},
		{in: `{"persona_sandbox_overrides":{"browser":{}}}`, want: strings.Replace(asIs, "true false", "false false", 1)},
		{in: `{"limits":{"wall_s":5,"output_bytes":1}}`, want: strings.Replace(asIs, "{300 300 4096 16777216}", "{5 300 4096 1}", 1)},
		{in: `{"persona_secret_allow":{"me":["TOKEN"]},"approve":{"me":["irreversible","reversible_write"]}}`, want: asIs},

		{in: ``, err: "policy.json empty", hint: "pass one JSON value on standard input"},
		{in: `[]`, err: "policy.json line 1 column 1: the value: array, want an object"},
		{in: "{\n \"limits\":\n}", err: "policy.json line 3 column 1: invalid character '}' looking for beginning of value", hint: "pass exactly one JSON value"},
		{in: `{"limits":{},"limits":{}}`, err: `policy.json line 1 column 14: a name stands twice in the object`, hint: "write each name once"},
		{in: `{"forbidden_tool_names":["a","CSV.*"]}`, err: `policy.json line 1 column 25: /forbidden_tool_names: item 1, "CSV.*", can never fit a tool's name`, hint: "write lower-case letters, digits, . _ and the globs * and ?"},
		{in: `{"forbidden_tool_names":["csv[.]*"]}`, err: `policy.json line 1 column 25: /forbidden_tool_names: item 0, "csv[.]*", can never fit a tool's name`, hint: "write lower-case letters, digits, . _ and the globs * and ?"},
		{in: "{\n \"breaker\":{}}", err: `policy.json line 2 column 12: the value: unknown member "breaker"`, hint: `write "breakers"; the members are: forbidden_tool_names, breakers, persona_namespaces, persona_sandbox_overrides, persona_secret_allow, limits, approve`},
		{in: `{"breakers":{"per_tool_rmp":1}}`, err: `policy.json line 1 column 29: /breakers: unknown member "per_tool_rmp"`, hint: `write "per_tool_rpm"; the members are: per_tool_rpm, per_session_forge_count, failures, cooldown_s`},
		{in: `{"breakers":{"failures":"5"}}`, err: `policy.json line 1 column 25: /breakers/failures: string, want a whole number`},
		{in: `{"breakers":{"failures":1.5}}`, err: `policy.json line 1 column 25: /breakers/failures: number, want a whole number`},
		{in: "{\"breakers\":{\n  \"per_tool_rpm\": -1}}", err: "policy.json line 2 column 19: /breakers/per_tool_rpm: -1 is not from 0 to 1000", hint: "write 0 to switch it off"},
		{in: `{"breakers":{"cooldown_s":1001}}`, err: "policy.json line 1 column 27: /breakers/cooldown_s: 1001 is not from 0 to 1000", hint: "write 0 to switch it off"},
		{in: `{"persona_namespaces":{"me":"My"}}`, err: `policy.json line 1 column 29: /persona_namespaces/me: namespace "My" is not a name`, hint: "write lower-case words joined by dots, such as code"},
		{in: `{"persona_namespaces":{"a/b":"x."}}`, err: `policy.json line 1 column 30: /persona_namespaces/a~1b: namespace "x." is not a name`, hint: "write lower-case words joined by dots, such as code"},
		{in: `{"persona_sandbox_overrides":{"me":{"network":"yes"}}}`, err: `policy.json line 1 column 47: /persona_sandbox_overrides/me/network: "yes"`, hint: `write "allow" or "deny"`},
		{in: `{"persona_sandbox_overrides":{"me":{"ports":[0]}}}`, err: `policy.json line 1 column 36: /persona_sandbox_overrides/me: port 0 (item 0)`, hint: "write ports from 1 to 65535"},
		{in: `{"persona_sandbox_overrides":{"me":{"loopback":[1,70000]}}}`, err: `policy.json line 1 column 36: /persona_sandbox_overrides/me: port 70000 (item 1)`, hint: "write ports from 1 to 65535"},
		{in: `{"persona_sandbox_overrides":{"me":{"net":"allow"}}}`, err: `policy.json line 1 column 43: /persona_sandbox_overrides/me: unknown member "net"`, hint: "the members are: network, loopback, hosts, ports"},
		{in: `{"limits":{"wall_s":0}}`, err: "policy.json line 1 column 21: /limits/wall_s: 0 is not from 1 to 300", hint: "leave it out for the most"},
		{in: `{"limits":{"wall_s":301}}`, err: "policy.json line 1 column 21: /limits/wall_s: 301 is not from 1 to 300", hint: "leave it out for the most"},
		{in: `{"limits":{"memory_mb":-1}}`, err: "policy.json line 1 column 24: /limits/memory_mb: -1 is not from 1 to 4096", hint: "leave it out for the most"},
		{in: `{"approve":{"me":["all"]}}`, err: `policy.json line 1 column 18: /approve/me: risk "all" is not one`, hint: "the risks are: reversible_write, irreversible"},
		{in: `{"persona_secret_allow":{"me":"TOKEN"}}`, err: "policy.json line 1 column 31: /persona_secret_allow/me: string, want an array"},
	} {
		p, err := Parse([]byte(c.in))
		if err != nil {
			e := fail.Of(err)
			if e.Kind != fail.PolicyMalformed || e.Message != c.err || e.Hint != c.hint {
				t.Errorf("%s\n%s: %s\n hint %s\nwant %s\n hint %s", c.in, e.Kind, e.Message, e.Hint, c.err, c.hint)
			}
			continue
		}
		if c.err != "" {
			t.Errorf("%s passed, want %s", c.in, c.err)
		} else if got := ask(&p); got != c.want {
			t.Errorf("%s\n%s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestNamespace(t *testing.T) {
	p := Default()
	p.PersonaNamespaces["deep"] = "a.b"
	p.PersonaNamespaces["free"] = ""
	for _, c := range []struct{ persona, name, want string }{
		{"", "anything", ""},
		{"nobody", "anything", ""},
		{"free", "anything", ""},
		{"coder", "code.x", ""},
		{"coder", "code.x.y", ""},
		{"coder", "code", "write code.code"},
		{"coder", "codex.y", "write code.codex.y"},
		{"coder", "code_x", "write code.code_x"}, // the same wire name as code.x, and not below code.
		{"coder", "web.x", "write code.web.x"},
		{"deep", "a.b.c", ""},
		{"deep", "a.c", "write a.b.a.c"},
	} {
		err := p.Namespace(c.persona, tool.Name(c.name))
		got := ""
		if err != nil {
			e := fail.Of(err)
			got = e.Hint
			want := fmt.Sprintf("name %q: persona %q registers names under %q", c.name, c.persona, p.PersonaNamespaces[c.persona]+".")
			if e.Kind != fail.NamespaceDenied || e.Message != want || e.Details["namespace"] != p.PersonaNamespaces[c.persona] {
				t.Errorf("%+v", e)
			}
		}
		if got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.persona, c.name, got, c.want)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		globs, name string
		fits        bool
	}{
		{"fib", "fib", true},
		{"fib", "fibs", false},
		{"csv.*", "csv.sum", true},
		{"csv.*", "csv_sum", true},
		{"csv_*", "csv.sum", true},
		{"csv.sum", "csv_sum", true},
		{"csv_sum", "csv.sum", true},
		{"*.sum", "csv_sum", true},
		{"*", "x", true},
		{"", "x", false},
		{"c?v.sum", "csv_sum", true},
		{"csv?sum", "csv.sum", true},
		{"CSV.*", "csv.sum", false},
		{"a b", "b", true},
		{"csv", "csv.sum", false},
		{"*a*a*a*a*a*a*a*a*b", strings.Repeat("a", 48), false},
		{"[c]sv.sum", "csv.sum", false},
	} {
		p := Policy{ForbiddenToolNames: strings.Fields(c.globs)}
		err := p.Forbidden(tool.Name(c.name))
		if (err != nil) != c.fits || err != nil && fail.KindOf(err) != fail.NameForbidden {
			t.Errorf("forbidden %q, %q: %v", c.globs, c.name, err)
		}
		err = Allowed(strings.Fields(c.globs), tool.Name(c.name))
		if (err == nil) != c.fits || err != nil && fail.KindOf(err) != fail.PersonaDenied {
			t.Errorf("allowed %q, %q: %v", c.globs, c.name, err)
		}
	}
	if err := Allowed(nil, "x"); err != nil {
		t.Errorf("nothing said: %v", err)
	}
	if err := Allowed([]string{}, "x"); err == nil {
		t.Error("nothing allowed: passed")
	}
	p := Policy{ForbiddenToolNames: []string{"a", "b.*"}}
	if e := fail.Of(p.Forbidden("b.c")); e.Details["pattern"] != "b.*" || e.Message != `name "b.c": the policy forbids "b.*"` {
		t.Errorf("%+v", e)
	}
}

func TestNetwork(t *testing.T) {
	p := Default()
	p.PersonaSandboxOverrides[""] = Sandbox{Network: "allow"}
	for persona, want := range map[string]bool{"": false, "browser": true, "research": true, "coder": false, "nobody": false} {
		if got := p.Network(persona); got != want {
			t.Errorf("%q: %v", persona, got)
		}
	}
}
