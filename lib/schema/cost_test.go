package schema

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"forge/lib/wire"
)

// TestFlood: a large wrong value costs bounded time and room, and is told in
// part.
func TestFlood(t *testing.T) {
	s := ready(t, `{"items":{"type":"string"}}`)
	start := time.Now()
	err := s.Check(parse(t, "["+strings.Repeat("1,", 20_000)+"1]"))
	if err == nil || !strings.HasSuffix(err.Error(), "/9: want string, got number 1; and 19991 more") {
		t.Errorf("got %.2000v", err)
	}
	err = s.Check(parse(t, "["+strings.Repeat("1,", 400_000)+"1]"))
	if err == nil || !strings.HasPrefix(err.Error(), "input: want a smaller or simpler value, checked within 2s, got ") {
		t.Errorf("got %.300v", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %s", d)
	}
	// The next one is not held up.
	if err := s.Check(parse(t, `["a"]`)); err != nil {
		t.Error(err)
	}
}

// TestAtOnce: one Schema serves several goroutines.
func TestAtOnce(t *testing.T) {
	s := ready(t, medium)
	good, bad := parse(t, mediumValue), parse(t, `{"name":"","mode":"fats"}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := s.Check(good); err != nil {
					t.Error(err)
				}
				if err := s.Check(bad); err == nil {
					t.Error("allowed")
				}
				s.Redact(good)
				s.Binds(good)
				s.Normalize(good)
			}
		})
	}
	wg.Wait()
}

// TestLargeEnum: the engine does not see it as an enum, a caller does.
func TestLargeEnum(t *testing.T) {
	var vals []string
	for i := range 300 {
		vals = append(vals, fmt.Sprintf(`"value-%03d"`, i))
	}
	s := ready(t, `{"properties":{"v":{"enum":[`+strings.Join(vals, ",")+`]}}}`)
	if err := s.Check(parse(t, `{"v":"value-299"}`)); err != nil {
		t.Error(err)
	}
	err := s.Check(parse(t, `{"v":"valeu-299"}`))
	if err == nil || !strings.HasSuffix(err.Error(), ` and 280 more, got string "valeu-299" (nearest: "value-299")`) {
		t.Errorf("got %v", err)
	}
}

// TestTranslate holds patterns of ECMA-262 against what they match there.
func TestTranslate(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{`^.$`, "😀", "\r"},
		{`^.$`, "\u0085", "\u2028"},
		{`^\s$`, "\u00a0", "\u0085"},
		{`^\S$`, "\u0085", "\ufeff"},
		{`^[\s]$`, "\u3000", "a"},
		{`^[^\s]$`, "a", "\u3000"},
		{`^[\S]$`, "a", "\u2028"},
		{`^[^\S]$`, " ", "a"},
		{`^\d\w\D\W$`, "1_a-", "٣_a-"},
		{`^(|[])$`, "", "a"},
		{`^[^]$`, "\n", ""},
		{`^[[]$`, "[", "a"},
		{`^[a\-z]$`, "-", "b"},
		{`^[\w-.]$`, "-", "/"},
		{`^[-a]$`, "-", "b"},
		{`^[a-]$`, "-", "b"},
		{`^[\b]$`, "\b", "b"},
		{`^\x41\u0042\u{43}\cJ\0$`, "ABC\n\x00", "ABC"},
		{`^\ud83d\ude00$`, "😀", "a"},
		{`^\p{Lu}\p{Letter}\p{Script=Greek}\P{L}$`, "Aaα1", "aaα1"},
		{`^(?<year>\d{4})-(?:a|b){2,}$`, "2026-ab", "2026-a"},
		{`^a{,}b\{,2}$`, "a{,}b{,2}", "ab"},
		{`/a|b$/c`, "/a", "a"},
		{`^{$`, "{", "a"},
		{`^\/\.\$\-$`, "/.$-", "a"},
		{`\bfoo\b`, "a foo b", "afoob"},
		{`a|^b$`, "xax", "xb"},
		{`^a{02}$`, "aa", "a{02}"},
		{`^a{00,01}b{003,}$`, "bbb", "aabbb"},
		{`^(^a$)?(?:$){2}$`, "a", "aa"},
		{`^[\p{L}\-\/]\/$`, "-/", "_/"},
		{`^[\s\d\s]$`, "1", "a"},
	} {
		re, why := translate(c.pattern)
		if why != "" {
			t.Errorf("%s: %s", c.pattern, why)
			continue
		}
		r := regexp.MustCompile(re)
		if !r.MatchString(c.yes) {
			t.Errorf("%s (%s) does not match %q", c.pattern, re, c.yes)
		}
		if r.MatchString(c.no) {
			t.Errorf("%s (%s) matches %q", c.pattern, re, c.no)
		}
	}
	for _, bad := range []string{
		`(?=a)`, `(?!a)`, `(?<=a)`, `(?<!a)`, `(a)\1`, `(?<n>a)\k<n>`, `\A`, `\z`, `\Z`, `\Q`, `\E`, `\a`, `\C`, `(?i)a`, `(?P<n>a)`, `(?P=n)`, `(?>a)`, `(?#a)`,
		`a{,2}`, `a{1, 2}`, `a{ 1}`, `/^a$/`, `/^a/i`, `/a$/`, `\p{Emoji}`,
		`[[:alpha:]]`, `\pL`, `\p{Greek}`, `a{1001}`, `a**`, `(`, `[`, `[b-a]`, `\`, `\ud800`, `\c1`, `\xg`, `a{2,1}`, `(?<>a)`,
		`a{10,9}`, `^*`, `a|$?`, `\b+`, `\B{2}`, `^{2}`, `a{2}{3}`,
		`\p{L}{`, `\p{L}]`, `\u{41}\-`, `[\p{L}-z]`, `[a-\p{L}]`, `[\_\u{41}]`,
	} {
		if re, why := translate(bad); why == "" {
			t.Errorf("%s is taken, as %s", bad, re)
		}
	}
}

// TestTranslateHints holds what is said of patterns that RE2 would read as
// something else.
func TestTranslateHints(t *testing.T) {
	for pattern, want := range map[string]string{
		`a{2,1}`:           "schema: /pattern: pattern \"a{2,1}\": {2,1}: the bounds run backwards\nhint: write {1,2}",
		`^*`:               "schema: /pattern: pattern \"^*\": nothing to repeat before *\nhint: leave * out, or write a backslash before it",
		`\p{L}}`:           "schema: /pattern: pattern \"\\\\p{L}}\": \\p{…} needs the flag u, and } is an error with it\nhint: write \\}",
		`^(?=\p{L})[\w-.]`: "schema: /pattern: pattern \"^(?=\\\\p{L})[\\\\w-.]\": \\p{…} needs the flag u, and - after a set is an error with it\nhint: write \\- in the class",
	} {
		_, err := Lower(wire.ObjectOf(wire.Member{Name: "pattern", Value: wire.StringOf(pattern)}))
		if err == nil || told(err) != want {
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
}

// TestLookaheads holds patterns that begin with lookaheads against what they
// match in ECMA-262, and those that are refused.
func TestLookaheads(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{`^(?!-)[a-z-]+$`, "a-", "-a"},
		{`^(?=a)`, "ab", "ba"},
		{`^(?!a|b)(?:c|b)`, "c", "b"},
		{`^(?=.*\d)(?=.*[a-z]).{4,}$`, "abc1", "abcd"},
		{`^(?=ab)a`, "ab", "ac"},
		{`^(?=a$)a`, "a", "ab"},
		{`^(?!^a$)a`, "ab", "a"},
		{`(?!a)^.`, "b", "a"},
		{`^(?=[)|])[^a]`, ")", "b"},
		{`^(?=\))\)[|(]`, ")(", "))"},
		{`^(?=(a|b)c)..$`, "bc", "ba"},
		{`^(?!)a`, "", "a"},
		{`^(?=)a`, "ab", "b"},
		{`^(?=.\b)a`, "a b", "ab"},
		{`^(?!.*\n)[^]+$`, "a", "a\n"},
	} {
		text := wire.ObjectOf(wire.Member{Name: "pattern", Value: wire.StringOf(c.pattern)}).String()
		s := ready(t, text)
		if err := s.Check(wire.StringOf(c.yes)); err != nil && c.yes != "" {
			t.Errorf("%s: %v", c.pattern, err)
		}
		if err := s.Check(wire.StringOf(c.no)); err == nil {
			t.Errorf("%s matches %q", c.pattern, c.no)
		}
		for _, other := range []string{"null", "1", "[]", "{}"} {
			if err := s.Check(parse(t, other)); err != nil {
				t.Errorf("%s: %s: %v", c.pattern, other, err)
			}
		}
	}
	for _, bad := range []string{
		`^(?!a)b|c`, `(?!a)b`, `^a(?!b)`, `^(?!a)*b`, `^(?=a)+`, `^(?!a){2}b`, `^((?!a)b)`, `^(?!a(?=b))c`, `^(?!a)b)(c`, `^(?!a`, `^(?!a)(b`,
		`^(?!a)[b`, `^(?!a\)b`, `^(?!a)b\`, `^(?!(a)\1)b`, `^(?<!a)b`, `^(?!(a)b`, `^(?=(?<n>a))\k<n>`,
	} {
		if _, err := Lower(parse(t, wire.ObjectOf(wire.Member{Name: "pattern", Value: wire.StringOf(bad)}).String())); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestFormats holds each format against its RFC.
func TestFormats(t *testing.T) {
	left := maps.Clone(formats)
	for _, c := range []struct{ format, yes, no string }{
		{"date", "2024-02-29|0001-01-01", "2023-02-29|2024-2-29|2024-02-29T|২024-01-01|2024-13-01"},
		{"time", "10:20:30Z|23:59:60Z|10:20:30.5+01:00|01:29:60+01:30", "10:20:30|24:00:00Z|10:20:60Z|10:20:30.Z|10:20:30+24:00|01:29:60+01:00"},
		{"date-time", "2024-02-29T10:20:30z|2024-02-29t10:20:30Z", "2024-02-29 10:20:30Z|2024-02-29|10:20:30Z"},
		{"time-local", "10:20:30|23:59:60|00:00:00.000001", "10:20|10:20:30Z|24:00:00|10:20:61|10:20:30.|2024-02-29T10:20:30"},
		{"date-time-local", "2024-02-29T10:20:30|2024-02-29 10:20:30.5", "2024-02-29T10:20:30Z|2023-02-29T10:20:30|2024-02-29|2024-02-29_10:20:30"},
		{"partial-date-time", "2024-02-29T10:20:30", "10:20:30|2024-02-29T10:20:30+01:00"},
		{"duration", "P1D|PT1H|P1Y2M3DT4H5M6S|P2W", "P|PT|1D|P1D2H|P1Y2W|P1Y1D|P1.5D"},
		{"email", `a@b|a.b+c@x.org|"a b"@x.org|a@[127.0.0.1]|a@[IPv6:::1]`, "a|@b|a@|a..b@x|.a@x|a b@x|Boss <b@x>|a@b@c|a@-x"},
		{"ipv4", "1.2.3.4", "1.2.3|01.2.3.4|1.2.3.256|::ffff:1.2.3.4|1.2.3.4/8"},
		{"ipv6", "::1|::ffff:1.2.3.4", "1.2.3.4|::1%eth0|:::1|12345::"},
		{"ip", "1.2.3.4|::1", "1.2.3|::1%eth0|1.2.3.4/8"},
		{"ipvanyaddress", "1.2.3.4|::1", "|a"},
		{"ipv4network", "10.0.0.0/8|0.0.0.0/0|1.2.3.4/32|1.2.3.4", "10.0.0.1/8|10.0.0.0/33|10.0.0.0/08|10.0.0.0/|::/0|10.0.0.0/255.0.0.0|10/8"},
		{"ipv6network", "fe80::/10|::/0|::1", "fe80::1/10|::/129|::1%eth0/64|10.0.0.0/8"},
		{"ipvanynetwork", "10.0.0.0/8|::/0", "10.0.0.1/8|/8"},
		{"ipv4interface", "10.0.0.1/8|10.0.0.1", "10.0.0.1/33|10.0.0.1/+8|::1/8"},
		{"ipv6interface", "fe80::1/10|::1", "10.0.0.1/8|fe80::1/-1"},
		{"ipvanyinterface", "10.0.0.1/8|fe80::1/10", "10.0.0.1/"},
		{"base64", "|aGk=|aGkh|++//", "a|aGk|aGk==|aGl=|aG k=|aGk=\n|--__|aGk=aGk="},
		{"byte", "aGk=", "aGk"},
		{"base64url", "|aGk=|aGk|--__", "a|aGk==|aGl|++//|aG\nkh"},
		{"uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380|2eb8aa08-aa98-11ea-b4aa-73b441d1638g|{2eb8aa08-aa98-11ea-b4aa-73b441d16380}"},
		{"uri", "http://a/b?c#d|urn:x:y|mailto:a@b", "a/b|//a|http://a b|http://a/%zz|http://[a]|\\\\x"},
		{"uri-reference", "a/b|//a|#x|", "\\a|a b|http://[a]"},
		{"hostname", "a.b|xn--4gbwdl.xn--wgbh1c|a-b", "-a|a-|a..b|a_b|a.|" + strings.Repeat("a", 64)},
		{"regex", "^a$|(?=a)|(a)\\1", "(|[b-a]|\\Z"},
		{"json-pointer", "|/a~0b|/", "a|/~2|/~"},
		{"relative-json-pointer", "0|1#|2/a", "/a|01|-1|1a"},
	} {
		f := formats[c.format]
		delete(left, c.format)
		for s := range strings.SplitSeq(c.yes, "|") {
			if !f(s) {
				t.Errorf("%s refuses %q", c.format, s)
			}
		}
		for s := range strings.SplitSeq(c.no, "|") {
			if f(s) {
				t.Errorf("%s takes %q", c.format, s)
			}
		}
	}
	soon(t, "a long regex", time.Second, func() {
		if !isRegex("^["+strings.Repeat(`\p{L}`, 12_000)+"]a{2000}$") || isRegex(strings.Repeat("a", 64<<10+1)) {
			t.Error("a regex has at most 64 KiB")
		}
		isRegex(strings.Repeat(`[\p{L}\p{N}]`, 5_000))
	})
	for name := range left {
		t.Errorf("nothing is held of %s", name)
	}
}
