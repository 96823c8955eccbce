package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"forge/lib/breaker"
	"forge/lib/cmdline"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

func show(c *cli.Command, rows []row) error {
	switch {
	case c.Bool("plain"):
		var b strings.Builder
		for _, r := range rows {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%d\t%s\n", r.Name, r.Scope, r.Runtime, r.CallCount, r.Description)
		}
		return cmdline.PrintText(b.String())
	case c.Bool("jsonl"):
		var b strings.Builder
		for _, r := range rows {
			line, err := wire.Encode(r)
			if err != nil {
				return err
			}
			b.Write(append(line, '\n'))
		}
		return cmdline.PrintText(b.String())
	}
	if cmdline.IsTerminal(os.Stdout) {
		return table(rows)
	}
	return cmdline.OK(map[string]any{"tools": rows}, struct{}{})
}

// table is the listing for people: a line a tool, what keeps one from being
// called behind its name.
func table(rows []row) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSCOPE\tRUNTIME\tCALLS\tDESCRIPTION")
	for _, r := range rows {
		name := string(r.Name)
		switch {
		case !r.Recorded:
			name += " (unrecorded)"
		case r.Shadowed:
			name += " (shadowed)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, r.Scope, r.Runtime, r.CallCount, shorten(r.Description))
	}
	w.Flush()
	return cmdline.PrintText(b.String())
}

// shorten keeps a description to one line of a terminal.
func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return cmdline.Printable(s)
}

// tell warns of a bad file, and records it once for each content it has.
func tell(ctx context.Context, c *cli.Command, k *cmdline.Caller, f registry.Fault) {
	cmdline.Warn(c, "%s", f.Err)
	b, _ := store.ReadFile(f.Place.Tool(f.Wire), tool.MaxFile)
	sum := wire.Sum(b)
	fresh := false
	err := breaker.Update(ctx, k.Store, k.Store.ToolState(f.Place.Root, f.Wire), func(s *breaker.State) bool {
		fresh = s.Fault != sum
		s.Fault = sum
		return fresh
	})
	if err == nil && fresh {
		file := any(f.Wire + ".json")
		if !utf8.ValidString(f.Wire) { // a name is bytes, a record is text
			file = map[string]string{"b64": base64.StdEncoding.EncodeToString([]byte(f.Wire + ".json"))}
		}
		_, err = k.Trail.Append(ctx, trail.Record{Event: trail.LoadFailed, Details: map[string]any{
			"scope": f.Place.Scope, "file": file, "file_sha256": sum,
		}})
	}
	if err != nil {
		cmdline.Warn(c, "the bad file is not on the trail: %s", err)
	}
}
