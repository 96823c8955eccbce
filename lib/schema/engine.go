package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/xeipuuv/gojsonschema"

	"forge/lib/wire"
)

// An engine enforces a lowered document. It sees values whose numbers are in
// bounds, and nothing but what Lower wrote.
type engine interface {
	check(v any) []raw
}

// raw is a violation as the engine tells it.
type raw struct {
	path    []string // names and indexes from the root
	typ     string   // the engine's word for the rule
	details map[string]any
	text    *string // what it looked at, if a string: a name, where propertyNames looks at an object
}

// privateFormat keeps our checkers apart from the engine's own of the same
// name: its table is one for the whole process.
const privateFormat = "forge-"

type checker func(string) bool

// IsFormat is true for all that is no string: a format says nothing of it.
func (c checker) IsFormat(v any) bool {
	s, ok := v.(string)
	return !ok || c(s)
}

var register = sync.OnceFunc(func() {
	gojsonschema.Locale = texts{}
	for name, f := range formats {
		gojsonschema.FormatCheckers.Add(privateFormat+name, checker(f))
	}
})

// newEngine compiles a lowered document. It never fetches: the factory that
// the engine would ask for another document makes loaders that fail.
func newEngine(lowered wire.Value) (e engine, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	register()
	l := gojsonschema.NewSchemaLoader()
	l.Draft, l.AutoDetect, l.Validate = gojsonschema.Draft7, false, false
	s, err := l.Compile(closed{gojsonschema.NewRawLoader(chunk(lowered.Any()))})
	if err != nil {
		return nil, err
	}
	return xeipuuv{s}, nil
}

// maxChunk is how many values the engine may have in one enum: it compares each
// with all before it, 20,000 of them for seconds.
const maxChunk = 500

// chunk turns enums of more values into alternatives. They are large enough to
// stand under the two nots of Lower, so that nothing is told of them. Only
// schemas are looked at: a const or an enum may hold what looks like one.
func chunk(x any) any {
	switch x := x.(type) {
	case []any:
		for i, it := range x {
			x[i] = chunk(it)
		}
	case map[string]any:
		for word, it := range x {
			switch word {
			case "const", "enum":
			case "properties", "patternProperties", "definitions", "dependencies":
				named, _ := it.(map[string]any)
				for name, it := range named {
					named[name] = chunk(it)
				}
			default:
				x[word] = chunk(it)
			}
		}
		vals, _ := x["enum"].([]any)
		if len(vals) > maxChunk && len(x) == 1 {
			var parts []any
			for part := range slices.Chunk(vals, maxChunk) {
				parts = append(parts, map[string]any{"enum": part})
			}
			return map[string]any{"anyOf": parts}
		}
	}
	return x
}

// closed is a loader beyond which there is nothing to load.
type closed struct{ gojsonschema.JSONLoader }

func (closed) LoaderFactory() gojsonschema.JSONLoaderFactory { return noFactory{} }

type noFactory struct{}

func (noFactory) New(string) gojsonschema.JSONLoader { return noLoader{gojsonschema.NewRawLoader(nil)} }

var errClosed = errors.New("nothing is fetched")

type noLoader struct{ gojsonschema.JSONLoader }

func (noLoader) LoadJSON() (any, error) { return nil, errClosed }

func (noLoader) LoaderFactory() gojsonschema.JSONLoaderFactory { return noFactory{} }

type xeipuuv struct{ s *gojsonschema.Schema }

func (x xeipuuv) check(v any) []raw {
	res, err := x.s.Validate(gojsonschema.NewRawLoader(v))
	if err != nil {
		return []raw{{typ: "internal"}}
	}
	var raws []raw
	for _, e := range res.Errors() {
		r := raw{typ: e.Type(), details: e.Details()}
		r.path = split(e.Context().String(separator))
		// A stranger property is told with its value, which nobody may see.
		if text, ok := e.Value().(string); ok && r.typ != "additional_property_not_allowed" {
			r.text = &text
		}
		raws = append(raws, r)
	}
	return raws
}

// split takes a context of the engine apart.
func split(context string) []string {
	return strings.Split(context, separator)[1:] // the first is the root
}

// separator cannot stand in a name: the reader refuses U+0000.
const separator = "\x00"

// plain turns v into what encoding/json would make of it, 0 written one way.
func plain(v wire.Value) any {
	switch v.Type() {
	case wire.Number:
		if isZero(v.Text()) {
			return json.Number("0")
		}
	case wire.Array:
		items := make([]any, len(v.Items()))
		for i, it := range v.Items() {
			items[i] = plain(it)
		}
		return items
	case wire.Object:
		m := make(map[string]any, len(v.Members()))
		for _, mb := range v.Members() {
			m[mb.Name] = plain(mb.Value)
		}
		return m
	}
	return v.Any()
}
