package trail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// storeFacts is what the store is held against: the definitions that were
// recorded, and the runs with the hash of their manifests.
type storeFacts struct {
	now    definitions
	past   definitions      // as they were after the record numbered until
	until  uint64           // 0 where nobody asks
	runs   map[runID]string // manifest_sha256 of forge.called
	pruned bool             // the runs of before are gone
}

// definitions is what the chain says of each digest.
type definitions map[string]definition

type definition struct {
	Seq     uint64 `json:"seq"`  // of the first record of it
	Last    uint64 `json:"last"` // of the last
	Version int64  `json:"version"`
	Lowered string `json:"lowered_sha256,omitempty"` // of the document that enforces its schema
}

func newStoreFacts(until uint64) *storeFacts {
	return &storeFacts{now: definitions{}, past: definitions{}, until: until, runs: map[runID]string{}}
}

func (s *storeFacts) see(ev Event, after []byte, l *chain.Line) {
	switch ev {
	case Created, Replaced, Adopted, Promoted:
		digest, ok := memberOf(l.Payload, "digest")
		d, has := detailsOf[definition](l.Payload)
		if ok && has {
			d.Seq, d.Last = l.Seq, l.Seq
			s.now.add(digest, d)
			if l.Seq <= s.until {
				s.past.add(digest, d)
			}
		}
	case Called:
		run, ok := runOf(after)
		d, has := detailsOf[struct {
			Manifest string `json:"manifest_sha256"`
		}](l.Payload)
		if ok && has && d.Manifest != "" {
			s.runs[run] = d.Manifest
		}
	case "runs.pruned":
		clear(s.runs)
		s.pruned = true
	}
}

// add takes over what a record says of a definition, or what was kept of some:
// of two, the later one counts.
func (ds definitions) add(digest string, d definition) {
	if old, known := ds[digest]; known {
		newest := d
		if old.Last > d.Last {
			newest = old
		}
		d = definition{min(d.Seq, old.Seq), newest.Last, max(d.Version, old.Version), newest.Lowered}
		if d.Lowered == "" {
			d.Lowered = old.Lowered
		}
	}
	ds[digest] = d
}

func (ds definitions) join(more definitions) {
	for digest, d := range more {
		ds.add(digest, d)
	}
}

func (s *storeFacts) join(t *storeFacts) {
	if t.pruned {
		clear(s.runs)
	}
	s.now.join(t.now)
	s.past.join(t.past)
	for run, sum := range t.runs {
		s.runs[run] = sum
	}
}

// kept is the text of the file that Prune leaves for the definitions of the
// records that go.
type kept struct {
	Definitions definitions `json:"definitions"`
}

// memberOf reads a string member of a payload by its fixed form; our own members
// of that name hold no quote.
func memberOf(payload []byte, name string) (string, bool) {
	_, rest, ok := strings.Cut(string(payload), `,"`+name+`":"`)
	value, _, closed := strings.Cut(rest, `"`)
	return value, ok && closed
}

// store holds the ledger, the user scope's and the sessions' tools and the run
// manifests against the chain. The first that does not fit is tampering.
func (r *Report) store(st *store.Store, log *logFiles, w *walker) error {
	r.stored = w.facts.store
	if err := r.pruned(st, w); err != nil || r.Verdict == Tampered {
		return err
	}
	if r.ledger(st, log.ledger); r.Verdict == Tampered {
		return nil
	}
	if err := r.tools(st); err != nil || r.Verdict == Tampered {
		return err
	}
	return r.manifests(st)
}

// unstored makes it the finding that a file is not what the chain says.
func (r *Report) unstored(path, how string) {
	r.Verdict, r.Reason = Tampered, Unstored
	r.Text = path + ": store: " + how
}

// pruned takes in what the segments that are gone, or are to go, recorded: of
// the records of one prune, which may have been done again, the last counts.
func (r *Report) pruned(st *store.Store, w *walker) error {
	if w.from.Segment == 1 {
		return nil
	}
	seen := map[int]bool{}
	for _, p := range slices.Backward(w.facts.pruned) {
		if p.First < w.from.Segment || seen[p.First] {
			continue
		}
		seen[p.First] = true
		path := st.PrunedFile(p.First)
		b, err := store.ReadFile(path, wire.File.Size)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || wire.Sum(b) != p.Digests {
			r.unstored(path, "not the file that audit.pruned names")
			return nil
		}
		var k kept
		if err := json.Unmarshal(b, &k); err != nil {
			return fail.New(fail.IOError, "", "%s: %w", path, err)
		}
		r.stored.now.join(k.Definitions)
		r.stored.past.join(k.Definitions)
	}
	return nil
}

// entry is what the ledger says of a definition.
type entry struct {
	path, digest string
	version      int64
	lowered      string // the hash of its document
	malformed    bool
}

// entries reads the ledger, as who calls a tool does.
func entries(st *store.Store) ([]entry, error) {
	paths, err := store.List(st.LedgerDir(), ".json")
	if err != nil {
		return nil, err
	}
	var es []entry
	for _, path := range paths {
		b, err := store.ReadFile(path, wire.File.Size)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := entry{path: path, digest: strings.TrimSuffix(filepath.Base(path), ".json")}
		v, err := wire.Parse(b, wire.File)
		lowered, has := v.Get("lowered")
		version, _ := v.Get("version")
		n, isInt := version.Int()
		e.version, e.lowered, e.malformed = n, wire.Sum(lowered.Bytes()), err != nil || !has || !isInt
		es = append(es, e)
	}
	return es, nil
}

// ledger holds each entry against the records of its definition.
func (r *Report) ledger(st *store.Store, es []entry) {
	there := map[string]bool{}
	for _, e := range es {
		there[e.digest] = true
		want, known := r.stored.now[e.digest]
		switch {
		case !known:
			r.unstored(e.path, "the chain has no record of this definition")
		case e.malformed:
			r.unstored(e.path, "not an entry")
		case want.Lowered != "" && e.lowered != want.Lowered:
			r.unstored(e.path, "the document that enforces the schema is not the one that was recorded")
		case want.Version > 0 && e.version > want.Version:
			r.unstored(e.path, fmt.Sprintf("version %d, and the chain knows %d", e.version, want.Version))
		default:
			continue
		}
		return
	}
	for _, digest := range slices.Sorted(maps.Keys(r.stored.now)) {
		if !there[digest] {
			r.warn("%s: not there, and the definition was recorded; it does not run", st.Ledger(digest))
		}
	}
}

// manifests holds each to the hash that was recorded.
func (r *Report) manifests(st *store.Store) error {
	for run, sum := range r.stored.runs {
		path := filepath.Join(st.Run(run.String()), "run_manifest.json")
		b, err := store.ReadFile(path, wire.File.Size)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.unstored(path, "the manifest of a recorded run is gone")
			return nil
		case err != nil:
			return err
		case wire.Sum(b) != sum:
			r.unstored(path, "the manifest is not the one that was recorded")
			return nil
		}
	}
	return nil
}

// tools holds every tool file of the store to its own digest, and warns of those
// that the ledger does not know.
func (r *Report) tools(st *store.Store) error {
	return filepath.WalkDir(st.Root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(st.Root, path)
		top, _, _ := strings.Cut(rel, string(filepath.Separator))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case top != "." && top != "tools" && top != "sessions":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case err != nil:
			return fail.New(fail.IOError, "", "%w", err)
		case d.IsDir() || filepath.Base(filepath.Dir(path)) != "tools" || !strings.HasSuffix(path, ".json") || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		b, err := store.ReadFile(path, wire.File.Size)
		if err != nil {
			return err
		}
		digest, ok := wire.Sealed(b)
		if !ok {
			r.unstored(path, "the digest does not fit")
			return fs.SkipAll
		}
		if _, err := os.Lstat(st.Ledger(digest)); err != nil {
			r.warn("%s: never recorded in this store, and does not run", path)
		}
		return nil
	})
}
