package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"forge/lib/cache"
	"forge/lib/cmdline"
	"forge/lib/runs"
	"forge/lib/sandbox"
	"forge/lib/schema"
	"forge/lib/store"
	"forge/lib/wire"
)

// cacheable says whether the answer depends on nothing but the definition, the
// input and the content of files bound read-only.
func (r *calling) cacheable() bool {
	m := r.entry.Tool.Meta
	_, rw := r.schema.Modes()
	network := r.entry.Tool.Has("network") && r.policy.Network(r.Persona)
	return m.Deterministic && len(m.Secrets) == 0 && !rw && !network && !r.schema.HasRedact()
}

// peek looks for a cached answer to these very bytes, and leaves the key under
// which the answer of a run is stored. Whatever is in the way is left to the
// steps that follow, which say what it is.
func (r *calling) peek(ctx context.Context) bool {
	for _, b := range r.schema.Binds(r.input) {
		p, err := sandbox.PrepareBind(sandbox.Bind{Path: b.Path, Mode: b.Mode}, r.Dir, r.Store.Root)
		if err != nil {
			r.forget()
			return false
		}
		r.binds = append(r.binds, p)
		if p.Dir {
			r.forget()
			return false // its content is not hashed
		}
		f, err := p.Open()
		if err != nil {
			r.forget()
			return false
		}
		h, err := cache.Hash(ctx, p.Path, f)
		f.Close()
		if err != nil {
			r.forget()
			return false
		}
		r.files = append(r.files, h)
	}
	r.key = cacheKey(r.entry.Tool.Digest, r.lowered, r.bytes, r.files)
	if r.req.NoCache {
		return false
	}
	r.hit = cache.Get(r.Store, r.key)
	return r.hit != nil
}

// cacheKey is the key of a call: with what of the schema was enforced, since an
// answer that is found is not checked again.
func cacheKey(digest string, lowered wire.Value, input []byte, files []cache.File) string {
	sum := sha256.Sum256(lowered.Bytes())
	return cache.Key(fmt.Sprintf("%s lowering %d %x", digest, schema.Lowering, sum), input, files)
}

// forget undoes peek: the call is not cached.
func (r *calling) forget() {
	r.release()
	r.binds, r.files = nil, nil
}

// keep stores an answer that another call may have, and says what the manifest
// calls it.
func (r *calling) keep(a *answer) string {
	if r.key == "" || a.outcome != runs.OK || a.truncated {
		return "none"
	}
	if meta, _ := a.tool.Get("meta"); meta.Type() == wire.Object {
		if d, ok := meta.Get("deterministic"); ok && d.Text() != "true" {
			return "none" // the tool itself says otherwise
		}
	}
	if len(a.files) > 0 {
		return "none" // files are of the run, not of the answer
	}
	for _, f := range r.files {
		if !f.Unchanged() {
			return "none"
		}
	}
	if stored, err := cache.Put(r.Store, r.key, cache.Entry{Run: r.run_.ID, Envelope: a.tool}); err != nil || !stored {
		return "none"
	}
	return "seed"
}

// replay answers from the cache: a run of its own on the trail, without a
// sandbox.
func (r *calling) replay(ctx context.Context) error {
	r.run_ = runs.New(r.Store)
	a := &answer{outcome: runs.OK, tool: r.hit.Envelope}
	m := r.manifest(a)
	m.Cache, m.Seed = "hit", r.hit.Run
	m.Sandbox.Label = "none (cached)"
	m.Started, m.MS = stamp(r.began), time.Since(r.began).Milliseconds()
	if err := r.finish(ctx, m, store.Renamed); err != nil {
		return err
	}
	return cmdline.Print(a.envelope(r.meta(m, nil)))
}
