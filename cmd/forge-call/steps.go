package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"forge/lib/breaker"
	"forge/lib/cache"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/policy"
	"forge/lib/redact"
	"forge/lib/registry"
	"forge/lib/runs"
	"forge/lib/sandbox"
	"forge/lib/schema"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

// calling is one call on its way; each step leaves what later ones need.
type calling struct {
	*cmdline.Caller
	req    *request
	began  time.Time
	policy *policy.Policy
	name   tool.Name

	entry   *registry.Entry
	schema  *schema.Schema
	lowered wire.Value // what of the schema is enforced
	limits  tool.Limits
	clamps  map[string]any // limits that were lowered

	input wire.Value // as it was validated
	bytes []byte     // as the tool gets it
	binds []*sandbox.Prepared
	key   string       // of the cache, "" where the call is not cached
	files []cache.File // what the key stands on
	hit   *cache.Entry

	run_   *runs.Run
	mask   *redact.Masker
	told   bool // the refusal is on the trail already, as an event of its own
	ended  bool // its end is on the trail
	failed bool // until the tool answered: an empty file made for it goes again
}

// subject says on a record what the call is of.
func (r *calling) subject() trail.Record {
	rec := trail.Record{Tool: string(r.name)}
	if r.entry != nil {
		rec.Tool, rec.Digest = string(r.entry.Tool.Name), r.entry.Tool.Digest
	}
	if r.run_ != nil {
		rec.Run = r.run_.ID
	}
	return rec
}

// allow holds the name against the caller's tools and the policy as it is now.
func (r *calling) allow(context.Context, *cli.Command) (err error) {
	if r.name, err = tool.ParseName(r.req.Name); err != nil {
		return err
	}
	if r.policy, err = r.Policy(); err != nil {
		return err
	}
	if err := policy.Allowed(r.Allowed, r.name); err != nil {
		return err
	}
	return r.policy.Forbidden(r.name)
}

// resolve finds the narrowest definition and holds it against the ledger.
func (r *calling) resolve(ctx context.Context, c *cli.Command) (err error) {
	if r.req.Scope != "" {
		if _, err := r.Registry.Place(r.req.scope()); err != nil {
			return err
		}
	}
	if r.entry, err = r.Registry.ResolveIn(r.req.scope(), string(r.name)); err != nil {
		return err
	}
	if err := r.entry.Unrecorded(); err != nil {
		return err
	}
	t := r.entry.Tool
	r.limits, r.clamps = t.Meta.Limits.Effective(r.policy.Limits)
	if r.req.Timeout > 0 {
		r.limits.WallS = min(r.req.Timeout, r.policy.Limits.WallS)
		if r.limits.WallS < r.req.Timeout {
			r.clamps["wall_s"] = r.limits.WallS
		}
	}
	r.schema, r.lowered, err = readySchema(r.entry)
	return err
}

// readySchema readies the schema of an entry that is recorded, and returns what
// it lowers to. A lowering older than ours is made afresh. (Registry does not: the validator costs each command
// that links it half a millisecond of its start.)
func readySchema(e *registry.Entry) (s *schema.Schema, lowered wire.Value, err error) {
	lowered = e.Ledger.Lowered
	if e.Ledger.Lowering != schema.Lowering {
		if lowered, err = schema.Lower(e.Tool.InputSchema); err != nil {
			return nil, wire.Value{}, err
		}
	}
	s, err = schema.Compile(e.Tool.InputSchema, lowered)
	return s, lowered, err
}

// rate counts the call. Cached ones count; --check only asks.
func (r *calling) rate(ctx context.Context, c *cli.Command) error {
	state := r.Store.ToolState(r.entry.Place.Root, r.entry.Tool.Name.Wire())
	if r.req.Check {
		return breaker.MayCall(r.Store, state, r.policy.Breakers.PerToolRPM)
	}
	turn, err := breaker.Call(ctx, r.Store, state, r.policy.Breakers.PerToolRPM)
	if turn == breaker.Same {
		return err
	}
	rec := r.subject()
	rec.Event = trail.BreakerClosed
	if turn == breaker.Opened {
		rec.Event = trail.BreakerOpen
	}
	rec.Details = map[string]any{"breaker": "per_tool_rpm", "limit": r.policy.Breakers.PerToolRPM}
	_, terr := r.Trail.Append(ctx, rec)
	r.told = turn == breaker.Opened && terr == nil
	if terr != nil && err == nil {
		return terr
	}
	return err
}

// validate reads the input and holds it against the schema. A cached answer to
// these very bytes, under this very lowering, is proof that they passed, where
// no file is part of the key.
func (r *calling) validate(ctx context.Context, c *cli.Command) (err error) {
	if r.req.Arguments != nil {
		r.input, err = wire.Parse(r.req.Arguments.Bytes(), wire.Instance)
		if err != nil {
			err = fmt.Errorf("arguments: %w", err)
		}
	} else {
		r.input, err = cmdline.Read(c, wire.Instance)
	}
	if err != nil {
		return err
	}
	r.input = r.schema.Normalize(r.input)
	r.bytes = r.input.Bytes()
	ro, rw := r.schema.Modes()
	checked := ro || rw // paths of an input that is not checked are not opened
	if checked {
		if err := r.schema.Check(r.input); err != nil {
			return err
		}
	}
	if r.cacheable() && !r.req.Check && r.peek(ctx) {
		return nil
	}
	if !checked {
		if err := r.schema.Check(r.input); err != nil {
			return err
		}
	}
	_, values := r.schema.Redact(r.input)
	r.mask = redact.New(values)
	return r.bind()
}

// bind opens the paths that the input names. Asked only whether it could, it
// makes no file.
func (r *calling) bind() error {
	if r.binds != nil {
		return nil // peek did
	}
	for _, b := range r.schema.Binds(r.input) {
		bind := sandbox.Bind{Path: b.Path, Mode: b.Mode}
		if r.req.Check && b.Mode == "rw" {
			if err := sandbox.WouldBind(bind, r.Dir, r.Store.Root); err != nil {
				return fmt.Errorf("%s: %w", b.Pointer, err)
			}
			continue
		}
		p, err := sandbox.PrepareBind(bind, r.Dir, r.Store.Root)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Pointer, err)
		}
		r.binds = append(r.binds, p)
	}
	return nil
}

// release gives the bound paths back.
func (r *calling) release() {
	for _, p := range r.binds {
		p.Close(r.failed)
	}
}

// secrets refuses a tool that declares any: there is no vault yet, and a tool
// is not run without what it asks for.
func (r *calling) secrets(context.Context, *cli.Command) error {
	if names := r.entry.Tool.Meta.Secrets; len(names) > 0 {
		return fail.New(fail.SecretDenied, "ask the operator; this version of Forge gives out no secrets", "tool %q asks for secrets: %s", r.entry.Tool.Name, strings.Join(names, ", ")).
			With("secrets", names)
	}
	if r.entry.Tool.Has("network") && r.policy.Network(r.Persona) {
		return fail.New(fail.NetworkUnavailable, `forge it with "capabilities" that leave network out`,
			"tool %q has the capability network, and this version of Forge opens none", r.entry.Tool.Name)
	}
	return nil
}

// checked is what --check answers.
func (r *calling) checked() map[string]any {
	return map[string]any{
		"tool": r.entry.Tool.Name, "digest": r.entry.Tool.Digest, "scope": r.entry.Place.Scope,
		"version": r.entry.Ledger.Version, "checked": true,
	}
}

// begin puts the call on the trail. Nothing runs before it is on the disk.
func (r *calling) begin(ctx context.Context) error {
	rec := r.subject()
	rec.Event = trail.CallBegin
	rec.Details = map[string]any{
		"scope": r.entry.Place.Scope, "version": r.entry.Ledger.Version,
		"input_bytes": len(r.bytes), "sandbox": sandbox.Label(),
	}
	_, err := r.Trail.Append(ctx, rec)
	return err
}
