// Forge-promote copies a tool to a wider scope.
package main

import (
	"context"
	_ "embed"
	"slices"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/policy"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/trail"
)

//go:embed describe.json
var describe []byte

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-promote", Usage: "copy a tool to a wider scope", ArgsUsage: "NAME",
		Flags: cmdline.Flags(
			&cli.StringFlag{Name: "to", Usage: "the target `SCOPE`: session, project or user; else the next wider one"},
			&cli.BoolFlag{Name: "replace", Usage: "replace another definition that has the name there"},
			&cli.BoolFlag{Name: "save", Usage: "forge the same definition as me.NAME in the user scope"},
			cmdline.RequestFlag(), cmdline.DescribeFlag(),
		),
		Action: promote,
	})
}

// request has the names of the argument and the flags.
type request struct {
	Name    string `json:"name"`
	To      string `json:"to"`
	Replace bool   `json:"replace"`
	Save    bool   `json:"save"`
}

// promote copies the bytes of the narrowest definition: the record first, then
// the file. The ledger knows the digest already.
func promote(ctx context.Context, c *cli.Command) error {
	if c.Bool("describe") {
		return cmdline.Describe(describe)
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	rec := trail.Record{}
	req, err := read(c)
	if err != nil {
		return k.Refuse(ctx, "promote", rec, err)
	}
	from, err := source(k, req, &rec)
	if err != nil {
		return k.Refuse(ctx, "promote", rec, err)
	}
	if req.Save {
		return save(ctx, k, from.Tool, req.Replace)
	}
	data, err := copyUp(ctx, k, req, from)
	if err != nil {
		return k.Refuse(ctx, "promote", rec, err)
	}
	return cmdline.OK(data, struct{}{})
}

func read(c *cli.Command) (*request, error) {
	r := &request{}
	if c.Bool("request") {
		if c.Args().Present() {
			return nil, cmdline.Usage(c, "--request takes no arguments")
		}
		if err := cmdline.Request(c, r); err != nil {
			return nil, err
		}
	} else {
		if c.Args().Len() != 1 {
			return nil, cmdline.Usage(c, "%d names, want one", c.Args().Len())
		}
		r.Name = c.Args().First()
	}
	cmdline.Override(c, "to", &r.To)
	r.Replace = r.Replace || c.Bool("replace")
	r.Save = r.Save || c.Bool("save")
	if r.Save && r.To != "" {
		return nil, cmdline.Usage(c, "--save goes to the user scope, and --to says %q", r.To)
	}
	return r, nil
}

// source resolves the tool and holds it against the policy and the ledger.
func source(k *cmdline.Caller, req *request, rec *trail.Record) (*registry.Entry, error) {
	p, err := k.Policy()
	if err != nil {
		return nil, err
	}
	from, err := k.Registry.Resolve(req.Name)
	if err != nil {
		return nil, err
	}
	rec.Tool, rec.Digest = string(from.Tool.Name), from.Tool.Digest
	if err := policy.Allowed(k.Allowed, from.Tool.Name); err != nil {
		return nil, err
	}
	if err := p.Forbidden(from.Tool.Name); err != nil {
		return nil, err
	}
	if !req.Save { // me. is nobody's namespace
		if err := p.Namespace(k.Persona, from.Tool.Name); err != nil {
			return nil, err
		}
	}
	return from, from.Unrecorded()
}

// target is the scope that --to names, or the next wider one that exists.
func target(k *cmdline.Caller, req *request, from *registry.Entry) (store.Place, error) {
	rank := func(s store.Scope) int { return slices.Index(store.Ladder, s) }
	if req.To != "" {
		to := store.Scope(req.To)
		if r := rank(to); r >= 0 && r <= rank(from.Place.Scope) {
			return store.Place{}, fail.New(fail.Usage, "name a wider scope", "%q is in scope %s, and %s is not wider", from.Tool.Name, from.Place.Scope, to)
		}
		p, err := k.Registry.Place(to)
		if fail.KindOf(err) == fail.NotFound && to == store.Project {
			return k.ProjectToBe()
		}
		return p, err
	}
	for _, p := range k.Registry.Places {
		if rank(p.Scope) > rank(from.Place.Scope) {
			return p, nil
		}
	}
	return store.Place{}, fail.New(fail.NotFound, "--save keeps it for you as me."+string(from.Tool.Name),
		"%q is in scope %s, and there is no wider one", from.Tool.Name, from.Place.Scope)
}
