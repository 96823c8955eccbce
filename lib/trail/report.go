package trail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// The verdicts.
const (
	Intact    = "intact"
	Tampered  = "tampered"
	Attention = "attention"
)

// Untrusted is printed with every verdict that no checkpoint backs.
const Untrusted = "truncation and whole rewrite not checked (no checkpoint)"

func newReport() *Report {
	return &Report{Verdict: Intact, Trust: []Trust{}, Warnings: []string{}, Unfinished: []uint64{}, Running: []uint64{}}
}

// clockSlack is how far a record's time may be ahead of the clock unremarked.
const clockSlack = 5 * time.Minute

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
