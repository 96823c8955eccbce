// Forge-audit verifies the trail, shows it, and appends to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v3"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/trail"
	"forge/lib/wire"
)

// limits is what the name of verify must not be taken to promise.
const limits = "verify proves that no line was changed, moved, added or taken from within the chain.\n" +
	"That its end was cut, or the whole rewritten, only a checkpoint shows: and a checkpoint\n" +
	"that the writer of the trail can sign again proves it against accidents, not against that\n" +
	"writer, who can also append what never happened. Give it to a witness under another user\n" +
	"or on another host (checkpoint, witness); what came after the last one can still be\n" +
	"rewritten."

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-audit", Usage: "verify the trail, show it, append to it",
		Description: limits,
		Commands: []*cli.Command{
			{
				Name: "verify", Usage: "walk the chain; say nothing if it is intact",
				Description: limits,
				Flags: cmdline.Flags(
					&cli.BoolFlag{Name: "json", Usage: "print the verdict as an envelope"},
					&cli.BoolFlag{Name: "full", Usage: "walk all of it, which is the default, whatever else says less"},
					&cli.BoolFlag{Name: "since-checkpoint", Usage: "walk what came after the newest checkpoint, and a stretch of the rest"},
					&cli.BoolFlag{Name: "strict", Usage: "hold each record to strict JSON, too"},
					&cli.BoolFlag{Name: "store", Usage: "hold ledger, tools and run manifests against the chain, too"},
					&cli.StringSliceFlag{Name: "trust", Usage: "trust the public key in `FILE`, beside those in keys/"},
					&cli.StringSliceFlag{Name: "witness", Usage: "hold the chain against the notes in a witness's `FILE`, too"},
					&cli.BoolFlag{Name: "require-trust", Usage: "fail where no checkpoint by a key of --trust, or without that by any trusted one, backs the verdict"},
					&cli.IntFlag{Name: "workers", Usage: "how many `N` work at once, at most 4", DefaultText: "one a processor"},
				),
				Action: verify,
			},
			{
				Name: "tail", Usage: "print the last records, verified",
				Description: "With --persona or --session, only the records of that persona or session.",
				Flags:       cmdline.Flags(tailFlags()...),
				Action:      tail,
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
			{
				Name: "keygen", Usage: "make a key that signs checkpoints", ArgsUsage: "[NAME]",
				Description: "The newest key signs; the public keys of all stay trusted. A key that the writer of the\n" +
					"trail can read proves nothing against that writer.",
				Flags:  cmdline.Flags(),
				Action: keygen,
			},
			{
				Name: "checkpoint", Usage: "verify, then sign where the chain stands",
				Flags: cmdline.Flags(
					&cli.StringFlag{Name: "key", Usage: "sign with the private key in `FILE` instead of the newest in keys/"},
					&cli.BoolFlag{Name: "note", Usage: "print the signed note itself, for a witness"},
				),
				Action: checkpoint,
			},
			{
				Name: "witness", Usage: "keep another host's checkpoints, read on standard input",
				Description: "For the other side of an ssh forced command. A lower seq than the last is refused; another\n" +
					"sha at the same seq is kept beside the first, as evidence, and is status 1.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "file", Usage: "the notes, one a line, in `FILE`; only ever appended to", Required: true},
					&cli.StringSliceFlag{Name: "trust", Usage: "take notes signed by the public key in `FILE`", Required: true},
					&cli.StringFlag{Name: "key", Usage: "sign the note as well, with the private key in `FILE`"},
				},
				Action: witness,
			},
			{
				Name: "prune", Usage: "remove old segments up to a checkpoint", ArgsUsage: "SEGMENT",
				Description: "Removes the segments before number SEGMENT, if a trusted checkpoint stands at their end.",
				Flags:       cmdline.Flags(),
				Action:      prune,
			},
			{
				Name: "recover", Usage: "let the chain go on after a failed sync or damage at its end",
				Flags: cmdline.Flags(
					&cli.BoolFlag{Name: "accept", Usage: "name bytes at the end that no crash explains, and go on after them"},
				),
				Action: recoverChain,
			},
		},
	})
}

// errFound ends a walk that has what it looked for.
var errFound = errors.New("found")

func show(ctx context.Context, c *cli.Command) error {
	seq, err := strconv.ParseUint(c.Args().First(), 10, 64)
	if c.Args().Len() != 1 || err != nil {
		return cmdline.Usage(c, "want the number of one record")
	}
	k, err := cmdline.OpenTrail(c)
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
		if err := cmdline.OK(map[string]any{"record": v, "segment": store.SegmentName(at.Segment), "line": at.Line, "offset": at.Offset}, struct{}{}); err != nil {
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
	k, err := cmdline.OpenTrail(c)
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
