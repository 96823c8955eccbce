package trail

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"time"

	"forge/lib/chain"
	"forge/lib/store"
)

// sampleBytes is how much of what a checkpoint covers each run looks at again.
const sampleBytes = 1 << 20

// bySeq orders checkpoints.
func bySeq(a, b chain.Signed) int { return cmp.Compare(a.Seq, b.Seq) }

// since walks what came after the newest checkpoint. It returns nil where a
// checkpoint or a seam between segments does not fit, or anything is out of
// order: only a walk over the whole names the line.
func since(st *store.Store, log *logFiles, o Options) *Report {
	if len(o.Notes) == 0 {
		return nil
	}
	c := slices.MaxFunc(o.Notes, bySeq)
	left := log.total - c.End
	for i, n := range log.numbers {
		if n < c.Segment {
			left -= log.sizes[i]
		}
	}
	w := newWalker(st, o, left)
	if first := log.numbers[0]; first != 1 {
		l, err := firstLine(st, first)
		_, kept := os.Lstat(st.PrunedFile(first))
		if err != nil || l.Seq == 0 || kept != nil { // not by prune
			return nil
		}
		w.begin = chain.State{Seq: l.Seq - 1, Sha: l.Prev}
	}
	if !fits(st, log, w.begin, o.Notes) {
		return nil
	}
	for i := 1; i < len(log.numbers) && log.numbers[i] <= c.Segment; i++ {
		if seam(st, log, i) != "" {
			return nil
		}
	}
	line, ok := lineBefore(st, c.Segment, c.End)
	if !ok || !sample(st, log, c) {
		return nil
	}
	w.state = chain.State{Seq: line.Seq, Sha: line.Sha, Prev: line.Prev}
	w.at = chain.Place{Segment: c.Segment, Line: 1, Offset: c.End}
	w.from = w.at
	if hasEvent(line.Payload, RotateEvent) {
		w.facts.last = RotateEvent
	}
	bad, err := w.walk(log)
	if err != nil || bad != nil {
		return nil
	}
	r := newReport()
	r.Since = c.Seq
	r.fill(w, log, nil)
	if r.identity(st, log, o.Notes) != nil || r.Verdict != Intact {
		return nil
	}
	r.compared = o.Notes
	r.trust()
	r.warn("lines up to seq %d were not walked again (--full does)", c.Seq)
	return r
}

// fits says whether each checkpoint names a line of the log, and one of them the
// line before its first if that is not the first of the chain.
func fits(st *store.Store, log *logFiles, before chain.State, notes []chain.Signed) bool {
	headless := before != chain.State{}
	for _, n := range notes {
		if headless && n.Seq == before.Seq && n.Sha == before.Sha.String() {
			headless = false
			continue
		}
		i := slices.Index(log.numbers, n.Segment)
		if i < 0 || log.sizes[i] < n.End {
			return false
		}
		if l, ok := lineBefore(st, n.Segment, n.End); !ok || l.Seq != n.Seq || l.Sha.String() != n.Sha {
			return false
		}
	}
	return !headless
}

// lineBefore reads the line of a segment that ends at an offset.
func lineBefore(st *store.Store, segment int, end int64) (chain.Line, bool) {
	f, _, err := openSegment(st, segment)
	if err != nil {
		return chain.Line{}, false
	}
	defer f.Close()
	for _, span := range spans {
		from := max(0, end-span)
		buf := make([]byte, end-from)
		if _, err := f.ReadAt(buf, from); err != nil || len(buf) == 0 {
			return chain.Line{}, false
		}
		start := bytes.LastIndexByte(buf[:len(buf)-1], '\n') + 1
		if start > 0 || from == 0 {
			l, reason := chain.Parse(buf[start:])
			return l, reason == ""
		}
	}
	return chain.Line{}, false
}

// sample verifies one stretch of what the checkpoint covers, another one every
// five minutes: an edit there is otherwise seen only by a full walk. It runs on
// into the segments that follow.
func sample(st *store.Store, log *logFiles, c chain.Signed) bool {
	total := int64(0)
	ends := []int64{} // of the segments, as far as c covers them
	for i, n := range log.numbers {
		switch {
		case n < c.Segment:
			ends = append(ends, log.sizes[i])
		case n == c.Segment:
			ends = append(ends, c.End)
		default:
			continue
		}
		total += ends[len(ends)-1]
	}
	stretches := (total + sampleBytes - 1) / sampleBytes
	skip := (st.Now().Unix() / int64(5*time.Minute/time.Second)) % stretches * sampleBytes
	left := int64(sampleBytes)
	var state *chain.State
	for i, end := range ends {
		if skip >= end {
			skip -= end
			continue
		}
		next, ok := stretch(st, log.numbers[i], skip, min(end, skip+left), end, state)
		if !ok {
			return false
		}
		left -= end - skip
		skip, state = 0, &next
		if left <= 0 {
			break
		}
	}
	return true
}

// stretch verifies the lines of a segment that begin between two offsets; it
// ends at end. before is the state there, nil where it is to be taken from the
// first of them.
func stretch(st *store.Store, segment int, from, to, end int64, before *chain.State) (after chain.State, ok bool) {
	f, _, err := openSegment(st, segment)
	if err != nil {
		return after, false
	}
	defer f.Close()
	text := make([]byte, min(to+chain.MaxLine, end)-from)
	if _, err := f.ReadAt(text, from); err != nil {
		return after, false
	}
	if from > 0 {
		// The line that is cut is another stretch's.
		i := bytes.IndexByte(text[:min(len(text), chain.MaxLine)], '\n')
		if i < 0 {
			return after, false
		}
		text, from = text[i+1:], from+int64(i+1)
	}
	if from+int64(len(text)) < end { // as far as whole lines go
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		if from+int64(len(text)) < to {
			return after, false
		}
	}
	switch {
	case len(text) == 0:
		return after, from >= to
	case before != nil:
		after = *before
	case from == 0 && segment == 1:
		after = chain.Start
	default:
		first := bytes.IndexByte(text, '\n') + 1
		l, reason := chain.Parse(text[:first])
		if reason != "" {
			return after, false
		}
		after, text = chain.State{Seq: l.Seq, Sha: l.Sha, Prev: l.Prev}, text[first:]
	}
	checks := chain.Checks{TornOf: TornOf}
	after, at := checks.Scan(text, after, chain.First(segment))
	return after, at.Offset == int64(len(text))
}
