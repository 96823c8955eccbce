package trail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// Options say how Verify works; the zero Options walk everything.
type Options struct {
	Strict          bool           // hold each payload to strict JSON, too
	SinceCheckpoint bool           // begin after the newest checkpoint, if all fit
	Notes           []chain.Signed // checkpoints by trusted keys
	Store           bool           // hold ledger, tools and runs against the chain
	Workers         int            // 0: as many as there are processors, at most 4
	Progress        func(done, total int64)

	// AllNotes, when set, returns more of Notes, for a walk over the whole.
	AllNotes func() ([]chain.Signed, error)

	until uint64 // with Store: note what was defined up to that record, for Prune
}

// Verify walks the chain of st. Errors mean that nothing could be told:
// not_found where there is no chain, io_error where it cannot be read safely.
func Verify(st *store.Store, o Options) (*Report, error) {
	began := time.Now()
	r, err := verify(st, &o)
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < 3; try++ { // pruned meanwhile
		r, err = verify(st, &o)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(o.Notes) > 0:
		r = gone(o.Notes)
	case err != nil:
		return nil, missingLog(st, err)
	}
	r.MS = time.Since(began).Milliseconds()
	return r, nil
}

func verify(st *store.Store, o *Options) (*Report, error) {
	log, err := snapshot(st, o.Store)
	if err != nil {
		return nil, err
	}
	if o.SinceCheckpoint && !o.Store { // the store is held against all of it
		if r := since(st, log, *o); r != nil {
			return r, nil
		}
	}
	if o.AllNotes != nil {
		if o.Notes, err = o.AllNotes(); err != nil {
			return nil, err
		}
		o.AllNotes = nil
		if log, err = snapshot(st, o.Store); err != nil { // no note is newer than it
			return nil, err
		}
	}
	return whole(st, log, *o)
}

// logFiles is the chain's files and their sizes at one moment, taken while
// nobody wrote, so that a record half written is not taken for a torn one.
type logFiles struct {
	numbers []int
	sizes   []int64
	total   int64
	mode    uint32  // of the directory
	ledger  []entry // as it was before
}

func snapshot(st *store.Store, ledger bool) (*logFiles, error) {
	mode, err := safeDir(st.Audit())
	if err != nil {
		return nil, err
	}
	l := &logFiles{mode: mode}
	if ledger { // a record comes before its entry, so each entry here has one there
		if l.ledger, err = entries(st); err != nil {
			return nil, err
		}
	}
	unlock, err := st.Lock(context.Background(), st.AuditFile("lock"), lockWait)
	switch {
	case errors.Is(err, unix.EROFS): // a snapshot: nobody writes
	case err != nil:
		return nil, err
	default:
		defer unlock()
	}
	if l.numbers, err = st.Segments(); err != nil {
		return nil, err
	}
	if len(l.numbers) == 0 {
		return nil, fs.ErrNotExist
	}
	for _, n := range l.numbers {
		f, size, err := openSegment(st, n)
		if err != nil {
			return nil, err
		}
		f.Close()
		l.sizes = append(l.sizes, size)
		l.total += size
	}
	return l, nil
}

func missingLog(st *store.Store, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, idErr := os.Lstat(st.AuditFile("id")); idErr == nil {
		return fail.New(fail.NotFound, "restore it from a backup", "%s is missing, and audit/id says there was one", st.Segment(1))
	}
	if err := ledgerEmpty(st); err != nil {
		return fail.New(fail.NotFound, fail.Of(err).Hint, "%s", err)
	}
	return fail.New(fail.NotFound, "forge or call a tool first", "there is no trail at %s", st.Audit())
}

// gone is the verdict on a log of which only checkpoints are left.
func gone(notes []chain.Signed) *Report {
	r := newReport()
	last := slices.MaxFunc(notes, bySeq)
	r.compared = notes
	r.trust()
	r.bad(&chain.Finding{Reason: chain.Truncated, At: chain.First(1), Missing: last.Seq, Text: "the log is gone, and a checkpoint knows it"})
	return r
}

func newWalker(st *store.Store, o Options, total int64) *walker {
	w := &walker{st: st, workers: workersFor(o.Workers), want: map[uint64]string{}, store: o.Store, until: o.until}
	copy(w.latest[:], st.Now().Add(clockSlack).UTC().Format(TimeForm))
	w.facts = w.newFacts()
	if o.Strict {
		w.strict = strictJSON
	}
	for _, n := range o.Notes {
		w.want[n.Seq] = n.Sha
	}
	done := int64(0)
	if o.Progress != nil {
		w.progress = func(n int64) {
			done += n
			o.Progress(done, total)
		}
	}
	return w
}

// whole walks every segment from the first line there is.
func whole(st *store.Store, log *logFiles, o Options) (*Report, error) {
	w := newWalker(st, o, log.total)
	w.state, w.at = chain.Start, chain.First(log.numbers[0])
	if log.numbers[0] != 1 {
		// What was pruned is not here: begin where the first line says.
		first, err := firstLine(st, log.numbers[0])
		if err != nil {
			return nil, err
		}
		if first.Seq > 0 {
			w.state = chain.State{Seq: first.Seq - 1, Sha: first.Prev}
		}
	}
	w.begin, w.from = w.state, w.at
	bad, err := w.walk(log)
	if err != nil {
		return nil, err
	}
	r := newReport()
	r.fill(w, log, bad)
	r.compare(w, o.Notes)
	if log.numbers[0] != 1 {
		r.headless(w, log, o.Notes)
	}
	if err := r.identity(st, log, o.Notes); err != nil {
		return nil, err
	}
	r.checkpoints(w, log, o.Notes)
	r.trust()
	if o.Store && r.Verdict != Tampered {
		if err := r.store(st, log, w); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// walk walks the segments from w.at on and returns the first bad line.
func (w *walker) walk(log *logFiles) (*chain.Finding, error) {
	var other *chain.Finding // beside what a verifier finds
	found := func(reason chain.Reason, at chain.Place, text string) {
		if other == nil {
			other = &chain.Finding{Reason: reason, At: at, Text: text}
		}
	}
	for i, n := range log.numbers {
		if n < w.at.Segment {
			continue
		}
		if n > w.at.Segment {
			if w.facts.stray != (chain.Place{}) {
				found(chain.Link, w.facts.stray, "the segment has ended before it, by audit.rotate")
			}
			w.enter(n)
			w.facts.last = ""
			if text := seam(w.st, log, i); text != "" && log.sizes[i] > 0 {
				found(chain.Link, chain.Place{Segment: n, Line: 1, Seq: w.state.Seq + 1}, text)
			}
		}
		if log.sizes[i] == 0 {
			found(chain.EmptySegment, chain.Place{Segment: n, Line: 1, Seq: w.state.Seq + 1}, "the segment is empty")
		}
		f, _, err := openSegment(w.st, n)
		if err != nil {
			return nil, err
		}
		err = w.segment(f, log.sizes[i])
		f.Close()
		if err != nil {
			return nil, fail.New(fail.IOError, "", "read %q: %w", w.st.Segment(n), err)
		}
	}
	bad := w.end()
	if w.facts.stray != (chain.Place{}) {
		found(chain.Link, w.facts.stray, "the segment has ended before it, by audit.rotate")
	}
	if bad == nil || other != nil && before(other.At, bad.At) {
		bad = other
	}
	if bad == nil && w.facts.last == RotateEvent {
		bad = w.dangling(log)
	}
	return bad, nil
}

func before(a, b chain.Place) bool {
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Line, b.Line)) < 0
}

// seam says what is wrong between the ith segment and the one before it, "" for
// nothing: names are not hashed, so each end names what follows, and each
// beginning itself.
func seam(st *store.Store, log *logFiles, i int) string {
	a, b := log.numbers[i-1], log.numbers[i]
	if b != a+1 {
		return fmt.Sprintf("%s is not there", store.SegmentName(a+1))
	}
	end, ok := lineBefore(st, a, log.sizes[i-1])
	d, has := detailsOf[struct {
		Next string `json:"next"`
	}](end.Payload)
	if !ok || !has || !hasEvent(end.Payload, RotateEvent) || d.Next != store.SegmentName(b) {
		return "the segment before it does not end in an audit.rotate that names it"
	}
	begin, err := firstLine(st, b)
	n, has := detailsOf[struct {
		Segment int `json:"segment"`
	}](begin.Payload)
	if err != nil || !has || !hasEvent(begin.Payload, SegmentEvent) || n.Segment != b {
		return "it does not begin with an audit.segment that names it"
	}
	return ""
}

// enter goes on with segment n, whose lines are counted anew.
func (w *walker) enter(n int) {
	w.at = chain.First(n)
	if w.slow == nil {
		return
	}
	w.slow.NextSegment(n)
	if w.slow.Bad == nil { // only torn lines, each named by a later record
		w.leaveSlow()
		w.at = chain.First(n)
	}
}

// leaveSlow takes over from a verifier that found nothing.
func (w *walker) leaveSlow() {
	w.state, w.at = w.slow.State, w.slow.Next()
	w.torn = append(w.torn, w.slow.Torn...)
	w.whole = append(w.whole, w.slow.Whole...)
	w.slow = nil
}

func (w *walker) end() *chain.Finding {
	if w.slow == nil {
		return nil
	}
	bad := w.slow.End()
	w.leaveSlow()
	return bad
}

// dangling judges a log that ends in audit.rotate.
func (w *walker) dangling(log *logFiles) *chain.Finding {
	at := chain.First(w.at.Segment + 1)
	at.Seq = w.state.Seq + 1
	b, err := store.ReadFile(w.st.NextSegment(at.Segment), chain.MaxLine)
	if l, reason := chain.Parse(b); err == nil && reason == "" && l.Prev == w.state.Sha && l.Seq == at.Seq {
		return &chain.Finding{Reason: chain.RotationIncomplete, At: at, Text: "a writer stopped between two segments; the next record goes on"}
	}
	return &chain.Finding{Reason: chain.Truncated, At: at, Text: "the segment that audit.rotate names is gone"}
}

// firstLine reads the first line of a segment; zero where it does not stand.
func firstLine(st *store.Store, n int) (chain.Line, error) {
	f, size, err := openSegment(st, n)
	if err != nil {
		return chain.Line{}, err
	}
	defer f.Close()
	for _, span := range spans {
		buf := make([]byte, min(size, span))
		if _, err := f.ReadAt(buf, 0); err != nil {
			return chain.Line{}, fail.New(fail.IOError, "", "read %q: %w", f.Name(), err)
		}
		if end := bytes.IndexByte(buf, '\n') + 1; end > 0 {
			l, reason := chain.Parse(buf[:end])
			if reason != "" {
				return chain.Line{}, nil
			}
			return l, nil
		}
	}
	return chain.Line{}, nil
}

// spans are what is read for one line: what most have, and what any may have.
var spans = []int64{4 << 10, chain.MaxLine + 1}
