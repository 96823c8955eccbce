//go:build suite

package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/wire"
)

// TestSuite runs the official JSON Schema test suite, a checkout of which
// JSON_SCHEMA_SUITE names. What is accepted must be judged as the suite says;
// what is refused is listed by draft and keyword.
func TestSuite(t *testing.T) {
	dir := os.Getenv("JSON_SCHEMA_SUITE")
	if dir == "" {
		t.Fatal("JSON_SCHEMA_SUITE names no checkout of the JSON Schema test suite")
	}
	for _, draft := range []string{"draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"} {
		t.Run(draft, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "tests", draft, "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no tests in %s: %v", dir, err)
			}
			r := result{refused: map[string]int{}}
			for _, f := range files {
				r.file(t, draft, f)
			}
			t.Logf("%s: %d tests, %d accepted, %d refused, %d formats asserted by design, %d false accepts, %d false rejects",
				draft, r.tests, r.accepted, r.tests-r.accepted, r.asserted, r.falseAccepts, r.falseRejects)
			var lines []string
			for k, n := range r.refused {
				lines = append(lines, fmt.Sprintf("%4d %s", n, k))
			}
			slices.Sort(lines)
			slices.Reverse(lines)
			t.Logf("%s refused:\n%s", draft, strings.Join(lines, "\n"))
		})
	}
}

type result struct {
	tests, accepted, asserted, falseAccepts, falseRejects int
	refused                                               map[string]int
}

var uris = map[string]string{
	"draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#",
	"draft7": "http://json-schema.org/draft-07/schema#",
}

func (r *result) file(t *testing.T, draft, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Description string
		Schema      json.RawMessage
		Tests       []struct {
			Description string
			Data        json.RawMessage
			Valid       bool
		}
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		r.tests += len(g.Tests)
		author, err := wire.Parse(g.Schema, wire.File)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, g.Description, err)
		}
		if uri := uris[draft]; uri != "" && author.Type() == wire.Object {
			if _, ok := author.Get("$schema"); !ok {
				author = author.Set("$schema", wire.StringOf(uri))
			}
		}
		lowered, err := Lower(author)
		if err != nil {
			e := fail.Of(err)
			if e.Kind != fail.SchemaUnsupported {
				t.Errorf("%s: %s: kind %s", name, g.Description, e.Kind)
			}
			msg := e.Message[strings.LastIndex(e.Message, ": ")+2:]
			r.refused[fmt.Sprintf("%-22v %-24s %s", e.Details["keyword"], filepath.Base(name), msg)] += len(g.Tests)
			continue
		}
		s, err := Compile(author, lowered)
		if err != nil {
			t.Errorf("%s: %s: %v", name, g.Description, err)
			continue
		}
		for _, c := range g.Tests {
			r.accepted++
			v, err := wire.Parse(c.Data, wire.File)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, c.Description, err)
			}
			err = s.Check(v)
			switch {
			case err == nil && !c.Valid:
				r.falseAccepts++
				t.Errorf("false accept: %s: %s: %s", filepath.Base(name), g.Description, c.Description)
			case err != nil && c.Valid && strings.HasSuffix(c.Description, "only an annotation by default"):
				r.asserted++ // we assert formats, as the dialects allow
			case err != nil && c.Valid:
				r.falseRejects++
				t.Errorf("false reject: %s: %s: %s: %v", filepath.Base(name), g.Description, c.Description, err)
			}
		}
	}
}
