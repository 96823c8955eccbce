package chain

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
// them than one line, or one fragment.
type Verifier struct {
	Checks
	State         // the last good line
	Torn  []Place // fragments that a later record names
	Bad   *Finding

	sum    summer
	head   Place // of the last good line
	next   Place // of the next line
	hold   *Finding
	held   []byte // the bytes since hold.At.Offset, at most MaxTorn and a line
	after  Hash   // since a bad line: sha of the last line that stood
	skip   bool   // since a bad line: none stood yet
	broken bool   // since a bad line: the chain broke again
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
				v.Tail(raw)
			}
			return nil
		default:
			return err
		}
	}
}

// long walks a line over MaxLine without holding it.
func (v *Verifier) long(br *bufio.Reader, raw []byte) error {
	v.suspect(Finding{Reason: Frame, At: v.place(), Text: "the line is longer than 65536 bytes"})
	v.next.Line++
	for {
		v.eat(raw)
		var err error
		raw, err = br.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF):
			v.eat(raw)
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

// eat counts bytes and keeps them while a bad line is held.
func (v *Verifier) eat(raw []byte) {
	v.next.Offset += int64(len(raw))
	if v.hold == nil {
		return
	}
	if len(v.held)+len(raw) > MaxTorn+MaxLine {
		v.condemn()
		return
	}
	v.held = append(v.held, raw...)
}

// suspect notes a bad line. It counts unless a record that follows names it.
func (v *Verifier) suspect(f Finding) {
	if v.Bad != nil || v.hold != nil {
		return
	}
	v.hold, v.held = &f, nil
	v.after, v.skip, v.broken = Hash{}, true, false
}

// condemn makes the held line the first bad one.
func (v *Verifier) condemn() {
	if v.hold != nil {
		v.Bad, v.hold, v.held = v.hold, nil, nil
	}
}

// Line takes the next line, newline included.
func (v *Verifier) Line(raw []byte) {
	at := v.place()
	v.next.Line++
	l, reason := v.sum.parse(raw)
	if l.Seq > 0 {
		at.Seq = l.Seq
	}
	if v.hold != nil && reason == "" && v.explained(l, at) {
		v.Torn = append(v.Torn, v.hold.At)
		v.hold, v.held = nil, nil
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
	}
	v.resume(l, reason)
	v.eat(raw)
}

// Tail takes the unterminated rest of a segment.
func (v *Verifier) Tail(raw []byte) {
	at := v.place()
	v.next.Line++
	if v.hold != nil && InterruptedHeal(raw, v.Seq+1) {
		f := *v.hold
		f.Reason, f.Text = TornTail, "the last line was not written whole, nor the record that was to name it"
		v.hold, v.Bad = nil, &f
	}
	if v.Bad == nil && v.hold == nil {
		f := Finding{Reason: TornTail, At: at, Text: "the last line was not written whole"}
		if len(raw) > MaxTorn {
			f.Reason, f.Text = Frame, "the rest is longer than any line"
		}
		v.Bad = &f
	}
	v.next.Offset += int64(len(raw))
}

// NextSegment ends a segment that others follow: what its last bytes lack, no
// crash explains. The next line is the first of segment n.
func (v *Verifier) NextSegment(n int) {
	v.condemn()
	if v.Bad != nil && v.Bad.Reason == TornTail && v.Bad.At.Segment == v.next.Segment {
		v.Bad.Reason, v.after, v.skip, v.broken = Frame, Hash{}, true, false
	}
	v.next = First(n)
}

// explained says whether l is the audit.torn record that names the held bytes:
// all but the newline that the healing writer put before its record.
func (v *Verifier) explained(l Line, at Place) bool {
	t, ok := v.TornOf(l.Payload)
	if !ok || t.Adopted || l.Prev != v.Sha || l.Seq != v.Seq+1 {
		return false
	}
	fragment := v.held[:len(v.held)-1]
	if t.At != v.hold.At.Offset || t.Len != int64(len(fragment)) || t.Len > MaxTorn || at.Offset != t.At+t.Len+1 {
		return false
	}
	sum := sha256.Sum256(fragment)
	return hex.EncodeToString(sum[:]) == t.SHA256
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
		f := bad(Content, "sha does not match payload and prev")
		f.Expected, f.Got = v.sum.sum(l.Payload, l.Prev[:]).String(), l.Sha.String()
		return f
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
	case v.skip || l.Prev == v.after:
		v.after, v.skip = l.Sha, false
	default:
		v.broken, v.after = true, l.Sha
	}
}

// End ends the walk and returns the first bad line, nil for none.
func (v *Verifier) End() *Finding {
	v.condemn()
	if v.Bad != nil {
		v.Bad.Resumes = v.after != Hash{} && !v.broken
	}
	return v.Bad
}
