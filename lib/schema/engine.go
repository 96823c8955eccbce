package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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
	text    *string // what it looked at, if a string: a name, where it stands at an object
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
	s, err := l.Compile(closed{gojsonschema.NewRawLoader(lowered.Any())})
	if err != nil {
		return nil, err
	}
	return xeipuuv{s}, nil
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
		r := raw{typ: e.Type(), details: map[string]any{}}
		r.path = split(e.Context().String(separator))
		if text, ok := e.Value().(string); ok {
			r.text = &text
		}
		for k, d := range e.Details() {
			r.details[k] = d
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
		if r, ok := new(big.Rat).SetString(v.Text()); ok && r.Sign() == 0 {
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
