// Forge runs the command of Forge that its first argument names: forge call is
// forge-call.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/wire"
)

func main() {
	afterFirst := 1
	cmdline.Main(&cli.Command{
		Name: "forge", Usage: "run a command of Forge", ArgsUsage: "COMMAND [ARGUMENT...]",
		Description:  "Without a command, lists them.",
		StopOnNthArg: &afterFirst,
		Action:       forge,
	})
}

// forge becomes the sibling, or lists the siblings there are.
func forge(ctx context.Context, c *cli.Command) error {
	name, rest := c.Args().First(), c.Args().Tail()
	if name == "help" && len(rest) > 0 {
		name, rest = rest[0], []string{"--help"}
	}
	if !c.Args().Present() || name == "help" {
		return list(ctx)
	}
	path, err := cmdline.Sibling("forge-" + name)
	if err != nil || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
		names, _ := siblings()
		hint := "the commands are: " + strings.Join(names, ", ")
		if near := wire.Nearest(name, names); near != "" {
			hint = "write forge " + near + "; " + hint
		}
		return fail.New(fail.Usage, hint, "unknown command %q", name)
	}
	argv := append([]string{path}, rest...)
	return fail.New(fail.Internal, "", "run %q: %w", path, syscall.Exec(path, argv, os.Environ()))
}

// siblings lists the commands beside this one, without their prefix, sorted.
func siblings() ([]string, error) {
	dir, err := cmdline.SiblingDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), "forge-"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// list asks each command what it does: the second line of its help.
func list(ctx context.Context) error {
	names, err := siblings()
	if err != nil {
		return err
	}
	lines := make([]string, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			path, err := cmdline.Sibling("forge-" + name)
			if err != nil {
				return
			}
			help, err := exec.CommandContext(ctx, path, "--help").Output()
			if err != nil {
				return
			}
			_, second, _ := strings.Cut(string(help), "\n")
			second, _, _ = strings.Cut(second, "\n")
			if self, does, ok := strings.Cut(strings.TrimSpace(second), " - "); ok && self == "forge-"+name {
				lines[i] = fmt.Sprintf("forge %-9s %s\n", name, does)
			}
		})
	}
	wg.Wait()
	return cmdline.PrintText(strings.Join(lines, "") + "\nEach is a program of its own, forge-NAME, with a page: man forge-NAME.\n")
}
