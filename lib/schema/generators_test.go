package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/wire"
)

// A generated row of testdata/generators is a schema as a generator, a server
// or a model writes it, and what becomes of it. One that is refused takes
// steps: each is where and with which hint it is refused, and what an author
// gets who does what the hint says, to the letter. The last is accepted, as a
// row without steps is:
//
//	{"name":"Optional[int]",
//	 "schema":{"type":"object","properties":{"v":{"type":"int","nullable":true}}},
//	 "steps":[
//	  {"at":"/properties/v/nullable","keyword":"nullable","hint":"write …","fixed":{…}},
//	  {"at":"/properties/v/type","keyword":"type","hint":"write \"integer\"","fixed":{…}}],
//	 "pass":{"v":null},
//	 "fail":{"v":"1"},
//	 "by":"/v type"}
//
// by is the pointer and the rule of the first thing that is told of fail. A row
// that MCP does not show says why under hidden.
type generated struct {
	Name   string
	Schema json.RawMessage
	Steps  []struct {
		At, Keyword, Hint string
		Fixed             json.RawMessage
	}
	Pass, Fail json.RawMessage
	By, Hidden string
}

// TestGenerators holds that what generators emit is accepted, or refused with a
// hint that mends it.
func TestGenerators(t *testing.T) {
	for name, least := range map[string]int{
		"pydantic": 100, "zod": 100, "typebox": 50, "schemars": 50, "mcp": 120, "strict": 20, "mistakes": 190,
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "generators", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var rows []generated
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&rows); err != nil {
				t.Fatal(err)
			}
			var accepted, literal, hints, hidden int
			for _, r := range rows {
				if len(r.Steps) == 0 {
					accepted++
				}
				if r.Hidden != "" {
					hidden++
				}
				t.Run(r.Name, func(t *testing.T) {
					hints += len(r.Steps)
					literal += r.check(t)
				})
			}
			if len(rows) < least {
				t.Errorf("%d rows, want at least %d", len(rows), least)
			}
			t.Logf("%d accepted, %d refused with %d hints, %d of them done by rote; %d hidden",
				accepted, len(rows)-accepted, hints, literal, hidden)
		})
	}
}

// check returns how many hints were done by rote.
func (r generated) check(t *testing.T) (literal int) {
	author := parse(t, string(r.Schema))
	for _, s := range r.Steps {
		_, err := Lower(author)
		e := fail.Of(err)
		if err == nil || e.Kind != fail.SchemaUnsupported {
			t.Fatalf("%s\nkind %q (%v), want it refused at %s", author, fail.KindOf(err), err, s.At)
		}
		if e.Details["pointer"] != s.At || e.Details["keyword"] != s.Keyword || e.Hint != s.Hint {
			t.Fatalf("%s\n got %v (keyword %q): %s\nwant %s (keyword %q): %s",
				author, e.Details["pointer"], e.Details["keyword"], e.Hint, s.At, s.Keyword, s.Hint)
		}
		if shown, reason := Wire(author); reason != e.Message || shown.Type() != wire.Null {
			t.Errorf("refused, but shown as %s (%q)", shown, reason)
		}
		fixed := parse(t, string(s.Fixed))
		if want, ok := obey(author, s.At, s.Keyword, s.Hint); ok {
			literal++
			if canonical(fixed) != canonical(want) {
				t.Errorf("%s\nby the hint %s this becomes\n%s, not\n%s", author, s.Hint, want, fixed)
			}
		}
		author = fixed
	}
	r.judge(t, author)
	shown, reason := Wire(author)
	if reason != r.Hidden {
		t.Errorf("hidden: %q, want %q", reason, r.Hidden)
	}
	if reason == "" {
		r.judge(t, shown)
	}
	return literal
}

// judge holds that a schema allows pass and refuses fail for what is wrong
// with it.
func (r generated) judge(t *testing.T, author wire.Value) {
	lowered, err := Lower(author)
	if err != nil {
		t.Fatalf("%s\n%s", author, told(err))
	}
	s, err := Compile(author, parse(t, lowered.String())) // as the ledger keeps it
	if err != nil {
		t.Fatalf("%s\n%s", author, told(err))
	}
	if err := s.Check(parse(t, string(r.Pass))); err != nil {
		t.Errorf("%s\n%s is refused: %s", author, r.Pass, told(err))
	}
	err = s.Check(parse(t, string(r.Fail)))
	if fail.KindOf(err) != fail.ValidationFailed {
		t.Fatalf("%s\n%s: kind %q (%v)", author, r.Fail, fail.KindOf(err), err)
	}
	viols, _ := fail.Of(err).Details["errors"].([]Violation)
	if by := viols[0].Pointer + " " + viols[0].Rule; by != r.By {
		t.Errorf("%s\n%s is refused by %q, want %q: %v", author, r.Fail, by, r.By, err)
	}
}

var (
	writeOne  = regexp.MustCompile(`^write "([^"]*)"(; or a "pattern")?$`)
	writeJSON = regexp.MustCompile(`^write (\{.*\}|"#/[^"]*")$`)
	leaveOut  = regexp.MustCompile(`^(leave it out([;:].*|, or write .*)?|leave "type" out:.*|write a "pattern" instead, or leave it out)$`)
)

// obey does what a hint says, where that takes no thought: a word for another,
// a value for another, or none.
func obey(author wire.Value, at, keyword, hint string) (wire.Value, bool) {
	path := strings.Split(at, "/")[1:]
	if len(path) == 0 {
		return author, false
	}
	set := func(v wire.Value) (wire.Value, bool) {
		return edit(author, path, func(m wire.Member) []wire.Member { return []wire.Member{{Name: m.Name, Value: v}} }), true
	}
	if m := writeJSON.FindStringSubmatch(hint); m != nil {
		v, err := wire.Parse([]byte(m[1]), wire.File)
		if err != nil {
			return author, false
		}
		return set(v)
	}
	if leaveOut.MatchString(hint) {
		return edit(author, path, func(wire.Member) []wire.Member { return nil }), true
	}
	word := ""
	if m := writeOne.FindStringSubmatch(hint); m != nil {
		word = m[1]
	} else if hint == `write "null" in quotes` {
		word = "null"
	}
	switch {
	case hint == `write "examples":[…]`:
		return edit(author, path, func(m wire.Member) []wire.Member {
			return []wire.Member{{Name: "examples", Value: wire.ArrayOf(m.Value)}}
		}), true
	case word == "":
		return author, false
	case keyword == "format":
		return set(wire.StringOf(word))
	case keyword == "type":
		return edit(author, path, func(m wire.Member) []wire.Member {
			if m.Value.Type() != wire.Array {
				return []wire.Member{{Name: m.Name, Value: wire.StringOf(word)}}
			}
			items := slices.Clone(m.Value.Items())
			wrong := slices.IndexFunc(items, func(it wire.Value) bool {
				return it.Type() != wire.String || !slices.Contains(types, it.Text())
			})
			items[wrong] = wire.StringOf(word)
			return []wire.Member{{Name: m.Name, Value: wire.ArrayOf(items...)}}
		}), true
	}
	return edit(author, path, func(m wire.Member) []wire.Member {
		return []wire.Member{{Name: word, Value: m.Value}}
	}), true
}

// edit puts what f makes of the member, or item, at path in its place.
func edit(v wire.Value, path []string, f func(wire.Member) []wire.Member) wire.Value {
	if len(path) == 0 {
		return v
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	step := func(m wire.Member) []wire.Member {
		if len(path) > 1 {
			return []wire.Member{{Name: m.Name, Value: edit(m.Value, path[1:], f)}}
		}
		return f(m)
	}
	if v.Type() == wire.Array {
		var items []wire.Value
		for i, it := range v.Items() {
			ms := []wire.Member{{Value: it}}
			if name == strconv.Itoa(i) {
				ms = step(ms[0])
			}
			for _, m := range ms {
				items = append(items, m.Value)
			}
		}
		return wire.ArrayOf(items...)
	}
	var ms []wire.Member
	for _, m := range v.Members() {
		if m.Name == name {
			ms = append(ms, step(m)...)
		} else {
			ms = append(ms, m)
		}
	}
	return wire.ObjectOf(ms...)
}
