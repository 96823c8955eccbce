// Forge-forge checks a tool and registers it.
package main

import (
	"context"
	_ "embed"

	"github.com/urfave/cli/v3"

	"forge/lib/breaker"
	"forge/lib/cmdline"
	"forge/lib/policy"
	"forge/lib/registry"
	"forge/lib/schema"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

//go:embed describe.json
var describe []byte

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-forge", Usage: "check a tool and register it", ArgsUsage: "[DIRECTORY]",
		Description: "Reads a tool request, one JSON object, on standard input, or a DIRECTORY with tool.toml.",
		Flags: cmdline.Flags(
			cmdline.ScopeFlag("register there"),
			&cli.BoolFlag{Name: "check", Usage: "run every check and register nothing"},
			&cli.BoolFlag{Name: "replace", Usage: "replace the definition that has the name"},
			&cli.BoolFlag{Name: "save", Usage: "register as me.NAME in the user scope"},
			cmdline.RequestFlag(), cmdline.DescribeFlag(),
		),
		Action: forge,
	})
}

// forge checks the request, and registers it under the lock of its scope: the
// record first, then the ledger, then the file. A crash in between leaves a
// record without a tool, and the next forge succeeds.
func forge(ctx context.Context, c *cli.Command) error {
	if c.Bool("describe") {
		return cmdline.Describe(describe)
	}
	if c.Args().Len() > 1 {
		return cmdline.Usage(c, "%d directories, want one", c.Args().Len())
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	f := forging{Caller: k}
	if err := f.forge(ctx, c); err != nil {
		if f.check {
			return err
		}
		return k.Refuse(ctx, "forge", f.record, err)
	}
	return cmdline.OK(f.data(), struct{}{})
}

// forging is one forge on its way.
type forging struct {
	*cmdline.Caller
	check  bool
	record trail.Record // what a refusal would say
	policy *policy.Policy
	place  store.Place
	toBe   bool // the place is a project that is not there yet
	tool   *tool.Tool
	ledger registry.Ledger
	same   bool // the definition stands there already: nothing changed
}

func (f *forging) forge(ctx context.Context, c *cli.Command) (err error) {
	f.check = c.Bool("check")
	req, err := read(c)
	if err != nil {
		return err
	}
	f.check = f.check || req.Check
	if f.policy, err = f.Policy(); err != nil {
		return err
	}
	if f.place, err = f.placeOf(req); err != nil {
		return err
	}
	if err := f.examine(ctx, req); err != nil {
		return err
	}
	if f.check || f.toBe {
		if err := f.would(req.Replace); err != nil || f.check {
			return err
		}
	}
	if f.toBe {
		if err := f.MakeProject(); err != nil {
			return err
		}
	}
	unlock, err := f.Registry.Lock(ctx, f.place)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := f.free(req.Replace)
	if err != nil {
		return err
	}
	if old != nil && old.Ledger != nil && old.Tool.Digest == f.tool.Digest {
		f.ledger.Version, f.same = old.Ledger.Version, true
		return nil
	}
	if f.Session != "" {
		if err := breaker.Forge(ctx, f.Store, f.Store.SessionState(f.Session), f.policy.Breakers.PerSessionForgeCount); err != nil {
			return err
		}
	}
	return f.register(ctx, old)
}

// would says what the steps under the lock would, and counts nothing.
func (f *forging) would(replace bool) error {
	if _, err := f.free(replace); err != nil || f.Session == "" {
		return err
	}
	return breaker.MayForge(f.Store.SessionState(f.Session), f.policy.Breakers.PerSessionForgeCount)
}

// free returns the entry that the forge replaces, nil for none.
func (f *forging) free(replace bool) (*registry.Entry, error) {
	old, err := f.Registry.Free(f.place, f.tool.Name, replace)
	if err == nil && old != nil && !replace {
		return nil, registry.Taken(old)
	}
	return old, err
}

func (f *forging) register(ctx context.Context, old *registry.Entry) error {
	details := map[string]any{
		"scope": f.place.Scope, "runtime": f.tool.Runtime,
		"schema_sha256": wire.Sum(f.tool.InputSchema.Bytes()), "capabilities": f.tool.Meta.Capabilities,
		"lowered_sha256": wire.Sum(f.ledger.Lowered.Bytes()),
	}
	rec := trail.Record{Event: trail.Created, Tool: string(f.tool.Name), Digest: f.tool.Digest, Details: details}
	f.ledger.Version = 1
	if old != nil {
		rec.Event, details["old"] = trail.Replaced, old.Tool.Digest
		if old.Ledger != nil {
			f.ledger.Version = old.Ledger.Version + 1
		}
	}
	f.ledger.Version = f.Registry.Version(f.tool.Digest, f.ledger.Version)
	details["version"] = f.ledger.Version
	seq, err := f.Trail.Append(ctx, rec)
	if err != nil {
		return err
	}
	f.ledger.Seq = int64(seq)
	f.ledger.CreatedAt = f.Store.Now().UTC().Format("2006-01-02T15:04:05Z")
	if f.ledger, err = f.Registry.Record(f.tool.Digest, f.ledger); err != nil {
		return err
	}
	return f.Registry.Put(f.place, f.tool)
}

func (f *forging) data() map[string]any {
	d := map[string]any{
		"name": f.tool.Name, "wire_name": f.tool.Name.Wire(), "scope": f.place.Scope, "digest": f.tool.Digest,
		"capabilities": f.tool.Meta.Capabilities, "listed": f.ledger.Listed,
	}
	if f.check {
		d["checked"] = true
	} else {
		d["version"] = f.ledger.Version
	}
	if f.same {
		d["changed"] = false
	}
	if f.ledger.Reason != "" {
		d["reason"] = f.ledger.Reason
	}
	return d
}

// lower readies the ledger's part of the schema.
func (f *forging) lower() (*schema.Schema, error) {
	lowered, err := schema.Lower(f.tool.InputSchema)
	if err != nil {
		return nil, err
	}
	_, reason := schema.Wire(f.tool.InputSchema)
	f.ledger.Lowering, f.ledger.Lowered = schema.Lowering, lowered
	f.ledger.Listed, f.ledger.Reason = reason == "", reason
	return schema.Compile(f.tool.InputSchema, lowered)
}
