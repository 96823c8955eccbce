package trail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// Walk calls visit with every whole record in order, verified as it goes, from
// the start of the chain to its present end, across its segments, and, when
// follow is set, with those that come until ctx ends. It returns an error of
// kind tampered at the first line that does not follow.
func Walk(ctx context.Context, st *store.Store, follow bool, visit func(payload []byte, at chain.Place) error) error {
	numbers, err := st.Segments()
	if err != nil || len(numbers) == 0 {
		return missingLog(st, errors.Join(err, os.ErrNotExist))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rotated := false
	each := func(l *chain.Line, at chain.Place) {
		rotated = hasEvent(l.Payload, RotateEvent)
		if ctx.Err() == nil {
			if err := visit(bytes.Clone(l.Payload), at); err != nil {
				stop(err)
			}
		}
	}
	begin := chain.Start
	if numbers[0] != 1 { // pruned: verify says whether rightly
		first, err := firstLine(st, numbers[0])
		if err != nil {
			return err
		}
		begin = chain.State{Seq: first.Seq - 1, Sha: first.Prev}
	}
	v := chain.NewVerifier(chain.Checks{TornOf: TornOf, Each: each}, begin, chain.First(numbers[0]))
	for n := numbers[0]; ; n++ {
		rotated = false
		err := readSegment(ctx, st, n, v, func() bool { return follow && !rotated })
		if err != nil {
			return err
		}
		if ctx.Err() != nil || v.Bad != nil {
			break
		}
		if _, err := os.Lstat(st.Segment(n + 1)); err != nil {
			if !rotated || !follow {
				break
			}
			if err := appears(ctx, st.Segment(n+1)); err != nil {
				return err
			}
		}
		v.NextSegment(n + 1)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if bad := v.End(); bad != nil {
		return fail.New(fail.Tampered, "forge-audit verify", "%s:%d: %s: %s", SegmentName(bad.At.Segment), bad.At.Line, bad.Reason, bad.Text)
	}
	return nil
}

func readSegment(ctx context.Context, st *store.Store, n int, v *chain.Verifier, more func() bool) error {
	f, _, err := openSegment(st, n)
	if err != nil {
		return missingLog(st, err)
	}
	defer f.Close()
	if err := v.Read(&wholeLines{ctx: ctx, f: f, more: more}); err != nil {
		return fail.New(fail.IOError, "", "read the trail: %w", err)
	}
	return nil
}

// appears waits for a file: a writer has ended one segment and not yet named the
// next.
func appears(ctx context.Context, path string) error {
	for {
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followEvery):
		}
	}
}

// wholeLines reads a segment up to the last newline there is, and waits for
// more as long as more says so.
type wholeLines struct {
	ctx    context.Context
	f      *os.File
	more   func() bool
	at, to int64
}

const followEvery = 200 * time.Millisecond

func (w *wholeLines) Read(p []byte) (int, error) {
	for w.at == w.to {
		if w.ctx.Err() != nil {
			return 0, io.EOF
		}
		if err := w.extend(); err != nil {
			return 0, err
		}
		if w.at < w.to {
			break
		}
		if !w.more() {
			return 0, io.EOF
		}
		select {
		case <-w.ctx.Done():
		case <-time.After(followEvery):
		}
	}
	n, err := w.f.ReadAt(p[:min(int64(len(p)), w.to-w.at)], w.at)
	w.at += int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // shorter than it was: cut under us
	}
	return n, err
}

// extend moves the end to the last newline of the file as it is now.
func (w *wholeLines) extend() error {
	fi, err := w.f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() < w.to {
		return io.ErrUnexpectedEOF
	}
	for end := fi.Size(); end > w.to; {
		from := max(w.to, end-chain.MaxLine)
		buf := make([]byte, end-from)
		if _, err := w.f.ReadAt(buf, from); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
			w.to = from + int64(i) + 1
			return nil
		}
		end = from
	}
	return nil
}
