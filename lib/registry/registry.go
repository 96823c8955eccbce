// Package registry finds tools in the visible scopes and puts them there: one
// file a tool, no index. What it costs to find, add or remove one tool does not
// grow with how many there are.
package registry

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/wire"
)

// Registry is the tools of a store as one command sees them.
type Registry struct {
	st     *store.Store
	Places []store.Place // narrowest first
}

// New returns the registry of the places that are visible.
func New(st *store.Store, places []store.Place) *Registry { return &Registry{st, places} }

// Entry is one tool in one scope.
type Entry struct {
	Tool     *tool.Tool
	Place    store.Place
	Ledger   *Ledger // nil: this definition was never recorded in this store
	Shadowed bool    // a narrower scope has the name
}

// Ledger is what this store recorded of a definition. It stands apart from the
// tool's file, which may come from anywhere.
type Ledger struct {
	Format    string     `json:"format"`
	Seq       int64      `json:"seq"` // of the record of its creation
	Version   int64      `json:"version"`
	CreatedAt string     `json:"created_at"`
	CreatedBy CreatedBy  `json:"created_by"`
	Listed    bool       `json:"listed"` // tools/list may show it
	Reason    string     `json:"reason,omitempty"`
	Lowering  int64      `json:"lowering"`
	Lowered   wire.Value `json:"lowered"`
}

// CreatedBy says who forged a definition, as the environment named them.
type CreatedBy struct {
	Persona string `json:"persona,omitempty"`
	Session string `json:"session,omitempty"`
	UID     int64  `json:"uid"`
}

const ledgerFormat = "forge.ledger/1"

// Fault is a tool file that cannot be read as one. It hides only itself.
type Fault struct {
	Place store.Place
	Wire  string // the name its file stands under
	Err   error  // registry_malformed or io_error
}

// Resolve returns the narrowest definition of a name, given in either form.
// Errors: not_found naming the nearest, registry_malformed.
func (r *Registry) Resolve(name string) (*Entry, error) {
	return r.ResolveIn("", name)
}

// ResolveIn is Resolve within one scope; "" means all.
func (r *Registry) ResolveIn(scope store.Scope, name string) (*Entry, error) {
	n, err := tool.ParseName(name)
	if err != nil {
		return nil, err
	}
	for _, p := range r.Places {
		if scope != "" && p.Scope != scope {
			continue
		}
		t, err := read(p, n.Wire())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.Contains(name, ".") && string(t.Name) != name {
			continue // csv.stats was asked for, and csv_stats stands here
		}
		return r.entry(p, t)
	}
	return nil, r.notFound(scope, n)
}

func (r *Registry) entry(p store.Place, t *tool.Tool) (*Entry, error) {
	l, err := r.ledger(t.Digest)
	if err != nil {
		return nil, err
	}
	return &Entry{Tool: t, Place: p, Ledger: l}, nil
}

func (r *Registry) notFound(scope store.Scope, n tool.Name) error {
	in := "in no scope"
	if scope != "" {
		in = "not in scope " + string(scope)
	}
	hint := "forge-list shows the tools"
	if near := r.Nearest(string(n)); near != "" {
		hint += "; nearest: " + near
	}
	return fail.New(fail.NotFound, hint, "tool %q is %s", n, in)
}

// Nearest returns the wire name of a visible tool that name was likely meant to
// be, "" for none.
func (r *Registry) Nearest(name string) string {
	var names []string
	for _, p := range r.Places {
		list, _ := Names(p)
		names = append(names, list...)
	}
	return wire.Nearest(strings.ReplaceAll(name, ".", "_"), names)
}

// Names lists the wire names of a place's tool files, sorted, without reading
// them.
func Names(p store.Place) ([]string, error) {
	entries, err := os.ReadDir(p.Tools())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// read returns the tool that stands under a wire name in a place. The error is
// fs.ErrNotExist for none.
func read(p store.Place, wireName string) (*tool.Tool, error) {
	path := p.Tool(wireName)
	b, err := store.ReadFile(path, tool.MaxFile)
	if errors.Is(err, store.ErrTooLarge) {
		return nil, malformed(path, err)
	}
	if err != nil {
		return nil, err
	}
	t, err := tool.Parse(b)
	if err != nil {
		return nil, malformed(path, err)
	}
	if t.Name.Wire() != wireName {
		return nil, malformed(path, fail.New(fail.RegistryMalformed, "", "the tool in it is named %q", t.Name))
	}
	return t, nil
}

func malformed(path string, err error) error {
	return fail.New(fail.RegistryMalformed, "forge it again with --replace, or remove the file", "%s: %w", path, err)
}

// Read returns the entry that stands under a wire name in a place; the error is
// fs.ErrNotExist for none.
func (r *Registry) Read(p store.Place, wireName string) (*Entry, error) {
	t, err := read(p, wireName)
	if err != nil {
		return nil, err
	}
	return r.entry(p, t)
}

// List returns every tool of the visible scopes, narrowest scope first, then by
// wire name; and the files that are none.
func (r *Registry) List() ([]*Entry, []Fault, error) {
	var out []*Entry
	var faults []Fault
	seen := map[string]bool{}
	for _, p := range r.Places {
		names, err := Names(p)
		if err != nil {
			return nil, nil, err
		}
		for _, n := range names {
			e, err := r.Read(p, n)
			switch {
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
				continue
			case err != nil:
				// The name is refused while the file stands: no wider
				// definition shows through it.
				faults = append(faults, Fault{p, n, err})
				seen[n] = true
				continue
			}
			e.Shadowed = seen[n]
			seen[n] = true
			out = append(out, e)
		}
	}
	return out, faults, nil
}

// Place returns the place of a scope, not_found where it does not exist here.
func (r *Registry) Place(scope store.Scope) (store.Place, error) {
	for _, p := range r.Places {
		if p.Scope == scope {
			return p, nil
		}
	}
	if !slices.Contains(store.Ladder, scope) {
		return store.Place{}, fail.New(fail.Usage, "the scopes are: task, session, project, user", "scope %q is not one", scope)
	}
	hint := map[store.Scope]string{
		store.Task:    "set FORGE_SESSION and FORGE_TASK",
		store.Session: "set FORGE_SESSION",
		store.Project: "forge-forge --scope project makes .forge beside .git",
	}[scope]
	return store.Place{}, fail.New(fail.NotFound, hint, "there is no scope %s here", scope)
}

// Lock keeps others from adding to or removing from a place.
func (r *Registry) Lock(ctx context.Context, p store.Place) (unlock func(), err error) {
	return r.st.Lock(ctx, p.ToolsLock(), 10*time.Second)
}

// Free says whether a name may be taken in a place, which is locked: nil, nil
// if it is free, the entry that has it, or an error of kind name_taken where a
// tool of another name has its wire name in any visible scope. A file there
// that is no tool counts as free to replace, not to create: the error then is
// registry_malformed.
func (r *Registry) Free(p store.Place, n tool.Name, replace bool) (*Entry, error) {
	var own *Entry
	var bad error
	for _, q := range r.Places {
		e, err := r.Read(q, n.Wire())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil && q == p && !(replace && fail.KindOf(err) == fail.RegistryMalformed):
			bad = err
		case err != nil:
			continue // a bad file in another scope hides only itself
		case e.Tool.Name != n:
			return nil, fail.New(fail.NameTaken, "choose another name", "name %q: %q in scope %s has the same wire name %s",
				n, e.Tool.Name, q.Scope, n.Wire())
		case q == p:
			own = e
		}
	}
	return own, bad
}

// Taken is the error for a name that e has.
func Taken(e *Entry) error {
	return fail.New(fail.NameTaken, "choose another name, or replace it (--replace)", "name %q is taken in scope %s", e.Tool.Name, e.Place.Scope).
		With("digest", e.Tool.Digest)
}

// Put makes a tool appear in a place, which is locked. Its ledger entry must be
// there before.
func (r *Registry) Put(p store.Place, t *tool.Tool) error {
	return r.st.WriteFile(p.Tool(t.Name.Wire()), t.Encode(), store.Synced)
}

// Version is the version that Record gives a definition which is to have v.
func (r *Registry) Version(digest string, v int64) int64 {
	if old, err := r.ledger(digest); err == nil && old != nil {
		return max(v, old.Version)
	}
	return v
}

// Record writes the ledger entry of a definition and returns it as it stands
// then. The record on the chain comes before it, the tool's file after it. A
// version belongs to a digest, whatever scopes it is in: an entry that is there
// keeps who made it first, and its version only grows.
func (r *Registry) Record(digest string, l Ledger) (Ledger, error) {
	old, err := r.ledger(digest)
	if err == nil && old != nil {
		l.Seq, l.CreatedAt, l.CreatedBy = old.Seq, old.CreatedAt, old.CreatedBy
		l.Version = max(l.Version, old.Version)
	}
	l.Format = ledgerFormat
	b, err := wire.Encode(l)
	if err != nil {
		return l, err
	}
	return l, r.st.WriteFile(r.st.Ledger(digest), append(b, '\n'), store.Synced)
}

// ledger reads the entry of a definition, nil if there is none.
func (r *Registry) ledger(digest string) (*Ledger, error) {
	path := r.st.Ledger(digest)
	b, err := store.ReadOwn(path, wire.File.Size)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var l Ledger
	v, err := wire.Parse(b, wire.File)
	if err == nil {
		err = wire.DecodeRecord(v, &l)
	}
	if err == nil && l.Format != ledgerFormat {
		err = fail.New(fail.RegistryMalformed, "", "format %q, want %q", l.Format, ledgerFormat)
	}
	if err != nil {
		return nil, malformed(path, err)
	}
	return &l, nil
}

// Unrecorded is the error for a tool whose definition this store never
// recorded, nil for the others.
func (e *Entry) Unrecorded() error {
	if e.Ledger != nil {
		return nil
	}
	return fail.New(fail.Unrecorded, "read it, then: forge-forge --replace < "+e.Place.Tool(e.Tool.Name.Wire()),
		"tool %q in scope %s was never recorded in this store", e.Tool.Name, e.Place.Scope).With("digest", e.Tool.Digest)
}
