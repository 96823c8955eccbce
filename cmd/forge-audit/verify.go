package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/trail"
	"forge/lib/wire"
)

// verify is quiet under cron: standard error only on a terminal or of trouble,
// standard output only with --json.
func verify(_ context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return cmdline.Usage(c, "unexpected argument %q", c.Args().First())
	}
	r, err := report(c)
	if err != nil {
		if c.Bool("json") || fail.KindOf(err) == fail.Usage {
			return err
		}
		e := fail.Of(err)
		cmdline.Complain("forge-audit", e)
		return cmdline.Exit(fail.StatusOf(e.Kind))
	}
	bad := fail.Of(r.Err())
	if bad != nil {
		cmdline.Complain("forge-audit", bad)
	}
	if cmdline.IsTerminal(os.Stderr) {
		tell(r)
	}
	if c.Bool("json") {
		if err := printReport(r, bad); err != nil {
			return err
		}
	}
	if bad != nil {
		return cmdline.Exit(fail.StatusOf(bad.Kind))
	}
	return nil
}

func report(c *cli.Command) (*trail.Report, error) {
	k, err := cmdline.Open(c)
	if err != nil {
		return nil, err
	}
	notes, err := trusted(k, c)
	if err != nil {
		return nil, err
	}
	if c.Bool("require-trust") {
		if err := backed(k, c, notes); err != nil {
			return nil, err
		}
	}
	o := trail.Options{
		Strict: c.Bool("strict"), Store: c.Bool("store"), Workers: c.Int("workers"), Notes: notes.Trusted,
		SinceCheckpoint: c.Bool("since-checkpoint") && !c.Bool("full"),
	}
	if cmdline.IsTerminal(os.Stderr) {
		o.Progress = progress()
	}
	r, err := trail.Verify(k.Store, o)
	if err != nil {
		return nil, err
	}
	if notes.Broken != "" && r.Verdict != trail.Tampered {
		r.Verdict, r.Reason, r.Text = trail.Tampered, chain.CheckpointSig, notes.Broken
	}
	return r, nil
}

// trusted loads the checkpoints of the store and of the witnesses' files.
func trusted(k *cmdline.Caller, c *cli.Command) (trail.Notes, error) {
	return notesBy(k.Store, k, c)
}

// backed wants a checkpoint by one of the keys that were named, or without any
// by one that the store trusts: which any program of this user can add to.
func backed(k *cmdline.Caller, c *cli.Command, notes trail.Notes) (err error) {
	if len(c.StringSlice("trust")) > 0 {
		if notes, err = notesBy(nil, k, c); err != nil {
			return err
		}
	}
	if len(notes.Trusted) == 0 && notes.Broken == "" {
		return fail.New(fail.TrustMissing, "forge-audit keygen, forge-audit checkpoint; or name --trust and --witness",
			"no checkpoint by a trusted key (%d by others)", notes.Unknown)
	}
	return nil
}

// notesBy loads the checkpoints under the keys of a store, if it is set, and of
// --trust.
func notesBy(st *store.Store, k *cmdline.Caller, c *cli.Command) (trail.Notes, error) {
	keys, err := trail.TrustedKeys(st, c.StringSlice("trust"))
	if err != nil {
		return trail.Notes{}, err
	}
	var more [][]byte
	for _, path := range c.StringSlice("witness") {
		kept, err := readWitness(path)
		if err != nil {
			return trail.Notes{}, err
		}
		for _, w := range kept {
			more = append(more, []byte(w.Note))
		}
	}
	return trail.Load(k.Store, keys, more...)
}

// progress shows how far a long walk is, on one line of the terminal.
func progress() func(done, total int64) {
	began, last := time.Now(), time.Time{}
	return func(done, total int64) {
		now := time.Now()
		if now.Sub(began) < time.Second || now.Sub(last) < 100*time.Millisecond && done < total {
			return
		}
		last = now
		fmt.Fprintf(os.Stderr, "\r%3d %% of %d MiB", 100*done/max(1, total), total>>20)
		if done >= total {
			fmt.Fprint(os.Stderr, "\r\033[K")
		}
	}
}

// tell says on a terminal what cron need not hear.
func tell(r *trail.Report) {
	fmt.Fprintf(os.Stderr, "%s: %d records, %d bytes, head %d %.16s, %d ms\n", r.Verdict, r.Entries, r.Bytes, r.Head.Seq, r.Head.Sha, r.MS)
	for _, t := range r.Trust {
		fmt.Fprintf(os.Stderr, "checkpoint: %s signed seq %d\n", cmdline.Printable(t.Key), t.Seq)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(os.Stderr, "warning: %s\n", cmdline.Printable(w))
	}
	for _, seq := range r.Unfinished {
		fmt.Fprintf(os.Stderr, "warning: the call that record %d began never ended: it was killed\n", seq)
	}
}

func printReport(r *trail.Report, bad *fail.Error) error {
	out := wire.Envelope{OK: bad == nil, Data: r, Error: bad}
	if bad != nil {
		v, err := wire.Of(r)
		if err != nil {
			return err
		}
		out.Extra = []wire.Member{{Name: "data", Value: v}}
	}
	return cmdline.Print(out)
}
