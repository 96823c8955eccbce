package trail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/tool"
)

// Report is what verify found, as --json prints it.
type Report struct {
	Verdict    string       `json:"verdict"` // intact, tampered, attention
	Reason     chain.Reason `json:"reason,omitempty"`
	Text       string       `json:"text,omitempty"` // the finding, for people
	FirstBad   *Bad         `json:"first_bad,omitempty"`
	Missing    uint64       `json:"missing,omitempty"`
	Resumes    bool         `json:"resumes"`
	Head       Head         `json:"head"`
	Entries    uint64       `json:"entries"`
	Bytes      int64        `json:"bytes"`
	Unfinished []uint64     `json:"unfinished"` // seq of begins without an end
	Running    []uint64     `json:"running"`    // begins young enough to be running
	Trust      []string     `json:"trust"`
	Warnings   []string     `json:"warnings"`
	MS         int64        `json:"ms"`
}

// Bad is the place of the first bad line.
type Bad struct {
	Segment string `json:"segment"`
	Line    int64  `json:"line"`
	Offset  int64  `json:"offset"`
	Seq     uint64 `json:"seq"`
}

// Head is the last good line.
type Head struct {
	Seq uint64 `json:"seq"`
	Sha string `json:"sha"`
}

// The verdicts.
const (
	Intact    = "intact"
	Tampered  = "tampered"
	Attention = "attention"
)

// Untrusted is printed with every verdict that no checkpoint backs.
const Untrusted = "truncation and whole rewrite not checked (no checkpoint)"

// Verify walks the whole chain of st. Errors mean that nothing could be told:
// not_found where there is no chain, io_error where it cannot be read safely.
func Verify(st *store.Store) (*Report, error) {
	began := time.Now()
	path := st.Segment(1)
	f, err := open(st, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := lockedSize(st, f)
	if err != nil {
		return nil, err
	}
	calls := openCalls{begun: map[string]begin{}}
	r := &Report{Verdict: Intact, Trust: []string{}, Warnings: []string{Untrusted}, Unfinished: []uint64{}, Running: []uint64{}}
	firstID := ""
	each := func(l chain.Line, at chain.Place) {
		r.Entries++
		if at.Line == 1 {
			firstID, _ = logID(l.Payload)
		}
		calls.see(l)
	}
	v := chain.NewVerifier(chain.Checks{TornOf: TornOf, Each: each}, chain.Start, chain.First(1))
	if err := v.Read(io.NewSectionReader(f, 0, size)); err != nil {
		return nil, fail.New(fail.IOError, "", "read %q: %w", path, err)
	}
	bad := v.End()
	r.Head, r.Bytes = Head{v.Seq, v.Sha.String()}, v.Next().Offset
	r.Unfinished, r.Running = calls.left(st.Now())
	for _, p := range v.Torn {
		r.Warnings = append(r.Warnings, fmt.Sprintf("line %d was not written whole, and a later record says so", p.Line))
	}
	name := filepath.Base(path)
	if bad == nil {
		r.checkID(st, firstID, name)
	} else {
		b := bad
		r.Verdict, r.Reason, r.Missing, r.Resumes = Tampered, b.Reason, b.Missing, b.Resumes
		if b.Reason == chain.TornTail {
			r.Verdict = Attention
		}
		r.FirstBad = &Bad{name, b.At.Line, b.At.Offset, b.At.Seq}
		reason := string(b.Reason)
		if b.Missing > 0 {
			reason = fmt.Sprintf("%s(%d)", reason, b.Missing)
		}
		r.Text = fmt.Sprintf("%s:%d: %s: %s (seq %d, offset %d)", name, b.At.Line, reason, b.Text, b.At.Seq, b.At.Offset)
	}
	r.MS = time.Since(began).Milliseconds()
	return r, nil
}

// checkID holds the first line against audit/id.
func (r *Report) checkID(st *store.Store, first, segment string) {
	b, err := store.ReadFile(st.AuditFile("id"), 1<<10)
	id := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Verdict, r.Reason = Attention, chain.Identity
		r.Text = "audit/id is missing; the next record writes it again"
	case err != nil || id != first || r.Entries == 0:
		r.Verdict, r.Reason = Tampered, chain.Identity
		r.FirstBad = &Bad{segment, 1, 0, 1}
		r.Text = fmt.Sprintf("%s:1: identity: the chain is %q and audit/id says %q (seq 1, offset 0)", segment, first, id)
	}
}

func open(st *store.Store, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, idErr := os.Lstat(st.AuditFile("id")); idErr == nil {
			return nil, fail.New(fail.NotFound, "restore it from a backup", "%s is missing, and audit/id says there was one", path)
		}
		return nil, fail.New(fail.NotFound, "forge or call a tool first", "there is no trail at %s", st.Audit())
	case err != nil:
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	if _, err := safe(f); err != nil {
		f.Close()
		e := fail.Of(err)
		return nil, fail.New(fail.IOError, e.Hint, "%s: %w", path, err)
	}
	return f, nil
}

// lockedSize returns the size of a segment while nobody writes, so that a record
// half written is not taken for a torn one.
func lockedSize(st *store.Store, f *os.File) (int64, error) {
	unlock, err := st.Lock(context.Background(), st.AuditFile("lock"), lockWait)
	if err != nil {
		return 0, err
	}
	defer unlock()
	fi, err := f.Stat()
	if err != nil {
		return 0, fail.New(fail.IOError, "", "%w", err)
	}
	return fi.Size(), nil
}

type begin struct {
	seq  uint64
	when time.Time
}

// openCalls matches begins with ends; it holds only what is open.
type openCalls struct{ begun map[string]begin }

func (o *openCalls) see(l chain.Line) {
	isBegin := hasEvent(l.Payload, CallBegin)
	if !isBegin && !hasEvent(l.Payload, Called) && !hasEvent(l.Payload, Refused) {
		return
	}
	var p Record
	if json.Unmarshal(l.Payload, &p) != nil || p.Run == "" {
		return
	}
	if !isBegin {
		delete(o.begun, p.Run)
		return
	}
	when, _ := time.Parse(time.RFC3339Nano, p.TS)
	o.begun[p.Run] = begin{l.Seq, when}
}

// left splits the open begins into those that never ended and those young
// enough to be running.
func (o *openCalls) left(now time.Time) (unfinished, running []uint64) {
	unfinished, running = []uint64{}, []uint64{}
	longest := time.Duration(tool.MaxLimits.WallS)*time.Second + time.Minute
	for _, b := range o.begun {
		if now.Sub(b.when) < longest {
			running = append(running, b.seq)
		} else {
			unfinished = append(unfinished, b.seq)
		}
	}
	slices.Sort(unfinished)
	slices.Sort(running)
	return unfinished, running
}

// Err returns nil for an intact chain, else the error that verify ends with.
func (r *Report) Err() error {
	switch r.Verdict {
	case Intact:
		return nil
	case Attention:
		return fail.New(fail.Attention, "the next record heals it; look whether a crash explains it", "%s", r.Text)
	}
	return fail.New(fail.Tampered, fmt.Sprintf("keep a copy of audit/ before you change anything; sed -n %dp prints the line", r.FirstBad.Line), "%s", r.Text)
}

// Walk calls visit with every whole record in order, verified as it goes, from
// the start of the chain to its present end, and, when follow is set, with those
// that come until ctx ends. It returns an error of kind tampered at the first
// line that does not follow.
func Walk(ctx context.Context, st *store.Store, follow bool, visit func(payload []byte, at chain.Place) error) error {
	f, err := open(st, st.Segment(1))
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	each := func(l chain.Line, at chain.Place) {
		if ctx.Err() == nil {
			if err := visit(bytes.Clone(l.Payload), at); err != nil {
				stop(err)
			}
		}
	}
	v := chain.NewVerifier(chain.Checks{TornOf: TornOf, Each: each}, chain.Start, chain.First(1))
	src := &wholeLines{ctx: ctx, f: f, follow: follow}
	if err := v.Read(src); err != nil {
		return fail.New(fail.IOError, "", "read the trail: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if bad := v.End(); bad != nil {
		return fail.New(fail.Tampered, "forge-audit verify", "line %d: %s: %s", bad.At.Line, bad.Reason, bad.Text)
	}
	return nil
}

// wholeLines reads a segment up to the last newline there is, and waits for
// more when it follows.
type wholeLines struct {
	ctx    context.Context
	f      *os.File
	follow bool
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
		if !w.follow {
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
