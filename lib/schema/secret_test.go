package schema

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// everything is all that an error tells.
func everything(t testing.TB, err error) string {
	t.Helper()
	details, encErr := wire.Encode(fail.Of(err).Details)
	if encErr != nil {
		t.Error(encErr)
	}
	return told(err) + " " + string(details)
}

// TestSecret: what is kept back, and what a closed object does not know, is in
// no error.
func TestSecret(t *testing.T) {
	const pw = `{"type":"string","x-redact":true}`
	for _, c := range []struct{ schema, value, want string }{
		{
			`{"type":"object","properties":{"password":` + pw + `},"allOf":[{"properties":{"user":{}},"additionalProperties":false}]}`,
			`{"password":"hunter2"}`, `input: /password: want the property "user", got property "password"`,
		},
		{
			`{"properties":{"password":` + pw + `},"additionalProperties":false}`, `{"pasword":"hunter2"}`,
			"input: /pasword: want the property \"password\", got property \"pasword\" (nearest: \"password\")\nhint: write \"password\"",
		},
		{
			`{"properties":{"password":` + pw + `},"additionalProperties":{"type":"integer"}}`, `{"pasword":"hunter2"}`,
			`input: /pasword: want integer, got <redacted>`,
		},
		{
			`{"properties":{"password":` + pw + `},"anyOf":[{"properties":{"a":{}},"required":["a"]},true],"unevaluatedProperties":false}`, `{"pasword":"hunter2"}`,
			"input: /pasword: want one of the properties \"a\", \"password\", got property \"pasword\" (nearest: \"password\")\nhint: write \"password\"",
		},
		{
			`{"properties":{"password":` + pw + `,"a":false}}`, `{"a":"hunter2"}`,
			`input: /a: want nothing here, got <redacted>`,
		},
		{
			`{"oneOf":[{"properties":{"kind":{"const":"a"},"password":` + pw + `},"required":["kind"],"additionalProperties":false},{"properties":{"kind":{"const":"b"}},"required":["kind"],"additionalProperties":false}]}`,
			`{"kind":"b","password":"hunter2"}`, `input: /password: want the property "kind", got property "password"`,
		},
		{
			`{"properties":{"password":` + pw + `},"propertyNames":{"maxLength":8}}`, `{"passwordd":"hunter2"}`,
			`input: want at most 8 characters, got name "passwordd"`,
		},
	} {
		err := ready(t, c.schema).Check(parse(t, c.value))
		if err == nil || told(err) != c.want {
			t.Errorf("%s: %s\n got %v\nwant %s", c.schema, c.value, err, c.want)
		}
		if err != nil && strings.Contains(everything(t, err), "hunter2") {
			t.Errorf("%s: %s: tells %s", c.schema, c.value, everything(t, err))
		}
	}
}

// TestSecretRandom plants a marker in every leaf that is kept back, and in what
// closed objects do not know, of random values, and looks for it in the errors.
func TestSecretRandom(t *testing.T) {
	const marker = "hunter2"
	r := rand.New(rand.NewPCG(3, 4))
	planted, refused := 0, 0
	for range 12000 {
		text := randomSchema(r, 3)
		if r.IntN(2) == 0 {
			text = `{"$defs":{"a":{"x-redact":true},"b":` + randomSchema(r, 2) + `},"allOf":[` + text + `]}`
		}
		switch r.IntN(4) {
		case 0:
			text = `{"properties":{"a":` + text + `,"b":{"x-redact":true}},"additionalProperties":false}`
		case 1:
			text = `{"properties":{"a":{"x-redact":true}},"anyOf":[` + text + `,{"properties":{"b":{"type":"string"}}}],"unevaluatedProperties":false}`
		}
		if i := strings.Index(text, "$defs"); i > 2 {
			continue // no longer at the root
		}
		author := parse(t, text)
		low, err := Lower(author)
		if err != nil {
			continue
		}
		s, err := Compile(author, low)
		if err != nil || !s.redacts {
			continue
		}
		for range 5 {
			w := s.walk(true, nil)
			was := planted
			var plant func(v wire.Value, at *set, all bool) wire.Value
			plant = func(v wire.Value, at *set, all bool) wire.Value {
				all = all || at.hidden
				switch v.Type() {
				case wire.Array:
					var items []wire.Value
					for i, it := range v.Items() {
						items = append(items, plant(it, w.item(at, i), all))
					}
					return wire.ArrayOf(items...)
				case wire.Object:
					closed := false
					for _, n := range at.nodes {
						for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
							v, _ := n.get(word)
							closed = closed || v.Text() == "false"
						}
					}
					var ms []wire.Member
					for _, m := range v.Members() {
						strange := closed && m.Name == "c" // the generator describes no such name
						ms = append(ms, wire.Member{Name: m.Name, Value: plant(m.Value, w.member(at, m.Name), all || strange)})
					}
					return wire.ObjectOf(ms...)
				}
				if !all {
					return v
				}
				planted++
				return wire.StringOf(marker)
			}
			v := plant(parse(t, randomValue(r, 3)), w.start(s.doc), false)
			err := s.Check(v)
			if err == nil || planted == was {
				continue
			}
			refused++
			if all := everything(t, err); strings.Contains(all, marker) {
				t.Errorf("%s: %s: tells %s", text, v, all)
			}
		}
	}
	if refused < 500 {
		t.Errorf("%d refused with a secret in them: the generator is no good", refused)
	}
}

// TestLongNames: a name as long as the value makes no error as long, and costs
// no room for each thing that is wrong under it.
func TestLongNames(t *testing.T) {
	s := ready(t, `{"additionalProperties":{"items":{"type":"string"}}}`)
	err := s.Check(parse(t, `{"`+strings.Repeat("é", 200_000)+`":[`+repeated("1", 10)+`]}`))
	if err == nil || len(everything(t, err)) > 24<<10 || !strings.Contains(err.Error(), "é…/9: want string, got number 1") {
		t.Errorf("got %d bytes, %.300v", len(fmt.Sprint(err)), err)
	}
	v, err := wire.Parse([]byte(`{"`+strings.Repeat("x", 500_000)+`":[`+repeated("1", 190_000)+`]}`), wire.Instance)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = s.Check(v)
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(5 * time.Millisecond):
		}
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
	}
	if err == nil || peak-min(peak, before.HeapAlloc) > 256<<20 {
		t.Errorf("%d MiB, %.300v", (peak-before.HeapAlloc)>>20, err)
	}
	t.Logf("%d MiB at most", (peak-before.HeapAlloc)>>20)
}

// TestNames: what is told of a name that is refused is what its own schema says.
func TestNames(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{ // not the name itself, nor the others that do not help
			`{"properties":{"user":{},"pass":{}},"allOf":[{"properties":{"user":{}},"additionalProperties":false}]}`, `{"pass":1}`,
			`input: /pass: want the property "user", got property "pass"`,
		},
		{
			`{"allOf":[{"properties":{"a":{},"b":{}},"additionalProperties":false},{"properties":{"b":{},"c":{}},"additionalProperties":false}]}`, `{"d":1}`,
			`input: /d: want the property "b", got property "d"`,
		},
		{
			`{"anyOf":[{"properties":{"name":{}},"required":["name"]},true],"unevaluatedProperties":false}`, `{"nmae":1}`,
			"input: /nmae: want the property \"name\", got property \"nmae\" (nearest: \"name\")\nhint: write \"name\"",
		},
		{
			`{"anyOf":[{"required":["name"]},true],"unevaluatedProperties":false}`, `{"nmae":1}`,
			`input: /nmae: want no such property, got property "nmae"`,
		},
		{
			`{"propertyNames":{"enum":["fast","slow"]}}`, `{"fats":1}`,
			"input: want one of \"fast\", \"slow\", got name \"fats\" (nearest: \"fast\")\nhint: write \"fast\"",
		},
		{
			`{"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`, `{"a":1,"b":2}`,
			`input: want exactly one of the forms of oneOf (2 forms fit), got object`,
		},
	} {
		err := ready(t, c.schema).Check(parse(t, c.value))
		if err == nil || told(err) != c.want {
			t.Errorf("%s: %s\n got %v\nwant %s", c.schema, c.value, err, c.want)
		}
	}
}
