package trail

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

const (
	chunkBytes = 2 << 20
	maxWorkers = 4 // each holds a chunk, and one waits
)

// walker verifies the segments of a chain. Every line holds the hash of the one
// before it, so chunks that begin at any line are verified at once; where one
// finds anything out of order, a chain.Verifier takes over from that line and
// says what it is.
type walker struct {
	st       *store.Store
	strict   func([]byte) chain.Reason
	workers  int
	progress func(bytes int64) // how much was walked since the last time
	want     map[uint64]string // sha that checkpoints name, by seq
	latest   stamp             // a later time is ahead of the clock
	store    bool              // note what the store is held against
	until    uint64            // and what it was after that record

	freeMu sync.Mutex
	free   [][]byte // chunks to be used again

	begin   chain.State // where the walk began
	from    chain.Place
	state   chain.State
	at      chain.Place // of the next line
	slow    *chain.Verifier
	facts   *facts
	entries uint64
	bytes   int64
	torn    []chain.Place
	whole   []chain.Tear // of those, the ones that hold whole lines
}

// facts is what a walk notes of good lines beside the chain.
type facts struct {
	open    map[runID]begin // calls that began and did not end
	ended   []runID         // calls that ended and began before this chunk
	first   stamp           // of the chunk's first line, at firstAt
	lastTS  stamp
	firstAt chain.Place
	back    []chain.Place // lines whose time is before that of the line before
	backs   int           // all of them; back holds the first
	ahead   chain.Place   // the first line whose time is beyond latest
	firstEv Event         // of the first line
	stray   chain.Place   // the first line after an audit.rotate of its segment
	hits    []hit
	last    Event // of the last line, if it ends or begins a segment
	pruned  []Pruned
	damage  []Damage
	store   *storeFacts // nil unless the store is verified too
}

// runID is the text of a run id, filled up with zeros.
type runID [32]byte

func (r runID) String() string { return string(bytes.TrimRight(r[:], "\x00")) }

// stamp is the text of a record's time, of one length and so in its order.
type stamp [30]byte

type begin struct {
	seq  uint64
	when stamp
}

// hit is a line that a checkpoint names.
type hit struct {
	at   chain.Place
	got  chain.Hash
	want string // what the checkpoint says
}

// see notes what verify tells of a line.
func (f *facts) see(l *chain.Line, at chain.Place, want map[uint64]string, latest stamp) {
	ts, ev, after := stampAndEvent(l.Payload)
	if bytes.Compare(ts[:], latest[:]) > 0 && f.ahead == (chain.Place{}) {
		f.ahead = at
	}
	if bytes.Compare(ts[:], f.lastTS[:]) < 0 {
		f.wentBack(at)
	}
	if f.first == (stamp{}) {
		f.first, f.firstAt, f.firstEv = ts, at, Event(ev)
	}
	if f.last != "" { // else nothing to ask, and no text to make of ev
		f.after(Event(ev), at)
	}
	f.lastTS, f.last = ts, ""
	switch Event(ev) {
	case CallBegin:
		if run, ok := runOf(after); ok {
			f.open[run] = begin{l.Seq, ts}
		}
	case Called, Refused:
		if run, ok := runOf(after); !ok {
			break
		} else if _, began := f.open[run]; began {
			delete(f.open, run)
		} else {
			f.ended = append(f.ended, run)
		}
	case RotateEvent:
		f.last = RotateEvent
	case PrunedEvent:
		if p, ok := detailsOf[Pruned](l.Payload); ok {
			f.pruned = append(f.pruned, p)
		}
	case RecoveredEvent:
		if d, ok := detailsOf[Damage](l.Payload); ok && d.Len > 0 {
			f.damage = append(f.damage, d)
		}
	}
	if len(want) > 0 {
		if sha, ok := want[l.Seq]; ok {
			f.hits = append(f.hits, hit{at, l.Sha, sha})
		}
	}
	if f.store != nil {
		f.store.see(Event(ev), after, l)
	}
}

func (f *facts) wentBack(at chain.Place) {
	if f.backs++; len(f.back) < 10 {
		f.back = append(f.back, at)
	}
}

// after notes a line that stands after the audit.rotate of its segment; the
// record that adopts an audit.rotate without its newline may.
func (f *facts) after(ev Event, at chain.Place) {
	if f.last == RotateEvent && ev != TornEvent && f.stray == (chain.Place{}) {
		f.stray = at
	}
}

// join adds what a later chunk noted; its places count lines from line.
func (f *facts) join(g *facts, line int64) {
	for _, run := range g.ended {
		delete(f.open, run)
	}
	for run, b := range g.open {
		f.open[run] = b
	}
	if bytes.Compare(g.first[:], f.lastTS[:]) < 0 && g.first != (stamp{}) {
		g.back, g.backs = append([]chain.Place{g.firstAt}, g.back...), g.backs+1
	}
	for _, p := range g.back {
		p.Line += line - 1
		f.wentBack(p)
	}
	f.backs += g.backs - len(g.back)
	if f.ahead == (chain.Place{}) && g.ahead != (chain.Place{}) {
		f.ahead = g.ahead
		f.ahead.Line += line - 1
	}
	if g.first != (stamp{}) {
		at := g.firstAt
		at.Line += line - 1
		f.after(g.firstEv, at)
	}
	if f.stray == (chain.Place{}) && g.stray != (chain.Place{}) {
		f.stray = g.stray
		f.stray.Line += line - 1
	}
	for _, h := range g.hits {
		h.at.Line += line - 1
		f.hits = append(f.hits, h)
	}
	f.pruned = append(f.pruned, g.pruned...)
	f.damage = append(f.damage, g.damage...)
	if g.lastTS != (stamp{}) {
		f.lastTS, f.last = g.lastTS, g.last
	}
	if f.store != nil {
		f.store.join(g.store)
	}
}

const (
	beforeTS = `"ts":"`
	beforeEv = `","ev":"`
)

// eventAt is where the event of a payload begins: at a fixed place after seq. 0
// for a payload of another form.
func eventAt(p []byte) int {
	i := bytes.IndexByte(p[:min(len(p), 32)], ',') + 1
	at := i + len(beforeTS) + len(stamp{}) + len(beforeEv)
	if i == 0 || len(p) < at || string(p[i:i+len(beforeTS)]) != beforeTS || string(p[at-len(beforeEv):at]) != beforeEv {
		return 0
	}
	return at
}

// stampAndEvent reads a payload's time and event, and returns what follows them;
// nil for a payload of another form.
func stampAndEvent(p []byte) (ts stamp, ev, after []byte) {
	at := eventAt(p)
	if at == 0 {
		return ts, nil, nil
	}
	ts = stamp(p[at-len(beforeEv)-len(ts):])
	i := bytes.IndexByte(p[at:], '"')
	if i < 0 {
		return ts, nil, nil
	}
	return ts, p[at : at+i], p[at+i+1:]
}

// hasEvent says whether a payload is of that event.
func hasEvent(p []byte, ev Event) bool {
	at := eventAt(p)
	end := at + len(ev)
	return at > 0 && len(p) > end && string(p[at:end]) == string(ev) && p[end] == '"'
}

// runOf reads a record's run in what follows its event. Between the event and it stand the severity, a
// persona and a session at most: strings of our own that hold no quote.
func runOf(rest []byte) (run runID, ok bool) {
	for range 4 {
		// ,"name":"value"
		if len(rest) < 2 || rest[0] != ',' || rest[1] != '"' {
			return run, false
		}
		name := rest[2:]
		end := bytes.IndexByte(name, '"')
		if end < 0 || len(name) < end+3 || name[end+1] != ':' || name[end+2] != '"' {
			return run, false
		}
		value := name[end+3:]
		name = name[:end]
		end = bytes.IndexByte(value, '"')
		if end < 0 {
			return run, false
		}
		if string(name) == "run" {
			return run, copy(run[:], value[:end]) == end && end > 0
		}
		rest = value[end+1:]
	}
	return run, false
}

// detailsOf reads a record's details.
func detailsOf[T any](payload []byte) (T, bool) {
	var p struct {
		Details T `json:"details"`
	}
	err := json.Unmarshal(payload, &p)
	return p.Details, err == nil
}

// chunk is some whole lines of a segment, and at the segment's end the rest.
type chunk struct {
	text  []byte
	state chain.State // before it, as the line before says
	at    chain.Place // offset right, line counted from 1
	out   chan scanned
}

type scanned struct {
	state chain.State
	at    chain.Place
	facts *facts
	all   bool // nothing was out of order
}

// segment walks one segment from w.at on, up to size bytes; last says that no
// other follows.
func (w *walker) segment(f io.ReaderAt, size int64) error {
	if w.slow == nil && w.at.Offset < size {
		if err := w.fast(f, size); err != nil {
			return err
		}
	}
	if w.slow != nil {
		before := w.slow.Next().Offset
		if err := w.slow.Read(io.NewSectionReader(f, before, size-before)); err != nil {
			return err
		}
		w.report(w.slow.Next().Offset - before)
	}
	return nil
}

func (w *walker) report(n int64) {
	w.bytes += n
	if w.progress != nil {
		w.progress(n)
	}
}

// fast walks chunks at once and joins them in order. It ends at the segment's
// end, or where w.slow has to go on.
func (w *walker) fast(f io.ReaderAt, size int64) error {
	queue := make(chan *chunk, w.workers)
	order := make(chan *chunk, w.workers)
	stop := make(chan struct{})
	var failed error
	var wg sync.WaitGroup
	for range w.workers {
		wg.Go(func() {
			for c := range queue {
				w.scan(c)
			}
		})
	}
	wg.Go(func() {
		defer close(order)
		defer close(queue)
		failed = w.cut(f, size, func(c *chunk) bool {
			select {
			case order <- c:
			case <-stop:
				return false
			}
			queue <- c
			return true
		})
	})
	for c := range order {
		got := <-c.out
		w.giveBack(c.text)
		if w.slow != nil {
			continue // drained: a line before this one is out of order
		}
		w.facts.join(got.facts, w.at.Line)
		w.entries += got.state.Seq - w.state.Seq
		w.report(got.at.Offset - w.at.Offset)
		line := w.at.Line + got.at.Line - 1
		w.state, w.at = got.state, got.at
		w.at.Line = line
		if !got.all {
			w.slow = chain.NewVerifier(w.checks(w.facts), w.state, w.at)
			close(stop)
		}
	}
	wg.Wait()
	return failed
}

// buffer returns memory for a chunk.
func (w *walker) buffer() []byte {
	w.freeMu.Lock()
	defer w.freeMu.Unlock()
	if n := len(w.free); n > 0 {
		b := w.free[n-1]
		w.free = w.free[:n-1]
		return b
	}
	return make([]byte, chunkBytes)
}

func (w *walker) giveBack(text []byte) {
	w.freeMu.Lock()
	defer w.freeMu.Unlock()
	w.free = append(w.free, text[:chunkBytes])
}

// checks are those of a verifier, or worker, that notes into f.
func (w *walker) checks(f *facts) chain.Checks {
	return chain.Checks{TornOf: TornOf, Strict: w.strict, Each: func(l *chain.Line, at chain.Place) {
		if f == w.facts {
			w.entries++
		}
		f.see(l, at, w.want, w.latest)
	}}
}

func (w *walker) newFacts() *facts {
	f := &facts{open: map[runID]begin{}}
	if w.store {
		f.store = newStoreFacts(w.until)
	}
	return f
}

func (w *walker) scan(c *chunk) {
	f := w.newFacts()
	checks := w.checks(f)
	st, at := checks.Scan(c.text, c.state, c.at)
	c.out <- scanned{st, at, f, at.Offset-c.at.Offset == int64(len(c.text))}
}

// cut reads a segment into chunks that end at a newline and hands each to give,
// until that returns false. Where a chunk holds no newline, it is the last: its
// scan sends a verifier that way.
func (w *walker) cut(f io.ReaderAt, size int64, give func(*chunk) bool) error {
	state, at := w.state, w.at
	at.Line = 1
	for at.Offset < size {
		text := w.buffer()[:min(chunkBytes, size-at.Offset)]
		if _, err := f.ReadAt(text, at.Offset); err != nil {
			return err
		}
		end := bytes.LastIndexByte(text, '\n') + 1
		final := at.Offset+int64(len(text)) == size
		if !final && end > 0 {
			text = text[:end]
		}
		c := &chunk{text: text, state: state, at: at, out: make(chan scanned, 1)}
		if !give(c) || end == 0 {
			return nil
		}
		at.Offset += int64(len(text))
		if st, ok := chain.Claims(text[bytes.LastIndexByte(text[:end-1], '\n')+1 : end]); ok {
			state = st
		}
	}
	return nil
}

// openSegment opens a segment for reading, if it is safe to believe.
func openSegment(st *store.Store, n int) (*os.File, int64, error) {
	path := st.Segment(n)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, err
	case err != nil:
		return nil, 0, fail.New(fail.IOError, "", "%w", err)
	}
	fi, err := safe(f)
	if err != nil {
		f.Close()
		e := fail.Of(err)
		return nil, 0, fail.New(fail.IOError, e.Hint, "%s: %w", path, err)
	}
	return f, fi.Size, nil
}

// workersFor is how many workers a walk takes when nobody says.
func workersFor(n int) int {
	if n > 0 {
		return min(n, maxWorkers)
	}
	return min(runtime.GOMAXPROCS(0), maxWorkers)
}
