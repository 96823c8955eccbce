package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"forge/lib/fail"
	"forge/lib/wire"
)

// maxErrors is how many violations are told; the rest is a count.
const maxErrors = 10

// A Violation is one thing that is wrong with a value, and what would be right.
type Violation struct {
	Pointer  string `json:"pointer"`           // a JSON Pointer into the value
	Rule     string `json:"rule"`              // the keyword
	Expected string `json:"expected"`          // what the schema wants
	Got      string `json:"got"`               // what is there
	Nearest  string `json:"nearest,omitempty"` // the name or value likely meant
}

func (v Violation) String() string {
	s := "want " + v.Expected
	if v.Pointer != "" {
		s = brief(v.Pointer) + ": " + s
	}
	if v.Got != "" {
		s += ", got " + v.Got
	}
	if v.Nearest != "" {
		s += " (nearest: " + strconv.Quote(v.Nearest) + ")"
	}
	return s
}

// Check returns nil if the schema allows v, else an error of kind
// validation_failed with the details
//
//	{"errors":[{"pointer":"/n","rule":"type","expected":"integer","got":"string \"5\""}],"count":1}
//
// sorted by pointer, at most ten of them, count being all. Nothing that stands
// at an x-redact location is told. What panics, or takes more than two seconds,
// whichever part of the check does, is not allowed. A part that cannot be
// stopped runs on, to its next error or to the end of the process.
func (s *Schema) Check(v wire.Value) error {
	m := &meter{}
	done := make(chan error, 1)
	go func() { done <- s.check(v, m) }()
	t := time.NewTimer(deadline)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		m.late.Store(true)
		return s.costs(errDeadline)
	}
}

func (s *Schema) check(v wire.Value, m *meter) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errSpent, errSteps, errDeadline:
			err = s.costs(p.(error))
		default:
			err = fail.New(fail.ValidationFailed, "", "input: cannot be checked: unexpected fault").
				With("errors", []Violation{}).With("count", 1)
		}
	}()
	if viol, bad := s.unfit(v, m); bad {
		return s.failed([]Violation{viol}, 1)
	}
	m.ready()
	raws := m.ask(s.engine, v)
	if len(raws) == 0 {
		return nil
	}
	viols, count := s.violations(s.walk(true, m), v, raws)
	return s.failed(viols[:min(len(viols), maxErrors)], count)
}

func (s *Schema) costs(err error) error {
	return s.failed([]Violation{{
		Rule: "cost", Expected: "a smaller or simpler value, checked within " + deadline.String(), Got: err.Error(),
	}}, 1)
}

func (s *Schema) failed(viols []Violation, count int) error {
	texts := make([]string, len(viols))
	hint := ""
	for i := range viols {
		if len(viols[i].Nearest) > maxPointer {
			viols[i].Nearest = "" // it helps nobody
		}
		v := viols[i]
		texts[i] = v.String()
		viols[i].Pointer = cut(v.Pointer, maxPointer)
		switch {
		case hint != "" || v.Nearest == "":
		case v.Got == "nothing":
			hint = "write " + strconv.Quote(cut(unescape(v.Pointer), maxStep)) + ", not " + strconv.Quote(v.Nearest)
		default:
			hint = "write " + strconv.Quote(v.Nearest)
		}
	}
	if count > len(viols) {
		texts = append(texts, fmt.Sprintf("and %d more", count-len(viols)))
	}
	return fail.New(fail.ValidationFailed, hint, "input: %s", strings.Join(texts, "; ")).
		With("errors", viols).With("count", count)
}

// A pointer is told in at most so many bytes, in the message with each step in
// at most so many: a name may be as long as the value.
const (
	maxPointer = 1 << 10
	maxStep    = 100
)

// cut returns a text in at most so many bytes, the last an ellipsis if it is
// cut.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// brief is a pointer as a message has it.
func brief(ptr string) string {
	if len(ptr) <= maxStep {
		return ptr
	}
	var b strings.Builder
	for i, step := range strings.Split(ptr, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(cut(step, maxStep))
		if b.Len() > maxPointer {
			break
		}
	}
	return cut(b.String(), maxPointer)
}

// unescape is the last step of a pointer.
func unescape(ptr string) string {
	last := ptr[strings.LastIndexByte(ptr, '/')+1:]
	return strings.ReplaceAll(strings.ReplaceAll(last, "~1", "/"), "~0", "~")
}

// comparePaths puts items in the order of their numbers.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		if x == y {
			return 0
		}
		if x == "" || y == "" || x[0] > '9' || y[0] > '9' {
			return strings.Compare(x, y) // one is no number
		}
		m, errX := strconv.Atoi(x)
		n, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Or(cmp.Compare(m, n), strings.Compare(x, y))
		}
		return strings.Compare(x, y)
	})
}

// unfit finds what must not reach the engine: values beyond the bounds, equal
// to float64 where they differ, or bound in two modes; and, by errSteps, those
// that the other walks could not walk to their end.
func (s *Schema) unfit(v wire.Value, m *meter) (viol Violation, bad bool) {
	tell := func(path []string, rule, expected, got string) {
		if bad {
			return
		}
		ptr, hidden := s.visible(s.walk(true, m), v, path)
		if hidden {
			got = ""
		}
		viol, bad = Violation{Pointer: ptr, Rule: rule, Expected: expected, Got: got}, true
	}
	var way []string
	length := 0 // of way, as the engine prints it
	var visit func(v wire.Value)
	enter := func(step string, v wire.Value) {
		way = append(way, step)
		length += 1 + len(step)
		m.path = max(m.path, length)
		visit(v)
		length -= 1 + len(step)
		way = way[:len(way)-1]
	}
	visit = func(v wire.Value) {
		m.poll()
		switch v.Type() {
		case wire.Number:
			if why := badNumber(v.Text()); why != "" {
				tell(way, "number", "a number of at most 40 characters that a float64 holds", "a longer one")
			}
		case wire.String:
			if strings.ContainsRune(v.Text(), 0) {
				tell(way, "string", "a string without U+0000", "one with it")
			} else if !utf8.ValidString(v.Text()) {
				tell(way, "string", "UTF-8", "other bytes")
			}
		case wire.Array, wire.Object:
			if len(way) >= maxDepth {
				tell(way, "depth", fmt.Sprintf("at most %d levels", maxDepth), "more")
				return
			}
			for i, it := range v.Items() {
				enter(strconv.Itoa(i), it)
			}
			for _, m := range v.Members() {
				if strings.ContainsRune(m.Name, 0) || !utf8.ValidString(m.Name) {
					tell(way, "string", "names of UTF-8 without U+0000", "another")
				}
				enter(m.Name, m.Value)
			}
		}
	}
	visit(v)
	if bad {
		return viol, true
	}
	if path, lit := s.walk(true, m).collide(s.doc, v); lit != "" {
		tell(path, "number", "a number that can be told from its neighbours: fewer digits, or a string", "number "+lit)
		return viol, true
	}
	if s.ro || s.rw {
		s.walk(false, m).binds(s.doc, v, func(path []string, _ Bind, twice bool) {
			if twice {
				tell(path, "x-bind", "one mode at one place", "ro and rw")
			}
		})
	}
	return viol, bad
}

// visible returns the pointer to what path leads to in v, cut where something
// is kept back, and whether that is so.
func (s *Schema) visible(w *walk, v wire.Value, path []string) (ptr string, hidden bool) {
	at := w.start(s.doc)
	for i, step := range path {
		if at.hidden {
			return pointer(path[:i]), true
		}
		strange := s.redacts && v.Type() == wire.Object && w.stranger(at, step)
		v, at = w.step(v, at, step)
		if strange {
			return pointer(path[:i+1]), true
		}
	}
	return pointer(path), at.hidden
}

// violations turns what the engine tells into what a caller needs, and counts
// it. Of a flood only the beginning is told.
func (s *Schema) violations(w *walk, v wire.Value, raws []raw) ([]Violation, int) {
	raws = slices.DeleteFunc(raws, func(r raw) bool {
		// What is wrong within is told by itself.
		return r.typ == "number_all_of" || r.typ == "condition_then" || r.typ == "condition_else"
	})
	slices.SortStableFunc(raws, func(a, b raw) int {
		w.m.poll()
		return cmp.Or(comparePaths(a.path, b.path), strings.Compare(a.typ, b.typ), strings.Compare(detail(a, "property"), detail(b, "property")))
	})
	raws = s.tagged(w, v, raws)
	more := max(0, len(raws)-8*maxErrors)
	raws = raws[:len(raws)-more]
	var out, types []Violation // the latter as a type keyword alone says them
	union := map[string]int{}  // the types of all alternatives, where they are told
	names := map[string]bool{} // where a name is wrong and what of it is told
	for _, r := range raws {
		viol := s.violation(w, v, r)
		names[viol.Pointer] = names[viol.Pointer] || strings.HasPrefix(viol.Got, "name ")
		switch {
		case r.typ == "invalid_type":
			types = append(types, viol)
			continue
		case viol.Rule == "type":
			union[viol.Pointer] |= typesNamed(viol.Expected)
		}
		out = append(out, viol)
	}
	for _, viol := range types {
		// One alternative's type says less than those of all.
		if typesNamed(viol.Expected)&^union[viol.Pointer] != 0 {
			out = append(out, viol)
		}
	}
	out = slices.DeleteFunc(out, func(v Violation) bool { return v.Rule == "propertyNames" && names[v.Pointer] })
	if len(out) == 0 {
		out = append(out, Violation{Rule: "internal", Expected: "another value"})
	}
	slices.SortStableFunc(out, func(a, b Violation) int {
		return cmp.Or(comparePaths(strings.Split(a.Pointer, "/"), strings.Split(b.Pointer, "/")), strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Expected, b.Expected), strings.Compare(a.Got, b.Got))
	})
	out = slices.Compact(out)
	return out, len(out) + more
}

// tagged replaces what is told of a union by what is wrong with the one
// alternative that a const of the value names: {"kind":"circle",…}.
func (s *Schema) tagged(w *walk, v wire.Value, raws []raw) []raw {
	for i, r := range raws {
		if i > 8*maxErrors {
			break
		}
		if r.typ != "number_one_of" && r.typ != "number_any_of" {
			continue
		}
		word := map[string]string{"number_one_of": "oneOf", "number_any_of": "anyOf"}[r.typ]
		cur, at := w.down(s.doc, v, r.path)
		branch := w.tagOf(at, cur, word)
		if branch == nil {
			continue
		}
		lowered, err := s.doc.lower(branch)
		if err != nil {
			continue
		}
		e, err := newEngine(lowered)
		if err != nil {
			continue
		}
		within, _ := w.m.attempt(e, cur)
		if len(within) == 0 {
			continue // more than one alternative fits
		}
		var out []raw
		for _, o := range raws {
			if len(o.path) < len(r.path) || !slices.Equal(o.path[:len(r.path)], r.path) {
				out = append(out, o)
			}
		}
		for _, o := range within {
			o.path = append(slices.Clone(r.path), o.path...)
			if o.typ != "number_all_of" && o.typ != "condition_then" && o.typ != "condition_else" {
				out = append(out, o)
			}
		}
		return out
	}
	return raws
}

// tagOf returns the one alternative of the one union at a place whose const
// the value has, if its siblings have others.
func (w *walk) tagOf(at *set, cur wire.Value, word string) *node {
	exact := &walk{left: w.left, m: w.m}
	kinds := map[string]string{} // the canonical members of cur
	var found *node
	for _, n := range at.nodes {
		if !n.has(word) {
			continue
		}
		for _, e := range n.under(word) {
			for _, c := range exact.closure([]*node{e.to}) {
				for name, p := range c.props {
					exact.charge(4)
					want, ok := p.get("const")
					if !ok || found == e.to {
						continue
					}
					have, known := kinds[name]
					if !known {
						if v, there := cur.Get(name); there {
							have = canonical(v)
						}
						kinds[name] = have
					}
					if have == "" || canonical(want) != have {
						continue
					}
					if found != nil {
						return nil
					}
					found = e.to
				}
			}
		}
	}
	return found
}

// closing returns the keyword by which a place refuses a name, "" if none does,
// and the names that it knows: those of the closed schemas themselves, where it
// is surely one of them, else of all that may be.
func (s *Schema) closing(w *walk, v wire.Value, path []string, name string) (word string, known []string) {
	if w.sure == nil {
		w.sure = s.walk(false, w.m)
	}
	_, at := w.down(s.doc, v, path)
	_, sure := w.sure.down(s.doc, v, path)
	for _, from := range []*set{sure, at} {
		for _, n := range from.nodes {
			if !w.closes(n, "additionalProperties") || w.describes([]*node{n}, name) {
				continue
			}
			own := names(&set{nodes: []*node{n}})
			switch {
			case word == "":
				known = own
			case from == sure: // all of them must know it
				known = slices.DeleteFunc(known, func(k string) bool { return !slices.Contains(own, k) })
			default:
				known = append(known, own...)
			}
			word = "additionalProperties"
		}
		if word != "" {
			slices.Sort(known)
			return word, slices.Compact(known)
		}
	}
	for _, n := range at.nodes {
		if w.closes(n, "unevaluatedProperties") {
			word = "unevaluatedProperties"
		}
	}
	return word, slices.DeleteFunc(names(at), func(k string) bool { return k == name })
}

// refusal turns a false into what it stands for, where unevaluatedProperties
// has been lowered to it: a property that is not allowed.
func (s *Schema) refusal(w *walk, v wire.Value, r raw) raw {
	if len(r.path) == 0 {
		return r
	}
	path, name := r.path[:len(r.path)-1], r.path[len(r.path)-1]
	cur, at := w.down(s.doc, v, path)
	if cur.Type() != wire.Object {
		return r
	}
	for _, n := range at.nodes {
		if c := n.props[name]; c != nil && isFalse(c) {
			return r
		}
		for i, e := range n.kids["patternProperties"] {
			if isFalse(e.to) && n.patterns[i].MatchString(name) {
				return r
			}
		}
	}
	if word, _ := s.closing(w, v, path, name); word == "" {
		return r
	}
	return raw{path: path, typ: "additional_property_not_allowed", details: map[string]any{"property": name}}
}

const (
	maxForms = 16 // of a oneOf, to be tried one by one
	maxTries = 3  // such oneOfs
)

// forms is how many alternatives of the one oneOf at a place a value fits; 0 if
// that is too much to ask.
func (s *Schema) forms(w *walk, at *set, cur wire.Value) int {
	var of *node
	for _, n := range at.nodes {
		if n.has("oneOf") {
			if of != nil {
				return 0
			}
			of = n
		}
	}
	if of == nil || len(of.under("oneOf")) > maxForms || w.tries >= maxTries {
		return 0
	}
	w.tries++
	fit := 0
	for _, e := range of.under("oneOf") {
		lowered, err := s.doc.lower(e.to)
		if err != nil {
			return 0
		}
		form, err := newEngine(lowered)
		if err != nil {
			return 0
		}
		raws, done := w.m.attempt(form, cur)
		if !done {
			return 0
		}
		if len(raws) == 0 {
			fit++
		}
	}
	return fit
}

func (s *Schema) violation(w *walk, v wire.Value, r raw) Violation {
	if r.typ == "false" {
		r = s.refusal(w, v, r)
	}
	cur, at := w.down(s.doc, v, r.path)
	name := detail(r, "property")
	if r.typ == "missing_dependency" {
		name = detail(r, "dependency")
	}
	path := r.path
	if name != "" && r.typ != "invalid_property_name" {
		path = append(slices.Clone(path), name)
	}
	ptr, hidden := s.visible(w, v, path)
	here, above := s.visible(w, v, r.path)
	hidden = hidden || r.typ == "false" && s.redacts // nothing says what it is
	viol := Violation{Pointer: ptr, Got: got(cur, hidden || above)}
	named := false // propertyNames looks at a name of the object
	if r.text != nil && cur.Type() == wire.Object {
		_, named = cur.Get(*r.text)
	}
	switch r.typ {
	case "required", "missing_dependency":
		viol.Rule, viol.Expected, viol.Got = "required", "a value", "nothing"
		bits := typeAny
		exact := &walk{left: w.left, m: w.m}
		for _, n := range exact.closure(exact.members(at, name)) {
			bits &= n.types
		}
		if bits != typeAny {
			viol.Expected = typeNames(bits)
		}
		if r.typ == "missing_dependency" {
			viol.Rule, viol.Expected = "dependentRequired", viol.Expected+", since another property is there"
		}
		viol.Nearest = wire.Nearest(name, strangers(cur, at))
	case "additional_property_not_allowed":
		word, known := s.closing(w, v, r.path, name)
		viol.Rule, viol.Expected, viol.Got = cmp.Or(word, "additionalProperties"), "no such property", "property "+quote(name)
		viol.Nearest = wire.Nearest(name, known[:min(len(known), maxNear)])
		if len(known) > 0 && len(known) <= 20 {
			viol.Expected = "one of the properties " + strings.Join(quoted(known), ", ")
			if len(known) == 1 {
				viol.Expected = "the property " + quote(known[0])
			}
		}
	case "invalid_type":
		viol.Rule = "type"
		viol.Expected = strings.ReplaceAll(strings.Trim(detail(r, "expected"), "[]"), ",", " or ")
	case "const", "enum":
		viol.Rule, viol.Expected = r.typ, "another value"
		if !hidden {
			what := cur
			if named {
				what = wire.StringOf(*r.text)
			}
			viol.Expected, viol.Nearest = allowed(detail(r, "allowed"), what)
		}
	case "number_any_of":
		viol.Rule, viol.Expected = "anyOf", "one of the forms of anyOf"
		viol.union(at, cur, "anyOf")
	case "number_one_of":
		viol.Rule, viol.Expected = "oneOf", "exactly one of the forms of oneOf"
		if n := s.forms(w, at, cur); n > 1 {
			if !hidden && !above {
				viol.Expected += fmt.Sprintf(" (%d forms fit)", n)
			}
			break
		}
		viol.union(at, cur, "oneOf")
	case "number_not":
		viol.Rule, viol.Expected = "not", "what the schema does not exclude"
		if vals, ok := w.outside(at, cur); ok {
			viol.Rule, viol.Expected = "enum", "another value"
			if !hidden {
				viol.Expected, viol.Nearest = choices(vals, cur)
			}
		}
	case "false":
		viol.Rule, viol.Expected = "false", "nothing here"
	case "array_no_additional_items":
		viol.Rule, viol.Expected = "items", "fewer items"
	case "array_min_items":
		viol.Rule, viol.Expected = "minItems", "at least "+plural(r, "min", "item", "items")
	case "array_max_items":
		viol.Rule, viol.Expected = "maxItems", "at most "+plural(r, "max", "item", "items")
	case "array_min_properties":
		viol.Rule, viol.Expected = "minProperties", "at least "+plural(r, "min", "property", "properties")
	case "array_max_properties":
		viol.Rule, viol.Expected = "maxProperties", "at most "+plural(r, "max", "property", "properties")
	case "unique":
		viol.Rule, viol.Expected = "uniqueItems", "items that differ"
		viol.Got = "items " + detail(r, "i") + " and " + detail(r, "j") + " alike"
	case "contains":
		viol.Rule, viol.Expected = "contains", "an item that fits contains"
	case "invalid_property_name":
		viol.Rule, viol.Expected, viol.Got = "propertyNames", "names that fit propertyNames", quote(name)
	case "string_gte":
		viol.Rule, viol.Expected = "minLength", "at least "+plural(r, "min", "character", "characters")
	case "string_lte":
		viol.Rule, viol.Expected = "maxLength", "at most "+plural(r, "max", "character", "characters")
	case "pattern":
		re := detail(r, "pattern")
		if author, ok := s.patterns[re]; ok {
			re = author
		}
		viol.Rule, viol.Expected = "pattern", "a match of "+re
	case "format":
		viol.Rule, viol.Expected = "format", "format "+strings.TrimPrefix(detail(r, "format"), privateFormat)
	case "multiple_of":
		viol.Rule, viol.Expected = "multipleOf", "a multiple of "+detail(r, "multiple")
	case "number_gte":
		viol.Rule, viol.Expected = "minimum", "at least "+detail(r, "min")
	case "number_gt":
		viol.Rule, viol.Expected = "exclusiveMinimum", "more than "+detail(r, "min")
	case "number_lte":
		viol.Rule, viol.Expected = "maximum", "at most "+detail(r, "max")
	case "number_lt":
		viol.Rule, viol.Expected = "exclusiveMaximum", "less than "+detail(r, "max")
	default:
		viol.Rule, viol.Expected = r.typ, "another value"
	}
	if named {
		viol.Got = "name " + quote(*r.text)
	}
	if above { // the names of what is kept back are part of it
		viol.Pointer, viol.Nearest = here, ""
		if r.typ == "additional_property_not_allowed" {
			viol.Expected = "no such property"
		}
		viol.Got = "<redacted>"
	} else if hidden && viol.Rule != "required" && viol.Rule != "dependentRequired" && r.typ != "additional_property_not_allowed" {
		viol.Nearest, viol.Got = "", "<redacted>"
	}
	return viol
}

// union tells the types that a union lets through, if the value has none of
// them.
func (v *Violation) union(at *set, cur wire.Value, word string) {
	var found *node
	for _, n := range at.nodes {
		if n.has(word) {
			if found != nil {
				return
			}
			found = n
		}
	}
	if found == nil {
		return
	}
	if bits := found.types; bits&typeBits[cur.Type().String()] == 0 {
		v.Rule, v.Expected = "type", typeNames(bits)
	}
}

// typeNames prints a set of types.
func typeNames(bits int) string {
	var out []string
	for _, t := range types {
		if bits&typeBits[t] == typeBits[t] && !(t == "integer" && bits&typeNumber != 0) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return "another value"
	}
	return strings.Join(out, " or ")
}

// typesNamed is the set that typeNames has printed.
func typesNamed(text string) int {
	bits := 0
	for t := range strings.SplitSeq(text, " or ") {
		bits |= typeBits[t]
	}
	return bits
}

func plural(r raw, key, one, more string) string {
	if n := detail(r, key); n != "1" {
		return n + " " + more
	}
	return "1 " + one
}

// detail prints one detail of a violation.
func detail(r raw, key string) string {
	switch d := r.details[key].(type) {
	case nil:
		return ""
	case *big.Float:
		if f := d.Text('f', -1); len(f) <= 40 {
			return f
		}
		return d.Text('g', -1)
	default:
		return fmt.Sprint(d)
	}
}

// got says what stands there: the type, and of a short scalar the value.
func got(v wire.Value, hidden bool) string {
	if hidden {
		return masked
	}
	switch v.Type() {
	case wire.String:
		return "string " + short(v)
	case wire.Number, wire.Bool:
		return v.Type().String() + " " + short(v)
	case wire.Array:
		return fmt.Sprintf("array of %d", len(v.Items()))
	}
	return v.Type().String()
}

func quote(name string) string { return short(wire.StringOf(name)) }

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote(n)
	}
	return out
}

// names are the properties that the positions at describe.
func names(at *set) []string {
	var out []string
	for _, n := range at.nodes {
		for name := range n.props {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxNear is among how many names or values the nearest is looked for.
const maxNear = 1000

// strangers are the names in v that no position describes.
func strangers(v wire.Value, at *set) []string {
	if len(v.Members()) > maxNear {
		return nil
	}
	known := names(at)
	var out []string
	for _, m := range v.Members() {
		if _, ok := slices.BinarySearch(known, m.Name); !ok {
			out = append(out, m.Name)
		}
	}
	return out
}

// allowed reads the values of a const or enum as the engine tells them.
func allowed(list string, v wire.Value) (expected, nearest string) {
	vals, err := wire.Parse([]byte("["+list+"]"), wire.File)
	if err != nil {
		return "another value", ""
	}
	return choices(vals.Items(), v)
}

// outside finds the large enum at a place that does not hold v.
func (w *walk) outside(at *set, v wire.Value) ([]wire.Value, bool) {
	have := ""
	for _, n := range at.nodes {
		e, ok := n.get("enum")
		if !ok || len(e.Bytes()) <= maxEnum {
			continue
		}
		if w.keys[n] == nil {
			if w.keys == nil {
				w.keys = map[*node]map[string]bool{}
			}
			keys := make(map[string]bool, len(e.Items()))
			for _, it := range e.Items() {
				w.m.poll()
				keys[canonical(it)] = true
			}
			w.keys[n] = keys
		}
		if have == "" {
			have = canonical(v)
		}
		if !w.keys[n][have] {
			return e.Items(), true
		}
	}
	return nil, false
}

// choices prints the values of a const or enum, and finds the nearest.
func choices(vals []wire.Value, v wire.Value) (expected, nearest string) {
	var texts, strs []string
	for _, it := range vals {
		if len(texts) < 20 {
			texts = append(texts, short(it))
		}
		if it.Type() == wire.String && len(strs) < maxNear {
			strs = append(strs, it.Text())
		}
	}
	if v.Type() == wire.String {
		if nearest = wire.Nearest(v.Text(), strs); nearest == v.Text() {
			nearest = "" // it is there, and wrong for another reason
		}
	}
	switch n := len(vals); {
	case n == 1:
		return texts[0], nearest
	case n > len(texts):
		return "one of " + strings.Join(texts, ", ") + fmt.Sprintf(" and %d more", n-len(texts)), nearest
	}
	return "one of " + strings.Join(texts, ", "), nearest
}
