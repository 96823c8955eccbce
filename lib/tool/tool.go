// Package tool is the definition of a tool and its file.
//
// A tool file is one line, compact, with these members in this order, and LF:
//
//	{"format":"forge.tool/1","name":"fib","description":"…","runtime":"python3","input_schema":{…},"meta":{…},"impl":"…","digest":"<64 hex>"}
//
// The digest is SHA-256 over the bytes before the last 78:
//
//	head -c -78 fib.json | sha256sum
//
// It names the definition alone, so equal definitions have equal digests
// everywhere. forge-store(5), TOOLS, is the page.
package tool

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"forge/lib/fail"
	"forge/lib/wire"
)

const (
	format = "forge.tool/1"

	// MaxFile bounds a tool file: impl of 1 MiB fully escaped, a schema of
	// 256 KiB, and the rest.
	MaxFile        = 8 << 20
	maxImpl        = 1 << 20
	maxDescription = 1000
)

// Tool is a definition.
type Tool struct {
	Name        Name
	Description string
	Runtime     string
	InputSchema wire.Value
	Meta        Meta
	Impl        string
	Digest      string // 64 hex, "" until Encode or Parse
}

// Meta is what a definition asks for.
type Meta struct {
	Deterministic bool       `json:"deterministic,omitempty"`
	Secrets       []string   `json:"secrets,omitempty"`
	Capabilities  []string   `json:"capabilities"` // sorted; nil in a request: derive them
	Limits        *Limits    `json:"limits,omitempty"`
	X             wire.Value `json:"x,omitempty"` // an object of the author's own, or null
}

// Limits are what a run may use; 0 in a definition means the default.
type Limits struct {
	WallS       int64 `json:"wall_s,omitempty"`
	CPUS        int64 `json:"cpu_s,omitempty"`
	MemoryMB    int64 `json:"memory_mb,omitempty"`
	OutputBytes int64 `json:"output_bytes,omitempty"`
}

// The limits of DESIGN §6.
var (
	DefaultLimits = Limits{WallS: 30, CPUS: 30, MemoryMB: 512, OutputBytes: 4 << 20}
	MaxLimits     = Limits{WallS: 300, CPUS: 300, MemoryMB: 4096, OutputBytes: 16 << 20}
)

// Field is one limit by its name, for walking over all of them.
type Field struct {
	Name  string
	Value *int64
}

// Fields lists the limits of l, to be read or set.
func (l *Limits) Fields() []Field {
	return []Field{
		{"wall_s", &l.WallS},
		{"cpu_s", &l.CPUS},
		{"memory_mb", &l.MemoryMB},
		{"output_bytes", &l.OutputBytes},
	}
}

// Effective returns the limits a run gets under those maxima, and the names and
// values of those that were lowered.
func (l *Limits) Effective(most Limits) (Limits, map[string]any) {
	out, clamped := DefaultLimits, map[string]any{}
	if l == nil {
		l = &Limits{}
	}
	want, top := l.Fields(), most.Fields()
	for i, f := range out.Fields() {
		if *want[i].Value > 0 {
			*f.Value = *want[i].Value
		}
		if *f.Value > *top[i].Value {
			*f.Value = *top[i].Value
			if *want[i].Value > 0 {
				clamped[f.Name] = *f.Value
			}
		}
	}
	return out, clamped
}

// Capabilities a tool may have, sorted.
var Capabilities = []string{"network", "process", "read", "write"}

// Has says whether t has that capability.
func (t *Tool) Has(capability string) bool { return slices.Contains(t.Meta.Capabilities, capability) }

// isSecretName holds s to ^[A-Z_][A-Z0-9_]{0,63}$.
func isSecretName(s string) bool {
	return len(s) > 0 && len(s) <= 64 && (s[0] < '0' || s[0] > '9') &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// Request is a definition as forge-forge takes it.
type Request struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	InputSchema wire.Value `json:"input_schema"`
	Impl        string     `json:"impl"`
	Runtime     string     `json:"runtime"`
	Meta        wire.Value `json:"meta"`
}

// New checks the shape of r and returns it as a Tool, its capabilities nil where
// none were asked for. What the schema's keywords, the implementation and the
// description say is checked elsewhere. Errors: name_invalid, bad_input,
// schema_unsupported.
func New(r Request) (*Tool, error) {
	name, err := ParseName(r.Name)
	if err != nil {
		return nil, err
	}
	t := &Tool{Name: name, Description: r.Description, Runtime: r.Runtime, InputSchema: r.InputSchema, Impl: r.Impl}
	if t.Runtime == "" {
		t.Runtime = "python3"
	}
	if err := checkRoot(t.InputSchema); err != nil {
		return nil, err
	}
	switch n := len(t.Impl); {
	case n == 0:
		return nil, fail.New(fail.BadInput, `write "impl": the program's text`, "impl is empty")
	case n > maxImpl:
		return nil, fail.New(fail.BadInput, "pass data as a file bound with x-bind", "impl of %d bytes, at most %d", n, maxImpl)
	case strings.ContainsRune(t.Impl, 0):
		return nil, fail.New(fail.BadInput, "leave U+0000 out", "impl holds U+0000")
	}
	if t.Meta, err = parseMeta(r.Meta); err != nil {
		return nil, err
	}
	return t, nil
}

// checkRoot holds the one rule on schemas that is ours alone: an object root.
func checkRoot(s wire.Value) error {
	const hint = `write {"type":"object","properties":{…}}`
	if s.Type() != wire.Object {
		return fail.New(fail.SchemaUnsupported, hint, "input_schema: %s, want an object", s.Type())
	}
	if typ, _ := s.Get("type"); typ.Type() != wire.String || typ.Text() != "object" {
		return fail.New(fail.SchemaUnsupported, hint, `input_schema: the root's type is not "object"`).With("pointer", "/type")
	}
	return nil
}

// CheckDescription holds the description to 1 to 1,000 characters that a reader
// can see, on one line. Errors are of kind lint_failed.
func CheckDescription(s string) error {
	if s == "" {
		return fail.New(fail.LintFailed, "say in one line what the tool does", "description is empty")
	}
	if n := utf8.RuneCountInString(s); n > maxDescription {
		return fail.New(fail.LintFailed, "shorten it", "description of %d characters, at most %d", n, maxDescription)
	}
	for i, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) || invisible(r) {
			return fail.New(fail.LintFailed, "write it on one line, in characters a reader can see",
				"description byte %d: U+%04X is a control or invisible character", i, r)
		}
	}
	if strings.TrimSpace(s) == "" {
		return fail.New(fail.LintFailed, "say in one line what the tool does", "description is blank")
	}
	return nil
}

// invisible covers what Unicode does not class as Cf and yet prints as nothing
// or as a blank: fillers, variation selectors, the braille blank.
func invisible(r rune) bool {
	switch {
	case r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0:
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180f:
		return true
	}
	return r != ' ' && unicode.Is(unicode.Zs, r)
}

func parseMeta(v wire.Value) (Meta, error) {
	var m Meta
	if v.Type() == wire.Null {
		return m, nil
	}
	if err := wire.Decode(v, &m); err != nil {
		e := fail.Of(err)
		hint := e.Hint
		if strings.Contains(e.Message, "unknown member") {
			hint += "; anything of your own goes under x"
		}
		return m, &fail.Error{Kind: e.Kind, Message: "meta: " + e.Message, Hint: hint, Details: e.Details}
	}
	if len(m.Secrets) > 16 {
		return m, fail.New(fail.BadInput, "", "meta.secrets: %d names, at most 16", len(m.Secrets))
	}
	for _, s := range m.Secrets {
		if !isSecretName(s) {
			return m, fail.New(fail.BadInput, "write it as an environment variable, such as API_KEY", "meta.secrets: %q is not a secret's name", s)
		}
	}
	if d := firstRepeat(m.Secrets); d != "" {
		return m, fail.New(fail.BadInput, "", "meta.secrets: %q stands twice", d)
	}
	for _, c := range m.Capabilities {
		if !slices.Contains(Capabilities, c) {
			hint := "the capabilities are: " + strings.Join(Capabilities, ", ")
			if near := wire.Nearest(c, Capabilities); near != "" {
				hint = fmt.Sprintf("write %q; %s", near, hint)
			}
			return m, fail.New(fail.BadInput, hint, "meta.capabilities: unknown capability %q", c)
		}
	}
	if d := firstRepeat(m.Capabilities); d != "" {
		return m, fail.New(fail.BadInput, "", "meta.capabilities: %q stands twice", d)
	}
	slices.Sort(m.Capabilities)
	if limits, ok := v.Get("limits"); ok {
		for _, lm := range limits.Members() {
			if n, ok := lm.Value.Int(); ok && n <= 0 {
				return m, fail.New(fail.BadInput, "leave it out for the default", "meta.limits.%s: %d is not above 0", lm.Name, n)
			}
		}
	}
	if m.X.Type() != wire.Null && m.X.Type() != wire.Object {
		return m, fail.New(fail.BadInput, `write "x": {…}`, "meta.x: %s, want an object", m.X.Type())
	}
	return m, nil
}

func firstRepeat(list []string) string {
	seen := map[string]bool{}
	for _, s := range list {
		if seen[s] {
			return s
		}
		seen[s] = true
	}
	return ""
}

// value returns m as it stands in a file.
func (m Meta) value() wire.Value {
	strs := func(list []string) wire.Value {
		items := make([]wire.Value, len(list))
		for i, s := range list {
			items[i] = wire.StringOf(s)
		}
		return wire.ArrayOf(items...)
	}
	var out []wire.Member
	if m.Deterministic {
		out = append(out, wire.Member{Name: "deterministic", Value: wire.BoolOf(true)})
	}
	if len(m.Secrets) > 0 {
		out = append(out, wire.Member{Name: "secrets", Value: strs(m.Secrets)})
	}
	out = append(out, wire.Member{Name: "capabilities", Value: strs(m.Capabilities)})
	if m.Limits != nil {
		var ls []wire.Member
		for _, f := range m.Limits.Fields() {
			if *f.Value > 0 {
				ls = append(ls, wire.Member{Name: f.Name, Value: wire.IntOf(*f.Value)})
			}
		}
		if len(ls) > 0 {
			out = append(out, wire.Member{Name: "limits", Value: wire.ObjectOf(ls...)})
		}
	}
	if m.X.Type() == wire.Object {
		out = append(out, wire.Member{Name: "x", Value: m.X})
	}
	return wire.ObjectOf(out...)
}

// Encode returns the bytes of t's file and sets t.Digest.
func (t *Tool) Encode() []byte {
	line, digest := wire.Seal(wire.ObjectOf(
		wire.Member{Name: "format", Value: wire.StringOf(format)},
		wire.Member{Name: "name", Value: wire.StringOf(string(t.Name))},
		wire.Member{Name: "description", Value: wire.StringOf(t.Description)},
		wire.Member{Name: "runtime", Value: wire.StringOf(t.Runtime)},
		wire.Member{Name: "input_schema", Value: t.InputSchema},
		wire.Member{Name: "meta", Value: t.Meta.value()},
		wire.Member{Name: "impl", Value: wire.StringOf(t.Impl)},
	))
	t.Digest = digest
	return line
}

// Parse reads a tool file. It takes only what Encode would have written for the
// same definition, so nothing stands in a file that a reader overlooks. Errors
// are of kind registry_malformed.
func Parse(file []byte) (*Tool, error) {
	bad := func(format string, args ...any) error {
		return fail.New(fail.RegistryMalformed, "", format, args...)
	}
	if _, ok := wire.Sealed(file); !ok {
		return nil, bad("the digest does not fit")
	}
	v, err := wire.Parse(file, wire.Limits{Size: MaxFile, Depth: wire.Request.Depth + 1})
	if err != nil {
		return nil, bad("%w", err)
	}
	var f struct {
		Format      string     `json:"format"`
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Runtime     string     `json:"runtime"`
		InputSchema wire.Value `json:"input_schema"`
		Meta        wire.Value `json:"meta"`
		Impl        string     `json:"impl"`
		Digest      string     `json:"digest"`
	}
	if err := wire.Decode(v, &f); err != nil {
		return nil, bad("%w", err)
	}
	if f.Format != format {
		return nil, bad("format %q, want %q", f.Format, format)
	}
	t, err := New(Request{f.Name, f.Description, f.InputSchema, f.Impl, f.Runtime, f.Meta})
	if err == nil {
		err = CheckDescription(t.Description)
	}
	if err != nil {
		return nil, bad("%w", err)
	}
	if t.Meta.Capabilities == nil {
		t.Meta.Capabilities = []string{}
	}
	if !bytes.Equal(t.Encode(), file) {
		return nil, bad("not as forge writes it")
	}
	return t, nil
}

// Request returns t as forge-forge takes it: forging it gives the same
// definition again.
func (t *Tool) Request() Request {
	return Request{string(t.Name), t.Description, t.InputSchema, t.Impl, t.Runtime, t.Meta.value()}
}
