package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	Upto       uint64       `json:"upto,omitempty"` // rewritten: seq of the checkpoint that does not fit
	Missing    uint64       `json:"missing,omitempty"`
	Resumes    bool         `json:"resumes"`
	Head       Head         `json:"head"`
	Entries    uint64       `json:"entries"`
	Bytes      int64        `json:"bytes"`
	Since      uint64       `json:"since,omitempty"` // the walk began after this checkpoint
	Unfinished []uint64     `json:"unfinished"`      // seq of begins without an end
	Running    []uint64     `json:"running"`         // begins young enough to be running
	Trust      []Trust      `json:"trust"`
	Warnings   []string     `json:"warnings"`
	MS         int64        `json:"ms"`

	dir      string // of the trail
	headGone bool   // its first segments are pruned
	compared []chain.Signed
	stored   *storeFacts // with Options.Store
}

// Bad is the place of the first bad line.
type Bad struct {
	Segment string `json:"segment"`
	Line    int64  `json:"line"`
	Offset  int64  `json:"offset"`
	Seq     uint64 `json:"seq"`
	// What should stand there and what does, see chain.Finding.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
}

// Head is the last good line.
type Head struct {
	Seq     uint64 `json:"seq"`
	Sha     string `json:"sha"`
	Segment int    `json:"segment"`
	End     int64  `json:"end"` // bytes of the segment up to and with it
}

// Trust is a checkpoint by a trusted key that the chain was held against.
type Trust struct {
	Key string `json:"key"`
	Seq uint64 `json:"seq"`
}

// The verdicts.
const (
	Intact    = "intact"
	Tampered  = "tampered"
	Attention = "attention"
)

// Untrusted is printed with every verdict that no checkpoint backs.
const Untrusted = "truncation and whole rewrite not checked (no checkpoint)"

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

func newReport() *Report {
	return &Report{Verdict: Intact, Trust: []Trust{}, Warnings: []string{}, Unfinished: []uint64{}, Running: []uint64{}}
}

// clockSlack is how far a record's time may be ahead of the clock unremarked.
const clockSlack = 5 * time.Minute

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
	buf := make([]byte, min(size, chain.MaxLine))
	if _, err := f.ReadAt(buf, 0); err != nil {
		return chain.Line{}, fail.New(fail.IOError, "", "read %q: %w", f.Name(), err)
	}
	text, _, _ := strings.Cut(string(buf), "\n")
	l, reason := chain.Parse([]byte(text + "\n"))
	if reason != "" {
		return chain.Line{}, nil
	}
	return l, nil
}

// fill takes over what a walk found.
func (r *Report) fill(w *walker, log *logFiles, bad *chain.Finding) {
	if log.mode&0o077 != 0 {
		r.warn("%s has mode %04o, want 0700", w.st.Audit(), log.mode)
	}
	r.dir, r.headGone = w.st.Audit(), w.from.Segment > 1 && w.from.Offset == 0
	r.Head = Head{w.state.Seq, w.state.Sha.String(), w.at.Segment, w.at.Offset}
	r.Entries, r.Bytes = w.entries, w.bytes
	place := func(p chain.Place) string {
		if p.Segment == w.from.Segment && w.from.Offset > 0 { // lines were counted from there
			return fmt.Sprintf("%s, byte %d", store.SegmentName(p.Segment), p.Offset)
		}
		return fmt.Sprintf("%s:%d", store.SegmentName(p.Segment), p.Line)
	}
	accepted := func(p chain.Place) bool {
		return slices.ContainsFunc(w.facts.damage, func(d Damage) bool { return d.Segment == p.Segment && d.At == p.Offset })
	}
	for _, t := range w.whole {
		known := slices.ContainsFunc(w.facts.damage, func(d Damage) bool { return d.names(t) })
		if !known && (bad == nil || before(t.Place, bad.At)) {
			bad = &chain.Finding{Reason: chain.Frame, At: t.Place, Text: "lines that a record names as torn, and no operator accepted (audit.recovered)"}
		}
	}
	for _, p := range w.torn {
		how := "was not written whole, and a later record says so"
		if accepted(p) {
			how = "does not stand, and an operator accepted that (audit.recovered)"
		}
		r.warn("%s %s", place(p), how)
	}
	for _, p := range w.facts.back {
		r.warn("clock_back: %s (seq %d) is earlier than the line before", place(p), p.Seq)
	}
	if n := w.facts.backs - len(w.facts.back); n > 0 {
		r.warn("clock_back: and %d more", n)
	}
	if p := w.facts.ahead; p != (chain.Place{}) {
		r.warn("clock_ahead: %s (seq %d) is later than now by more than %s", place(p), p.Seq, clockSlack)
	}
	if name := remoteFS(w.st.Audit()); name != "" {
		r.warn("remote: %s is on %s, where locks and syncs may not hold", w.st.Audit(), name)
	}
	r.calls(w.facts.open, w.st.Now())
	if _, err := os.Lstat(w.st.AuditFile("FAILED")); err == nil {
		r.Verdict, r.Reason = Attention, Failed
		r.Text = "audit/FAILED is there: a record may not have reached the disk, and none is taken"
	}
	r.bad(bad)
}

// Reasons of a report that are none of a chain.
const (
	Failed   chain.Reason = "failed" // a sync failed, and nobody has recovered from it
	Unstored chain.Reason = "store"  // the store is not what the chain says
)

// remote names the file systems that other hosts write to as well.
var remote = map[int64]string{
	unix.AFS_SUPER_MAGIC: "AFS", unix.CEPH_SUPER_MAGIC: "Ceph", unix.CIFS_SUPER_MAGIC: "SMB", unix.CODA_SUPER_MAGIC: "Coda",
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.V9FS_MAGIC: "9p",
}

// remoteFS names the file system of a path if it is a remote one.
func remoteFS(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	return remote[int64(st.Type)]
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// bad makes f the finding; nil leaves the report as it is.
func (r *Report) bad(f *chain.Finding) {
	if f == nil {
		return
	}
	r.Verdict, r.Reason, r.Missing, r.Resumes = Tampered, f.Reason, f.Missing, f.Resumes
	if f.Reason == chain.TornTail || f.Reason == chain.RotationIncomplete {
		r.Verdict = Attention
	}
	name := store.SegmentName(f.At.Segment)
	r.FirstBad = &Bad{name, f.At.Line, f.At.Offset, f.At.Seq, f.Expected, f.Got}
	reason := string(f.Reason)
	if f.Missing > 0 {
		reason = fmt.Sprintf("%s(%d)", reason, f.Missing)
	}
	r.Text = fmt.Sprintf("%s:%d: %s: %s (seq %d, offset %d)", name, f.At.Line, reason, f.Text, f.At.Seq, f.At.Offset)
}

// calls splits the open begins into those that never ended and those young
// enough to be running.
func (r *Report) calls(open map[runID]begin, now time.Time) {
	longest := time.Duration(tool.MaxLimits.WallS)*time.Second + time.Minute
	for _, b := range open {
		when, _ := time.Parse(time.RFC3339Nano, string(b.when[:]))
		if age := now.Sub(when); age < longest && age > -clockSlack {
			r.Running = append(r.Running, b.seq)
		} else {
			r.Unfinished = append(r.Unfinished, b.seq)
		}
	}
	slices.Sort(r.Unfinished)
	slices.Sort(r.Running)
}

// identity holds the first line against audit/id and the checkpoints.
func (r *Report) identity(st *store.Store, log *logFiles, notes []chain.Signed) error {
	if r.Verdict == Tampered {
		return nil
	}
	b, err := store.ReadFile(st.AuditFile("id"), 1<<10)
	id := strings.TrimSpace(string(b))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if missing {
		r.Verdict, r.Reason = Attention, chain.Identity
		r.Text = "audit/id is missing; the next record writes it again"
		if log.numbers[0] != 1 {
			r.Text = "audit/id is missing, and the line that names the chain was pruned"
			return nil
		}
	}
	if log.numbers[0] == 1 {
		l, _ := firstLine(st, 1)
		own, _ := logID(l.Payload)
		if id != own && !missing {
			r.alien(own, id, "audit/id")
			return nil
		}
		id = own
	}
	for _, n := range notes {
		if n.Log != id {
			r.alien(id, n.Log, "a checkpoint")
			return nil
		}
	}
	return nil
}

// alien makes it the finding that the chain is another than something says.
func (r *Report) alien(own, said, where string) {
	r.bad(&chain.Finding{
		Reason: chain.Identity, At: chain.Place{Segment: 1, Line: 1, Seq: 1},
		Text: fmt.Sprintf("the chain is %q and %s says %q", own, where, said), Expected: said, Got: own,
	})
}

// checkpoints holds the chain against what trusted keys signed.
func (r *Report) checkpoints(w *walker, log *logFiles, notes []chain.Signed) {
	if r.Verdict == Tampered {
		return
	}
	shas := map[uint64]string{}
	for _, n := range notes {
		if sha, twice := shas[n.Seq]; twice && sha != n.Sha {
			r.Upto = n.Seq
			at := chain.Place{Segment: n.Segment, Line: 1, Seq: n.Seq}
			for _, h := range w.facts.hits {
				if h.at.Seq == n.Seq {
					at = h.at
				}
			}
			r.bad(&chain.Finding{
				Reason: chain.Rewritten, At: at,
				Text: fmt.Sprintf("two checkpoints of seq %d have different shas", n.Seq), Expected: sha, Got: n.Sha,
			})
			return
		}
		shas[n.Seq] = n.Sha
	}
	ends := map[uint64]chain.Signed{}
	for _, n := range notes {
		ends[n.Seq] = n
	}
	good := chain.First(w.from.Segment) // the line after the last that a checkpoint fits
	good.Seq = w.begin.Seq + 1
	for _, h := range w.facts.hits {
		if h.got.String() != h.want {
			r.Upto = h.at.Seq
			r.bad(&chain.Finding{
				Reason: chain.Rewritten, At: good,
				Text: fmt.Sprintf("a checkpoint has another sha at seq %d", h.at.Seq), Expected: h.want, Got: h.got.String(),
			})
			return
		}
		good = h.at
		good.Line++
		good.Seq++
		good.Offset = ends[h.at.Seq].End
		if i := slices.Index(log.numbers, h.at.Segment); good.Offset == log.sizes[i] && i+1 < len(log.numbers) {
			good = chain.Place{Segment: log.numbers[i+1], Line: 1, Seq: good.Seq}
		}
	}
	last := uint64(0)
	for _, n := range notes {
		last = max(last, n.Seq)
	}
	if last > w.state.Seq {
		at := w.at
		at.Seq = w.state.Seq + 1
		r.bad(&chain.Finding{Reason: chain.Truncated, At: at, Missing: last - w.state.Seq, Text: "a checkpoint knows more lines"})
	}
}

// compare notes which checkpoints a walk met: by a line of it, or by the line
// before the first, where what comes before was pruned.
func (r *Report) compare(w *walker, notes []chain.Signed) {
	met := map[uint64]string{w.begin.Seq: w.begin.Sha.String()}
	for _, h := range w.facts.hits {
		met[h.at.Seq] = h.got.String()
	}
	for _, n := range notes {
		if met[n.Seq] == n.Sha {
			r.compared = append(r.compared, n)
		}
	}
}

// Backs says whether the chain was held against a checkpoint, and holds it.
func (r *Report) Backs(n chain.Signed) bool {
	return slices.ContainsFunc(r.compared, func(c chain.Signed) bool { return c.Seq == n.Seq && c.Sha == n.Sha })
}

// trust says what backs the verdict.
func (r *Report) trust() {
	told := map[Trust]bool{}
	for _, n := range r.compared {
		for _, k := range n.Keys {
			if t := (Trust{k, n.Seq}); !told[t] {
				told[t] = true
				r.Trust = append(r.Trust, t)
			}
		}
	}
	if len(r.Trust) == 0 {
		r.warn(Untrusted)
	}
}

// headless judges a log whose first segments are gone: a record on it must say
// that they were pruned up to this very line, or further by one who was stopped,
// and if anything is signed, that line must be.
func (r *Report) headless(w *walker, log *logFiles, notes []chain.Signed) {
	first, before := log.numbers[0], w.begin
	why := "the segments before it are gone, and no record says that they were pruned"
	for _, p := range w.facts.pruned {
		whole := p.First == first && p.Seq == before.Seq && p.Sha == before.Sha.String()
		if !whole && !(p.First > first && endsWith(w.st, log, p)) {
			continue
		}
		signed := slices.ContainsFunc(notes, func(n chain.Signed) bool { return n.Seq == p.Seq && n.Sha == p.Sha })
		if !signed && len(notes) > 0 {
			why = fmt.Sprintf("the segments before it are gone, and no checkpoint signs their end, seq %d", p.Seq)
			continue
		}
		if !signed {
			r.warn("no trusted checkpoint vouches for what was pruned, up to seq %d", p.Seq)
		}
		if !whole {
			r.warn("segments before %s were to be pruned and are still there: forge-audit prune %d", store.SegmentName(p.First), p.First)
		}
		return
	}
	r.bad(&chain.Finding{Reason: chain.MissingHead, At: chain.Place{Segment: first, Line: 1, Seq: before.Seq + 1}, Text: why})
}

// endsWith says whether what p was to remove ends as it says.
func endsWith(st *store.Store, log *logFiles, p Pruned) bool {
	i := slices.Index(log.numbers, p.First-1)
	if i < 0 {
		return false
	}
	l, ok := lineBefore(st, p.First-1, log.sizes[i])
	return ok && l.Seq == p.Seq && l.Sha.String() == p.Sha
}

// Err returns nil for an intact chain, else the error that verify ends with.
func (r *Report) Err() error {
	switch r.Verdict {
	case Intact:
		return nil
	case Attention:
		hint := "look whether a crash explains it; any record heals it: echo '{}' | forge-audit append ops.heal"
		switch {
		case r.Reason == Failed:
			hint = "forge-audit recover"
		case r.Reason == chain.Identity && r.headGone:
			hint = "write the log of a checkpoint into it: cd " + r.dir + " && sed -n 's/^log //p' checkpoints/NOTE > id"
		}
		return fail.New(fail.Attention, hint, "%s", r.Text)
	}
	hint := "keep a copy of audit/ before you change anything"
	switch r.Reason {
	case Unstored:
		hint = "forge it again from a source you trust, or restore the file"
	case chain.Truncated, chain.MissingHead, chain.EmptySegment, chain.CheckpointSig, chain.Missing:
	default:
		if r.FirstBad != nil && r.FirstBad.Line > 0 {
			lines := strconv.FormatInt(r.FirstBad.Line, 10)
			if r.Reason == chain.Link && r.FirstBad.Line > 1 { // the line before was replaced
				lines = fmt.Sprintf("%d,%d", r.FirstBad.Line-1, r.FirstBad.Line)
			}
			hint += fmt.Sprintf("; sed -n %sp %s prints it", lines, filepath.Join(r.dir, r.FirstBad.Segment))
		}
	}
	return fail.New(fail.Tampered, hint, "%s", r.Text)
}
