package chain

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
)

// State is where a chain stands: its last good line.
type State struct {
	Seq  uint64
	Sha  Hash
	Prev Hash // of that line; a second line with it is a fork
}

// Start is the state before the first line.
var Start = State{Sha: Zero}

// Place is a line of a segment.
type Place struct {
	Segment int    // from 1
	Line    int64  // from 1, as a text editor counts
	Offset  int64  // bytes of the segment before it
	Seq     uint64 // its own number where it has one, else the one expected
}

// Finding is the first thing wrong with a log.
type Finding struct {
	Reason  Reason
	At      Place
	Missing uint64 // lines gone before At, for reasons missing and truncated
	Text    string // one phrase for people
	Resumes bool   // the lines after it are a chain again, to the end
	// Expected is what should stand there and Got what does: the sha for content
	// and rewritten; prev, or seq where prev fits, for link, missing, fork and
	// repeat; the id of the log for identity. Both are empty for other reasons.
	Expected, Got string
}

// Checks are what is looked at beside the chain itself.
type Checks struct {
	TornOf TornOf
	// Strict, when set, holds each payload to strict JSON: Dupkey, UTF8 or "".
	Strict func(payload []byte) Reason
	// Each, when set, is called with every good line, in order. The line is
	// good until it returns.
	Each func(*Line, Place)
}

// Scan walks the whole lines of text from st on and stops before the first that
// wants a closer look: one that does not stand, or a record of a torn line. It
// returns the state there, and the place of the line it stopped before. It is
// what many workers do at once; a Verifier tells what is wrong.
func (c *Checks) Scan(text []byte, st State, at Place) (State, Place) {
	var s summer
	var l Line
	for {
		n := bytes.IndexByte(text, '\n') + 1
		// The line before has a sha in hex; to follow it is to have a prev in
		// hex, and to have the right sha is to have one in hex.
		if n < minLine || n > MaxLine || string(text[:len(head)]) != head {
			return st, at
		}
		payload, t := text[len(head):n-trailer], text[n-trailer:n]
		seq, ok := parseSeq(payload)
		if !ok || seq != st.Seq+1 || string(t[:9]) != midPrev || string(t[9:73]) != string(st.Sha[:]) ||
			string(t[73:82]) != midSha || string(t[146:]) != tail {
			return st, at
		}
		sha := s.sum(payload, t[9:73])
		if string(t[82:146]) != string(sha[:]) {
			return st, at
		}
		if t, ok := c.TornOf(payload); ok && !t.Adopted {
			return st, at
		}
		if c.Strict != nil && c.Strict(payload) != "" {
			return st, at
		}
		at.Seq = seq
		if c.Each != nil {
			l.Seq, l.Payload, l.Prev, l.Sha = seq, payload, st.Sha, sha
			c.Each(&l, at)
		}
		st.Seq, st.Prev, st.Sha = seq, st.Sha, sha
		at.Line++
		at.Offset += int64(n)
		text = text[n:]
	}
}

// A Verifier walks lines in order, segment after segment, and keeps no more of
// them than one line, whatever they hold.
type Verifier struct {
	Checks
	State         // the last good line
	Torn  []Place // fragments that a later record names: the first of them
	Tears int     // how many there were
	Whole []Tear  // those that hold whole lines, which no writer that was stopped leaves
	Bad   *Finding

	sum    summer
	head   Place    // of the last good line
	next   Place    // of the next line
	hold   *Finding // a bad line that a later record may name
	held   fragment // the bytes since hold.At.Offset
	record *Finding // the line that was to name it, where that was changed
	whole  bool     // since a bad line: some line after it hinders a writer to name it
	after  Hash     // since a bad line: sha of the last line that stood
	aside  Hash     // after a bad line that was put in: sha of the one before it
	skip   bool     // since a bad line: none stood yet
	broken bool     // since a bad line: the chain broke again
}

// A Tear is a fragment and what the record says that names it.
type Tear struct {
	Place
	Torn
}

// maxTears is how many fragments a Verifier lists.
const maxTears = 1000

// fragment is the length and hash of bytes that a record may name: all but the
// last, the newline that the healing writer put before its record.
type fragment struct {
	n    int64
	last [1]byte
	sum  hash.Hash
}

func (f *fragment) add(raw []byte) {
	if len(raw) == 0 {
		return
	}
	if f.sum == nil {
		f.sum = sha256.New()
	}
	f.sum.Write(f.last[:min(1, f.n)])
	f.sum.Write(raw[:len(raw)-1])
	f.n, f.last[0] = f.n+int64(len(raw)), raw[len(raw)-1]
}

// fits says whether t has the length and the hash of the bytes.
func (f *fragment) fits(t Torn) (n, sum bool) {
	return t.Len == f.n-1 && t.Len <= MaxTorn, hex.EncodeToString(f.sum.Sum(nil)) == t.SHA256
}

// NewVerifier returns a verifier that goes on from a state, with the line at
// that place of its segment.
func NewVerifier(c Checks, st State, at Place) *Verifier {
	return &Verifier{Checks: c, State: st, next: at}
}

// First is the place of a segment's first line.
func First(segment int) Place { return Place{Segment: segment, Line: 1} }

// Head is the place of the last good line.
func (v *Verifier) Head() Place { return v.head }

// Next is the place of the line that comes next.
func (v *Verifier) Next() Place { return v.next }

// Read walks r to its end, which is that of the segment. The error is r's own.
func (v *Verifier) Read(r io.Reader) error {
	br := bufio.NewReaderSize(r, MaxLine+1)
	for {
		raw, err := br.ReadSlice('\n')
		switch {
		case err == nil:
			v.Line(raw)
		case errors.Is(err, bufio.ErrBufferFull):
			if err := v.long(br, raw); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			if len(raw) > 0 {
				at := v.place()
				v.eat(raw)
				v.rest(raw, at)
			}
			return nil
		default:
			return err
		}
	}
}

// long walks a line over MaxLine without holding it.
func (v *Verifier) long(br *bufio.Reader, raw []byte) error {
	at, begin, follows := v.place(), bytes.Clone(raw[:maxHeal]), v.hold != nil
	v.suspect(Finding{Reason: Frame, At: at, Text: "the line is longer than 65536 bytes"})
	for {
		v.eat(raw)
		var err error
		raw, err = br.ReadSlice('\n')
		switch {
		case err == nil:
			v.next.Line++
			v.resume(Line{}, Frame)
			v.whole = v.whole || follows && !InterruptedHeal(begin, v.Seq+1)
			v.eat(raw)
			return nil
		case errors.Is(err, io.EOF):
			v.eat(raw)
			if !follows {
				v.hold = nil
			}
			v.rest(begin, at)
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// place is that of the next line, with the number it should have.
func (v *Verifier) place() Place {
	at := v.next
	at.Seq = v.Seq + 1
	return at
}

// eat counts bytes, and those since a bad line: more than a record may name
// condemn it.
func (v *Verifier) eat(raw []byte) {
	v.next.Offset += int64(len(raw))
	if v.hold == nil {
		return
	}
	if v.held.add(raw); v.held.n > MaxTorn+MaxLine {
		v.Condemn()
	}
}

// suspect notes a bad line. It counts unless a record that follows names it.
func (v *Verifier) suspect(f Finding) {
	if v.Bad != nil || v.hold != nil {
		return
	}
	v.hold, v.held, v.record, v.whole = &f, fragment{}, nil, false
	v.after, v.aside, v.skip, v.broken = Hash{}, Hash{}, true, false
	if f.Reason == Fork || f.Reason == Repeat {
		v.aside = v.Sha
	}
}

// Condemn gives up waiting for the record that names a bad line: that is the
// first one.
func (v *Verifier) Condemn() {
	switch {
	case v.hold == nil:
		return
	case v.record != nil:
		v.Bad = v.record
	default:
		v.Bad = v.hold
	}
	v.hold = nil
}

// Waits says whether there is a bad line that a record may still name, and
// whether a writer that finds the lines so far, and then text, at the end of the
// segment would write that record.
func (v *Verifier) Waits(text []byte) (waits, hope bool) {
	if v.hold == nil {
		return false, false
	}
	return true, v.healable() && (len(text) == 0 || InterruptedHeal(text, v.Seq+1))
}

// healable says whether the bytes since a bad line can be a line that was not
// written whole, and what is left of records that were to name it.
func (v *Verifier) healable() bool {
	return !v.whole && (v.hold.Reason == Frame || v.hold.Reason == Content)
}

// Line takes the next line, newline included.
func (v *Verifier) Line(raw []byte) {
	at := v.place()
	v.next.Line++
	l, reason := v.sum.parse(raw)
	if l.Seq > 0 {
		at.Seq = l.Seq
	}
	if t, ok := v.explained(l, reason, at); ok {
		if v.Tears++; len(v.Torn) < maxTears {
			v.Torn = append(v.Torn, v.hold.At)
		}
		if v.whole {
			v.Whole = append(v.Whole, Tear{v.hold.At, t})
		}
		v.hold = nil
		v.good(l, at)
		v.eat(raw)
		return
	}
	if v.Bad == nil && v.hold == nil {
		f := v.judge(l, reason, at)
		if f == nil {
			v.good(l, at)
			v.eat(raw)
			return
		}
		v.suspect(*f)
	} else {
		v.whole = v.whole || !InterruptedHeal(raw[:len(raw)-1], v.Seq+1)
	}
	v.resume(l, reason)
	v.eat(raw)
}

// rest ends a segment with an unterminated line at a place, of which begin is the
// beginning. It is not counted: the next line is still that one.
func (v *Verifier) rest(begin []byte, at Place) {
	if v.hold != nil && !(v.healable() && InterruptedHeal(begin, v.Seq+1)) {
		v.Condemn()
	}
	if v.hold != nil {
		f := *v.hold
		f.Reason, f.Text = TornTail, "the last line was not written whole, nor the record that was to name it"
		v.hold, v.Bad = nil, &f
	}
	if v.Bad == nil && v.hold == nil {
		f := Finding{Reason: TornTail, At: at, Text: "the last line was not written whole"}
		if v.next.Offset-at.Offset > MaxTorn {
			f.Reason, f.Text = Frame, "the rest is longer than a line that was not written whole"
		}
		v.Bad = &f
	}
}

// NextSegment ends a segment that others follow: what its last bytes lack, no
// crash explains. The next line is the first of segment n.
func (v *Verifier) NextSegment(n int) {
	v.Condemn()
	if v.Bad != nil && v.Bad.Reason == TornTail && v.Bad.At.Segment == v.next.Segment {
		v.Bad.Reason, v.after, v.skip, v.broken = Frame, Hash{}, true, false
	}
	v.next = First(n)
}

// explained says whether a line is the audit.torn record that names the held
// bytes. One that does, and was itself changed, is noted as the bad one.
func (v *Verifier) explained(l Line, reason Reason, at Place) (t Torn, is bool) {
	if v.hold == nil || reason == Frame || len(v.Whole) >= maxTears {
		return t, false
	}
	t, ok := v.TornOf(l.Payload)
	if !ok || t.Adopted {
		return t, false
	}
	n, sum := v.held.fits(t)
	place := t.At == v.hold.At.Offset && at.Offset == t.At+t.Len+1 && n
	if reason == Content && (place || sum) {
		v.record = v.changed(l, at)
	}
	return t, reason == "" && place && sum && l.Prev == v.Sha && l.Seq == v.Seq+1
}

// changed is the finding that sha of a line does not fit.
func (v *Verifier) changed(l Line, at Place) *Finding {
	return &Finding{
		Reason: Content, At: at, Text: "sha does not match payload and prev",
		Expected: v.sum.sum(l.Payload, l.Prev[:]).String(), Got: l.Sha.String(),
	}
}

// judge returns what is wrong with a line, nil for nothing. Content comes
// before link and seq, or an edited digit of seq would read as missing lines.
func (v *Verifier) judge(l Line, reason Reason, at Place) *Finding {
	bad := func(r Reason, text string) *Finding { return &Finding{Reason: r, At: at, Text: text} }
	unlinked := func(r Reason, text string) *Finding {
		f := bad(r, text)
		f.Expected, f.Got = v.Sha.String(), l.Prev.String()
		return f
	}
	switch {
	case reason == Frame:
		return bad(Frame, "not a line of the format")
	case reason == Content:
		return v.changed(l, at)
	case l.Prev == v.Sha && l.Seq == v.Seq+1:
		if t, ok := v.TornOf(l.Payload); ok && !t.Adopted {
			return bad(Frame, "the fragment that this record names is not there")
		}
		if v.Strict != nil {
			if r := v.Strict(l.Payload); r != "" {
				return bad(r, "the payload is not strict JSON")
			}
		}
		return nil
	case l.Prev == v.Sha:
		f := bad(Link, "seq does not follow the line before")
		f.Expected, f.Got = strconv.FormatUint(v.Seq+1, 10), strconv.FormatUint(l.Seq, 10)
		return f
	case l.Seq > v.Seq+1:
		f := unlinked(Missing, "lines are missing before it")
		f.Missing = l.Seq - v.Seq - 1
		return f
	case l.Seq == v.Seq+1:
		return unlinked(Link, "prev is not the sha of the line before, which was replaced")
	case l.Prev == v.Prev:
		return unlinked(Fork, "continues the same line as the one before")
	default:
		return unlinked(Repeat, "a line of an earlier place")
	}
}

func (v *Verifier) good(l Line, at Place) {
	v.State = State{l.Seq, l.Sha, l.Prev}
	v.head = at
	if v.Each != nil {
		v.Each(&l, at)
	}
}

// resume watches the chain from the first bad line on.
func (v *Verifier) resume(l Line, reason Reason) {
	switch {
	case reason != "":
		v.broken = v.broken || !v.skip
	case v.skip:
		v.after, v.skip = l.Sha, false
		return
	case l.Prev == v.after || v.aside != Hash{} && l.Prev == v.aside: // the bad line was put in
		v.after = l.Sha
	default:
		v.broken, v.after = true, l.Sha
	}
	v.aside = Hash{}
}

// End ends the walk and returns the first bad line, nil for none.
func (v *Verifier) End() *Finding {
	v.Condemn()
	if v.Bad != nil {
		v.Bad.Resumes = v.after != Hash{} && !v.broken
	}
	return v.Bad
}
