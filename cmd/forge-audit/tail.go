package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/trail"
	"forge/lib/wire"
)

// tail prints records as they are verified: JSON lines in a pipe, a line for
// people on a terminal.
func tail(ctx context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return cmdline.Usage(c, "unexpected argument %q", c.Args().First())
	}
	n, from, follow := c.Int("lines"), c.Uint("from"), c.Bool("follow")
	if n < 0 {
		return cmdline.Usage(c, "lines %d is below 0", n)
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	pretty := cmdline.IsTerminal(os.Stdout) && !c.Bool("jsonl")
	// What counts as last is known only at the end of what is there now.
	end := uint64(0)
	if from == 0 {
		if err := trail.Walk(ctx, k.Store, false, func(_ []byte, at chain.Place) error { end = at.Seq; return nil }); err != nil && end == 0 {
			return err
		}
		from = uint(max(0, int64(end)-int64(n)) + 1)
	}
	err = trail.Walk(ctx, k.Store, follow, func(payload []byte, at chain.Place) error {
		switch {
		case at.Seq < uint64(from):
			return nil
		case pretty:
			return cmdline.PrintText(forPeople(payload))
		}
		return cmdline.PrintText(string(payload) + "\n")
	})
	if ctx.Err() != nil {
		return nil // the signal that ended it ends us
	}
	return err
}

// forPeople is one record on one line, with what a terminal would act on
// escaped.
func forPeople(payload []byte) string {
	var r struct {
		Seq     int64      `json:"seq"`
		TS      string     `json:"ts"`
		Event   string     `json:"ev"`
		Sev     string     `json:"sev"`
		Persona string     `json:"persona"`
		Tool    string     `json:"tool"`
		Run     string     `json:"run"`
		Details wire.Value `json:"details"`
	}
	v, err := wire.Parse(payload, wire.File)
	if err == nil {
		err = wire.DecodeRecord(v, &r)
	}
	if err != nil {
		return cmdline.Printable(string(payload)) + "\n"
	}
	when, _, _ := strings.Cut(r.TS, ".")
	line := fmt.Sprintf("%6d %s %-8s %-18s", r.Seq, when, r.Sev, r.Event)
	for _, w := range []string{r.Tool, r.Persona, r.Run} {
		if w != "" {
			line += " " + w
		}
	}
	for _, m := range r.Details.Members() {
		line += " " + m.Name + "=" + m.Value.String()
	}
	return cmdline.Printable(line) + "\n"
}
