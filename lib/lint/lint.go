// Package lint checks an implementation before it is registered, with the very
// interpreter that will run it, inside the sandbox and without running it. It
// teaches and stops accidents; the sandbox is the boundary.
package lint

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"forge/lib/fail"
	"forge/lib/sandbox"
	"forge/lib/tool"
	"forge/lib/wire"
)

// Finding is one thing wrong with an implementation.
type Finding struct {
	Line   int64  `json:"line"`             // from 1
	Column int64  `json:"column,omitempty"` // from 1; 0 where the interpreter names none
	What   string `json:"what"`
}

//go:embed check.py
var pythonCheck []byte

const maxOutput = 64 << 10

// Check returns nil for an implementation that its interpreter can run, else an
// error of kind static_check_failed whose details hold every Finding. Other
// kinds: runtime_unavailable, sandbox_unavailable, timeout.
func Check(ctx context.Context, t *tool.Tool) error {
	rt, err := tool.RuntimeOf(t.Runtime)
	if err != nil {
		return err
	}
	var out, errs clipped
	spec := sandbox.Spec{
		Argv: rt.Argv, File: rt.File, Impl: []byte(t.Impl), Cwd: "/",
		Limits: sandbox.Limits{Wall: 20 * time.Second, CPU: 20 * time.Second, MemoryMB: 1024},
		Stdout: &out, Stderr: &errs,
	}
	switch rt.Lang {
	case "python":
		spec.File, spec.Impl, spec.Stdin = "check.py", pythonCheck, []byte(t.Impl)
	case "bash":
		spec.Argv = append(spec.Argv, "-n")
	case "node":
		spec.Argv = append(spec.Argv, "--check")
	}
	res, err := sandbox.Run(ctx, spec)
	switch {
	case err != nil:
		return err
	case res.Cancelled:
		return context.Cause(ctx)
	case res.TimedOut:
		return fail.New(fail.Timeout, "shorten the implementation", "check the implementation: no answer after %s", spec.Limits.Wall)
	}
	var findings []Finding
	switch rt.Lang {
	case "python":
		findings, err = pythonFindings(out.Bytes(), res, errs.String())
	case "bash":
		findings = bashFindings(errs.String(), res.Exit)
	case "node":
		findings = nodeFindings(errs.String(), res.Exit)
	}
	if err != nil || len(findings) == 0 {
		return err
	}
	f := findings[0]
	at := fmt.Sprintf("line %d", f.Line)
	if f.Column > 0 {
		at += fmt.Sprintf(" column %d", f.Column)
	}
	return fail.New(fail.StaticCheckFailed, "mend the implementation; --check tells without registering", "impl %s: %s", at, f.What).
		With("findings", findings)
}

// clipped keeps the first 64 KiB.
type clipped struct{ bytes.Buffer }

func (c *clipped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, maxOutput-c.Len()))])
	return len(p), nil
}

func pythonFindings(out []byte, res sandbox.Result, stderr string) ([]Finding, error) {
	var findings []Finding
	v, err := wire.Parse(out, wire.Output)
	if err == nil && res.Exit == 0 {
		var list struct {
			L []Finding `json:"l"`
		}
		if err = wire.DecodeRecord(wire.ObjectOf(wire.Member{Name: "l", Value: v}), &list); err == nil {
			return list.L, nil
		}
	}
	// The compiler itself died: deep nesting overflows its stack.
	return append(findings, Finding{Line: 1, What: "the compiler gave up: " + res.How() + "; " + lastLine(stderr)}), nil
}

var bashLine = regexp.MustCompile(`^\S+: line ([0-9]+): (.*)$`)

// bashFindings reads what bash -n prints: FILE: line N: what.
func bashFindings(stderr string, exit int) []Finding {
	var out []Finding
	for line := range strings.SplitSeq(stderr, "\n") {
		if m := bashLine.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[2], "`") {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			out = append(out, Finding{Line: n, What: m[2]})
		}
	}
	if exit != 0 && len(out) == 0 {
		out = append(out, Finding{Line: 1, What: fmt.Sprintf("bash -n ended with status %d: %s", exit, lastLine(stderr))})
	}
	if exit == 0 {
		return nil // warnings only
	}
	return out
}

var nodeLine = regexp.MustCompile(`^\S*:([0-9]+)$`)

// nodeFindings reads what node --check prints: FILE:N, the line, a caret below
// the column, and the error.
func nodeFindings(stderr string, exit int) []Finding {
	if exit == 0 {
		return nil
	}
	f := Finding{Line: 1, What: fmt.Sprintf("node --check ended with status %d", exit)}
	for line := range strings.SplitSeq(stderr, "\n") {
		if m := nodeLine.FindStringSubmatch(line); m != nil && f.Column == 0 {
			f.Line, _ = strconv.ParseInt(m[1], 10, 64)
		}
		if i := strings.IndexByte(line, '^'); i >= 0 && f.Column == 0 && strings.Trim(line, " \t^") == "" {
			f.Column = int64(i) + 1
		}
		if strings.HasPrefix(line, "SyntaxError: ") || strings.HasPrefix(line, "Error: ") {
			f.What = line
			break
		}
	}
	return []Finding{f}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
