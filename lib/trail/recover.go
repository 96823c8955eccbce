package trail

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// Damage is what audit.recovered says of bytes that an operator accepted: where
// they are and what they were. Len 0 means that none had to be.
type Damage struct {
	Segment int    `json:"segment,omitempty"`
	At      int64  `json:"at,omitempty"`
	Len     int64  `json:"len,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// names says whether these are the bytes of a tear.
func (d Damage) names(t chain.Tear) bool {
	return d == Damage{t.Segment, t.Offset, t.Len, t.SHA256}
}

// Recover lets the chain go on after a failed sync, and, when accept is set,
// after bytes at its end that no crash explains: these are named, and stay. A
// new segment begins. Where nothing hinders a writer, nothing is done and the
// result is nil. Errors: audit_unavailable where accept is wanted and not given,
// or would not do, and busy; not_found.
func Recover(ctx context.Context, t *Trail, accept bool) (*Damage, error) {
	if _, err := safeDir(t.st.Audit()); err != nil { // a lock would make it
		return nil, missingLog(t.st, err)
	}
	unlock, err := t.st.Lock(ctx, t.st.AuditFile("lock"), lockWait)
	if err != nil {
		return nil, refusal(err)
	}
	defer unlock()
	numbers, err := t.st.Segments()
	if err == nil && len(numbers) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, missingLog(t.st, err)
	}
	_, err = os.Lstat(t.st.AuditFile("FAILED"))
	failed := err == nil
	newest := t.st.Segment(numbers[len(numbers)-1])
	if fi, err := os.Lstat(newest); err == nil && fi.Mode() == unwritable { // for want of FAILED
		if err := os.Chmod(newest, 0o600); err != nil {
			return nil, fail.New(fail.IOError, "", "%w", err)
		}
		failed = true
	}
	s, damage, err := t.openDamaged(numbers[len(numbers)-1], accept)
	if err != nil {
		return nil, refusal(err)
	}
	if !failed && *damage == (Damage{}) {
		return nil, s.f.Close()
	}
	// In one write with what names the damage: it is never let be unsaid.
	next, err := t.rotate(s, Record{Event: RecoveredEvent, Details: damage})
	if err != nil {
		s.f.Close()
		return nil, refusal(err)
	}
	defer next.f.Close()
	if err := os.Remove(t.st.AuditFile("FAILED")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	return damage, nil
}

// openDamaged opens a segment whose end may not stand. What follows its last
// line that stands and continues the one before is taken for torn, if accept
// says so.
func (t *Trail) openDamaged(n int, accept bool) (*segment, *Damage, error) {
	s, err := t.open(n)
	if err == nil && !s.head.rotate {
		return s, &Damage{}, nil
	}
	if err == nil {
		s.f.Close()
		s, err = t.newest()
		return s, &Damage{}, err
	}
	if !errors.Is(err, errBroken) {
		return nil, nil, err
	}
	if !accept {
		return nil, nil, fail.New(fail.AuditUnavailable, "look at forge-audit verify; then forge-audit recover --accept", "the end of the chain does not stand: %w", err)
	}
	if s, err = t.openAny(n); err != nil {
		return nil, nil, err
	}
	from := max(0, s.size-chain.MaxTorn-2*chain.MaxLine)
	buf := make([]byte, s.size-from)
	if _, err := s.f.ReadAt(buf, from); err != nil {
		s.f.Close()
		return nil, nil, err
	}
	last, end := lastFollowing(buf, from)
	rest := buf[end:]
	if end == 0 || len(rest) == 0 || len(rest) > chain.MaxTorn {
		s.f.Close()
		return nil, nil, fail.New(fail.AuditUnavailable, "move "+t.st.Audit()+" and the ledger away and begin anew, or restore a backup",
			"no line in the last megabyte of %s stands", store.SegmentName(n))
	}
	torn := tornAt(from+int64(end), rest)
	s.head = head{seq: last.Seq, sha: last.Sha, torn: torn}
	return s, &Damage{Segment: n, At: torn.At, Len: torn.Len, SHA256: torn.SHA256}, nil
}

// lastFollowing finds the last line of text that stands and continues what is
// before it, and where it ends; 0 for none.
func lastFollowing(text []byte, from int64) (l chain.Line, end int) {
	for {
		l, start, end := lastStanding(text)
		if end == 0 {
			return l, 0
		}
		if follows, enough := linked(text[:start], from, l); follows && enough {
			return l, end
		}
		text = text[:start]
	}
}
