package schema

import (
	"regexp"
	"strings"

	"forge/lib/wire"
)

// A lowPattern is what a pattern of the author's lowers to: one regular
// expression of RE2; or, where it begins with lookaheads, several that must
// match and several that must not.
type lowPattern struct {
	re2       string
	must, not []string
	never     string // matches nothing: the engine tells it where those failed
	size      int    // the instructions of all of them
	why, hint string // of a pattern that is refused
}

// matchless is an expression that no string matches.
const matchless = `[^\x{0}-\x{10ffff}]`

// pattern lowers a pattern, once.
func (d *document) pattern(ecma string) lowPattern {
	p, ok := d.patterns[ecma]
	if ok {
		return p
	}
	if len(ecma) > maxPattern {
		_, p.why = translate(ecma)
		p.hint = "shorten it; the tool itself may check the rest"
		return p
	}
	must, not := []string{ecma}, []string(nil)
	if m, n, ok := lookaheads(ecma); ok {
		must, not, p.never = m, n, matchless+regexp.QuoteMeta(ecma)
		p.size = programSize(p.never)
	}
	unicoded, plain := "", "" // of the parts before
	lower := func(parts []string) (res []string) {
		for _, part := range parts {
			t := &translator{in: part, unicoded: unicoded, plain: plain}
			re2, why := t.run()
			unicoded, plain = t.unicoded, t.plain
			d.ranges += t.ranges
			if why != "" && p.why == "" {
				p.why, p.hint = why, t.hint
			}
			res = append(res, re2)
			if d.ranges <= maxRanges { // else it is refused
				p.size += programSize(re2)
			}
		}
		return res
	}
	p.must, p.not = lower(must), lower(not)
	if p.hint == lookaroundHint {
		if _, _, ok := lookaheads("^" + ecma); ok && p.never == "" {
			p.hint = "write ^ before it, if it is about the whole string"
		}
	}
	if p.never == "" {
		p.re2 = p.must[0]
	}
	if d.program += p.size; (d.program > maxProgram || d.ranges > maxRanges) && p.why == "" {
		p.why, p.hint = "the patterns of the schema are too large together", tooLarge
	}
	d.patterns[ecma] = p
	return p
}

// text lowers pattern.
func (l *lowerer) text(n *node, t *target) error {
	v, ok := n.get("pattern")
	if !ok {
		return nil
	}
	if v.Type() != wire.String {
		return l.doc.refuse(n.at, "pattern", "write a regular expression", "%s, want a string", short(v))
	}
	p := l.doc.pattern(v.Text())
	if p.why != "" {
		return l.doc.refuse(n.at, "pattern", p.hint, "pattern %s: %s", short(v), p.why)
	}
	p.put(t)
	return nil
}

// propertyPattern lowers the name of a schema under patternProperties.
func (d *document) propertyPattern(n *node, name string) (lowPattern, error) {
	p := d.pattern(name)
	if p.never != "" && p.why == "" {
		p.why, p.hint = "lookaround is not supported under patternProperties", lookaroundHint
	}
	if strings.HasPrefix(p.why, "lookaround") {
		p.hint = `say it without lookaround; the names that no pattern matches are for "additionalProperties"`
	}
	if p.why != "" {
		return p, d.refuse(n.at, "patternProperties", p.hint, "pattern %s: %s", short(wire.StringOf(name)), p.why)
	}
	return p, nil
}

// told is the expression that the engine names when a string does not match.
func (p lowPattern) told() string {
	if p.never != "" {
		return p.never
	}
	return p.re2
}

// put asks of a target that strings match. What is no string fits each pattern,
// so it gets past "if" or past "else".
//
//	{"pattern":C}
//
//	{"if":{"allOf":[{"pattern":B},{"pattern":C}],"not":{"anyOf":[{"pattern":A}]}},
//	 "else":{"pattern":never}}
func (p lowPattern) put(t *target) {
	if p.never == "" {
		t.put("pattern", wire.StringOf(p.re2))
		return
	}
	list := func(res []string) wire.Value {
		vs := make([]wire.Value, len(res))
		for i, re := range res {
			vs[i] = object("pattern", wire.StringOf(re))
		}
		return wire.ArrayOf(vs...)
	}
	fits := object("allOf", list(p.must))
	if len(p.not) > 0 {
		fits = fits.Set("not", object("anyOf", list(p.not)))
	}
	t.beside = append(t.beside, wire.ObjectOf(
		wire.Member{Name: "if", Value: fits},
		wire.Member{Name: "else", Value: object("pattern", wire.StringOf(p.never))}))
}

// lookaheads takes apart a pattern that begins with ^ and lookaheads, and is no
// alternative at its top level. All of them look at the whole string from its
// start, and what they saw cannot be referred to, so a string matches
// ^(?!A)(?=B)C where it matches ^(?:B) and ^(?:C), and does not match ^(?:A).
// Anywhere else a lookahead looks from a place that the rest decides.
func lookaheads(ecma string) (must, not []string, ok bool) {
	rest, anchored := ecma, false
	for {
		if strings.HasPrefix(rest, "^") {
			rest, anchored = rest[1:], true
			continue
		}
		if !strings.HasPrefix(rest, "(?=") && !strings.HasPrefix(rest, "(?!") {
			break
		}
		end, _ := groupEnd(rest[1:])
		if end < 0 {
			return nil, nil, false
		}
		part := "^(?:" + rest[len("(?="):1+end] + ")"
		if rest[2] == '=' {
			must = append(must, part)
		} else {
			not = append(not, part)
		}
		rest = rest[1+end+1:]
	}
	end, split := groupEnd(rest)
	if !anchored || len(must)+len(not) == 0 || end >= 0 || split {
		return nil, nil, false
	}
	return append(must, "^(?:"+rest+")"), not, true
}

// groupEnd returns where the bracket is that closes the group which s is the
// inside of, -1 if there is none; and whether alternatives stand before it.
func groupEnd(s string) (end int, split bool) {
	depth, class := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return i, split
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			split = true
		}
	}
	return -1, split
}
