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
		"pydantic": 100, "zod": 100, "typebox": 50, "schemars": 50, "mcp": 120, "strict": 20, "mistakes": 290,
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
	leaveOut = regexp.MustCompile(`^(leave it out([;:].*|, or write .*)?|leave "type" out:.*|write a "pattern" instead, or leave it out)$`)
	under    = regexp.MustCompile(`^the schema is what stands under "([^"]*)"$`)
	beside   = regexp.MustCompile(`^write "[^"]*" beside "properties", not in it$`)
	rename   = regexp.MustCompile(`^write "([^"]*)", not "([^"]*)"$`)
	into     = regexp.MustCompile(`^(.*) into "([^"]*)"$`)
	oneWord  = regexp.MustCompile(`^"([^"]*)"$`)
)

// obey does what a hint says, where that takes no thought: a word for another,
// a value for another, or none, and what stands elsewhere then.
func obey(author wire.Value, at, keyword, hint string) (wire.Value, bool) {
	if m := under.FindStringSubmatch(hint); m != nil {
		for word := range strings.SplitSeq(m[1], "/") {
			author, _ = author.Get(word)
		}
		return author, true
	}
	path := strings.Split(at, "/")[1:]
	if len(path) == 0 {
		return author, false
	}
	holder, last := path[:len(path)-1], path[len(path)-1]
	gone := edit(author, path, func(wire.Member) []wire.Member { return nil })
	in := func(path []string, f func(wire.Value) wire.Value) (wire.Value, bool) {
		if len(path) == 0 {
			return f(gone), true
		}
		return edit(gone, path, func(m wire.Member) []wire.Member { return []wire.Member{{Name: m.Name, Value: f(m.Value)}} }), true
	}
	it := find(author, path)
	switch m := rename.FindStringSubmatch(hint); {
	case leaveOut.MatchString(hint):
		return gone, true
	case hint == `leave it out, and the name out of the object's "required"`:
		return in(path[:len(path)-3], func(v wire.Value) wire.Value {
			return listed(v, "required", func(vs []wire.Value) []wire.Value {
				return slices.DeleteFunc(vs, func(v wire.Value) bool { return v.Text() == path[len(path)-2] })
			})
		})
	case hint == `write the name into the "required" list of the object that holds it, and leave this out`:
		return in(path[:len(path)-3], func(v wire.Value) wire.Value {
			return listed(v, "required", func(vs []wire.Value) []wire.Value { return append(vs, wire.StringOf(path[len(path)-2])) })
		})
	case beside.MatchString(hint), hint == `write it into the outer "properties"`:
		return in(holder[:len(holder)-1], func(v wire.Value) wire.Value { return v.Set(last, it) })
	case hint == `write it under "properties"`:
		return in(holder, func(v wire.Value) wire.Value {
			props, ok := v.Get("properties")
			if !ok {
				props = wire.ObjectOf()
			}
			return v.Set("properties", props.Set(last, it))
		})
	case hint == `write it into "items"`:
		return in(holder, func(v wire.Value) wire.Value {
			items, _ := v.Get("items")
			return v.Set("items", items.Set(last, it))
		})
	case m != nil:
		return edit(author, path, func(w wire.Member) []wire.Member {
			var vs []wire.Value
			for _, v := range w.Value.Items() {
				if v.Text() == m[2] {
					v = wire.StringOf(m[1])
				}
				vs = append(vs, v)
			}
			return []wire.Member{{Name: w.Name, Value: wire.ArrayOf(vs...)}}
		}), true
	case hint == `write "null" in quotes`:
		hint = `write "null"`
	}
	text, ok := strings.CutPrefix(hint, "write ")
	if !ok {
		return author, false
	}
	return rewrite(author, path, keyword, it, strings.TrimSuffix(text, `; or a "pattern"`))
}

// rewrite does what follows "write": parts that are a word, a value, members, or
// a value for a list beside it.
func rewrite(author wire.Value, path []string, keyword string, it wire.Value, text string) (wire.Value, bool) {
	known := true
	done := edit(author, path, func(m wire.Member) []wire.Member {
		var ms []wire.Member
		for part := range strings.SplitSeq(text, ", and ") {
			word := oneWord.FindStringSubmatch(part)
			v, err := wire.Parse([]byte(part), wire.File)
			more, errMore := wire.Parse([]byte("{"+part+"}"), wire.File)
			switch {
			case part == "it as a string":
				ms = append(ms, wire.Member{Name: m.Name, Value: strung(it)})
			case part == `"examples":[…]`:
				ms = append(ms, wire.Member{Name: "examples", Value: wire.ArrayOf(it)})
			case word != nil && keyword == "type" && slices.Contains(types, word[1]) && it.Type() == wire.Array:
				items := slices.Clone(it.Items())
				wrong := slices.IndexFunc(items, func(it wire.Value) bool {
					return it.Type() != wire.String || !slices.Contains(types, it.Text())
				})
				items[wrong] = wire.StringOf(word[1])
				ms = append(ms, wire.Member{Name: m.Name, Value: wire.ArrayOf(items...)})
			case word != nil && (keyword == "format" || keyword == "$schema" || keyword == "$ref" || keyword == "type" && slices.Contains(types, word[1])):
				ms = append(ms, wire.Member{Name: m.Name, Value: v})
			case word != nil:
				ms = append(ms, wire.Member{Name: word[1], Value: it})
			case err == nil:
				ms = append(ms, wire.Member{Name: m.Name, Value: v})
			case errMore == nil:
				ms = append(ms, more.Members()...)
			case into.MatchString(part):
			default:
				known = false
			}
		}
		return ms
	})
	for part := range strings.SplitSeq(text, ", and ") {
		m := into.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		v, err := wire.Parse([]byte(m[1]), wire.File)
		known = known && err == nil
		done = edit(done, append(slices.Clone(path[:len(path)-1]), m[2]), func(w wire.Member) []wire.Member {
			return []wire.Member{{Name: w.Name, Value: wire.ArrayOf(append(slices.Clone(w.Value.Items()), v)...)}}
		})
	}
	return done, known
}

// strung makes strings of the numbers in v.
func strung(v wire.Value) wire.Value {
	switch v.Type() {
	case wire.Number:
		return wire.StringOf(v.Text())
	case wire.Array:
		var vs []wire.Value
		for _, it := range v.Items() {
			vs = append(vs, strung(it))
		}
		return wire.ArrayOf(vs...)
	}
	return v
}

// listed is v with another list under a word.
func listed(v wire.Value, word string, f func([]wire.Value) []wire.Value) wire.Value {
	list, _ := v.Get(word)
	return v.Set(word, wire.ArrayOf(f(slices.Clone(list.Items()))...))
}

// find is what stands at path.
func find(v wire.Value, path []string) (it wire.Value) {
	edit(v, path, func(m wire.Member) []wire.Member {
		it = m.Value
		return nil
	})
	return it
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
	out := wire.ObjectOf(v.Members()...)
	for _, m := range v.Members() {
		if m.Name != name {
			continue
		}
		ms := step(m)
		var rest []wire.Member
		for _, o := range v.Members() {
			switch {
			case o.Name == name:
				rest = append(rest, ms...)
			case !slices.ContainsFunc(ms, func(m wire.Member) bool { return m.Name == o.Name }):
				rest = append(rest, o)
			}
		}
		out = wire.ObjectOf(rest...)
	}
	return out
}
