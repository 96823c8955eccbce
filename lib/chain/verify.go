package chain

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
)

// Place is a line of a segment.
type Place struct {
	Line   int64  // from 1, as a text editor counts
	Offset int64  // bytes before it
	Seq    uint64 // its own number where it has one, else the one expected
}

// Finding is the first thing wrong with a log.
type Finding struct {
	Reason  Reason
	At      Place
	Missing uint64 // lines gone before At, for reason missing
	Text    string // one phrase for people
	Resumes bool   // the lines after it are a chain again, to the end
}

// Verdict is what one walk over a segment found.
type Verdict struct {
	Bad     *Finding // nil: intact
	Head    Place    // the last good line
	Sha     string   // its sha
	Entries uint64   // good lines
	Bytes   int64
	Torn    []Place // fragments that a later record names
}

// A Verifier walks the lines of a segment in order and keeps no more of them
// than one line.
type Verifier struct {
	TornOf TornOf
	// Each, when set, is called with every good line, in order.
	Each func(Line, Place)

	v      Verdict
	prev   string // sha of the last good line
	prevs  string // prev of the last good line
	seq    uint64 // number of the last good line
	line   int64  // lines seen
	offset int64
	hold   *Finding // a bad line that an audit.torn record may yet explain
	held   []byte   // the bytes since hold.At.Offset, at most MaxTorn and a line
	after  string   // since a bad line: sha of the last line that stood
	skip   bool     // since a bad line: none stood yet
	broken bool     // since a bad line: the chain broke again
}

// NewVerifier returns a verifier of a log's first segment.
func NewVerifier(torn TornOf) *Verifier { return &Verifier{TornOf: torn, prev: Zero} }

// Read walks r to its end. The error is r's own.
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
	at := Place{v.line + 1, v.offset, v.seq + 1}
	v.line++
	v.suspect(Finding{Reason: Frame, At: at, Text: "the line is longer than 65536 bytes"})
	for {
		v.eat(raw)
		var err error
		raw, err = br.ReadSlice('\n')
		switch {
		case err == nil:
			v.eat(raw)
			return nil
		case errors.Is(err, io.EOF):
			v.eat(raw)
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// eat counts bytes and keeps them while a bad line is held.
func (v *Verifier) eat(raw []byte) {
	v.offset += int64(len(raw))
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
	if v.v.Bad != nil || v.hold != nil {
		return
	}
	v.hold, v.held = &f, nil
	v.after, v.skip, v.broken = "", true, false
}

// condemn makes the held line the first bad one.
func (v *Verifier) condemn() {
	if v.hold != nil {
		v.v.Bad, v.hold, v.held = v.hold, nil, nil
	}
}

// Line takes the next line, newline included.
func (v *Verifier) Line(raw []byte) {
	at := Place{v.line + 1, v.offset, v.seq + 1}
	v.line++
	l, reason := Parse(raw)
	if l.Seq > 0 {
		at.Seq = l.Seq
	}
	if v.hold != nil && reason == "" && v.explained(l, at) {
		v.v.Torn = append(v.v.Torn, v.hold.At)
		v.hold, v.held = nil, nil
		v.good(l, at)
		v.eat(raw)
		return
	}
	if v.v.Bad == nil && v.hold == nil {
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

// Tail takes the unterminated rest of the file.
func (v *Verifier) Tail(raw []byte) {
	at := Place{v.line + 1, v.offset, v.seq + 1}
	v.line++
	if v.hold != nil && InterruptedHeal(raw, v.seq+1) {
		f := *v.hold
		f.Reason, f.Text = TornTail, "the last line was not written whole, nor the record that was to name it"
		v.hold, v.v.Bad = nil, &f
	}
	if v.v.Bad == nil && v.hold == nil {
		f := Finding{Reason: TornTail, At: at, Text: "the last line was not written whole"}
		if len(raw) > MaxTorn {
			f.Reason, f.Text = Frame, "the rest is longer than any line"
		}
		v.v.Bad = &f
	}
	v.offset += int64(len(raw))
}

// explained says whether l is the audit.torn record that names the held bytes:
// all but the newline that the healing writer put before its record.
func (v *Verifier) explained(l Line, at Place) bool {
	t, ok := v.TornOf(l.Payload)
	if !ok || t.Adopted || l.Prev != v.prev || l.Seq != v.seq+1 {
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
	switch {
	case reason == Frame:
		return bad(Frame, "not a line of the format")
	case reason == Content:
		return bad(Content, "sha does not match payload and prev")
	case l.Prev == v.prev && l.Seq == v.seq+1:
		if t, ok := v.TornOf(l.Payload); ok && !t.Adopted {
			return bad(Frame, "the fragment that this record names is not there")
		}
		return nil
	case l.Prev == v.prev:
		return bad(Link, "seq does not follow the line before")
	case l.Seq > v.seq+1:
		f := bad(Missing, "lines are missing before it")
		f.Missing = l.Seq - v.seq - 1
		return f
	case l.Seq == v.seq+1:
		return bad(Link, "prev is not the sha of the line before, which was replaced")
	case l.Prev == v.prevs:
		return bad(Fork, "continues the same line as the one before")
	default:
		return bad(Repeat, "a line of an earlier place")
	}
}

func (v *Verifier) good(l Line, at Place) {
	v.prev, v.prevs, v.seq = l.Sha, l.Prev, l.Seq
	v.v.Entries++
	v.v.Head = at
	if v.Each != nil {
		v.Each(l, at)
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

// Verdict ends the walk.
func (v *Verifier) Verdict() Verdict {
	v.condemn()
	if v.v.Bad != nil {
		v.v.Bad.Resumes = v.after != "" && !v.broken
	}
	v.v.Sha, v.v.Bytes = v.prev, v.offset
	return v.v
}
