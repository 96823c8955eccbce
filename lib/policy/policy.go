// Package policy is what the operator allows: policy.json parsed, laid over the
// built-in defaults, and asked. It is pure. forge-policy(5) is the page and the
// one place for the defaults.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"forge/lib/fail"
	"forge/lib/tool"
	"forge/lib/wire"
)

// Policy is an effective policy.
type Policy struct {
	ForbiddenToolNames      []string
	Breakers                Breakers
	PersonaNamespaces       map[string]string
	PersonaSandboxOverrides map[string]Sandbox
	PersonaSecretAllow      map[string][]string
	Limits                  tool.Limits // the most a tool may have
	Approve                 map[string][]string
}

// Breakers are rates and counts; 0 switches one off.
type Breakers struct {
	PerToolRPM           int64
	PerSessionForgeCount int64
	Failures             int64
	CooldownS            int64
}

// Sandbox is what a persona's tools may reach beyond the default.
type Sandbox struct {
	Network  string   `json:"network"` // allow or deny
	Loopback []int64  `json:"loopback"`
	Hosts    []string `json:"hosts"`
	Ports    []int64  `json:"ports"`
}

// Default returns the built-in policy.
func Default() Policy {
	return Policy{
		Breakers: Breakers{PerToolRPM: 30, PerSessionForgeCount: 50, Failures: 5, CooldownS: 60},
		PersonaNamespaces: map[string]string{
			"assistant": "assistant", "coder": "code", "browser": "web",
			"research": "research", "inbox": "inbox", "homeassistant": "ha",
		},
		PersonaSandboxOverrides: map[string]Sandbox{"browser": {Network: "allow"}, "research": {Network: "allow"}},
		Limits:                  tool.MaxLimits,
	}
}

const maxCount = 1000

// Parse lays policy.json over the defaults: a list or a limit replaces the
// default, a map is merged by persona. Errors are of kind policy_malformed and
// name line and column.
func Parse(text []byte) (Policy, error) {
	p := Default()
	v, err := wire.Parse(text, wire.Request)
	if err != nil {
		e := fail.Of(err)
		return p, fail.New(fail.PolicyMalformed, e.Hint, "policy.json %w", err)
	}
	var f struct {
		Forbidden *[]string `json:"forbidden_tool_names"`
		Breakers  *struct {
			PerToolRPM           *int64 `json:"per_tool_rpm"`
			PerSessionForgeCount *int64 `json:"per_session_forge_count"`
			Failures             *int64 `json:"failures"`
			CooldownS            *int64 `json:"cooldown_s"`
		} `json:"breakers"`
		Namespaces  map[string]string   `json:"persona_namespaces"`
		Sandbox     map[string]Sandbox  `json:"persona_sandbox_overrides"`
		SecretAllow map[string][]string `json:"persona_secret_allow"`
		Limits      *tool.Limits        `json:"limits"`
		Approve     map[string][]string `json:"approve"`
	}
	// at names the place of a member in the text.
	at := func(pointer string) string {
		line, col := wire.Line(text, find(v, pointer).Pos())
		return fmt.Sprintf("policy.json line %d column %d", line, col)
	}
	bad := func(pointer, hint, format string, args ...any) error {
		return fail.New(fail.PolicyMalformed, hint, "%s: %s: %s", at(pointer), pointer, fmt.Sprintf(format, args...))
	}
	if err := wire.Decode(v, &f); err != nil {
		e := fail.Of(err)
		off, _ := e.Details["offset"].(int)
		line, col := wire.Line(text, off)
		return p, fail.New(fail.PolicyMalformed, e.Hint, "policy.json line %d column %d: %w", line, col, err)
	}
	if f.Forbidden != nil {
		for i, glob := range *f.Forbidden {
			if glob == "" || strings.Trim(glob, "abcdefghijklmnopqrstuvwxyz0123456789._*?") != "" {
				return p, bad("/forbidden_tool_names", "write lower-case letters, digits, . _ and the globs * and ?",
					"item %d, %q, can never fit a tool's name", i, glob)
			}
		}
		p.ForbiddenToolNames = *f.Forbidden
	}
	if b := f.Breakers; b != nil {
		for _, c := range []struct {
			name string
			from *int64
			to   *int64
		}{
			{"per_tool_rpm", b.PerToolRPM, &p.Breakers.PerToolRPM},
			{"per_session_forge_count", b.PerSessionForgeCount, &p.Breakers.PerSessionForgeCount},
			{"failures", b.Failures, &p.Breakers.Failures},
			{"cooldown_s", b.CooldownS, &p.Breakers.CooldownS},
		} {
			if c.from == nil {
				continue
			}
			if *c.from < 0 || *c.from > maxCount {
				return p, bad("/breakers/"+c.name, "write 0 to switch it off", "%d is not from 0 to %d", *c.from, maxCount)
			}
			*c.to = *c.from
		}
	}
	for persona, ns := range f.Namespaces {
		if _, err := tool.ParseName(ns); err != nil && ns != "" {
			return p, bad("/persona_namespaces/"+wire.Escape(persona), "write lower-case words joined by dots, such as code", "namespace %q is not a name", ns)
		}
		p.PersonaNamespaces[persona] = ns
	}
	for persona, s := range f.Sandbox {
		where := "/persona_sandbox_overrides/" + wire.Escape(persona)
		if s.Network != "" && s.Network != "allow" && s.Network != "deny" {
			return p, bad(where+"/network", `write "allow" or "deny"`, "%q", s.Network)
		}
		for i, n := range append(slices.Clone(s.Loopback), s.Ports...) {
			if n < 1 || n > 65535 {
				return p, bad(where, "write ports from 1 to 65535", "port %d (item %d)", n, i)
			}
		}
		p.PersonaSandboxOverrides[persona] = s
	}
	if f.Limits != nil {
		limits, _ := v.Get("limits")
		most := tool.MaxLimits
		top := most.Fields()
		for i, field := range f.Limits.Fields() {
			if _, set := limits.Get(field.Name); !set {
				continue
			}
			if *field.Value <= 0 || *field.Value > *top[i].Value {
				return p, bad("/limits/"+field.Name, "leave it out for the most", "%d is not from 1 to %d", *field.Value, *top[i].Value)
			}
			*top[i].Value = *field.Value
		}
		p.Limits = most
	}
	for persona, risks := range f.Approve {
		for _, r := range risks {
			if r != "reversible_write" && r != "irreversible" {
				return p, bad("/approve/"+wire.Escape(persona), "the risks are: reversible_write, irreversible", "risk %q is not one", r)
			}
		}
	}
	p.PersonaSecretAllow, p.Approve = f.SecretAllow, f.Approve
	return p, nil
}

// find returns the value at a pointer of names.
func find(v wire.Value, pointer string) wire.Value {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		next, ok := v.Get(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
		if !ok {
			return v
		}
		v = next
	}
	return v
}

// Forbidden returns an error of kind name_forbidden naming the glob that fits.
func (p *Policy) Forbidden(n tool.Name) error {
	for _, glob := range p.ForbiddenToolNames {
		if n.Match(glob) {
			return fail.New(fail.NameForbidden, "choose another name, or ask the operator (forbidden_tool_names in policy.json)",
				"name %q: the policy forbids %q", n, glob).With("pattern", glob)
		}
	}
	return nil
}

// Namespace returns an error of kind namespace_denied where the persona has a
// namespace and the name is not below it. A persona "" is a person, and a
// namespace "" frees its persona: no rule.
func (p *Policy) Namespace(persona string, n tool.Name) error {
	ns, ok := p.PersonaNamespaces[persona]
	if persona == "" || !ok || ns == "" || strings.HasPrefix(string(n), ns+".") {
		return nil
	}
	return fail.New(fail.NamespaceDenied, fmt.Sprintf("write %s.%s", ns, n),
		"name %q: persona %q registers names under %q", n, persona, ns+".").With("namespace", ns)
}

// Allowed returns an error of kind persona_denied where list, the caller's
// allowed tools, does not have the name. A nil list allows every tool, an empty
// one none.
func Allowed(list []string, n tool.Name) error {
	if list == nil || slices.ContainsFunc(list, n.Match) {
		return nil
	}
	return fail.New(fail.PersonaDenied, "FORGE_ALLOWED_TOOLS names the tools that may be called here",
		"tool %q is not among the allowed tools", n)
}

// Network says whether a persona's tools may have a network.
func (p *Policy) Network(persona string) bool {
	return persona != "" && p.PersonaSandboxOverrides[persona].Network == "allow"
}
