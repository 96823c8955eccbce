// Forge-list shows the tools of the visible scopes.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"forge/lib/breaker"
	"forge/lib/cmdline"
	"forge/lib/fail"
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
		Name: "forge-list", Usage: "show the tools",
		Flags: cmdline.Flags(
			cmdline.ScopeFlag("show one scope"),
			&cli.StringFlag{Name: "capability", Usage: "show tools that have all of these `CAPABILITIES`, joined by commas"},
			&cli.BoolFlag{Name: "plain", Usage: "print tab-separated lines: name, scope, runtime, calls, description"},
			&cli.BoolFlag{Name: "jsonl", Usage: "print one JSON object a line"},
			cmdline.RequestFlag(), cmdline.DescribeFlag(),
		),
		Action: list,
	})
}

// row is a tool as the listing shows it.
type row struct {
	Name         tool.Name   `json:"name"`
	WireName     string      `json:"wire_name"`
	Description  string      `json:"description"`
	Scope        store.Scope `json:"scope"`
	CallCount    int64       `json:"call_count"`
	Runtime      string      `json:"runtime"`
	Version      int64       `json:"version,omitempty"`
	Digest       string      `json:"digest"`
	Capabilities []string    `json:"capabilities"`
	Shadowed     bool        `json:"shadowed"` // a narrower scope has the name
	Recorded     bool        `json:"recorded"` // this store recorded the definition: it may run
	Listed       bool        `json:"listed"`   // MCP's tools/list shows it
	Reason       string      `json:"reason,omitempty"`
}

type request struct {
	Scope      string `json:"scope"`
	Capability string `json:"capability"`
}

// list reads every tool of the visible scopes; a file that is none hides only
// itself, and is told and recorded.
func list(ctx context.Context, c *cli.Command) error {
	if c.Bool("describe") {
		return cmdline.Describe(describe)
	}
	if c.Args().Present() {
		return cmdline.Usage(c, "unexpected argument %q", c.Args().First())
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	req := request{}
	if c.Bool("request") {
		if err := cmdline.Request(c, &req); err != nil {
			return err
		}
	}
	cmdline.Override(c, "scope", &req.Scope)
	cmdline.Override(c, "capability", &req.Capability)
	if req.Scope != "" {
		if _, err := k.Registry.Place(store.Scope(req.Scope)); err != nil {
			return err
		}
	}
	wanted, err := capabilities(req.Capability)
	if err != nil {
		return err
	}
	entries, faults, err := k.Registry.List()
	if err != nil {
		return err
	}
	rows := []row{}
	for _, e := range entries {
		if req.Scope != "" && e.Place.Scope != store.Scope(req.Scope) || !hasAll(e.Tool, wanted) {
			continue
		}
		rows = append(rows, rowOf(k, e))
	}
	for _, f := range faults {
		tell(ctx, c, k, f)
	}
	return show(c, rows)
}

func capabilities(text string) ([]string, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	for _, w := range words {
		if !slices.Contains(tool.Capabilities, w) {
			return nil, fail.New(fail.Usage, "the capabilities are: "+strings.Join(tool.Capabilities, ", "), "capability %q is not one", w)
		}
	}
	return words, nil
}

func hasAll(t *tool.Tool, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !t.Has(w) })
}

func rowOf(k *cmdline.Caller, e *registry.Entry) row {
	t := e.Tool
	r := row{
		Name: t.Name, WireName: t.Name.Wire(), Description: t.Description, Scope: e.Place.Scope,
		CallCount: breaker.Load(k.Store.ToolState(e.Place.Root, t.Name.Wire())).Calls,
		Runtime:   t.Runtime, Digest: t.Digest, Capabilities: t.Meta.Capabilities, Shadowed: e.Shadowed,
	}
	if l := e.Ledger; l != nil {
		r.Recorded, r.Version, r.Listed, r.Reason = true, l.Version, l.Listed, l.Reason
	} else {
		r.Reason = "never recorded in this store"
	}
	return r
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
		_, err = k.Trail.Append(ctx, trail.Record{Event: trail.LoadFailed, Details: map[string]any{
			"scope": f.Place.Scope, "file": f.Wire + ".json", "file_sha256": sum,
		}})
	}
	if err != nil {
		cmdline.Warn(c, "the bad file is not on the trail: %s", err)
	}
}

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
	return cmdline.OK(map[string]any{"tools": rows}, struct{}{})
}
