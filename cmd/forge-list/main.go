// Forge-list shows the tools of the visible scopes.
package main

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"forge/lib/breaker"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/wire"
)

//go:embed describe.json
var describe []byte

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-list", Usage: "show the tools, or one in full", ArgsUsage: "[NAME]",
		Description: "With a NAME, shows that tool with its schema and implementation.",
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
	Name       string `json:"name"`
	Scope      string `json:"scope"`
	Capability string `json:"capability"`
}

// list reads every tool of the visible scopes; a file that is none hides only
// itself, and is told and recorded.
func list(ctx context.Context, c *cli.Command) error {
	if c.Bool("describe") {
		return cmdline.Describe(describe)
	}
	if c.Args().Len() > 1 {
		return cmdline.Usage(c, "%d names, want one", c.Args().Len())
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
	if c.Args().Present() {
		req.Name = c.Args().First()
	}
	if req.Scope != "" {
		if _, err := k.Registry.Place(store.Scope(req.Scope)); err != nil {
			return err
		}
	}
	if req.Name != "" {
		if req.Capability != "" || c.Bool("plain") || c.Bool("jsonl") {
			return cmdline.Usage(c, "--capability, --plain and --jsonl are for the list, and %q is one tool", req.Name)
		}
		return one(k, req)
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

// whole is a tool with all there is to know of it.
type whole struct {
	row
	InputSchema wire.Value          `json:"input_schema"`
	Meta        wire.Value          `json:"meta"`
	Impl        string              `json:"impl"`
	CreatedAt   string              `json:"created_at,omitempty"`
	CreatedBy   *registry.CreatedBy `json:"created_by,omitempty"`
}

// one shows the definition that a call of the name would run.
func one(k *cmdline.Caller, req request) error {
	e, err := k.Registry.ResolveIn(store.Scope(req.Scope), req.Name)
	if err != nil {
		return err
	}
	def := e.Tool.Request()
	w := whole{row: rowOf(k, e), InputSchema: def.InputSchema, Meta: def.Meta, Impl: def.Impl}
	if e.Ledger != nil {
		w.CreatedAt, w.CreatedBy = e.Ledger.CreatedAt, &e.Ledger.CreatedBy
	}
	return cmdline.OK(map[string]any{"tool": w}, struct{}{})
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
