// Forge-audit verifies the trail, shows it, and appends to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/urfave/cli/v3"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/trail"
	"forge/lib/wire"
)

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-audit", Usage: "verify the trail, show it, append to it",
		Description: "verify proves that no line was changed, moved, added or taken from within the chain.\n" +
			"It cannot prove that nobody who may write the files rewrote the whole of them, or cut\n" +
			"its end: for that a copy of the head must be kept where that person cannot write.",
		Commands: []*cli.Command{
			{
				Name: "verify", Usage: "walk the whole chain; say nothing if it is intact",
				Flags: cmdline.Flags(
					&cli.BoolFlag{Name: "json", Usage: "print the verdict as an envelope"},
				),
				Action: verify,
			},
			{
				Name: "tail", Usage: "print the last records, verified",
				Flags: cmdline.Flags(
					&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with those that come"},
					&cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Value: 10, Usage: "how many `RECORDS`"},
					&cli.UintFlag{Name: "from", Usage: "print from the record numbered `SEQ` on instead"},
					&cli.BoolFlag{Name: "jsonl", Usage: "print one JSON object a line, on a terminal too"},
				),
				Action: tail,
			},
			{
				Name: "show", Usage: "print one record and its place", ArgsUsage: "SEQ",
				Flags:  cmdline.Flags(),
				Action: show,
			},
			{
				Name: "append", Usage: "put a record of another program on the chain", ArgsUsage: "EVENT",
				Description: "Reads the details, one JSON object, on standard input.",
				Flags:       cmdline.Flags(),
				Action:      appendRecord,
			},
		},
	})
}

// verify is quiet under cron: standard error only on a terminal or of trouble.
func verify(_ context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return cmdline.Usage(c, "unexpected argument %q", c.Args().First())
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	r, err := trail.Verify(k.Store)
	if err != nil {
		if c.Bool("json") {
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
		fmt.Fprintf(os.Stderr, "%s: %d records, %d bytes, head %d %.16s, %d ms\n", r.Verdict, r.Entries, r.Bytes, r.Head.Seq, r.Head.Sha, r.MS)
		for _, w := range r.Warnings {
			fmt.Fprintf(os.Stderr, "warning: %s\n", w)
		}
		for _, seq := range r.Unfinished {
			fmt.Fprintf(os.Stderr, "warning: the call that record %d began never ended: it was killed\n", seq)
		}
	}
	if c.Bool("json") {
		out := wire.Envelope{OK: bad == nil, Data: r, Error: bad}
		if bad != nil {
			v, err := wire.Of(r)
			if err != nil {
				return err
			}
			out.Extra = []wire.Member{{Name: "data", Value: v}}
		}
		if err := cmdline.Print(out); err != nil {
			return err
		}
	}
	if bad != nil {
		return cmdline.Exit(fail.StatusOf(bad.Kind))
	}
	return nil
}

// errFound ends a walk that has what it looked for.
var errFound = errors.New("found")

func show(ctx context.Context, c *cli.Command) error {
	seq, err := strconv.ParseUint(c.Args().First(), 10, 64)
	if c.Args().Len() != 1 || err != nil {
		return cmdline.Usage(c, "want the number of one record")
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	err = trail.Walk(ctx, k.Store, false, func(payload []byte, at chain.Place) error {
		if at.Seq != seq {
			return nil
		}
		v, err := wire.Parse(payload, wire.File)
		if err != nil {
			return err
		}
		if err := cmdline.OK(map[string]any{"record": v, "line": at.Line, "offset": at.Offset}, struct{}{}); err != nil {
			return err
		}
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	}
	return fail.New(fail.NotFound, "forge-audit tail shows the last ones", "there is no record %d", seq)
}

const maxDetails = 32 << 10

// appendRecord is how another program gets its events on the same chain.
func appendRecord(ctx context.Context, c *cli.Command) error {
	if c.Args().Len() != 1 {
		return cmdline.Usage(c, "%d events, want one", c.Args().Len())
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	ev := c.Args().First()
	if err := trail.CheckForeign(ev); err != nil {
		return err
	}
	details, err := cmdline.Read(c, wire.Limits{Size: maxDetails, Depth: 16})
	if err != nil {
		return err
	}
	if details.Type() != wire.Object {
		return fail.New(fail.BadInput, "write {} for none", "read standard input: %s, want an object", details.Type())
	}
	if err := integersOnly(details, ""); err != nil {
		return err
	}
	rec := trail.Record{Event: trail.Event(ev)}
	if len(details.Members()) > 0 {
		rec.Details = details
	}
	seq, err := k.Trail.Append(ctx, rec)
	if err != nil {
		return err
	}
	return cmdline.OK(map[string]any{"seq": seq}, struct{}{})
}

// integersOnly refuses numbers that two readers may print differently.
func integersOnly(v wire.Value, at string) error {
	if v.Type() == wire.Number {
		if _, ok := v.Int(); !ok {
			return fail.New(fail.BadInput, "write it as a string", "details%s: %s is not an integer of 64 bits", at, v.Text())
		}
	}
	for i, it := range v.Items() {
		if err := integersOnly(it, fmt.Sprintf("%s/%d", at, i)); err != nil {
			return err
		}
	}
	for _, m := range v.Members() {
		if err := integersOnly(m.Value, at+"/"+wire.Escape(m.Name)); err != nil {
			return err
		}
	}
	return nil
}
