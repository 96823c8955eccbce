package trail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// storeFacts is what the store is held against: the digests that were recorded,
// and the runs with the hash of their manifests.
type storeFacts struct {
	digests map[string]bool
	runs    map[runID]string // manifest_sha256 of forge.called
	pruned  bool             // those before may be gone
}

func newStoreFacts() *storeFacts {
	return &storeFacts{digests: map[string]bool{}, runs: map[runID]string{}}
}

func (s *storeFacts) see(ev Event, after []byte, l *chain.Line) {
	switch ev {
	case Created, Replaced, Adopted, Promoted:
		if d, ok := memberOf(l.Payload, "digest"); ok {
			s.digests[d] = true
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

func (s *storeFacts) join(t *storeFacts) {
	if t.pruned {
		clear(s.runs)
	}
	for d := range t.digests {
		s.digests[d] = true
	}
	for run, sum := range t.runs {
		s.runs[run] = sum
	}
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
func (r *Report) store(st *store.Store, facts *storeFacts) error {
	bad := func(format string, path string) {
		r.Verdict, r.Reason = Tampered, "store"
		r.Text = strings.ReplaceAll(format, "%", path)
	}
	ledger, err := os.ReadDir(st.LedgerDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail.New(fail.IOError, "", "%w", err)
	}
	for _, e := range ledger {
		if digest, ok := strings.CutSuffix(e.Name(), ".json"); ok && !facts.digests[digest] && !strings.HasPrefix(e.Name(), ".") {
			bad("%: the chain has no record of this definition", st.Ledger(digest))
			return nil
		}
	}
	if err := r.tools(st, bad); err != nil || r.Verdict != Intact {
		return err
	}
	for run, sum := range facts.runs {
		path := filepath.Join(st.Run(run.String()), "run_manifest.json")
		b, err := store.ReadFile(path, wire.File.Size)
		switch {
		case err != nil:
			bad("%: the manifest of a recorded run is gone", path)
			return nil
		case wire.Sum(b) != sum:
			bad("%: the manifest is not the one that was recorded", path)
			return nil
		}
	}
	return nil
}

// tools holds every tool file of the store to its own digest, and warns of those
// that the ledger does not know.
func (r *Report) tools(st *store.Store, bad func(format, path string)) error {
	return filepath.WalkDir(st.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // not there, or not ours to read
		}
		rel, _ := filepath.Rel(st.Root, path)
		if d.IsDir() {
			switch top, _, _ := strings.Cut(rel, string(filepath.Separator)); top {
			case ".", "tools", "sessions":
				return nil
			}
			return filepath.SkipDir
		}
		if filepath.Base(filepath.Dir(path)) != "tools" || !strings.HasSuffix(path, ".json") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		b, err := store.ReadFile(path, wire.File.Size)
		if err != nil {
			return err
		}
		digest, ok := wire.Sealed(b)
		if !ok {
			bad("%: the digest does not fit", path)
			return fs.SkipAll
		}
		if _, err := os.Lstat(st.Ledger(digest)); err != nil {
			r.warn("%s: never recorded in this store, and does not run", path)
		}
		return nil
	})
}
