package main

import (
	"fmt"
	"slices"
	"strings"

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
	"file_size": "write less: a file, and all artifacts of a run, have at most 1 GiB, 10,000 entries and 32 levels",
}

// judge turns a run into an answer. A tool's own envelope passes through, a
// failure too; everything else is one of ours.
func judge(t *tool.Tool, res sandbox.Result, out *runs.Output, limits tool.Limits, stderr string) *answer {
	name := fmt.Sprintf("tool %q", t.Name)
	crashed := func() *answer {
		how := res.How()
		if last := lastLine(stderr); last != "" {
			how += ": " + last
		}
		e := fail.New(fail.ToolCrashed, "details.stderr has the end of what it printed", "%s: %s", name, how).
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

// lastLine is the end of what a tool said, where it names the cause.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

const (
	maxMembers = 1000     // of a tool's envelope
	maxAside   = 64 << 10 // bytes of its meta or error
)

// envelope reads what a tool printed, and holds it to the one shape there is.
func envelope(out []byte) (wire.Value, error) {
	v, err := wire.Parse(out, wire.Output)
	if err != nil {
		return v, err
	}
	if v.Type() != wire.Object {
		return v, fmt.Errorf("%s, want an object", v.Type())
	}
	if n := len(v.Members()); n > maxMembers {
		return v, fmt.Errorf("%d members, at most %d; put them into data", n, maxMembers)
	}
	// data stays text; these are taken apart.
	for _, name := range []string{"meta", "error"} {
		if m, has := v.Get(name); has && len(m.Bytes()) > maxAside {
			return v, fmt.Errorf("%s of %d bytes, at most %d; put it into data", name, len(m.Bytes()), maxAside)
		}
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
		if m, _ := e.Get(name); m.Type() != wire.String || m.Text() == "" {
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
	// ok, data or error, meta, and then whatever else the tool printed.
	theirs := map[string]wire.Value{}
	var rest []wire.Member
	for _, m := range a.tool.Members() {
		switch m.Name {
		case "ok", "data", "error", "meta":
			theirs[m.Name] = m.Value
		default:
			rest = append(rest, m)
		}
	}
	var out []wire.Member
	for _, name := range []string{"ok", "data", "error"} {
		if v, has := theirs[name]; has {
			out = append(out, wire.Member{Name: name, Value: v})
		}
	}
	out = append(out, wire.Member{Name: "meta", Value: mergeMeta(theirs["meta"], meta)})
	return wire.ObjectOf(append(out, rest...)...)
}

// mergeMeta returns a tool's meta under ours. What only we can say, a tool does
// not, whether we say it of this run or not: a reader would take it for ours.
func mergeMeta(theirs wire.Value, ours []wire.Member) wire.Value {
	var out []wire.Member
	for _, m := range theirs.Members() {
		reserved := slices.Contains(ownMeta, m.Name) || strings.HasPrefix(m.Name, "stdout_") ||
			slices.ContainsFunc(ours, func(o wire.Member) bool { return o.Name == m.Name })
		if !reserved {
			out = append(out, m)
		}
	}
	return wire.ObjectOf(append(out, ours...)...)
}

// ownMeta are the members of meta that only forge-call writes, beside stdout_*;
// DESIGN §3 lets a tool write files.
var ownMeta = []string{"run_id", "tool", "version", "digest", "duration_ms", "sandbox", "cached", "limits"}

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
