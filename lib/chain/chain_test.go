package chain

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

func tornOf(payload []byte) (Torn, bool) {
	var p struct {
		Ev      string
		Details Torn
	}
	if json.Unmarshal(payload, &p) != nil || p.Ev != "audit.torn" {
		return Torn{}, false
	}
	return p.Details, true
}

func payload(seq int, rest string) []byte {
	return fmt.Appendf(nil, `{"seq":%d,"ts":"2026-11-30T19:15:%02d.000000001Z",%s}`, seq, seq%60, rest)
}

// log returns n chained lines.
func log(n int) [][]byte {
	prev := Zero
	lines := make([][]byte, n)
	for i := range lines {
		lines[i], prev = AppendLine(nil, payload(i+1, fmt.Sprintf(`"ev":"x.test","n":"%d"`, i)), prev)
	}
	return lines
}

// verdict is a Verifier at its end, with how many lines stood.
type verdict struct {
	*Verifier
	Entries int
}

// verify walks b as a Verifier does, and from every place that a worker may
// stop at: both must tell the same.
func verify(t *testing.T, b []byte) verdict {
	t.Helper()
	out := verdict{}
	checks := Checks{TornOf: tornOf, Each: func(*Line, Place) { out.Entries++ }}
	out.Verifier = NewVerifier(checks, Start, First(1))
	if err := out.Read(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	out.End()
	st, at := (&Checks{TornOf: tornOf}).Scan(b, Start, First(1))
	rest := NewVerifier(Checks{TornOf: tornOf}, st, at)
	if err := rest.Read(bytes.NewReader(b[at.Offset:])); err != nil {
		t.Fatal(err)
	}
	rest.End()
	if !reflect.DeepEqual(rest.Bad, out.Bad) || rest.State != out.State || !reflect.DeepEqual(rest.Torn, out.Torn) {
		t.Fatalf("a worker and a verifier find %+v %v, a verifier alone %+v %v", rest.Bad, rest.Torn, out.Bad, out.Torn)
	}
	return out
}

func join(lines ...[]byte) []byte { return bytes.Join(lines, nil) }

func heal(fragment []byte, at int, l Line) []byte {
	sum := sha256.Sum256(fragment)
	p := payload(int(l.Seq)+1, fmt.Sprintf(`"ev":"audit.torn","details":{"at":%d,"len":%d,"sha256":"%s"}`, at, len(fragment), hex.EncodeToString(sum[:])))
	line, sha := AppendLine([]byte("\n"), p, l.Sha)
	next, _ := AppendLine(nil, payload(int(l.Seq)+2, `"ev":"x.after"`), sha)
	return append(line, next...)
}

// The rows of one segment; the names are those of the acceptance table.
func TestCases(t *testing.T) {
	edit := func(i int, old, now string) func([][]byte) []byte {
		return func(l [][]byte) []byte {
			l[i] = bytes.Replace(l[i], []byte(old), []byte(now), 1)
			return join(l...)
		}
	}
	last := func(raw []byte) Line { l, _ := Parse(raw); return l }
	torn := func(l [][]byte) ([]byte, []byte) { return join(l[:90]...), l[90][:len(l[90])/2] }
	for name, c := range map[string]struct {
		change  func([][]byte) []byte
		want    string
		resumes bool
	}{
		"A1 untouched":    {func(l [][]byte) []byte { return join(l...) }, "ok 100", false},
		"A2 payload byte": {edit(36, `"n":"36"`, `"n":"39"`), "content 37", true},
		"A3 sha digit":    {func(l [][]byte) []byte { flip(l[36], len(l[36])-10); return join(l...) }, "content 37", true},
		"A4 prev digit":   {func(l [][]byte) []byte { flip(l[36], len(l[36])-100); return join(l...) }, "content 37", true},
		"A5 edited, own sha": {func(l [][]byte) []byte {
			l[36], _ = AppendLine(nil, payload(37, `"ev":"x.other"`), last(l[36]).Prev)
			return join(l...)
		}, "link 38", true},
		"A8 deleted":        {func(l [][]byte) []byte { return join(append(l[:36:36], l[37:]...)...) }, "missing(1) 37", true},
		"A9 five deleted":   {func(l [][]byte) []byte { return join(append(l[:36:36], l[41:]...)...) }, "missing(5) 37", true},
		"A10 first deleted": {func(l [][]byte) []byte { return join(l[1:]...) }, "missing(1) 1", true},
		"A11 swapped":       {func(l [][]byte) []byte { l[36], l[37] = l[37], l[36]; return join(l...) }, "missing(1) 37", false},
		"A12 doubled":       {func(l [][]byte) []byte { return join(append(l[:37:37], l[36:]...)...) }, "fork 38", true},
		"A13 replayed":      {func(l [][]byte) []byte { return join(join(l[:60]...), l[19], join(l[60:]...)) }, "repeat 61", true},
		"A14 second writer": {func(l [][]byte) []byte {
			f, _ := AppendLine(nil, payload(60, `"ev":"x.fork"`), last(l[59]).Prev)
			return join(join(l[:60]...), f, join(l[60:]...))
		}, "fork 61", true},
		"A15 interleaved": {func(l [][]byte) []byte {
			a, b := l[60], l[61]
			l[60] = join(a[:50], b[50:])
			l[61] = join(b[:50], a[50:])
			return join(l...)
		}, "content 61", true},
		"A16 newline gone": {func(l [][]byte) []byte { l[49] = l[49][:len(l[49])-1]; return join(l...) }, "content 50", true},
		"A17 blank line":   {func(l [][]byte) []byte { return join(join(l[:50]...), []byte("\n"), join(l[50:]...)) }, "frame 51", true},
		"A18 CRLF":         {func(l [][]byte) []byte { return bytes.ReplaceAll(join(l...), []byte("\n"), []byte("\r\n")) }, "frame 1", false},
		"A18 BOM":          {func(l [][]byte) []byte { return join(append([][]byte{[]byte("\ufeff")}, l...)...) }, "frame 1", true},
		"A19 a space":      {edit(36, `,"n"`, `, "n"`), "content 37", true},
		"A20 upper-case sha": {func(l [][]byte) []byte {
			n := len(l[36])
			copy(l[36][n-67:], bytes.ToUpper(l[36][n-67:n-3]))
			return join(l...)
		}, "frame 37", true},
		"A20 outside payload": {edit(36, `,"prev"`, `,"x":1,"prev"`), "frame 37", true},
		"A23 long line": {func(l [][]byte) []byte {
			l[39], _ = AppendLine(nil, payload(40, `"ev":"`+strings.Repeat("x", 70000)+`"`), last(l[39]).Prev)
			return join(l...)
		}, "frame 40", true},
		"A24 last ten cut": {func(l [][]byte) []byte { return join(l[:90]...) }, "ok 90", false},
		"A26 cut mid-line": {func(l [][]byte) []byte { a, f := torn(l); return join(a, f) }, "torn_tail 91", false},
		"A27 and healed":   {func(l [][]byte) []byte { a, f := torn(l); return join(a, f, heal(f, len(a), last(l[89]))) }, "ok 92 torn 91", false},
		"A28 NULs, healed": {func(l [][]byte) []byte {
			a, _ := torn(l)
			f := make([]byte, 5000)
			return join(a, f, heal(f, len(a), last(l[89])))
		}, "ok 92 torn 91", false},
		"A29 fragment edited": {func(l [][]byte) []byte {
			a, f := torn(l)
			h := heal(f, len(a), last(l[89]))
			g := bytes.Clone(f)
			flip(g, 30)
			return join(a, g, h)
		}, "frame 91", true},
		"fragment gone": {func(l [][]byte) []byte { a, f := torn(l); h := heal(f, len(a), last(l[89])); return join(a, h[1:]) }, "frame 91", true},
		"heal interrupted": {func(l [][]byte) []byte {
			a, f := torn(l)
			h := heal(f, len(a), last(l[89]))
			return join(a, f, h[:100])
		}, "torn_tail 91", false},
		"heal of a heal": {func(l [][]byte) []byte {
			a, f := torn(l)
			f = join(f, heal(f, len(a), last(l[89]))[:100])
			return join(a, f, heal(f, len(a), last(l[89])))
		}, "ok 92 torn 91", false},
		"record edited": {func(l [][]byte) []byte {
			a, f := torn(l)
			h := heal(f, len(a), last(l[89]))
			flip(h, bytes.Index(h, []byte(`"sha256":"`))+20)
			return join(a, f, h)
		}, "content 92", true},
		"record edited, then all of it named": {func(l [][]byte) []byte {
			a, f := torn(l)
			h, _, _ := bytes.Cut(heal(f, len(a), last(l[89]))[1:], []byte("\n"))
			flip(h, bytes.Index(h, []byte(`"sha256":"`))+20)
			f = join(f, []byte("\n"), h)
			return join(a, f, heal(f, len(a), last(l[89])))
		}, "ok 92 torn 91", false},
		"long tail":          {func(l [][]byte) []byte { a, _ := torn(l); return join(a, make([]byte, MaxTorn)) }, "torn_tail 91", false},
		"longer than a tail": {func(l [][]byte) []byte { a, _ := torn(l); return join(a, make([]byte, MaxTorn+1)) }, "frame 91", false},
		"long tail, healed": {func(l [][]byte) []byte {
			a, _ := torn(l)
			f := make([]byte, MaxTorn)
			return join(a, f, heal(f, len(a), last(l[89])))
		}, "ok 92 torn 91", false},
		"long heal interrupted": {func(l [][]byte) []byte {
			a, _ := torn(l)
			f := make([]byte, MaxTorn)
			return join(a, f, heal(f, len(a), last(l[89]))[:100])
		}, "torn_tail 91", false},
		"long line after a bad one": {func(l [][]byte) []byte {
			return join(join(l[:36]...), []byte("x\n"), join(l[36:50]...), make([]byte, 70000), []byte("\n"), join(l[50:]...))
		}, "frame 37", false},
		"tail no heal":      {func(l [][]byte) []byte { a, f := torn(l); return join(a, f, []byte("\n{\"payl0ad")) }, "frame 91", false},
		"A30 zeroed":        {func(l [][]byte) []byte { clear(l[36][:len(l[36])-1]); return join(l...) }, "frame 37", true},
		"A31 garbage":       {func(l [][]byte) []byte { return join(join(l...), []byte("garbage\n")) }, "frame 101", false},
		"last newline lost": {func(l [][]byte) []byte { b := join(l...); return b[:len(b)-1] }, "torn_tail 100", false},
		"empty":             {func(l [][]byte) []byte { return nil }, "ok 0", false},
	} {
		v := verify(t, c.change(log(100)))
		got := fmt.Sprintf("ok %d", v.Entries)
		for _, p := range v.Torn {
			got += fmt.Sprintf(" torn %d", p.Line)
		}
		resumes := false
		if v.Bad != nil {
			got = string(v.Bad.Reason)
			if v.Bad.Missing > 0 {
				got += fmt.Sprintf("(%d)", v.Bad.Missing)
			}
			got += fmt.Sprintf(" %d", v.Bad.At.Line)
			resumes = v.Bad.Resumes
		}
		if got != c.want || resumes != c.resumes {
			t.Errorf("%s: %s resumes %v, want %s %v", name, got, resumes, c.want, c.resumes)
		}
	}
}

// A finding says what should stand there and what does, by the names of the
// lines: sha of a changed one, prev of one that does not follow.
func TestExpected(t *testing.T) {
	whole := log(5)
	of := func(i int) Line { l, _ := Parse(whole[i]); return l }
	other, sha := AppendLine(nil, payload(3, `"ev":"x.other"`), of(1).Sha)
	ahead, _ := AppendLine(nil, payload(9, `"ev":"x.other"`), of(1).Sha)
	changed := bytes.Clone(whole[2])
	flip(changed, len(changed)-10)
	got, _ := Parse(changed)
	for name, c := range map[string]struct {
		lines         [][]byte
		reason        Reason
		expected, got string
	}{
		"sha":      {[][]byte{whole[0], whole[1], changed}, Content, of(2).Sha.String(), got.Sha.String()},
		"replaced": {[][]byte{whole[0], whole[1], other, whole[3]}, Link, sha.String(), of(2).Sha.String()},
		"gone":     {[][]byte{whole[0], whole[1], whole[3]}, Missing, of(1).Sha.String(), of(2).Sha.String()},
		"doubled":  {[][]byte{whole[0], whole[1], whole[1]}, Fork, of(1).Sha.String(), of(0).Sha.String()},
		"replayed": {[][]byte{whole[0], whole[1], whole[2], whole[0]}, Repeat, of(2).Sha.String(), Zero.String()},
		"seq":      {[][]byte{whole[0], whole[1], ahead}, Link, "3", "9"},
		"frame":    {[][]byte{whole[0], []byte("x\n")}, Frame, "", ""},
	} {
		f := verify(t, join(c.lines...)).Bad
		if f == nil || f.Reason != c.reason || f.Expected != c.expected || f.Got != c.got {
			t.Errorf("%s: %+v, want %+v", name, f, c)
		}
	}
}

func flip(b []byte, i int) {
	if b[i] == '0' {
		b[i] = '1'
	} else {
		b[i] = '0'
	}
}

// Every flipped bit of a log is seen, and the flipped line is the one named.
func TestBitFlips(t *testing.T) {
	lines := log(12)
	whole := join(lines...)
	if v := verify(t, whole); v.Bad != nil || v.Entries != 12 {
		t.Fatalf("untouched: %+v", v)
	}
	line, left := int64(1), len(lines[0])
	for i := range whole {
		for left == 0 {
			line, left = line+1, len(lines[line])
		}
		left--
		for bit := range 8 {
			whole[i] ^= 1 << bit
			v := verify(t, whole)
			switch {
			case v.Bad == nil:
				t.Fatalf("byte %d bit %d: not seen", i, bit)
			case v.Bad.At.Line != line:
				t.Fatalf("byte %d bit %d: named line %d, want %d", i, bit, v.Bad.At.Line, line)
			case (v.Bad.Reason == TornTail) != (i == len(whole)-1):
				t.Fatalf("byte %d bit %d: %s", i, bit, v.Bad.Reason)
			}
			whole[i] ^= 1 << bit
		}
	}
}

// A bit of a healed log names its own line too, but for the frame of the record
// that names the fragment: without it the fragment is the first bad line.
func TestHealedBitFlips(t *testing.T) {
	lines := log(4)
	before, fragment := join(lines[:3]...), lines[3][:60]
	l, _ := Parse(lines[2])
	healed := bytes.SplitAfter(heal(fragment, len(before), l), []byte("\n"))
	lines = append(lines[:3], join(fragment, healed[0]), healed[1], healed[2])
	whole := join(lines...)
	if v := verify(t, whole); v.Bad != nil || len(v.Torn) != 1 || v.Tears != 1 {
		t.Fatalf("untouched: %+v", v)
	}
	own := 0
	line, left := int64(1), len(lines[0])
	for i := range whole {
		for left == 0 {
			line, left = line+1, len(lines[line])
		}
		left--
		for bit := range 8 {
			whole[i] ^= 1 << bit
			v := verify(t, whole)
			switch {
			case v.Bad == nil:
				t.Fatalf("byte %d bit %d: not seen", i, bit)
			case v.Bad.At.Line == line:
				own++
			case line != 5 || v.Bad.At.Line != 4:
				t.Fatalf("byte %d bit %d: named line %d, want %d", i, bit, v.Bad.At.Line, line)
			}
			whole[i] ^= 1 << bit
		}
	}
	if least := 8 * (len(whole) - len(lines[4])*3/5); own < least {
		t.Errorf("%d of %d bits named their own line, want %d", own, 8*len(whole), least)
	}
}

// What an attacker may append costs in proportion to its length: records that
// name what is before them, and yet do not fit, are not hashed over again.
func TestLinear(t *testing.T) {
	first := log(1)[0]
	l, _ := Parse(first)
	crafted := func(fits int) []byte {
		b := join(first, []byte("x\n"))
		for len(b) < MaxTorn {
			p := payload(2, fmt.Sprintf(`"ev":"audit.torn","details":{"at":%d,"len":%d,"sha256":"%064d"}`, len(first), len(b)-len(first)-fits, 0))
			b, _ = AppendLine(b, p, l.Sha)
		}
		return b
	}
	took := func(b []byte) time.Duration {
		least := time.Hour
		for range 3 {
			began := time.Now()
			v := NewVerifier(Checks{TornOf: tornOf}, Start, First(1))
			if err := v.Read(bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			if bad := v.End(); bad == nil || bad.Reason != Frame || bad.At.Line != 2 {
				t.Fatalf("%+v", bad)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if fit, not := took(crafted(1)), took(crafted(2)); fit > 5*not {
		t.Errorf("records of the right length take %s, others %s", fit, not)
	}
}

// The places of fragments are kept up to a bound, and counted beyond it.
func TestManyTears(t *testing.T) {
	b := log(1)[0]
	for range maxTears + 10 {
		l, _ := Parse(b[bytes.LastIndexByte(b[:len(b)-1], '\n')+1:])
		b = join(b, []byte("x"), heal([]byte("x"), len(b), l))
	}
	v := verify(t, b)
	if v.Bad != nil || len(v.Torn) != maxTears || v.Tears != maxTears+10 {
		t.Errorf("%+v, %d of %d tears", v.Bad, len(v.Torn), v.Tears)
	}
}

// After a bad line, one who follows the log waits for what a writer may still
// bring, and no longer.
func TestWaits(t *testing.T) {
	lines := log(3)
	l, _ := Parse(lines[1])
	before, fragment := join(lines[:2]...), lines[2][:50]
	healed := heal(fragment, len(before), l)
	for name, c := range map[string]struct {
		text, tail []byte
		waits      bool
		hope       bool
	}{
		"nothing bad":                        {text: before},
		"a fragment":                         {text: before, tail: fragment},
		"and its newline":                    {join(before, fragment, healed[:1]), nil, true, true},
		"a part of its record":               {join(before, fragment, healed[:1]), healed[1:80], true, true},
		"its record":                         {text: join(before, fragment, healed)},
		"something else":                     {join(before, fragment, healed[:1]), []byte("garbage"), true, false},
		"a whole line":                       {join(before, fragment, healed[:1], lines[2]), nil, true, false},
		"a line of garbage":                  {join(before, fragment, []byte("\ngarbage\n")), nil, true, false},
		"a long line":                        {join(before, fragment, []byte("\n"), make([]byte, 70000), []byte("\n")), nil, true, false},
		"a part of its record, as a line":    {join(before, fragment, healed[:80], []byte("\n")), nil, true, true},
		"garbage, and a part of a record":    {join(before, fragment, []byte("\ngarbage\n")), healed[1:80], true, false},
		"garbage alone":                      {join(before, []byte("garbage\n")), nil, true, true},
		"a long line alone":                  {join(before, make([]byte, 70000), []byte("\n")), nil, true, true},
		"more than any record names":         {text: join(before, bytes.Repeat([]byte("x\n"), MaxTorn))},
		"the record of a part of its record": {text: join(before, fragment, healed[:80], heal(join(fragment, healed[:80]), len(before), l))},
	} {
		v := NewVerifier(Checks{TornOf: tornOf}, Start, First(1))
		if err := v.Read(bytes.NewReader(c.text)); err != nil {
			t.Fatal(err)
		}
		if waits, hope := v.Waits(c.tail); waits != c.waits || hope != c.hope {
			t.Errorf("%s: %v %v, want %v %v", name, waits, hope, c.waits, c.hope)
		}
		v.Condemn()
		if bad := v.Bad; (bad != nil) != (c.waits || name == "more than any record names") || bad != nil && bad.At.Line != 3 {
			t.Errorf("%s: condemned to %+v", name, bad)
		}
	}
}

// What is cut off a log in the midst of a line is missing from that line on.
func TestNext(t *testing.T) {
	lines := log(3)
	for _, c := range []struct {
		text []byte
		line int64
	}{{nil, 1}, {join(lines...), 4}, {join(lines[0], lines[1], lines[2][:50]), 3}, {join(lines[0], make([]byte, 70000)), 2}} {
		v := NewVerifier(Checks{TornOf: tornOf}, Start, First(1))
		if err := v.Read(bytes.NewReader(c.text)); err != nil {
			t.Fatal(err)
		}
		if at := v.Next(); at.Line != c.line || at.Offset != int64(len(c.text)) {
			t.Errorf("%d bytes: next is %+v, want line %d", len(c.text), at, c.line)
		}
	}
}

// A line of a gigabyte would be walked in the same memory; 8 MiB shows it.
func TestHugeLine(t *testing.T) {
	lines := log(3)
	b := join(lines[0], bytes.Repeat([]byte("x"), 8<<20), []byte("\n"), lines[1], lines[2])
	v := verify(t, b)
	if v.Bad == nil || v.Bad.Reason != Frame || v.Bad.At.Line != 2 || !v.Bad.Resumes {
		t.Errorf("%+v", v.Bad)
	}
}

// The rule as a shell states it.
func TestShellAgrees(t *testing.T) {
	line := log(1)[0]
	l, _ := Parse(line)
	out, err := exec.Command("sh", "-c", `printf %s%s "$1" "$2" | sha256sum`, "sh", string(l.Payload), l.Prev.String()).Output()
	if err != nil || string(out[:64]) != l.Sha.String() {
		t.Errorf("sha256sum says %s %v, we say %s", out, err, l.Sha)
	}
}

// What parses prints back to the same bytes.
func FuzzParse(f *testing.F) {
	for _, l := range log(3) {
		f.Add(l)
	}
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, reason := Parse(raw)
		if reason != "" {
			return
		}
		again, _ := AppendLine(nil, l.Payload, l.Prev)
		if !bytes.Equal(again, raw) {
			t.Fatalf("%q prints as %q", raw, again)
		}
	})
}

func FuzzVerify(f *testing.F) {
	lines := log(3)
	f.Add(join(lines...))
	l, _ := Parse(lines[1])
	fragment := lines[2][:50]
	healed := heal(fragment, len(lines[0])+len(lines[1]), l)
	f.Add(join(lines[0], lines[1], fragment, healed))
	f.Add(join(lines[0], lines[1], fragment, healed[:100]))
	f.Add(join(lines[0], make([]byte, 70000), []byte("\n"), lines[1]))
	f.Add(join(lines[0], make([]byte, 70000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := verify(t, b) // as workers and a verifier find it, too
		if n := v.Next().Offset; n != int64(len(b)) {
			t.Fatalf("walked %d of %d bytes", n, len(b))
		}
	})
}

// A note says the same whoever signed it; what is none, or says something else,
// is an error.
func TestParseNote(t *testing.T) {
	private, public, err := NewKey(rand.Reader, "k")
	if err != nil {
		t.Fatal(err)
	}
	c := Checkpoint{Log: strings.Repeat("a", 32), Seq: 7, Sha: strings.Repeat("b", 64), Segment: 1, End: 9, Time: time.Unix(1, 0).UTC()}
	msg, err := Sign(c, private)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseNote(msg); err != nil || got != c {
		t.Errorf("%+v %v", got, err)
	}
	altered := bytes.Replace(msg, []byte("seq 7"), []byte("seq 8"), 1)
	if got, err := ParseNote(altered); err != nil || got.Seq != 8 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := OpenNote(altered, []string{public}); err == nil {
		t.Error("a signature fits a text it is not of")
	}
	for _, bad := range [][]byte{nil, []byte("x"), []byte(c.Text()), bytes.Replace(msg, []byte("seq 7"), []byte("seq 07"), 1)} {
		if got, err := ParseNote(bad); err == nil || got != (Checkpoint{}) {
			t.Errorf("%q: %+v %v", bad, got, err)
		}
	}
}
