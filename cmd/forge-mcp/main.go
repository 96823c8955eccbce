// Forge-mcp offers the commands of Forge, and the tools forged with them, to an
// MCP client on standard input and output. It is a dispatcher: it reads which
// tools there are, and starts a sibling for every call.
package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/mcp"
)

const instructions = `Forge registers small tools while you work and runs them in a sandbox on validated input; every step is on an audit trail.
Call forge_list before forge_tool: the tool you want may exist. A tool named csv.stats is listed as csv_stats.
A new tool is in the list as soon as forge_tool has answered. If you cannot see it, call forge_call with {"name": …, "arguments": {…}}.
Every answer is one object: {"ok":true,"data":…} or {"ok":false,"error":{"kind":…,"message":…,"hint":…}}. The hint says what to do.`

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-mcp", Usage: "serve Forge to an MCP client on standard input and output",
		Description: "Speaks the Model Context Protocol, revisions " + strings.Join(mcp.Revisions, ", ") +
			". FORGE_MCP_DRAIN_MS is how long a call may still run after the end of input (" +
			strconv.FormatInt(mcp.DefaultDrain.Milliseconds(), 10) + ").",
		Flags: cmdline.Flags(
			&cli.StringSliceFlag{Name: "toolset", Usage: "offer the commands of this `SET`; may be repeated", Value: []string{toolsetForge}},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the server, as clients show it", Value: "forge"},
		),
		Action: serve,
	})
}

// serve speaks until the end of input, a signal, or nobody reads the answers.
func serve(ctx context.Context, c *cli.Command) error {
	drain, err := drainTime()
	if err != nil {
		return err
	}
	// What is wrong with the settings shall be told now, what is wrong with the
	// store by each call.
	if _, err := cmdline.Open(c); fail.KindOf(err) == fail.Usage {
		return err
	}
	if err := passOn(c); err != nil {
		return err
	}
	dir, err := cmdline.SiblingDir()
	if err != nil {
		return err
	}
	if cmdline.IsTerminal(os.Stdin) {
		cmdline.Warn(c, "this speaks to an MCP client, one JSON message a line; end with Ctrl-D")
	}
	out, err := mcp.Guard()
	if err != nil {
		return err
	}
	log := mcp.NewLog(os.Stderr)
	defer log.Close(50 * time.Millisecond)
	all := &catalog{c: c, dir: dir, log: log, toolsets: c.StringSlice("toolset")}
	server := &mcp.Server{
		Name: c.String("name"), Title: "Forge", Version: c.Version,
		List: all.list, Drain: drain, Log: log,
	}
	if slices.Contains(all.toolsets, toolsetForge) {
		server.Instructions = instructions
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		<-mcp.Gone(out)
		stop(errGone)
	}()
	if err := server.Serve(running, os.Stdin, out); err != nil && err != errGone {
		e := fail.Of(err)
		if ctx.Err() == nil { // else a signal, which Main dies of
			log.Printf("forge-mcp: %s", cmdline.Printable(e.Message))
		}
		return cmdline.Exit(fail.StatusOf(e.Kind)) // standard output is not for envelopes any more
	}
	return nil
}

// errGone ends the server as the end of input does: a client that reads no more
// wants no answers.
var errGone = errors.New("nobody reads the answers")

func drainTime() (time.Duration, error) {
	text := os.Getenv("FORGE_MCP_DRAIN_MS")
	if text == "" {
		return mcp.DefaultDrain, nil
	}
	ms, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fail.New(fail.Usage, "write milliseconds, such as 5000", "FORGE_MCP_DRAIN_MS %q: not a number of milliseconds", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// passOn puts what the flags say into the environment: the siblings read it
// there, and nowhere else.
func passOn(c *cli.Command) error {
	for _, flag := range []string{"home", "persona", "session", "task", "allowed-tools"} {
		if c.IsSet(flag) {
			name := "FORGE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			if err := os.Setenv(name, c.String(flag)); err != nil {
				return err
			}
		}
	}
	return nil
}
