// Forge-promote copies a tool to a wider scope.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/policy"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
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

func copyUp(ctx context.Context, k *cmdline.Caller, req *request, from *registry.Entry) (map[string]any, error) {
	to, err := target(k, req, from)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(k.Registry.Places, to) { // a project that is yet to be: made only when nothing refuses it
		if _, err := k.Registry.Free(to, from.Tool.Name, req.Replace); err != nil {
			return nil, err
		}
		if err := k.MakeProject(); err != nil {
			return nil, err
		}
	}
	unlock, err := k.Registry.Lock(ctx, to)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ledger := *from.Ledger
	data := map[string]any{"name": from.Tool.Name, "from": from.Place.Scope, "to": to.Scope, "digest": from.Tool.Digest, "version": ledger.Version}
	details := map[string]any{"from": from.Place.Scope, "to": to.Scope}
	old, err := k.Registry.Free(to, from.Tool.Name, req.Replace)
	switch {
	case err != nil:
		return nil, err
	case old == nil:
	case old.Tool.Digest == from.Tool.Digest:
		data["changed"] = false
		return data, nil
	case !req.Replace:
		return nil, conflict(from, old)
	default:
		details["old"] = old.Tool.Digest
		if old.Ledger != nil {
			ledger.Version = max(ledger.Version, old.Ledger.Version+1)
		}
	}
	details["version"], data["version"], data["changed"] = ledger.Version, ledger.Version, true
	if _, err := k.Trail.Append(ctx, trail.Record{Event: trail.Promoted, Tool: string(from.Tool.Name), Digest: from.Tool.Digest, Details: details}); err != nil {
		return nil, err
	}
	if ledger.Version != from.Ledger.Version {
		if _, err := k.Registry.Record(from.Tool.Digest, ledger); err != nil {
			return nil, err
		}
	}
	return data, k.Registry.Put(to, from.Tool)
}

// conflict shows both definitions.
func conflict(from, old *registry.Entry) error {
	side := func(e *registry.Entry) map[string]any {
		m := map[string]any{"scope": e.Place.Scope, "digest": e.Tool.Digest}
		if l := e.Ledger; l != nil {
			m["version"], m["created_at"], m["created_by"] = l.Version, l.CreatedAt, l.CreatedBy
		}
		return m
	}
	return fail.New(fail.Conflict, "compare the two, then --replace", "tool %q: scope %s has another definition, %.12s, than scope %s, %.12s",
		from.Tool.Name, old.Place.Scope, old.Tool.Digest, from.Place.Scope, from.Tool.Digest).
		With("from", side(from)).With("to", side(old))
}

// save forges the same definition as me.NAME: forge-forge has the checks.
func save(ctx context.Context, k *cmdline.Caller, t *tool.Tool, replace bool) error {
	path, err := cmdline.Sibling("forge-forge")
	if err != nil {
		return err
	}
	b, err := wire.Encode(t.Request())
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "--save", "--replace="+strconv.FormatBool(replace))
	cmd.Env = k.Environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(b), os.Stdout, os.Stderr
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() > 0 {
		return cmdline.Exit(e.ExitCode())
	}
	return err
}
