package tool

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"forge/lib/fail"
	"forge/lib/wire"
)

// Manifest is what tool.toml says:
//
//	name = "csv.sum"
//	description = "Sum one column of a CSV file."
//	runtime = "python3"          # the default
//	impl_file = "tool.py"        # default: tool and the runtime's extension
//	[meta]
//	deterministic = true
//	[input_schema]               # or schema.json beside it
//	type = "object"
type Manifest struct {
	Request   Request // without Impl, and without InputSchema where HasSchema is false
	ImplFile  string  // base name of the implementation's file
	HasSchema bool
}

var manifestMembers = []string{"name", "description", "runtime", "impl_file", "input_schema", "meta"}

// ParseManifest reads tool.toml. Errors are of kind bad_input and name the
// line; a runtime that is not known is runtime_unavailable.
func ParseManifest(text []byte) (Manifest, error) {
	if err := checkTOML(text); err != nil {
		return Manifest{}, fail.New(fail.BadInput, "write a large schema as schema.json beside it", "tool.toml %w", err)
	}
	var f struct {
		Name        string         `toml:"name"`
		Description string         `toml:"description"`
		Runtime     string         `toml:"runtime"`
		ImplFile    string         `toml:"impl_file"`
		InputSchema map[string]any `toml:"input_schema"`
		Meta        map[string]any `toml:"meta"`
	}
	md, err := toml.Decode(string(text), &f)
	if err != nil {
		if p, ok := errors.AsType[toml.ParseError](err); ok {
			return Manifest{}, fail.New(fail.BadInput, "", "tool.toml line %d: %s", p.Position.Line, p.Message)
		}
		return Manifest{}, fail.New(fail.BadInput, "", "tool.%w", err) // "toml: line 1 …"
	}
	for _, k := range md.Keys() {
		if slices.Contains(manifestMembers, k[0]) {
			continue
		}
		hint := "the members are: " + strings.Join(manifestMembers, ", ")
		if near := wire.Nearest(k[0], manifestMembers); near != "" {
			hint = fmt.Sprintf("write %s; %s", near, hint)
		}
		return Manifest{}, fail.New(fail.BadInput, hint, "tool.toml: unknown member %q", k[0])
	}
	m := Manifest{ImplFile: f.ImplFile, HasSchema: f.InputSchema != nil}
	m.Request = Request{Name: f.Name, Description: f.Description, Runtime: f.Runtime}
	if f.InputSchema != nil {
		if m.Request.InputSchema, err = fromTOML(f.InputSchema); err != nil {
			return Manifest{}, fail.New(fail.BadInput, "", "tool.toml: input_schema%w", err)
		}
	}
	if f.Meta != nil {
		if m.Request.Meta, err = fromTOML(f.Meta); err != nil {
			return Manifest{}, fail.New(fail.BadInput, "", "tool.toml: meta%w", err)
		}
	}
	if m.ImplFile == "" {
		name := m.Request.Runtime
		if name == "" {
			name = "python3"
		}
		rt, err := RuntimeOf(name)
		if err != nil {
			return Manifest{}, err
		}
		m.ImplFile = rt.File
	}
	if filepath.Base(m.ImplFile) != m.ImplFile || m.ImplFile == "." || m.ImplFile == ".." {
		return Manifest{}, fail.New(fail.BadInput, "keep the file beside tool.toml", "tool.toml: impl_file %q is not a file name", m.ImplFile)
	}
	return m, nil
}

const (
	maxTOML  = 256 << 10
	maxDepth = 64 // brackets within each other, dots in a key
)

// checkTOML refuses what the parser takes without bound: it recurses into
// brackets, and a dotted key costs it the square of its parts. It does not look
// for strings, in which so many brackets or dots have no place either.
func checkTOML(text []byte) error {
	if len(text) > maxTOML {
		return fmt.Errorf("is more than %d bytes", maxTOML)
	}
	depth, n := 0, 0
	for line := range bytes.Lines(text) {
		n++
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return fmt.Errorf("line %d: brackets nested deeper than %d", n, maxDepth)
			}
		}
		key, _, _ := bytes.Cut(line, []byte("="))
		if bytes.Count(key, []byte(".")) > maxDepth {
			return fmt.Errorf("line %d: a key of more than %d parts", n, maxDepth)
		}
	}
	return nil
}

// fromTOML turns what toml decodes into a Value, members sorted by name.
func fromTOML(x any) (wire.Value, error) {
	switch x := x.(type) {
	case string:
		return wire.StringOf(x), nil
	case bool:
		return wire.BoolOf(x), nil
	case int64:
		return wire.IntOf(x), nil
	case float64:
		lit := strconv.FormatFloat(x, 'g', -1, 64)
		if strings.ContainsAny(lit, "IN") { // Inf, NaN
			return wire.Value{}, fmt.Errorf(": %s is no JSON number", lit)
		}
		return wire.NumberOf(lit), nil
	case []any:
		items := make([]wire.Value, len(x))
		for i, it := range x {
			v, err := fromTOML(it)
			if err != nil {
				return v, fmt.Errorf("/%d%w", i, err)
			}
			items[i] = v
		}
		return wire.ArrayOf(items...), nil
	case []map[string]any:
		items := make([]any, len(x))
		for i, it := range x {
			items[i] = it
		}
		return fromTOML(items)
	case map[string]any:
		names := make([]string, 0, len(x))
		for n := range x {
			names = append(names, n)
		}
		sort.Strings(names)
		members := make([]wire.Member, len(names))
		for i, n := range names {
			v, err := fromTOML(x[n])
			if err != nil {
				return v, fmt.Errorf("/%s%w", wire.Escape(n), err)
			}
			members[i] = wire.Member{Name: n, Value: v}
		}
		return wire.ObjectOf(members...), nil
	}
	return wire.Value{}, fmt.Errorf(": a %T has no place in JSON; write it as a string", x)
}
