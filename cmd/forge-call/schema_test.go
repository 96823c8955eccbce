package main

import (
	"testing"

	"forge/lib/fail"
	"forge/lib/registry"
	"forge/lib/schema"
	"forge/lib/tool"
	"forge/lib/wire"
)

// A schema that was lowered by an older program is lowered anew, not believed.
func TestReadySchema(t *testing.T) {
	parse := func(text string) wire.Value {
		v, err := wire.Parse([]byte(text), wire.Instance)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	author := parse(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	lowered, err := schema.Lower(author)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []registry.Ledger{
		{Lowering: schema.Lowering, Lowered: lowered},
		{Lowering: schema.Lowering - 1, Lowered: wire.BoolOf(true)},
	} {
		s, ready, err := readySchema(&registry.Entry{Tool: &tool.Tool{InputSchema: author}, Ledger: &l})
		if err != nil {
			t.Fatal(err)
		}
		if ready.String() != lowered.String() {
			t.Errorf("lowering %d: lowered to %s, want %s", l.Lowering, ready, lowered)
		}
		if err := s.Check(parse(`{"n":1}`)); err != nil {
			t.Error(err)
		}
		if err := s.Check(parse(`{"n":"1"}`)); fail.KindOf(err) != fail.ValidationFailed {
			t.Errorf("lowering %d: %v", l.Lowering, err)
		}
	}
}

// What was enforced when an answer was kept is part of its key: a hit is not
// checked again.
func TestCacheKey(t *testing.T) {
	strict := wire.ObjectOf(wire.Member{Name: "type", Value: wire.StringOf("object")})
	key := cacheKey("d", strict, []byte("{}"), nil)
	if key != cacheKey("d", strict, []byte("{}"), nil) {
		t.Error("one call has two keys")
	}
	for _, other := range []string{
		cacheKey("d", wire.BoolOf(true), []byte("{}"), nil),
		cacheKey("e", strict, []byte("{}"), nil),
		cacheKey("d", strict, []byte("[]"), nil),
	} {
		if other == key {
			t.Error("two calls have one key")
		}
	}
}
