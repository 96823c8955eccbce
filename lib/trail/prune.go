package trail

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"forge/lib/chain"
	"forge/lib/fail"
)

// Pruned is what audit.pruned says: segments before First are gone, and the last
// line of them had that number and sha.
type Pruned struct {
	First int    `json:"first"`
	Seq   uint64 `json:"seq"`
	Sha   string `json:"sha"`
}

// Prune removes the segments before number first, which must be whole and end
// where a trusted checkpoint stands. The record comes before the removal.
// Errors: not_found, trust_missing, those of a chain that is not intact.
func Prune(ctx context.Context, t *Trail, first int, notes []chain.Signed) (*Pruned, error) {
	numbers, _, err := t.st.Segments()
	if err != nil || len(numbers) == 0 {
		return nil, missingLog(t.st, errors.Join(err, fs.ErrNotExist))
	}
	if first <= numbers[0] || first > numbers[len(numbers)-1] {
		return nil, fail.New(fail.NotFound, "ls "+t.st.Audit(), "there is no segment before %d to prune, or it is not closed", first)
	}
	r, err := Verify(t.st, Options{Notes: notes})
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return nil, err
	}
	f, size, err := openSegment(t.st, first-1)
	if err != nil {
		return nil, err
	}
	f.Close()
	l, ok := lineBefore(t.st, first-1, size)
	if !ok {
		return nil, errDamaged()
	}
	p := &Pruned{First: first, Seq: l.Seq, Sha: l.Sha.String()}
	if !slices.ContainsFunc(notes, func(n chain.Signed) bool { return n.Seq == p.Seq && n.Sha == p.Sha }) {
		return nil, fail.New(fail.TrustMissing, "forge-audit checkpoint signs the end of each closed segment",
			"no trusted checkpoint stands at the end of %s (seq %d)", SegmentName(first-1), p.Seq)
	}
	if _, err := t.Append(ctx, Record{Event: PrunedEvent, Details: p}); err != nil {
		return nil, err
	}
	for _, n := range numbers {
		if n >= first {
			break
		}
		if err := os.Remove(t.st.Segment(n)); err != nil {
			return nil, fail.New(fail.IOError, "", "%w", err)
		}
	}
	return p, nil
}

// Damage is what audit.recovered says of bytes that an operator accepted: where
// they are and what they were. Len 0 means that none had to be.
type Damage struct {
	Segment int    `json:"segment,omitempty"`
	At      int64  `json:"at,omitempty"`
	Len     int64  `json:"len,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// Recover lets the chain go on after a failed sync, and, when accept is set,
// after bytes at its end that no crash explains: these are named, and stay. A
// new segment begins. Errors: audit_unavailable where accept is wanted and not
// given, or would not do. Where nothing hinders a writer, nothing is done and
// the result is nil.
func Recover(ctx context.Context, t *Trail, accept bool) (*Damage, error) {
	unlock, err := t.st.Lock(ctx, t.st.AuditFile("lock"), lockWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	numbers, _, err := t.st.Segments()
	if err != nil || len(numbers) == 0 {
		return nil, missingLog(t.st, errors.Join(err, fs.ErrNotExist))
	}
	_, err = os.Lstat(t.st.AuditFile("FAILED"))
	failed := err == nil
	s, damage, err := t.openDamaged(numbers[len(numbers)-1], accept)
	if err != nil {
		return nil, err
	}
	if !failed && *damage == (Damage{}) {
		return nil, s.f.Close()
	}
	if s, err = t.rotate(s); err != nil {
		return nil, err
	}
	defer s.f.Close()
	if err := s.extend(t, []Record{{Event: RecoveredEvent, Details: damage}}); err != nil {
		return nil, err
	}
	if err := s.f.Sync(); err != nil {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	if err := os.Remove(t.st.AuditFile("FAILED")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	return damage, nil
}

// openDamaged opens a segment whose end may not stand. What follows its last
// good line is taken for torn, if accept says so.
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
	if !accept {
		return nil, nil, fail.New(fail.AuditUnavailable, "look at forge-audit verify; then forge-audit recover --accept", "the end of the chain does not stand: %w", err)
	}
	f, err := os.OpenFile(t.st.Segment(n), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fail.New(fail.IOError, "", "%w", err)
	}
	st, err := safe(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	size := st.Size
	from := max(0, size-chain.MaxTorn-2*chain.MaxLine)
	buf := make([]byte, size-from)
	if _, err := f.ReadAt(buf, from); err != nil {
		f.Close()
		return nil, nil, fail.New(fail.IOError, "", "%w", err)
	}
	last, _, end := lastStanding(buf)
	rest := buf[end:]
	if end == 0 || len(rest) == 0 || len(rest) > chain.MaxTorn {
		f.Close()
		return nil, nil, fail.New(fail.AuditUnavailable, "move "+t.st.Audit()+" and the ledger away and begin anew, or restore a backup",
			"no line in the last megabyte of %s stands", SegmentName(n))
	}
	torn := tornAt(from+int64(end), rest)
	d := &Damage{Segment: n, At: torn.At, Len: torn.Len, SHA256: torn.SHA256}
	h := head{seq: last.Seq, sha: last.Sha, torn: torn}
	return &segment{n: n, f: f, size: size, blocks: st.Blocks, head: h}, d, nil
}
