package trail

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// Pruned is what audit.pruned says: segments before First are gone, and the last
// line of them had that number and sha. Digests is the hash of the file that
// keeps what they recorded of definitions, see Stored.
type Pruned struct {
	First   int    `json:"first"`
	Seq     uint64 `json:"seq"`
	Sha     string `json:"sha"`
	Digests string `json:"digests_sha256,omitempty"`
}

// Prune removes the segments before number first, which must be whole and end
// where a trusted checkpoint stands, and the checkpoints before that one. What
// they recorded of definitions is kept, and the record comes before the removal:
// one that was stopped can be done again. Errors: not_found, trust_missing,
// those of a chain that is not intact.
func Prune(ctx context.Context, t *Trail, first int, notes Notes) (*Pruned, error) {
	numbers, err := t.st.Segments()
	if err == nil && len(numbers) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, missingLog(t.st, err)
	}
	if first <= numbers[0] || first > numbers[len(numbers)-1] {
		return nil, fail.New(fail.NotFound, "ls "+t.st.Audit(), "there is no segment before %d to prune, or it is not closed", first)
	}
	r, err := Verify(t.st, Options{Notes: notes.Trusted, Store: true})
	if err == nil && notes.Broken != "" {
		err = fail.New(fail.Tampered, "forge-audit verify", "a checkpoint was altered: %s", notes.Broken)
	}
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
	if !slices.ContainsFunc(notes.Trusted, func(n chain.Signed) bool { return n.Seq == p.Seq && n.Sha == p.Sha }) {
		return nil, fail.New(fail.TrustMissing, "forge-audit checkpoint signs the end of each closed segment",
			"no trusted checkpoint stands at the end of %s (seq %d)", SegmentName(first-1), p.Seq)
	}
	if err := removable(t.st.Segment(numbers[0])); err != nil {
		return nil, err
	}
	kept, err := r.stored.before(p.Seq)
	if err != nil {
		return nil, err
	}
	p.Digests = wire.Sum(kept)
	if err := t.st.WriteFile(t.st.PrunedFile(first), kept, store.Synced); err != nil {
		return nil, err
	}
	if _, err := t.Append(ctx, Record{Event: PrunedEvent, Details: p}); err != nil {
		return nil, err
	}
	return p, t.remove(ctx, numbers, p)
}

// removable refuses what chattr +a keeps, before anything is recorded.
func removable(path string) error {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	if err == nil && st.Attributes&(unix.STATX_ATTR_APPEND|unix.STATX_ATTR_IMMUTABLE) != 0 {
		return fail.New(fail.IOError, "chattr -ai "+path+" as root", "%s may not be removed: it has the attribute a or i", path)
	}
	return nil
}

// remove removes what p says is gone.
func (t *Trail) remove(ctx context.Context, numbers []int, p *Pruned) error {
	unlock, err := t.st.Lock(ctx, t.st.AuditFile("lock"), lockWait)
	if err != nil {
		return refusal(err)
	}
	defer unlock()
	var paths []string
	for _, n := range numbers {
		if n < p.First {
			paths = append(paths, t.st.Segment(n), t.st.PrunedFile(n))
		}
	}
	notes, err := store.List(t.st.Checkpoints(), ".note")
	if err != nil {
		return err
	}
	for _, path := range notes {
		if seq, _, ok := noteName(path); ok && seq < p.Seq {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail.New(fail.IOError, "forge-audit prune "+strconv.Itoa(p.First)+" goes on", "%w", err)
		}
	}
	d, err := os.Open(t.st.Audit())
	if err != nil {
		return fail.New(fail.IOError, "", "%w", err)
	}
	defer d.Close()
	return t.sync(d)
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
	s, damage, err := t.openDamaged(numbers[len(numbers)-1], accept)
	if err != nil {
		return nil, refusal(err)
	}
	if !failed && *damage == (Damage{}) {
		return nil, s.f.Close()
	}
	next, err := t.rotate(s)
	if err != nil {
		s.f.Close()
		return nil, refusal(err)
	}
	defer next.f.Close()
	if err := next.extend(t, []Record{{Event: RecoveredEvent, Details: damage}}); err != nil {
		return nil, refusal(err)
	}
	if err := t.sync(next.f); err != nil {
		return nil, refusal(err)
	}
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
			"no line in the last megabyte of %s stands", SegmentName(n))
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
