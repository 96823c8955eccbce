// Forge-call runs a tool once in a sandbox and prints its envelope.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

//go:embed describe.json
var describe []byte

func main() {
	cmdline.Main(&cli.Command{
		Name: "forge-call", Usage: "run a tool once in a sandbox", ArgsUsage: "NAME",
		Description: "Reads the tool's input, one JSON object, on standard input.",
		Flags: cmdline.Flags(
			cmdline.ScopeFlag("look for the tool there alone"),
			&cli.BoolFlag{Name: "check", Usage: "decide whether the call would be made, and make none"},
			&cli.IntFlag{Name: "timeout", Usage: "wall limit of this run in `SECONDS`, up to the policy's most", DefaultText: "the tool's own"},
			&cli.BoolFlag{Name: "no-cache", Usage: "run the tool even if its answer is cached"},
			cmdline.RequestFlag(), cmdline.DescribeFlag(),
		),
		Action: call,
	})
}

// call tells the ten steps of DESIGN §7, in their order. Refusals are recorded;
// what ran is on the trail before its answer is shown.
func call(ctx context.Context, c *cli.Command) error {
	if c.Bool("describe") {
		return cmdline.Describe(describe)
	}
	k, err := cmdline.Open(c)
	if err != nil {
		return err
	}
	r := &calling{Caller: k, began: time.Now(), failed: true}
	refuse := func(err error) error {
		if c.Bool("check") || r.told || r.req != nil && r.req.Check {
			return err
		}
		return k.Refuse(ctx, "call", r.subject(), err)
	}
	if r.req, err = arguments(c); err != nil {
		return refuse(err)
	}
	defer r.release()
	for _, step := range []func(context.Context, *cli.Command) error{
		r.allow,    // 1 and 2
		r.resolve,  // 3
		r.rate,     // 4
		r.validate, // 5
		r.secrets,  // 6
	} {
		if err := step(ctx, c); err != nil {
			return refuse(err)
		}
	}
	if r.req.Check {
		return cmdline.OK(r.checked(), struct{}{})
	}
	if r.hit != nil { // 7
		return r.replay(ctx)
	}
	defer cmdline.Finish()()
	a, err := r.run(ctx) // 8
	if err != nil {
		return refuse(err)
	}
	if err := r.end(ctx, a); err != nil { // 9 and 10
		return r.unended(ctx, err)
	}
	return nil
}

// request is a call as --request takes it: the names of the argument and flags.
type request struct {
	Name      string      `json:"name"`
	Arguments *wire.Value `json:"arguments"`
	Scope     string      `json:"scope"`
	Timeout   int64       `json:"timeout"`
	NoCache   bool        `json:"no_cache"`
	Check     bool        `json:"check"`
}

func arguments(c *cli.Command) (*request, error) {
	r := &request{}
	if c.Bool("request") {
		if c.Args().Present() {
			return nil, cmdline.Usage(c, "--request takes no arguments")
		}
		if err := cmdline.Request(c, r); err != nil {
			return nil, err
		}
		if r.Name == "" {
			return nil, fail.New(fail.BadInput, `write {"name":"fib","arguments":{…}}`, "read standard input: name is missing")
		}
		if r.Arguments == nil {
			empty := wire.ObjectOf()
			r.Arguments = &empty
		}
	} else {
		if c.Args().Len() != 1 {
			if name := c.Args().First(); strings.HasPrefix(strings.TrimSpace(c.Args().Get(1)), "{") {
				return nil, fail.New(fail.Usage, fmt.Sprintf("echo '%s' | forge-call %s", strings.ReplaceAll(c.Args().Get(1), "'", `'\''`), name), "the input comes on standard input")
			}
			return nil, cmdline.Usage(c, "%d names, want one", c.Args().Len())
		}
		r.Name = c.Args().First()
	}
	cmdline.Override(c, "scope", &r.Scope)
	if c.IsSet("timeout") {
		r.Timeout = int64(c.Int("timeout"))
		if r.Timeout <= 0 {
			return nil, cmdline.Usage(c, "timeout of %d s is not above 0", r.Timeout)
		}
	}
	if r.Timeout < 0 {
		return nil, fail.New(fail.BadInput, "leave it out for the tool's own", "timeout of %d s is not above 0", r.Timeout)
	}
	r.NoCache = r.NoCache || c.Bool("no-cache")
	r.Check = r.Check || c.Bool("check")
	return r, nil
}

func (r *request) scope() store.Scope { return store.Scope(r.Scope) }
