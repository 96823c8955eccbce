package main

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/trail"
)

func keygen(_ context.Context, c *cli.Command) error {
	name := c.Args().First()
	if c.Args().Len() > 1 {
		return cmdline.Usage(c, "%d names, want one", c.Args().Len())
	}
	if name == "" {
		name = "audit"
	}
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return err
	}
	public, err := trail.NewKey(k.Store, name)
	if err != nil {
		return err
	}
	return cmdline.OK(map[string]any{"name": name, "public": public}, struct{}{})
}

func checkpoint(ctx context.Context, c *cli.Command) error {
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return err
	}
	private, err := trail.SigningKey(k.Store, c.String("key"))
	if err != nil {
		return err
	}
	at, note, err := trail.Checkpoint(ctx, k.Trail, private)
	switch {
	case err != nil:
		return err
	case at == nil && c.Bool("note"):
		return nil
	case at == nil:
		return cmdline.OK(map[string]any{"changed": false}, struct{}{})
	case c.Bool("note"):
		return cmdline.PrintText(string(note))
	}
	return cmdline.OK(map[string]any{"changed": true, "seq": at.Seq, "sha": at.Sha, "log": at.Log, "segment": at.Segment, "end": at.End, "note": string(note)}, struct{}{})
}

func prune(ctx context.Context, c *cli.Command) error {
	first, err := strconv.Atoi(c.Args().First())
	if c.Args().Len() != 1 || err != nil {
		return cmdline.Usage(c, "want the number of the first segment to keep")
	}
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return err
	}
	trusted, err := trail.TrustedKeys(k.Store, nil)
	if err != nil {
		return err
	}
	notes, err := trail.Load(k.Store, trusted, false)
	if err != nil {
		return err
	}
	p, err := trail.Prune(ctx, k.Trail, first, notes)
	if err != nil {
		return err
	}
	return cmdline.OK(p, struct{}{})
}

// recovered is the answer of recover. Damage further up the chain stays, and
// Verdict says so.
type recovered struct {
	Changed  bool          `json:"changed"`
	Accepted *trail.Damage `json:"accepted,omitempty"`
	Verdict  string        `json:"verdict"`
	Text     string        `json:"text,omitempty"`
}

func recoverChain(ctx context.Context, c *cli.Command) error {
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return err
	}
	d, err := trail.Recover(ctx, k.Trail, c.Bool("accept"))
	if err != nil {
		return err
	}
	r, err := trail.Verify(k.Store, trail.Options{})
	if err != nil {
		return fail.New(fail.AuditUnavailable, "", "verify what was recovered: %w", err)
	}
	return cmdline.OK(recovered{d != nil, d, r.Verdict, r.Text}, struct{}{})
}
