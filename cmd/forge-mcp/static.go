package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"forge/lib/mcp"
	"forge/lib/wire"
)

const (
	toolsetForge = "forge"      // the one that forged tools belong to
	callCommand  = "forge-call" // the sibling that runs them
)

var (
	siblingRule = regexp.MustCompile(`^forge-[a-z]+$`)
	wireRule    = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
)

// A description is what a sibling prints for --describe.
type description struct {
	Toolset string        `json:"toolset"`
	Tools   []offeredTool `json:"tools"`
}

type offeredTool struct {
	Name        string     `json:"name"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	InputSchema wire.Value `json:"inputSchema"`
	Annotations wire.Value `json:"annotations"`
	Run         []string   `json:"run"`
}

// offered asks every sibling in dir what it offers, all at once, and returns
// the tools of the toolsets by name. A sibling that does not know --describe
// offers nothing.
func offered(dir string, toolsets []string, warn func(string, ...any)) []mcp.Tool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		warn("%s", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	var tools []mcp.Tool
	for _, e := range entries {
		if !siblingRule.MatchString(e.Name()) || e.Name() == "forge-mcp" {
			continue
		}
		all.Go(func() {
			path := filepath.Join(dir, e.Name())
			out, err := mcp.Output(ctx, []string{path, "--describe"}, nil, 1<<20)
			if err != nil {
				return
			}
			var d description
			v, err := wire.Parse(out, wire.Output)
			if err == nil {
				err = wire.DecodeRecord(v, &d)
			}
			if err != nil {
				warn("%s --describe: %s", path, err)
				return
			}
			if !slices.Contains(toolsets, d.Toolset) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range d.Tools {
				if t, why := o.tool(dir); why != "" {
					warn("%s --describe: tool %q: %s", path, o.Name, why)
				} else {
					tools = append(tools, t)
				}
			}
		})
	}
	all.Wait()
	slices.SortFunc(tools, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools
}

// tool returns o as the server takes it, or why it cannot: one bad entry makes
// some clients drop the whole list.
func (o offeredTool) tool(dir string) (mcp.Tool, string) {
	typ, _ := o.InputSchema.Get("type")
	switch {
	case !wireRule.MatchString(o.Name):
		return mcp.Tool{}, "the name is none"
	case o.Description == "":
		return mcp.Tool{}, "no description"
	case typ.Text() != "object":
		return mcp.Tool{}, "inputSchema is not of type object"
	case len(o.Run) == 0 || !siblingRule.MatchString(o.Run[0]):
		return mcp.Tool{}, "run names no sibling"
	}
	readOnly, _ := o.Annotations.Get("readOnlyHint")
	return mcp.Tool{
		Name: o.Name,
		// Where calls of forged tools come by another name, the list stays as it is.
		Barrier: readOnly.Text() != "true" && o.Run[0] != callCommand,
		Argv:    append([]string{filepath.Join(dir, o.Run[0])}, o.Run[1:]...),
		Entry: mcp.Entry(o.Name, o.Title, o.Description, o.InputSchema, o.Annotations,
			wire.ObjectOf(wire.Member{Name: "anthropic/alwaysLoad", Value: wire.BoolOf(true)})),
	}, ""
}
