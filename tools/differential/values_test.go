package differential

import (
	"maps"
	"math/big"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"forge/lib/wire"
)

// samples are strings that have a format, or nearly, by its name. Both sides
// agree on each of them under each format, with the pattern that add writes
// beside those of URIs; beyond these, the other validator is the looser one.
var samples = map[string][]string{
	"date":                  {"2026-11-30", "2024-02-29", "2023-02-29", "2026-13-01", "2026-1-1"},
	"time":                  {"12:30:00Z", "23:59:60Z", "12:30:00+02:00", "12:30:00", "24:00:00Z", "00:59:60+01:00", "12:30:60Z"},
	"date-time":             {"2026-11-30T12:30:00Z", "2026-11-30t12:30:00.5z", "2026-11-30 12:30:00Z", "2026-11-30T12:30:60Z"},
	"duration":              {"P1D", "PT1H30M", "P2W", "P", "PT", "1D", "P1DT"},
	"email":                 {"a@forge.test", `"a b"@forge.test`, "a@[127.0.0.1]", "a.@forge.test", "a@-x.test", "forge.test"},
	"ipv4":                  {"127.0.0.1", "256.0.0.1", "1.2.3", "01.2.3.4"},
	"ipv6":                  {"::1", "2001:db8::8:800", "::ffff:1.2.3.4", "1:2", ":::", "fe80::1%eth0"},
	"uuid":                  {"2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08aa9811eab4aa73b441d16380"},
	"uri":                   {"https://forge.test/a?b#c", "urn:forge:a", "/a/b", "https://[::1]/", "https://[1]/"},
	"uri-reference":         {"a/b", "#c", "//forge.test/a", "%zz", `a\b`},
	"hostname":              {"forge.test", "a-b.c", "-a.b", "a_b", "a..b"},
	"regex":                 {"^a(b|c)*$", "[", "a{2}", "(", "\\d"},
	"json-pointer":          {"", "/a/0", "/a~1b", "/a~2", "a"},
	"relative-json-pointer": {"0", "1/a", "0#", "01", "/a"},
}

var formatNames = slices.Sorted(maps.Keys(samples))

// A maker makes values for one schema.
type maker struct {
	*rand.Rand
	targets map[string]wire.Value // schemas by what a reference to them says
	said    []wire.Value          // what const and enum say
	names   []string              // those the schema speaks of, and some
	steps   int                   // that are left to one value
}

// values makes values for a schema, about as many that the other validator
// allows as that it does not.
func values(r *rand.Rand, author wire.Value, other *jsonschema.Schema) []wire.Value {
	m := &maker{Rand: r, targets: map[string]wire.Value{}, names: slices.Clone(names)}
	for at, n := range positions(author) {
		m.targets["#"+at] = n
		for _, word := range []string{"$anchor", "$dynamicAnchor"} {
			if a, ok := n.Get(word); ok {
				m.targets["#"+a.Text()] = n
			}
		}
		for _, word := range []string{"$id", "id"} {
			id, _ := n.Get(word)
			m.targets[id.Text()] = n
		}
		if v, ok := n.Get("const"); ok {
			m.said = append(m.said, v)
		}
		es, _ := n.Get("enum")
		m.said = append(m.said, es.Items()...)
		ps, _ := n.Get("properties")
		for _, p := range ps.Members() {
			m.names = append(m.names, p.Name)
		}
	}
	seen := map[string]bool{}
	found := map[bool]int{}
	var out []wire.Value
	var last wire.Value
	for n := range tries {
		v := last
		switch {
		case n%3 == 0:
			m.steps = 200
			v = m.fit([]wire.Value{author}, 4)
		case n == 1:
			v = m.any(2)
		default:
			v = m.mutate(v)
		}
		if seen[v.String()] {
			continue
		}
		seen[v.String()] = true
		valid := allows(other, v)
		if valid || n%3 == 0 {
			last = v
		}
		if found[valid] < perVerdict {
			found[valid]++
			out = append(out, v)
		}
		if len(out) == 2*perVerdict {
			break
		}
	}
	return out
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

// any is a value of any kind.
func (m *maker) any(deep int) wire.Value {
	if len(m.said) > 0 && m.chance(30) {
		return pick(m, m.said)
	}
	n := 8
	if deep <= 0 {
		n = 5
	}
	switch m.IntN(n) {
	case 0:
		return pick(m, []wire.Value{{}, wire.BoolOf(true), wire.BoolOf(false)})
	case 1, 2:
		return m.number()
	case 3, 4:
		return m.text()
	case 5:
		var vs []wire.Value
		for range m.IntN(4) {
			vs = append(vs, m.any(deep-1))
		}
		return wire.ArrayOf(vs...)
	}
	var ms object
	for range m.IntN(4) {
		ms.put(pick(m, m.names), m.any(deep-1))
	}
	return ms.value()
}

// literals are numbers as only values write them: those of schemas written
// otherwise, and some that float64 cannot tell apart.
var literals = strings.Fields(`0.0 -0 -0.0 1.0 10e-1 2 20e-1 3.0 0.3 0.25 4 5 -3 255 256 100 100.0 1e300
	9007199254740992 9007199254740993 18446744073709551616`)

func (m *maker) number() wire.Value {
	if m.chance(70) {
		return num(pick(m, numerals))
	}
	return num(pick(m, literals))
}

func (m *maker) text() wire.Value {
	if m.chance(80) {
		return text(pick(m, words))
	}
	return text(pick(m, samples[pick(m, formatNames)]))
}

// flat lists the schemas that a value is likely to be held against where it is
// held against these, of alternatives one.
func (m *maker) flat(at []wire.Value) []wire.Value {
	var out []wire.Value
	for _, s := range at {
		if m.steps--; m.steps < 0 || s.Type() != wire.Object {
			continue
		}
		out = append(out, s)
		get := func(word string) wire.Value {
			v, _ := s.Get(word)
			return v
		}
		in := slices.Clone(get("allOf").Items())
		for _, word := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if v, ok := s.Get(word); ok {
				in = append(in, m.target(v.Text()))
			}
		}
		for _, word := range []string{"anyOf", "oneOf"} {
			if vs := get(word).Items(); len(vs) > 0 {
				in = append(in, pick(m, vs))
				if word == "anyOf" && m.chance(30) {
					in = append(in, pick(m, vs))
				}
			}
		}
		if m.chance(50) {
			in = append(in, get("if"), get("then"))
		} else {
			in = append(in, get("else"))
		}
		for _, word := range []string{"dependentSchemas", "dependencies"} {
			for _, d := range get(word).Members() {
				if m.chance(50) {
					in = append(in, d.Value)
				}
			}
		}
		out = append(out, m.flat(in)...)
	}
	return out
}

// target guesses what a reference leads to.
func (m *maker) target(ref string) wire.Value {
	uri, frag, has := strings.Cut(ref, "#")
	if has {
		frag, _ = url.PathUnescape(frag)
		if v, ok := m.targets["#"+frag]; ok && frag != "" {
			return v
		}
	}
	if v, ok := m.targets[uri]; ok {
		return v
	}
	return m.targets[uri[strings.LastIndexByte(uri, '/')+1:]]
}

// fit makes a value that schemas are likely to allow, all of them.
func (m *maker) fit(at []wire.Value, deep int) wire.Value {
	flat := m.flat(at)
	if deep <= 0 || m.steps < 0 {
		return m.any(0)
	}
	var said []wire.Value
	kinds := map[string]int{}
	for _, s := range flat {
		if v, ok := s.Get("const"); ok {
			said = append(said, v)
		}
		vs, _ := s.Get("enum")
		said = append(said, vs.Items()...)
		t, ok := s.Get("type")
		if t.Type() == wire.Array {
			t = pick(m, t.Items())
		}
		if ok {
			kinds[t.Text()] += 3
		}
		for _, mb := range s.Members() {
			for k, name := range []string{"object", "array", "string", "number"} {
				if slices.Contains(own[k], mb.Name) {
					kinds[name]++
				}
			}
		}
	}
	if len(said) > 0 && m.chance(85) {
		return pick(m, said)
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if best == "" || kinds[name] > kinds[best] {
			best = name
		}
	}
	if m.chance(5) {
		best = ""
	}
	switch best {
	case "object":
		return m.object(flat, deep)
	case "array":
		return m.array(flat, deep)
	case "string":
		return m.likely(flat, m.text)
	case "number", "integer":
		return m.likely(flat, m.number)
	case "null":
		return wire.Value{}
	case "boolean":
		return wire.BoolOf(m.chance(50))
	}
	return m.any(1)
}

func (m *maker) object(flat []wire.Value, deep int) wire.Value {
	chances := map[string]int{}
	least := func(name string, percent int) { chances[name] = max(chances[name], percent) }
	for _, s := range flat {
		for _, mb := range s.Members() {
			switch mb.Name {
			case "required":
				for _, it := range mb.Value.Items() {
					least(it.Text(), 95)
				}
			case "properties", "dependentRequired", "dependentSchemas", "dependencies":
				for _, p := range mb.Value.Members() {
					least(p.Name, 50)
					for _, it := range p.Value.Items() {
						least(it.Text(), 50)
					}
				}
			case "patternProperties":
				least(pick(m, m.names), 50)
			}
		}
	}
	for m.chance(25) {
		least(pick(m, m.names), 90)
	}
	var ms object
	for _, name := range slices.Sorted(maps.Keys(chances)) {
		if !m.chance(chances[name]) {
			continue
		}
		var at []wire.Value
		for _, s := range flat {
			at = append(at, member(s, name)...)
		}
		at = rest(at, flat, "unevaluatedProperties")
		if forbids(at) && m.chance(80) {
			continue
		}
		ms.put(name, m.fit(at, deep-1))
	}
	return ms.value()
}

// member lists what a schema says of a member.
func member(s wire.Value, name string) []wire.Value {
	var at []wire.Value
	ps, _ := s.Get("properties")
	if p, ok := ps.Get(name); ok {
		at = append(at, p)
	}
	res, _ := s.Get("patternProperties")
	for _, re := range res.Members() {
		if regexp.MustCompile(re.Name).MatchString(name) {
			at = append(at, re.Value)
		}
	}
	if v, ok := s.Get("additionalProperties"); ok && len(at) == 0 {
		at = append(at, v)
	}
	return at
}

// rest is at, or, if nothing is said, what unevaluated* says.
func rest(at, flat []wire.Value, word string) []wire.Value {
	for i := 0; i < len(flat) && len(at) == 0; i++ {
		if v, ok := flat[i].Get(word); ok {
			at = append(at, v)
		}
	}
	return at
}

func forbids(at []wire.Value) bool {
	return slices.ContainsFunc(at, func(s wire.Value) bool { return s.String() == "false" })
}

func (m *maker) array(flat []wire.Value, deep int) wire.Value {
	n := m.IntN(4)
	at := make([][]wire.Value, 4)
	for _, s := range flat {
		get := func(word string) wire.Value {
			v, _ := s.Get(word)
			return v
		}
		if least, err := strconv.Atoi(strings.TrimSuffix(get("minItems").Text(), ".0")); err == nil {
			n = max(n, least)
		}
		tuple, more := get("prefixItems"), get("items")
		if more.Type() == wire.Array {
			tuple, more = more, get("additionalItems")
		}
		for i := range at {
			switch {
			case i < len(tuple.Items()):
				at[i] = append(at[i], tuple.Items()[i])
			case more.Type() != wire.Null:
				at[i] = append(at[i], more)
			}
		}
		if c, ok := s.Get("contains"); ok && m.chance(90) {
			n = max(n, 1)
			i := m.IntN(n)
			at[i] = append(at[i], c)
		}
	}
	var vs []wire.Value
	for i := range n {
		at := rest(at[i], flat, "unevaluatedItems")
		if forbids(at) && m.chance(80) {
			break
		}
		vs = append(vs, m.fit(at, deep-1))
	}
	return wire.ArrayOf(vs...)
}

// likely draws until a string or number fits what is easily seen.
func (m *maker) likely(flat []wire.Value, draw func() wire.Value) wire.Value {
	v := draw()
	for range 10 {
		if !slices.ContainsFunc(flat, func(s wire.Value) bool { return !fits(s, v) }) {
			return v
		}
		v = draw()
		for _, s := range flat {
			switch f, ok := s.Get("format"); {
			case !ok || m.chance(30):
			case samples[f.Text()] != nil:
				v = text(pick(m, samples[f.Text()]))
			case edges[f.Text()] != nil:
				v = num(pick(m, edges[f.Text()]))
			}
		}
	}
	return v
}

func fits(s, v wire.Value) bool {
	x, isNum := new(big.Rat).SetString(v.Text())
	for _, mb := range s.Members() {
		lim, _ := new(big.Rat).SetString(mb.Value.Text())
		switch word := mb.Name; {
		case word == "format" && v.Type() == wire.String && samples[mb.Value.Text()] != nil && !slices.Contains(samples[mb.Value.Text()], v.Text()):
			return false
		case word == "format" && v.Type() == wire.Number && edges[mb.Value.Text()] != nil && !slices.Contains(edges[mb.Value.Text()], v.Text()):
			return false
		case word == "pattern" && v.Type() == wire.String:
			if !regexp.MustCompile(mb.Value.Text()).MatchString(v.Text()) {
				return false
			}
		case lim == nil || v.Type() != wire.Number || !isNum:
		case strings.HasSuffix(strings.ToLower(word), "minimum") && x.Cmp(lim) < 0,
			strings.HasSuffix(strings.ToLower(word), "maximum") && x.Cmp(lim) > 0,
			word == "multipleOf" && !new(big.Rat).Quo(x, lim).IsInt():
			return false
		}
	}
	return true
}

// mutate changes one thing somewhere in v.
func (m *maker) mutate(v wire.Value) wire.Value {
	items, ms := slices.Clone(v.Items()), object(slices.Clone(v.Members()))
	switch {
	case m.chance(10):
		return m.any(2)
	case len(items) > 0 && m.chance(60):
		i := m.IntN(len(items))
		items[i] = m.mutate(items[i])
		return wire.ArrayOf(items...)
	case len(ms) > 0 && m.chance(60):
		i := m.IntN(len(ms))
		ms[i].Value = m.mutate(ms[i].Value)
		return ms.value()
	case v.Type() == wire.Array && len(items) > 0 && m.chance(50):
		i := m.IntN(len(items))
		return wire.ArrayOf(slices.Delete(items, i, i+1)...)
	case v.Type() == wire.Array:
		more := m.any(1)
		if len(items) > 0 && m.chance(30) {
			more = pick(m, items)
		}
		return wire.ArrayOf(slices.Insert(items, m.IntN(len(items)+1), more)...)
	case v.Type() == wire.Object && len(ms) > 0 && m.chance(50):
		i := m.IntN(len(ms))
		return slices.Delete(ms, i, i+1).value()
	case v.Type() == wire.Object:
		more := m.any(1)
		if len(ms) > 0 && m.chance(30) {
			more = pick(m, ms).Value
		}
		ms.put(pick(m, m.names), more)
		return ms.value()
	case v.Type() == wire.Number:
		return m.number()
	case v.Type() == wire.String:
		return m.text()
	}
	return m.any(1)
}
