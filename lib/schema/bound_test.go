package schema

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// soon fails the test if f takes longer than the limit.
func soon(t *testing.T, what string, limit time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	d := time.Since(start)
	t.Logf("%s took %s", what, d.Round(time.Millisecond))
	if d > limit {
		t.Errorf("%s took %s, want at most %s", what, d, limit)
	}
}

func consts(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"const":%d}`, i)
	}
	return b.String()
}

func counted(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
	}
	return b.String()
}

func repeated(s string, n int) string { return strings.Repeat(s+",", n-1) + s }

// TestBounded: whatever walks a value does so within the deadline, or refuses
// it. Each of these took from many seconds to minutes.
func TestBounded(t *testing.T) {
	const limit = 3 * time.Second // 2.1 s where nothing else runs
	branches := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/n"},`, 3), ",")
	var patterns, wide strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&patterns, `"^x[a-z]{3}%d":{"type":"integer","x-redact":true},`, i)
		fmt.Fprintf(&wide, `{"properties":{"p%d":{"const":%d.5,"x-redact":true}}},`, i, i)
	}
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"xabcdef%d":1.0`, i)
		}
		return "{" + b.String() + "}"
	}
	for _, c := range []struct{ name, schema, value string }{
		{"anyOf of consts", `{"type":"object","properties":{"v":{"type":"array","items":{"anyOf":[` + consts(1000) + `]}}}}`, `{"v":[` + repeated("999", 500_000) + `]}`},
		{"contains", `{"properties":{"v":{"type":"array","contains":{"anyOf":[` + consts(1000) + `]}}}}`, `{"v":[` + repeated("1999", 500_000) + `]}`},
		{"unique within unique", `{"$ref":"#/$defs/n","$defs":{"n":{"uniqueItems":true,"items":{"$ref":"#/$defs/n"}}}}`, strings.Repeat("[", 60) + counted(200_000) + strings.Repeat("]", 60)},
		{"recursive oneOf", `{"$ref":"#/$defs/n","$defs":{"n":{"oneOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"type":"object"},{"properties":{"c":{"$ref":"#/$defs/n"}},"type":"object","required":["x"]}]}}}`, strings.Repeat(`{"c":`, 50) + "1" + strings.Repeat("}", 50)},
		{"patterns", `{"patternProperties":{` + strings.TrimSuffix(patterns.String(), ",") + `}}`, names(200_000)},
		{"wide", `{"anyOf":[` + strings.TrimSuffix(wide.String(), ",") + `],"additionalProperties":{"type":"integer"}}`, names(200_000)},
		{"flood", `{"items":{"type":"string"}}`, "[" + repeated("1", 150_000) + "]"},
		{"flood of consts", `{"items":{"anyOf":[` + consts(100) + `]}}`, "[" + repeated("1000", 1500) + "]"},
		{"strangers", `{"properties":{"` + strings.Repeat("abcd", 16) + `":true},"additionalProperties":false}`, names(150_000)},
		{"missing", `{"required":["` + strings.Repeat("n", 60) + `1","` + strings.Repeat("n", 60) + `2"]}`, names(200_000)},
		{"large enum", `{"items":{"enum":[` + counted(40_000) + `]}}`, "[" + repeated("39999", 100_000) + "]"},
		{"large enum, wrong", `{"items":{"enum":[` + counted(40_000) + `]}}`, "[" + repeated("50000", 2000) + "]"},
		{"deep union", `{"$ref":"#/$defs/n","$defs":{"n":{"items":{"anyOf":[` + branches + `]},"uniqueItems":true}}}`, strings.Repeat("[", 60) + counted(1000) + strings.Repeat("]", 60)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ready(t, c.schema)
			v, err := wire.Parse([]byte(c.value), wire.Limits{Size: 16 << 20, Depth: 512, NUL: true})
			if err != nil {
				t.Fatal(err)
			}
			soon(t, "Normalize", limit/2, func() { v = s.Normalize(v) })
			soon(t, "Check", limit, func() { err = s.Check(v) })
			if err != nil && fail.KindOf(err) != fail.ValidationFailed {
				t.Error(err)
			}
			t.Logf("%.200v", err)
			soon(t, "Redact", limit/2, func() { s.Redact(v) })
			soon(t, "Binds", limit/2, func() { s.Binds(v) })
			settle(t)
		})
	}
}

// settle waits until the engine is free: what could not be stopped within its
// deadline would be counted as the next one's.
func settle(t *testing.T) {
	t.Helper()
	for range 100 {
		if metering.TryLock() {
			metering.Unlock()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Log("the engine is still at it")
}

// TestUnstoppable: an engine that finds nothing wrong and does not end cannot
// be stopped, but Check answers, and the process can end. It is run in its own.
func TestUnstoppable(t *testing.T) {
	if os.Getenv("SCHEMA_UNSTOPPABLE") == "" {
		soon(t, "the process", 5*time.Second, func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestUnstoppable$")
			cmd.Env = append(os.Environ(), "SCHEMA_UNSTOPPABLE=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		return
	}
	s := ready(t, `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"additionalProperties":{"$ref":"#/$defs/n"}},{"additionalProperties":{"$ref":"#/$defs/n"}}]}}}`)
	err := s.Check(parse(t, strings.Repeat(`{"c":`, 50)+"1"+strings.Repeat("}", 50)))
	if err == nil || !strings.HasSuffix(err.Error(), "got more than 2s") {
		t.Errorf("got %v", err)
	}
}

// TestEnumSizes: forging costs near-linear time in the size of an enum.
func TestEnumSizes(t *testing.T) {
	for _, n := range []int{1000, 20_000, 40_000} {
		author := parse(t, `{"properties":{"v":{"enum":[`+counted(n)+`]}}}`)
		soon(t, fmt.Sprintf("an enum of %d", n), 5*time.Second, func() {
			lowered, err := Lower(author)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Compile(author, lowered)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				v  string
				ok bool
			}{{"0", true}, {"999", true}, {fmt.Sprint(n - 1), true}, {fmt.Sprint(n), false}, {"0.5", false}, {`"1"`, false}, {"1.0", true}} {
				if err := s.Check(parse(t, `{"v":`+c.v+`}`)); (err == nil) != c.ok {
					t.Errorf("%s: %v", c.v, err)
				}
			}
		})
	}
}

// TestTooMuch: what exceeds the steps of a walk is refused by Check, left as it
// is by Normalize, bound nowhere, and kept back as a whole.
func TestTooMuch(t *testing.T) {
	var names, patterns strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&patterns, `"^x[a-z]{3}%d":{"type":"integer"},`, i)
	}
	for i := range 20_000 {
		fmt.Fprintf(&names, `"xabcdef%d":1.0,`, i)
	}
	s := ready(t, `{"properties":{"in":{"type":"string","x-bind":"ro"},"key":{"type":"string","x-redact":true}},"patternProperties":{`+
		strings.TrimSuffix(patterns.String(), ",")+`}}`)
	v := parse(t, "{"+names.String()+`"xabc1":1.0,"in":"/etc","key":"hush"}`)
	if got := s.Normalize(v); got.String() != v.String() {
		t.Error("normalized in part")
	}
	err := s.Check(v)
	if err == nil || fail.KindOf(err) != fail.ValidationFailed || !strings.HasSuffix(err.Error(), "checked within 2s, got too many steps") {
		t.Errorf("got %.300v", err)
	}
	if bs := s.Binds(v); bs != nil {
		t.Errorf("binds %v", bs)
	}
	shown, secrets := s.Redact(v)
	if shown.String() != `"<redacted>"` || !strings.Contains(strings.Join(secrets, " "), "hush") {
		t.Errorf("shows %.100s, keeps back %.100v", shown, secrets)
	}
}
