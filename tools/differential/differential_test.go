// Package differential holds lib/schema against another validator of JSON
// Schema, santhosh-tekuri/jsonschema, on pairs of a random schema and a random
// value:
//
//	PAIRS=240000 SEED=7 go test -v -count=1 .
//
// A schema that Lower refuses is counted under the keyword it names, and makes
// no pairs. On all others both must say the same of every value. It is a module
// of its own, so that forge does not depend on the other validator.
package differential

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"forge/lib/fail"
	"forge/lib/schema"
	"forge/lib/wire"
)

const (
	defaultPairs = 10_000
	defaultSeed  = 20_12
	perVerdict   = 4  // pairs of a schema with each verdict, at most
	tries        = 40 // values that are made to find them
	leastPercent = 20 // of all pairs, with each verdict
	maxTold      = 5  // disagreements that are told, before the test gives up
)

func TestDifferential(t *testing.T) {
	pairs, seed := number(t, "PAIRS", defaultPairs), number(t, "SEED", defaultSeed)
	t.Logf("PAIRS=%d SEED=%d", pairs, seed)
	began := time.Now()
	c := count{rows: map[string]*row{}, apart: map[string]int{}}
	for n := 0; c.pairs < pairs && c.told < maxTold; n++ {
		if c.schemas > pairs {
			t.Fatalf("%d schemas made %d pairs", c.schemas, c.pairs)
		}
		c.one(t, rand.New(rand.NewPCG(uint64(seed), uint64(n))))
	}
	t.Logf("%d pairs in %s, %d valid, %d invalid, %d schemas, %d refused, %d disagreements; apart: %v",
		c.pairs, time.Since(began).Round(time.Second), c.valid, c.pairs-c.valid, c.schemas, c.refused, c.told, c.apart)
	c.table(t)
	if c.told > 0 {
		return
	}
	for what, n := range map[string]int{"valid": c.valid, "invalid": c.pairs - c.valid} {
		if 100*n < leastPercent*c.pairs {
			t.Errorf("%d of %d pairs are %s, want at least %d %%: the generator is no good", n, c.pairs, what, leastPercent)
		}
	}
	for rule, n := range c.apart {
		if 200*n > c.pairs {
			t.Errorf("%d values are refused by rule %s, want at most one in 200 pairs", n, rule)
		}
	}
	for _, word := range wanted {
		if r := c.rows[word]; r == nil || r.accepted == 0 {
			t.Errorf("no accepted schema has %s: the generator is no good, or there are too few pairs", word)
		}
	}
}

func number(t *testing.T, name string, or int) int {
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number above 0", name, text)
	}
	return n
}

// A count is what the pairs so far have shown.
type count struct {
	schemas, refused, pairs, valid, told int
	apart                                map[string]int  // values that Check cannot decide, by rule
	rows                                 map[string]*row // by keyword, or form of one
}

// refusals are what Lower may refuse a schema of ours for. Any other is told
// like a disagreement, so that nothing stays untested by being refused.
var refusals = []string{
	"maxContains is not supported", "minContains above 1 is not supported",
	"without then and else it checks nothing", "ignores it", "without type integer",
	"names two schemas", "schemas have the anchor", // which is meant
	"nothing fits", "no object fits", // a slip of the author's
	"asks without end", "asks one value too often", // unevaluated* beside branches
	"stand in branches alone", "contains stands in", "names, items and branches",
	"would be checked more than",
}

type row struct{ accepted, refused int }

func (c *count) row(word string) *row {
	if c.rows[word] == nil {
		c.rows[word] = &row{}
	}
	return c.rows[word]
}

// one makes one schema and its pairs.
func (c *count) one(t *testing.T, r *rand.Rand) {
	author, d := document(r)
	c.schemas++
	mine, err := ours(author)
	if err != nil {
		known := func(why string) bool { return strings.Contains(err.Error(), why) }
		if fail.KindOf(err) != fail.SchemaUnsupported || !slices.ContainsFunc(refusals, known) {
			c.tell(t, author, nil, "refused: "+err.Error(), "a schema")
			return
		}
		c.refused++
		word, _ := fail.Of(err).Details["keyword"].(string)
		c.row(word).refused++
		return
	}
	other, err := theirs(author, d)
	if err != nil {
		small := shrinkSchema(author, d, func(v wire.Value) bool {
			_, mine := ours(v)
			_, other := theirs(v, d)
			return mine == nil && other != nil
		})
		_, err := theirs(small, d)
		c.tell(t, small, nil, "a schema", err.Error())
		return
	}
	for word := range features(author) {
		c.row(word).accepted++
	}
	c.row("(all)").accepted++
	c.row("("+d.String()+")").accepted++
	for _, v := range values(r, author, other) {
		valid := allows(other, v)
		got := mine.Check(v)
		if rule := undecided(got); rule != "" {
			if c.apart[rule]++; c.apart[rule] > maxTold {
				continue
			}
			t.Logf("rule %s: schema %s value %s", rule, author, v)
			continue
		}
		c.pairs++
		if valid {
			c.valid++
		}
		if (got == nil) != valid {
			small, v := shrinkPair(author, v, d)
			mine, _ := ours(small)
			other, _ := theirs(small, d)
			c.tell(t, small, &v, verdict(mine.Check(v)), verdict(validate(other, v)))
			return
		}
	}
}

func (c *count) tell(t *testing.T, author wire.Value, v *wire.Value, mine, other string) {
	c.told++
	value := ""
	if v != nil {
		value = "\nvalue  " + v.String()
	}
	t.Errorf("schema %s%s\nours   %s\ntheirs %s", author, value, mine, other)
}

func verdict(err error) string {
	if err == nil {
		return "valid"
	}
	return "invalid: " + err.Error()
}

// table prints, for each keyword, how many accepted schemas have it and how
// many were refused for it.
func (c *count) table(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s %9s %9s\n", "keyword", "accepted", "refused")
	words := slices.Collect(maps.Keys(c.rows))
	slices.Sort(words)
	for _, word := range words {
		fmt.Fprintf(&b, "%-40s %9d %9d\n", word, c.rows[word].accepted, c.rows[word].refused)
	}
	t.Log("\n" + b.String())
}

// ours is the author's schema as forge-forge and forge-call take it.
func ours(author wire.Value) (*schema.Schema, error) {
	v, err := wire.Parse(author.Bytes(), wire.Request)
	if err != nil {
		return nil, err
	}
	lowered, err := schema.Lower(v)
	if err != nil {
		return nil, err
	}
	s, err := schema.Compile(v, lowered)
	if err != nil {
		return nil, fmt.Errorf("unexpected: lowered, but not compiled: %w", err)
	}
	return s, nil
}

// undecided names the rule by which Check refuses a value that it cannot
// decide: numbers that look alike as float64, or too much to do.
func undecided(err error) string {
	if err == nil {
		return ""
	}
	viols, _ := fail.Of(err).Details["errors"].([]schema.Violation)
	for _, v := range viols {
		if v.Rule == "number" || v.Rule == "cost" {
			return v.Rule
		}
	}
	return ""
}

// home is the base URI of a schema that names none, for both.
const home = "json-schema:///"

// closed is a loader that has nothing to load.
type closed struct{}

func (closed) Load(string) (any, error) { return nil, errors.New("nothing is fetched") }

// theirs is the author's schema as the other validator takes it.
func theirs(author wire.Value, d dialect) (s *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(author.String()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(closed{})
	c.DefaultDraft(d.draft())
	c.AssertFormat()
	for _, name := range edgeNames {
		c.RegisterFormat(limits(name))
	}
	if err := c.AddResource(home, doc); err != nil {
		return nil, err
	}
	return c.Compile(home)
}

func validate(s *jsonschema.Schema, v wire.Value) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	x, err := jsonschema.UnmarshalJSON(strings.NewReader(v.String()))
	if err != nil {
		return err
	}
	return s.Validate(x)
}

func allows(s *jsonschema.Schema, v wire.Value) bool { return validate(s, v) == nil }
