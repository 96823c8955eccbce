// Package chain is the format of the trail: one record a line, each bound to
// the one before it by SHA-256.
//
//	{"payload":{"seq":1,"ts":"2026-11-30T19:15:00.123456789Z","ev":"audit.genesis",…},"prev":"<64 hex>","sha":"<64 hex>"}
//
// The head is exactly 11 bytes, the trailer with its newline exactly 149: with
// n the length of the line, the payload is [11:n-149], prev [n-140:n-76] and
// sha [n-67:n-3]. sha is SHA-256 over the payload's bytes and then prev's 64
// lower-case characters, so a shell can check a line:
//
//	printf %s%s "$payload" "$prev" | sha256sum
//
// The payload begins {"seq":N, with N counted from 1 in canonical decimal. No
// byte is decoded to be hashed. The first line's prev is 64 zeros.
// forge-record(5) is the page.
package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

const (
	head    = `{"payload":`
	midPrev = `,"prev":"`
	midSha  = `","sha":"`
	tail    = "\"}\n"
	trailer = len(midPrev) + 64 + len(midSha) + 64 + len(tail) // 149
	seqHead = `{"seq":`
	minLine = len(head) + len(seqHead) + 2 + trailer

	// MaxLine is the most bytes a line may have, its newline included.
	MaxLine = 64 << 10
	// MaxPayload is the most bytes that leaves for the payload.
	MaxPayload = MaxLine - len(head) - trailer
)

// Zero is the prev of the first line.
var Zero = Hash(bytes.Repeat([]byte("0"), 64))

// AppendLine appends the line for payload, which must begin with SeqHead's text,
// to dst and returns it with the line's sha.
func AppendLine(dst, payload []byte, prev Hash) ([]byte, Hash) {
	var s summer
	sha := s.sum(payload, prev[:])
	dst = append(dst, head...)
	dst = append(dst, payload...)
	dst = append(dst, midPrev...)
	dst = append(dst, prev[:]...)
	dst = append(dst, midSha...)
	dst = append(dst, sha[:]...)
	return append(dst, tail...), sha
}

// SeqHead returns the bytes a payload of that number begins with.
func SeqHead(seq uint64) string { return seqHead + strconv.FormatUint(seq, 10) + "," }

// A Hash is a sha as it stands in a line: 64 lower-case hex characters.
type Hash [64]byte

func (h Hash) String() string { return string(h[:]) }

// A Line is one line taken apart; Payload shares the line's memory.
type Line struct {
	Seq       uint64
	Payload   []byte
	Prev, Sha Hash
}

// A Reason says what is wrong with a line or a log. The words are those of
// forge-record(5), VERDICTS.
type Reason string

// The reasons.
const (
	Frame    Reason = "frame"     // not a line of the format
	Content  Reason = "content"   // sha does not match payload and prev
	Link     Reason = "link"      // an earlier line was replaced consistently
	Missing  Reason = "missing"   // lines are gone before this one
	Fork     Reason = "fork"      // two writers continued one line
	Repeat   Reason = "repeat"    // an earlier line stands here again
	Dupkey   Reason = "dupkey"    // strict: a name stands twice in an object
	UTF8     Reason = "utf8"      // strict: not UTF-8
	JSON     Reason = "json"      // strict: not JSON
	TornTail Reason = "torn_tail" // the last line was not written whole

	Identity           Reason = "identity"            // another log than audit/id names
	Truncated          Reason = "truncated"           // the end is gone
	Rewritten          Reason = "rewritten"           // a checkpoint has another sha
	EmptySegment       Reason = "empty_segment"       // a segment without a line
	MissingHead        Reason = "missing_head"        // the first segment is gone
	RotationIncomplete Reason = "rotation_incomplete" // a writer stopped between two segments
	CheckpointSig      Reason = "checkpoint_sig"      // a trusted key's signature does not fit
)

// Parse takes a line, its newline included, apart and checks frame and content;
// "" means both hold.
func Parse(raw []byte) (Line, Reason) {
	var s summer
	return s.parse(raw)
}

// A summer hashes lines one after another in memory of its own.
type summer struct{ buf []byte }

func (s *summer) parse(raw []byte) (Line, Reason) {
	n := len(raw)
	if n > MaxLine || n < minLine || raw[n-1] != '\n' {
		return Line{}, Frame
	}
	t := raw[n-trailer:]
	if string(raw[:len(head)]) != head || string(t[:9]) != midPrev || string(t[73:82]) != midSha || string(t[146:]) != tail ||
		!isHex(t[9:73]) || !isHex(t[82:146]) {
		return Line{}, Frame
	}
	l := Line{Payload: raw[len(head) : n-trailer], Prev: Hash(t[9:73]), Sha: Hash(t[82:146])}
	seq, ok := parseSeq(l.Payload)
	if !ok || bytes.IndexByte(raw[:n-1], '\n') >= 0 {
		return Line{}, Frame
	}
	l.Seq = seq
	if s.sum(l.Payload, t[9:73]) != l.Sha {
		return l, Content
	}
	return l, ""
}

// sum is Sum without an allocation.
func (s *summer) sum(payload, prev []byte) (h Hash) {
	s.buf = append(append(s.buf[:0], payload...), prev...)
	sum := sha256.Sum256(s.buf)
	hex.Encode(h[:], sum[:])
	return h
}

// parseSeq reads {"seq":N, at the start of a payload and the } at its end.
func parseSeq(p []byte) (seq uint64, ok bool) {
	if len(p) < len(seqHead)+3 || string(p[:len(seqHead)]) != seqHead || p[len(p)-1] != '}' {
		return 0, false
	}
	digits := p[len(seqHead):]
	if digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	for i, c := range digits[:min(len(digits), 20)] {
		switch {
		case c == ',':
			return seq, true
		case c < '0' || c > '9' || i == 19: // 19 digits fit
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return 0, false
}

// notHex has a bit for each byte that is no lower-case hex digit.
var notHex = func() (t [256]byte) {
	for c := range t {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			t[c] = 1
		}
	}
	return t
}()

func isHex(b []byte) bool {
	bad := byte(0)
	for _, c := range b {
		bad |= notHex[c]
	}
	return bad == 0
}

// Torn is what an audit.torn record says of a fragment it follows: Len bytes at
// offset At of the segment, with that SHA-256. Adopted means the fragment was a
// whole line that only lacked its newline, and counts.
type Torn struct {
	At      int64  `json:"at"`
	Len     int64  `json:"len"`
	SHA256  string `json:"sha256"`
	Adopted bool   `json:"adopted,omitempty"`
}

// TornOf returns what a payload says, if it is an audit.torn record.
type TornOf func(payload []byte) (Torn, bool)

// MaxTorn is the most bytes a fragment may have.
const MaxTorn = 1 << 20

// maxHeal is how much of a text InterruptedHeal looks at.
const maxHeal = 256

// InterruptedHeal says whether text, the unterminated rest after a fragment's
// newline, can be the beginning of the audit.torn record numbered seq: a writer
// that healed a torn tail was itself stopped.
func InterruptedHeal(text []byte, seq uint64) bool {
	begin := head + SeqHead(seq) + `"ts":"`
	if len(text) <= len(begin) {
		return begin[:len(text)] == string(text)
	}
	if string(text[:len(begin)]) != begin {
		return false
	}
	rest := text[len(begin):]
	i := bytes.IndexByte(rest, '"')
	if i < 0 {
		return len(rest) < 40
	}
	ev := `","ev":"audit.torn"`
	rest = rest[i:]
	n := min(len(rest), len(ev))
	return string(rest[:n]) == ev[:n]
}

// Claims returns the state after a line as the line itself says it, without a
// check of its content.
func Claims(raw []byte) (State, bool) {
	n := len(raw)
	if n < minLine {
		return State{}, false
	}
	seq, ok := parseSeq(raw[len(head) : n-trailer])
	return State{Seq: seq, Sha: Hash(raw[n-67 : n-3]), Prev: Hash(raw[n-140 : n-76])}, ok
}
