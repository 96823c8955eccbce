package schema

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// What ECMA-262 calls white space and line ends, as the inside of a class, and
// what is left of Unicode without them.
const (
	ecmaSpace    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	ecmaNotSpace = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}` +
		`\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
	ecmaDot = `[^\n\r\x{2028}\x{2029}]`
)

// translate returns the RE2 pattern that matches what an ECMA-262 pattern
// matches, read by code points. why says what RE2 cannot do, or what is no
// ECMA-262; "" if all is well.
func translate(ecma string) (re2, why string) { return (&translator{in: ecma}).run() }

func (t *translator) run() (re2, why string) {
	if len(t.in) > maxPattern {
		return "", t.refuse(fmt.Sprintf("%d bytes, at most %d", len(t.in), maxPattern), "shorten it; the tool itself may check the rest")
	}
	t.hint = "write a regular expression of ECMA-262"
	if m := slashes().FindStringSubmatch(t.in); m != nil && !t.lenient {
		hint := "write " + m[1] + " without the slashes"
		if strings.Contains(m[2], "i") {
			hint += ", and the letters as classes, as [Aa]"
		}
		return "", t.refuse("the slashes stand for themselves", hint)
	}
	if why := t.pattern(); why != "" {
		return "", why
	}
	if t.unicoded != "" && t.plain != "" && !t.lenient {
		return "", t.refuse(t.unicoded+" needs the flag u, and "+t.plain+" is an error with it", plainHint(t.plain))
	}
	if t.ranges > maxRanges {
		return "", t.refuse("its classes are too large together", tooLarge)
	}
	re2 = t.out.String()
	if _, err := syntax.Parse(re2, syntax.Perl); err != nil {
		cause := err.Error()
		if i := strings.LastIndex(cause, ": `"); i > 0 {
			cause = cause[:i]
		}
		cause = strings.TrimPrefix(cause, "error parsing regexp: ")
		if strings.Contains(cause, "repeat count") {
			cause = t.refuse("a repetition beyond 1000", `write "maxLength" for a long bound`)
		}
		return "", cause
	}
	return re2, ""
}

// maxProgram bounds the instructions that all patterns of a schema compile to:
// [a-z]{1,1000} is 2000 of them and takes milliseconds.
const maxProgram = 50_000

func programSize(re2 string) int {
	re, err := syntax.Parse(re2, syntax.Perl)
	if err != nil {
		return 0
	}
	if n := estimate(re); n > maxProgram {
		return n // not to be compiled
	}
	p, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(p.Inst)
}

// estimate is about what a pattern compiles to.
func estimate(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += estimate(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, 1<<40)
}

// maxRanges bounds the ranges of code points in the classes of all patterns of a
// schema: \p{L} has 700, and each takes bytes and time when it is compiled.
const maxRanges = 300_000

type translator struct {
	in      string
	at      int
	out     strings.Builder
	hint    string // what to write instead of what is refused
	lenient bool   // take what RE2 cannot do for something it can: is it ECMA-262 at all?

	asserted bool   // what stands before is ^, $, \b or \B, which cannot be repeated
	unicoded string // what means itself with the flag u alone, as \p{L}
	plain    string // what is an error with the flag u, as a lone brace
	ranges   int    // of code points, in the classes so far
}

// refuse sets the hint, and returns why.
func (t *translator) refuse(why, hint string) string {
	t.hint = hint
	return why
}

func (t *translator) rest() string { return t.in[t.at:] }

func (t *translator) rune() rune {
	r, n := utf8.DecodeRuneInString(t.rest())
	t.at += n
	return r
}

func (t *translator) pattern() string {
	for t.at < len(t.in) {
		asserted := t.asserted
		t.asserted = false
		switch r := t.rune(); r {
		case '.':
			t.out.WriteString(ecmaDot)
		case '(':
			if why := t.group(); why != "" {
				return why
			}
		case '[':
			if why := t.class(); why != "" {
				return why
			}
		case '\\':
			if why := t.escape(); why != "" {
				return why
			}
		case '{':
			// A quantifier as it is, anything else is the brace itself.
			s := "{" + t.rest()
			if q := quantifier().FindStringSubmatch(s); q != nil {
				if asserted {
					return t.repeated(q[0])
				}
				t.at += len(q[0]) - 1
				if why := t.quantifier(q[1], q[2], q[3]); why != "" {
					return why
				}
				continue
			}
			if m := nearQuantifier().FindStringSubmatch(s); m != nil && m[1]+m[3] != "" && !t.lenient {
				least := m[1]
				if least == "" {
					least = "0"
				}
				return t.refuse(m[0]+" stands for itself", "write {"+least+m[2]+m[3]+"}")
			}
			t.plain = "{"
			t.out.WriteString(`\{`)
		case '}', ']':
			t.plain = string(r)
			t.out.WriteByte('\\')
			t.out.WriteRune(r)
		case '*', '+', '?':
			if asserted {
				return t.repeated(string(r))
			}
			t.out.WriteRune(r)
		default:
			t.asserted = r == '^' || r == '$'
			t.out.WriteRune(r)
		}
	}
	return ""
}

// repeated refuses a quantifier behind an assertion.
func (t *translator) repeated(q string) string {
	return t.refuse("nothing to repeat before "+q, "leave "+q+" out, or write a backslash before it")
}

// quantifier writes {least}, {least,} or {least,most} with the numbers as RE2
// reads them: it takes {02} for text.
func (t *translator) quantifier(least, comma, most string) string {
	number := func(s string) string {
		last := max(len(s)-1, 0)
		return strings.TrimLeft(s[:last], "0") + s[last:]
	}
	least, most = number(least), number(most)
	if most != "" && cmp.Or(cmp.Compare(len(least), len(most)), strings.Compare(least, most)) > 0 {
		return t.refuse("{"+least+","+most+"}: the bounds run backwards", "write {"+most+","+least+"}")
	}
	if t.lenient {
		t.out.WriteByte('*') // which is as right, and takes any number
		return ""
	}
	t.out.WriteString("{" + least + comma + most + "}")
	return ""
}

// plainHint says how to write what is an error with the flag u.
func plainHint(plain string) string {
	if strings.HasPrefix(plain, `\`) {
		return "write " + plain[1:] + " without the backslash"
	}
	if strings.HasPrefix(plain, "-") {
		return `write \- in the class`
	}
	return `write \` + plain
}

var (
	namedBack  = pattern(`^<[A-Za-z_$][A-Za-z0-9_$]*>`)
	quantifier = pattern(`^\{([0-9]+)(,?)([0-9]*)\}`)

	// What other languages read as a repetition, and ECMA-262 as text.
	nearQuantifier = pattern(`^\{ *([0-9]*) *(,?) *([0-9]*) *\}`)
	// A literal of JavaScript: before ^ and after $ nothing matches a slash.
	slashes = pattern(`(?s)^/(\^.*|.*\$)/([dgimsuvy]*)$`)
)

// pattern compiles on first use: most commands start without needing any.
func pattern(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}

func (t *translator) group() string {
	s := t.rest()
	switch {
	case !strings.HasPrefix(s, "?"):
		t.out.WriteByte('(')
	case strings.HasPrefix(s, "?:"):
		t.out.WriteString("(?:")
		t.at += 2
	case strings.HasPrefix(s, "?="), strings.HasPrefix(s, "?!"), strings.HasPrefix(s, "?<="), strings.HasPrefix(s, "?<!"):
		if t.lenient {
			t.out.WriteString("(?:")
			t.at += strings.IndexAny(s, "=!") + 1
			return ""
		}
		return t.refuse("lookaround ("+s[:strings.IndexAny(s, "=!")+1]+"…) is not supported", lookaroundHint)
	case strings.HasPrefix(s, "?<"):
		end := strings.IndexByte(s, '>')
		if end < 3 || !plainName(s[2:end]) {
			return "a group without a good name"
		}
		t.out.WriteByte('(') // the name serves only a backreference
		t.at += end + 1
	case strings.HasPrefix(s, "?P="):
		return t.refuse("a backreference (?P=…) is not supported", backreferenceHint)
	case strings.HasPrefix(s, "?P<"):
		hint := "write (?<name>…)"
		if name, _, ok := strings.Cut(s[len("?P<"):], ">"); ok && plainName(name) {
			hint = "write (?<" + name + ">…)"
		}
		return t.refuse("(?P<…) is not in ECMA-262", hint)
	case strings.HasPrefix(s, "?>"):
		return t.refuse("an atomic group (?>…) is not in ECMA-262", "write (?:…)")
	case strings.HasPrefix(s, "?#"):
		return t.refuse("a comment (?#…) is not in ECMA-262", `leave it out, or write it into "$comment"`)
	default:
		return t.refuse("inline flags (?"+strings.TrimLeft(s[:min(2, len(s))], "?")+"…) are not in ECMA-262",
			"write the letters as classes, as [Aa]")
	}
	return ""
}

const (
	lookaroundHint    = `say it without lookaround: a second "pattern" under "allOf", or under "not"`
	backreferenceHint = "say it without backreferences; the tool itself may check the rest"
)

// literal writes a code point that stands for itself.
func (t *translator) literal(r rune) {
	if r < 0x80 && !isAlnum(byte(r)) || r > unicode.MaxASCII && !unicode.IsPrint(r) {
		fmt.Fprintf(&t.out, `\x{%x}`, r)
		return
	}
	t.out.WriteRune(r)
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// escape reads what follows a backslash outside a class.
func (t *translator) escape() string {
	set, r, why := t.escaped(false)
	switch {
	case why != "":
		return why
	case set == `\b`, set == `\B`:
		t.asserted = true
		t.out.WriteString(set)
	case set != "":
		t.out.WriteString("[" + set + "]")
	default:
		t.literal(r)
	}
	return ""
}

// escaped reads what follows a backslash: a set, as the inside of a class, or
// one code point.
func (t *translator) escaped(inClass bool) (set string, r rune, why string) {
	if t.at == len(t.in) {
		return "", 0, "a backslash at the end"
	}
	switch c := t.rune(); {
	case c == 'd' || c == 'D' || c == 'w' || c == 'W':
		return `\` + string(c), 0, ""
	case c == 's':
		return ecmaSpace, 0, ""
	case c == 'S':
		return ecmaNotSpace, 0, ""
	case c == 'b' && inClass:
		return "", '\b', ""
	case c == 'b' || c == 'B' && !inClass:
		return `\` + string(c), 0, ""
	case c == 't':
		return "", '\t', ""
	case c == 'n':
		return "", '\n', ""
	case c == 'v':
		return "", '\v', ""
	case c == 'f':
		return "", '\f', ""
	case c == 'r':
		return "", '\r', ""
	case c == '0' && !startsDigit(t.rest()):
		return "", 0, ""
	case c == 'k' && t.lenient && namedBack().MatchString(t.rest()):
		t.at += len(namedBack().FindString(t.rest()))
		return "", 'k', ""
	case c > '0' && c <= '9' && t.lenient && !inClass:
		for startsDigit(t.rest()) {
			t.at++
		}
		return "", c, ""
	case c >= '0' && c <= '9':
		return "", 0, t.refuse("a backreference (\\"+string(c)+") is not supported", backreferenceHint)
	case c == 'k':
		return "", 0, t.refuse(`a backreference (\k) is not supported`, backreferenceHint)
	case c == 'c':
		if s := t.rest(); s != "" && isAlnum(s[0]) && s[0] > '9' {
			t.at++
			return "", rune(s[0] % 32), ""
		}
		return "", 0, `\c without a letter`
	case c == 'x':
		n, ok := t.hex(2)
		if !ok {
			return "", 0, `\x without two hexadecimal digits`
		}
		return "", n, ""
	case c == 'u':
		r, why := t.unicode()
		return "", r, why
	case c == 'p' || c == 'P':
		set, why := t.property(c)
		return set, 0, why
	case c < utf8.RuneSelf && isAlnum(byte(c)):
		switch c {
		case 'A':
			t.hint = "write ^"
		case 'z', 'Z':
			t.hint = "write $"
		}
		return "", 0, `\` + string(c) + " means nothing in ECMA-262"
	default:
		if !strings.ContainsRune(`^$\.*+?()[]{}|/`, c) && (c != '-' || !inClass) {
			t.plain = `\` + string(c)
		}
		return "", c, ""
	}
}

func startsDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func (t *translator) hex(n int) (rune, bool) {
	if len(t.rest()) < n {
		return 0, false
	}
	x, err := strconv.ParseUint(t.rest()[:n], 16, 32)
	if err != nil {
		return 0, false
	}
	t.at += n
	return rune(x), true
}

func (t *translator) unicode() (rune, string) {
	if end := strings.IndexByte(t.rest(), '}'); strings.HasPrefix(t.rest(), "{") && end > 1 {
		x, err := strconv.ParseUint(t.rest()[1:end], 16, 32)
		if err != nil || x > unicode.MaxRune || x >= 0xd800 && x < 0xe000 {
			return 0, `\u{…} without a code point`
		}
		t.unicoded = `\u{…}`
		t.at += end + 1
		return rune(x), ""
	}
	r, ok := t.hex(4)
	if !ok {
		return 0, `\u without four hexadecimal digits`
	}
	if r < 0xd800 || r >= 0xe000 {
		return r, ""
	}
	if r < 0xdc00 && strings.HasPrefix(t.rest(), `\u`) {
		t.at += 2
		if low, ok := t.hex(4); ok && low >= 0xdc00 && low < 0xe000 {
			return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, ""
		}
	}
	return 0, "half a surrogate pair"
}

// property reads {L}, {Letter}, {Script=Greek} after \p or \P.
func (t *translator) property(c rune) (set, why string) {
	set, table, why := t.named(c)
	if table == nil {
		return "", why
	}
	if t.lenient {
		return `\d`, "" // any set will do
	}
	t.ranges += len(table.R16) + len(table.R32)
	return set, ""
}

func (t *translator) named(c rune) (set string, table *unicode.RangeTable, why string) {
	end := strings.IndexByte(t.rest(), '}')
	if !strings.HasPrefix(t.rest(), "{") || end < 2 {
		return "", nil, `\` + string(c) + " without {…}"
	}
	name := t.rest()[1:end]
	t.at += end + 1
	t.unicoded = `\` + string(c) + "{…}"
	short := name
	if key, val, ok := strings.Cut(name, "="); ok {
		switch key {
		case "Script", "sc":
			if unicode.Scripts[val] == nil {
				return "", nil, t.refuse("no script "+strconv.Quote(val), classHint)
			}
			return `\` + string(c) + "{" + val + "}", unicode.Scripts[val], ""
		case "General_Category", "gc":
			short = val
		default:
			return "", nil, t.refuse("no property "+strconv.Quote(name), classHint)
		}
	}
	if long, ok := unicode.CategoryAliases[short]; ok {
		short = long
	}
	if unicode.Categories[short] == nil {
		return "", nil, t.refuse("no property "+strconv.Quote(name), classHint)
	}
	return `\` + string(c) + "{" + short + "}", unicode.Categories[short], ""
}

const tooLarge = "split the tool, or shorten the repetitions"

const classHint = "write a class of characters, as [a-z], or leave the pattern out"

// class reads the rest of [ ].
func (t *translator) class() string {
	negated := strings.HasPrefix(t.rest(), "^")
	if negated {
		t.at++
	}
	if strings.HasPrefix(t.rest(), "]") {
		t.at++ // [] matches nothing, [^] everything
		if negated {
			t.out.WriteString(`[\x{0}-\x{10ffff}]`)
		} else {
			t.out.WriteString(`[^\x{0}-\x{10ffff}]`)
		}
		return ""
	}
	t.out.WriteByte('[')
	if negated {
		t.out.WriteByte('^')
	}
	var seen map[string]bool // sets
	for {
		if strings.HasPrefix(t.rest(), "]") {
			t.at++
			t.out.WriteByte(']')
			return ""
		}
		before := t.ranges
		set, low, why := t.member()
		if why != "" {
			return why
		}
		if seen[set] {
			t.ranges = before
		}
		if set != "" {
			if s := t.rest(); len(s) > 1 && s[0] == '-' && s[1] != ']' {
				t.plain = "- after a set"
			}
			if !seen[set] { // each costs what is in it
				t.out.WriteString(set)
			}
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[set] = true
			continue
		}
		if s := t.rest(); len(s) > 1 && s[0] == '-' && s[1] != ']' {
			mark := t.at
			t.at++
			set, high, why := t.member()
			if why != "" {
				return why
			}
			if set == "" {
				if low > high {
					return "a range in a class that runs backwards"
				}
				t.literal(low)
				t.out.WriteByte('-')
				t.literal(high)
				continue
			}
			t.at = mark // [a-\d]: the dash stands for itself
			t.plain = "- before a set"
			t.literal(low)
			t.at++
			t.literal('-')
			continue
		}
		t.literal(low)
	}
}

// member reads one element of a class: a set or a code point.
func (t *translator) member() (set string, r rune, why string) {
	if t.at == len(t.in) {
		return "", 0, "a class without its end"
	}
	switch r := t.rune(); {
	case r == '\\':
		return t.escaped(true)
	case r == '[' && strings.HasPrefix(t.rest(), ":"):
		return "", 0, t.refuse("a POSIX class ([:…:]) is not in ECMA-262", "write [0-9], [A-Za-z] and the like")
	default:
		return "", r, ""
	}
}
