package trail

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"forge/lib/chain"
	"forge/lib/store"
)

// Trust is a checkpoint by a trusted key that the chain was held against.
type Trust struct {
	Key string `json:"key"`
	Seq uint64 `json:"seq"`
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
