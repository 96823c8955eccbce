package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// Walk calls visit with every whole record in order, verified as it goes, from
// the start of the chain to its present end, across its segments, and, when
// follow is set, with those that come until ctx ends. Errors: tampered at the
// first line that does not follow and that no writer will name, and where what
// follows is gone; not_found where there is no chain; io_error.
func Walk(ctx context.Context, st *store.Store, follow bool, visit func(payload []byte, at chain.Place) error) error {
	numbers, err := st.Segments()
	if err == nil && len(numbers) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return missingLog(st, err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &reader{ctx: ctx, st: st, follow: follow, n: numbers[0]}
	begin := chain.Start
	if r.n != 1 { // pruned: verify says whether rightly
		first, err := firstLine(st, r.n)
		if err != nil {
			return err
		}
		if first.Seq > 0 {
			begin = chain.State{Seq: first.Seq - 1, Sha: first.Prev}
		}
	}
	each := func(l *chain.Line, at chain.Place) {
		r.rotated = hasEvent(l.Payload, RotateEvent)
		if hasEvent(l.Payload, RecoveredEvent) {
			r.accept(l.Payload)
		}
		if ctx.Err() == nil {
			if err := visit(bytes.Clone(l.Payload), at); err != nil {
				stop(err)
			}
		}
	}
	r.v = chain.NewVerifier(chain.Checks{TornOf: TornOf, Each: each}, begin, chain.First(r.n))
	for {
		if err := r.segment(); err != nil {
			return err
		}
		if ctx.Err() != nil || r.next == 0 {
			break
		}
		r.v.NextSegment(r.next)
		if r.v.Bad != nil {
			break
		}
		if r.next != r.n+1 {
			return r.gap()
		}
		r.n = r.next
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if bad := r.v.End(); bad != nil && bad.Reason != chain.TornTail {
		return tampered(fmt.Sprintf("%s:%d", store.SegmentName(bad.At.Segment), bad.At.Line), bad.Reason, bad.Text)
	}
	return r.lost
}

func tampered(where string, reason chain.Reason, text string) error {
	return fail.New(fail.Tampered, "forge-audit verify", "%s: %s: %s", where, reason, text)
}

// reader gives the segments of a chain to a verifier, line by line, as they are
// written.
type reader struct {
	ctx     context.Context
	st      *store.Store
	follow  bool
	v       *chain.Verifier
	rotated bool // the last line is an audit.rotate

	accepted []chain.Tear // of v.Whole, those that an operator accepted

	n      int // the segment
	f      *os.File
	at, to int64 // what was given, and what may be: up to a newline
	last   bool  // up to the end: nothing is waited for any more
	doubts int   // how often the end was looked at, and something was wrong
	listed []int // the segments there were then
	next   int   // the one that follows, 0 for none
	lost   error // what is wrong with the files, nil for nothing
}

const (
	followEvery = 200 * time.Millisecond
	// patience is how often something wrong is looked at before it is told:
	// another may be about to write, rename or prune.
	patience = 5
)

// segment reads one segment from its start.
func (r *reader) segment() error {
	f, _, err := openSegment(r.st, r.n)
	if errors.Is(err, fs.ErrNotExist) {
		return r.removed()
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r.f, r.at, r.to, r.last, r.doubts, r.rotated, r.next, r.lost = f, 0, 0, false, 0, false, 0, nil
	if err := r.v.Read(r); err != nil {
		return fail.New(fail.IOError, "", "read the trail: %w", err)
	}
	return nil
}

// accept notes what an audit.recovered says.
func (r *reader) accept(payload []byte) {
	d, _ := detailsOf[Damage](payload)
	for _, p := range r.v.Whole {
		if d.names(p) && !slices.Contains(r.accepted, p) {
			r.accepted = append(r.accepted, p)
		}
	}
}

// removed is the error for a segment that was there a moment ago.
func (r *reader) removed() error {
	return fail.New(fail.IOError, "try again; forge-audit verify says whether it was pruned", "%s was removed while the trail was read", store.SegmentName(r.n))
}

// gap is the error where the next segment is not the one that follows.
func (r *reader) gap() error {
	if !slices.Contains(r.listed, r.n) {
		return r.removed() // with those behind it, as prune does
	}
	return tampered(store.SegmentName(r.n+1), chain.Missing, "the segment is not there, and "+store.SegmentName(r.next)+" is")
}

// Read gives whole lines as long as more may come, and then the rest; nothing
// more after a bad line.
func (r *reader) Read(p []byte) (int, error) {
	for r.at == r.to || r.v.Bad != nil {
		if r.last || r.ctx.Err() != nil || r.v.Bad != nil {
			return 0, io.EOF
		}
		grown, err := r.extend()
		if err == nil && !grown {
			err = r.settle()
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := r.f.ReadAt(p[:min(int64(len(p)), r.to-r.at)], r.at)
	r.at += int64(n)
	if errors.Is(err, io.EOF) { // cut meanwhile: a torn end may be taken back, a line not
		r.to = r.at
		if r.last {
			return n, nil
		}
		r.cut()
		return n, nil
	}
	return n, err
}

// extend moves the end to the last newline of the file as it is now, and says
// whether it moved. It looks at no more than a fragment may have: after more than
// that without a newline no writer goes on, and the verifier says so.
func (r *reader) extend() (grown bool, err error) {
	fi, err := r.f.Stat()
	if err != nil {
		return false, err
	}
	size := fi.Size()
	if size < r.to {
		r.cut()
		return true, nil
	}
	for end := size; end > max(r.to, size-chain.MaxTorn-1); {
		text := make([]byte, min(end-r.to, chain.MaxLine))
		end -= int64(len(text))
		if _, err := r.f.ReadAt(text, end); errors.Is(err, io.EOF) {
			return false, nil // shorter again: look at it anew
		} else if err != nil {
			return false, err
		}
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			r.to = end + int64(i) + 1
			return true, nil
		}
	}
	if size-r.to > chain.MaxTorn {
		r.to, r.last = size, true
		return true, nil
	}
	return false, nil
}

// cut ends the reading of a segment that has become shorter.
func (r *reader) cut() {
	r.to, r.last, r.next = r.at, true, 0
	r.lost = tampered(store.SegmentName(r.n), chain.Truncated, "its end was cut off while it was read")
}

// settle decides at the end of what there is: whether the segment has ended, or
// something is wrong, or more is waited for.
func (r *reader) settle() error {
	listed, err := r.st.Segments()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.listed, r.next = listed, 0
	if i, found := slices.BinarySearch(listed, r.n); found && i+1 < len(listed) {
		r.next = listed[i+1]
	} else if !found && i < len(listed) {
		r.next = listed[i]
	}
	// What was written before the next one appeared is read first.
	if grown, err := r.extend(); grown || err != nil {
		return err
	}
	text := make([]byte, 256)
	n, err := r.f.ReadAt(text, r.to)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	wrong := r.wrong()
	waits, hope := r.v.Waits(text[:n])
	switch {
	case waits && !hope && r.next == 0:
		r.last = true
		return nil
	case r.next != 0:
		return r.finish()
	case wrong != nil || waits && n == 0:
		if r.doubts++; r.doubts > patience {
			r.last, r.lost = true, wrong
			return nil
		}
	case !r.follow:
		return r.finish()
	default:
		r.doubts = 0
	}
	select {
	case <-r.ctx.Done():
	case <-time.After(followEvery):
	}
	return nil
}

// finish lets what is left of the segment be read: with it, a line that was not
// written whole.
func (r *reader) finish() error {
	fi, err := r.f.Stat()
	if err == nil {
		r.to, r.last = max(r.to, fi.Size()), true
	}
	return err
}

// wrong is the error for lines that are called torn and were none, and for a
// newest segment that is not where it was, or that was to be followed by another.
func (r *reader) wrong() error {
	for _, p := range r.v.Whole {
		if !slices.Contains(r.accepted, p) {
			return tampered(fmt.Sprintf("%s:%d", store.SegmentName(p.Segment), p.Line), chain.Frame,
				"lines that a record names as torn, and no operator accepted (audit.recovered)")
		}
	}
	name := store.SegmentName(r.n)
	own, err := r.f.Stat()
	if err != nil {
		return fail.New(fail.IOError, "", "%s: %w", name, err)
	}
	there, err := os.Lstat(r.st.Segment(r.n))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tampered(name, chain.Truncated, "it was removed while it was read")
	case err != nil:
		return fail.New(fail.IOError, "", "%w", err)
	case !os.SameFile(own, there):
		return tampered(name, chain.Identity, "another file has taken its place while it was read")
	}
	if !r.rotated {
		return nil
	}
	_, err = os.Lstat(r.st.NextSegment(r.n + 1))
	if errors.Is(err, fs.ErrNotExist) {
		return tampered(store.SegmentName(r.n+1), chain.Truncated, "the segment that audit.rotate names is gone")
	}
	return nil
}
