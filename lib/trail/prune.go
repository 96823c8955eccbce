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
// keeps what they recorded of definitions.
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
	f, size, err := openSegment(t.st, first-1)
	if err != nil {
		return nil, err
	}
	f.Close()
	l, ok := lineBefore(t.st, first-1, size)
	if !ok {
		return nil, errDamaged()
	}
	r, err := Verify(t.st, Options{Notes: notes.Trusted, Store: true, until: l.Seq})
	if err == nil && notes.Broken != "" {
		err = fail.New(fail.Tampered, "forge-audit verify", "a checkpoint was altered: %s", notes.Broken)
	}
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return nil, err
	}
	p := &Pruned{First: first, Seq: l.Seq, Sha: l.Sha.String()}
	if !slices.ContainsFunc(notes.Trusted, func(n chain.Signed) bool { return n.Seq == p.Seq && n.Sha == p.Sha }) {
		return nil, fail.New(fail.TrustMissing, "forge-audit checkpoint signs the end of each closed segment",
			"no trusted checkpoint stands at the end of %s (seq %d)", store.SegmentName(first-1), p.Seq)
	}
	if err := removable(t.st.Segment(numbers[0])); err != nil {
		return nil, err
	}
	// The same text each time: a prune that is done again fits the record of the
	// first, too.
	text, err := wire.Encode(kept{r.stored.past})
	if err != nil {
		return nil, err
	}
	p.Digests = wire.Sum(text)
	if err := t.st.WriteFile(t.st.PrunedFile(first), text, store.Synced); err != nil {
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
			paths = append(paths, t.st.Segment(n))
		}
	}
	kept, err := t.st.PrunedFiles()
	if err != nil {
		return err
	}
	for _, n := range kept { // after the segments: until these are gone it counts
		if n < p.First {
			paths = append(paths, t.st.PrunedFile(n))
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
