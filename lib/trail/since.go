package trail

import (
	"bytes"
	"slices"
	"time"

	"forge/lib/chain"
	"forge/lib/store"
)

// sampleBytes is how much of what a checkpoint covers each run looks at again.
const sampleBytes = 1 << 20

// since walks what came after the newest checkpoint. It returns nil where the
// checkpoint does not fit, or anything is out of order: only a walk over the
// whole names the line.
func since(st *store.Store, log *logFiles, o Options) *Report {
	if len(o.Notes) == 0 {
		return nil
	}
	c := slices.MaxFunc(o.Notes, func(a, b chain.Signed) int { return int(a.Seq) - int(b.Seq) })
	i := slices.Index(log.numbers, c.Segment)
	if i < 0 || log.sizes[i] < c.End {
		return nil
	}
	w := newWalker(st, o, log.total)
	line, ok := lineBefore(st, c.Segment, c.End)
	if !ok || line.Sha.String() != c.Sha || line.Seq != c.Seq || !sample(st, log, c) {
		return nil
	}
	w.state = chain.State{Seq: line.Seq, Sha: line.Sha, Prev: line.Prev}
	w.at = chain.Place{Segment: c.Segment, Line: 1, Offset: c.End}
	bad, err := w.walk(log)
	if err != nil || bad != nil {
		return nil
	}
	r := newReport()
	r.Since = c.Seq
	r.fill(w, nil)
	r.identity(st, log, o.Notes)
	r.trust([]chain.Signed{c})
	if r.Verdict != Intact {
		return nil
	}
	r.warn("lines up to seq %d were not walked again (--full does)", c.Seq)
	return r
}

// lineBefore reads the line of a segment that ends at an offset.
func lineBefore(st *store.Store, segment int, end int64) (chain.Line, bool) {
	f, _, err := openSegment(st, segment)
	if err != nil {
		return chain.Line{}, false
	}
	defer f.Close()
	from := max(0, end-chain.MaxLine)
	buf := make([]byte, end-from)
	if _, err := f.ReadAt(buf, from); err != nil || len(buf) == 0 {
		return chain.Line{}, false
	}
	start := bytes.LastIndexByte(buf[:len(buf)-1], '\n') + 1
	l, reason := chain.Parse(buf[start:])
	return l, reason == ""
}

// sample verifies one stretch of what the checkpoint covers, another one every
// five minutes: an edit there is otherwise seen only by a full walk.
func sample(st *store.Store, log *logFiles, c chain.Signed) bool {
	total := int64(0)
	for i, n := range log.numbers {
		switch {
		case n < c.Segment:
			total += log.sizes[i]
		case n == c.Segment:
			total += c.End
		}
	}
	stretches := total/sampleBytes + 1
	skip := (st.Now().Unix() / int64(5*time.Minute/time.Second)) % stretches * sampleBytes
	for i, n := range log.numbers {
		size := log.sizes[i]
		if n == c.Segment {
			size = c.End
		}
		if skip < size {
			return stretch(st, n, skip, size)
		}
		skip -= size
	}
	return true
}

// stretch verifies the whole lines in a megabyte of a segment, up to size.
func stretch(st *store.Store, segment int, from, size int64) bool {
	f, _, err := openSegment(st, segment)
	if err != nil {
		return false
	}
	defer f.Close()
	text := make([]byte, min(sampleBytes+chain.MaxLine, size-from))
	if _, err := f.ReadAt(text, from); err != nil {
		return false
	}
	// The first whole line gives the state; those after it must follow.
	if from > 0 {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	end := bytes.IndexByte(text, '\n') + 1
	if end == 0 {
		return true
	}
	s, ok := chain.Claims(text[:end])
	if l, reason := chain.Parse(text[:end]); !ok || reason != "" || l.Seq != s.Seq {
		return false
	}
	checks := chain.Checks{TornOf: TornOf}
	_, at := checks.Scan(text[end:], s, chain.First(segment))
	return at.Offset == int64(len(text)-end)
}
