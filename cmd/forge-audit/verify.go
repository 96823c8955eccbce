package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
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
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return nil, err
	}
	if n := c.Int("workers"); c.IsSet("workers") && n < 1 {
		return nil, cmdline.Usage(c, "workers %d is below 1", n)
	}
	all, named, err := keys(k.Store, c)
	if err != nil {
		return nil, err
	}
	since := c.Bool("since-checkpoint") && !c.Bool("full")
	e, err := gather(k.Store, c, all, named, since)
	if err != nil {
		return nil, err
	}
	o := trail.Options{
		Strict: c.Bool("strict"), Store: c.Bool("store"), Workers: c.Int("workers"), Notes: e.notes(), SinceCheckpoint: since,
	}
	if since {
		o.AllNotes = func() ([]chain.Signed, error) {
			e, err := gather(k.Store, c, all, named, false)
			return e.notes(), err
		}
	}
	if cmdline.IsTerminal(os.Stderr) {
		o.Progress = progress()
	}
	r, err := trail.Verify(k.Store, o)
	if err != nil {
		return nil, err
	}
	if broken := e.broken(); broken != "" && r.Verdict != trail.Tampered {
		r.Verdict, r.Reason, r.Text = trail.Tampered, chain.CheckpointSig, broken
	}
	if r.Verdict != trail.Tampered {
		err = e.missing(r, c.Bool("require-trust"))
	}
	return r, err
}

// keys returns the public keys that count, and those of them that --trust names.
func keys(st *store.Store, c *cli.Command) (all, named []string, err error) {
	files := c.StringSlice("trust")
	if all, err = trail.TrustedKeys(st, files); err == nil {
		named, err = trail.TrustedKeys(nil, files)
	}
	return all, named, err
}

// evidence is what the chain is held against.
type evidence struct {
	own       trail.Notes            // audit/checkpoints, by any key that counts
	named     trail.Notes            // the same and the witnesses', by those that --trust names
	witnesses map[string]trail.Notes // by file
}

// gather reads the checkpoints of the store and of the witnesses' files: all of
// them, or the newest of each.
func gather(st *store.Store, c *cli.Command, all, named []string, newest bool) (e evidence, err error) {
	e.witnesses = map[string]trail.Notes{}
	if e.own, err = trail.Load(st, all, newest); err != nil {
		return e, err
	}
	if len(named) > 0 && c.Bool("require-trust") {
		if e.named, err = trail.Load(st, named, newest); err != nil {
			return e, err
		}
	}
	for _, path := range c.StringSlice("witness") {
		kept, err := readWitness(path)
		if err != nil {
			return e, err
		}
		var w trail.Notes
		for _, n := range slices.Backward(kept) {
			w.Add([]byte(n.Note), all, path)
			e.named.Add([]byte(n.Note), named, path)
			if newest && len(w.Trusted) > 0 && (len(named) == 0 || len(e.named.Trusted) > 0) {
				break
			}
		}
		e.witnesses[path] = w
	}
	if len(named) == 0 { // any key will do
		e.named = trail.Notes{Trusted: e.notes(), Unknown: e.own.Unknown}
	}
	return e, nil
}

func (e evidence) notes() []chain.Signed {
	notes := append(slices.Clone(e.own.Trusted), e.named.Trusted...)
	for _, w := range e.witnesses {
		notes = append(notes, w.Trusted...)
	}
	return notes
}

// broken is the first note whose signature does not fit.
func (e evidence) broken() string {
	broken := e.own.Broken
	for _, path := range slices.Sorted(maps.Keys(e.witnesses)) {
		broken = cmp.Or(broken, e.witnesses[path].Broken)
	}
	return broken
}

// missing is the error where a witness says nothing of this chain, or, when it
// must, no checkpoint does.
func (e evidence) missing(r *trail.Report, must bool) error {
	for _, path := range slices.Sorted(maps.Keys(e.witnesses)) {
		w := e.witnesses[path]
		switch {
		case len(w.Trusted) == 0:
			return fail.New(fail.TrustMissing, "name the signer's public key with --trust", "witness %s: no note by a trusted key (%d by others)", path, w.Unknown)
		case !slices.ContainsFunc(w.Trusted, r.Backs):
			return fail.New(fail.TrustMissing, "name the file of this chain's notes", "witness %s: none of its notes is of a line that is here", path)
		}
	}
	if must && !slices.ContainsFunc(e.named.Trusted, r.Backs) {
		return fail.New(fail.TrustMissing, "forge-audit keygen, forge-audit checkpoint; or name --trust and --witness",
			"no checkpoint by a trusted key backs the chain (%d by others)", e.named.Unknown)
	}
	return nil
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
	newest, count := map[string]uint64{}, map[string]int{}
	for _, t := range r.Trust {
		newest[t.Key] = max(newest[t.Key], t.Seq)
		count[t.Key]++
	}
	for _, key := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(os.Stderr, "checkpoints: %d by %s, the newest of seq %d\n", count[key], cmdline.Printable(key), newest[key])
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
