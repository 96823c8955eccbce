package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/registry"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

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
