package main

import (
	"fmt"

	"forge/lib/fail"
	"forge/lib/runs"
	"forge/lib/sandbox"
	"forge/lib/tool"
	"forge/lib/wire"
)

// answer is how a run ended, and what the caller is told.
type answer struct {
	outcome   runs.Outcome
	tool      wire.Value  // the envelope the tool printed; null where there is none
	err       *fail.Error // ours, where the tool did not answer
	truncated bool        // data is the head alone
	head      string
	files     []runs.File
}

// limitHint says for each limit what may be done about it.
var limitHint = map[string]string{
	"cpu":       "give it less to do, or more time: meta.limits.cpu_s",
	"file_size": "write less: a file, and all artifacts of a run, have at most 1 GiB",
}

// judge turns a run into an answer. A tool's own envelope passes through, a
// failure too; everything else is one of ours.
func judge(t *tool.Tool, res sandbox.Result, out *runs.Output, limits tool.Limits, stderr string) *answer {
	name := fmt.Sprintf("tool %q", t.Name)
	crashed := func() *answer {
		e := fail.New(fail.ToolCrashed, "details.stderr has the end of what it printed", "%s: %s", name, res.How()).
			With("exit", res.Exit).With("stderr", stderr)
		if res.Signal != "" {
			e.With("signal", res.Signal)
		}
		return &answer{outcome: runs.Crashed, err: e}
	}
	switch {
	case res.TimedOut:
		return &answer{outcome: runs.Timeout, err: fail.New(fail.Timeout, "give it less to do, or more time (--timeout, meta.limits.wall_s)",
			"%s: still running at its wall limit of %d s", name, limits.WallS).With("wall_s", limits.WallS).With("stderr", stderr)}
	case res.Cancelled:
		return &answer{outcome: runs.Cancelled, err: fail.New(fail.Timeout, "", "%s: cancelled", name)}
	case res.Limit != "":
		return &answer{outcome: runs.ResourceLimit, err: fail.New(fail.ResourceLimit, limitHint[res.Limit],
			"%s: ran into its limit of %s: %s", name, res.Limit, res.How()).With("limit", res.Limit).With("stderr", stderr)}
	case out.Truncated() && res.Exit == 0:
		return &answer{outcome: runs.OK, truncated: true, head: out.Head()}
	case out.Truncated():
		return crashed()
	}
	v, err := envelope(out.Bytes())
	switch {
	case err == nil:
		a := &answer{outcome: runs.OK, tool: v}
		if ok, _ := v.Get("ok"); ok.Text() != "true" {
			a.outcome = runs.ToolError
		}
		return a
	case res.Exit != 0:
		return crashed()
	}
	return &answer{outcome: runs.BadOutput, err: fail.New(fail.BadOutput,
		`print one JSON object: {"ok":true,"data":…} or {"ok":false,"error":{"kind":…,"message":…}}`,
		"%s: standard output: %w", name, err).With("head", out.Head()).With("stderr", stderr)}
}

// envelope reads what a tool printed, and holds it to the one shape there is.
func envelope(out []byte) (wire.Value, error) {
	v, err := wire.Parse(out, wire.Output)
	if err != nil {
		return v, err
	}
	if v.Type() != wire.Object {
		return v, fmt.Errorf("%s, want an object", v.Type())
	}
	ok, has := v.Get("ok")
	if !has || ok.Type() != wire.Bool {
		return v, fmt.Errorf("no member ok that is true or false")
	}
	if meta, has := v.Get("meta"); has && meta.Type() != wire.Object {
		return v, fmt.Errorf("meta: %s, want an object", meta.Type())
	}
	if ok.Text() == "true" {
		return v, nil
	}
	e, _ := v.Get("error")
	for _, name := range []string{"kind", "message"} {
		if m, _ := e.Get(name); m.Type() != wire.String {
			return v, fmt.Errorf("ok is false, and error has no %s that is a string", name)
		}
	}
	return v, nil
}

// envelope returns what the command prints: the tool's members as they are, its
// meta under ours.
func (a *answer) envelope(meta []wire.Member) any {
	if a.tool.Type() != wire.Object {
		e := wire.Envelope{OK: a.err == nil, Error: a.err, Meta: wire.ObjectOf(meta...)}
		if a.truncated {
			e.Data = map[string]any{"truncated": true, "head": a.head}
		}
		return e
	}
	merged, _ := a.tool.Get("meta")
	merged = wire.ObjectOf(merged.Members()...)
	for _, m := range meta {
		merged = merged.Set(m.Name, m.Value)
	}
	// ok, data or error, meta, and then whatever else the tool printed.
	out := wire.ObjectOf()
	for _, name := range []string{"ok", "data", "error"} {
		if v, has := a.tool.Get(name); has {
			out = out.Set(name, v)
		}
	}
	out = out.Set("meta", merged)
	for _, m := range a.tool.Members() {
		if _, has := out.Get(m.Name); !has {
			out = out.Set(m.Name, m.Value)
		}
	}
	return out
}

// failure returns what standard error says of an answer that is a failure, and
// the status of the command; nil and 0 for the others. A tool's own kind ends
// with 1, whatever it is called.
func (a *answer) failure(t *tool.Tool) (*fail.Error, int) {
	if a.err != nil {
		return a.err, fail.StatusOf(a.err.Kind)
	}
	if a.outcome != runs.ToolError {
		return nil, 0
	}
	e, _ := a.tool.Get("error")
	text := func(name string) string { v, _ := e.Get(name); return v.Text() }
	return &fail.Error{Kind: fail.Kind(text("kind")), Message: fmt.Sprintf("tool %q: %s: %s", t.Name, text("kind"), text("message")), Hint: text("hint")}, 1
}
