package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/redact"
	"forge/lib/runs"
	"forge/lib/sandbox"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

// execution is a run that came to its end.
type execution struct {
	*answer
	result  sandbox.Result
	out     *runs.Output
	spilled string // the file with the whole output, "" for none
	short   string // why that file is not whole
	stderr  runs.Stderr
	started time.Time
}

// run runs the tool in the sandbox, once its begin is on the trail. An error means
// that it did not start.
func (r *calling) run(ctx context.Context) (*execution, error) {
	t := r.entry.Tool
	rt, err := tool.RuntimeOf(t.Runtime)
	if err != nil {
		return nil, err
	}
	r.run_ = runs.New(r.Store)
	if err := r.run_.Make(); err != nil {
		return nil, err
	}
	if r.mask == nil {
		r.mask = redact.New(nil)
	}
	out := r.run_.NewOutput(r.limits.OutputBytes, r.mask)
	errs := runs.NewErrors(r.mask)
	x := &execution{out: out, started: r.Store.Now()}
	artifacts := r.run_.Artifacts()
	if len(t.Meta.Secrets) > 0 {
		artifacts = ""
	}
	bounded, stop := r.run_.Bound(ctx)
	x.result, err = sandbox.Run(bounded, sandbox.Spec{
		Argv: rt.Argv, File: rt.File, Impl: []byte(t.Impl), Stdin: r.bytes,
		Process: t.Has("process"), Binds: r.binds, Cwd: r.Dir, Artifacts: artifacts,
		Limits: sandbox.Limits{
			Wall: time.Duration(r.limits.WallS) * time.Second, CPU: time.Duration(r.limits.CPUS) * time.Second,
			MemoryMB: int(r.limits.MemoryMB),
		},
		Gate:   func() error { return r.begin(ctx) }, // 8: durable before anything runs
		Stdout: out, Stderr: errs,
	})
	full := stop() // before the output is put beside what the tool left
	x.spilled, x.short = out.Close()
	if err != nil {
		os.RemoveAll(r.run_.Dir)
		return nil, err
	}
	if full && !x.result.TimedOut && ctx.Err() == nil {
		x.result.Cancelled, x.result.Limit = false, "file_size"
	}
	x.stderr = runs.Stderr{Bytes: errs.Total, Tail: errs.Tail()}
	x.answer = judge(t, x.result, out, r.limits, x.stderr.Tail)
	if x.outcome == runs.Crashed && !t.Has("process") && notPermitted(x.stderr.Tail) {
		x.err.Hint = `to start programs it wants "process" in meta.capabilities; what else is refused is in forge-sandbox(7)`
	}
	if x.err != nil {
		x.err.Message = r.mask.String(x.err.Message) // it may quote what was printed
	}
	r.failed = x.outcome != runs.OK
	return x, nil
}

// notPermitted tells whether a tool that crashed speaks of what the sandbox says
// to a call that it refuses, as bash, python, node and libc put it.
func notPermitted(stderr string) bool {
	return strings.Contains(stderr, "Operation not permitted") || strings.Contains(stderr, " EPERM")
}

// end writes the manifest, then the record, then the answer: what is not on
// the trail is not shown.
func (r *calling) end(ctx context.Context, x *execution) error {
	var short string
	x.files, short = r.run_.Collect(ctx, r.mask) // a signal ends the hashing
	ctx = context.WithoutCancel(ctx)
	m := r.manifest(x.answer)
	m.FilesError = short
	m.Started, m.Ended = stamp(x.started), stamp(r.Store.Now())
	m.MS = x.result.Duration.Milliseconds()
	m.Exit, m.Signal, m.Limit = x.result.Exit, x.result.Signal, x.result.Limit
	m.Stdout = runs.Stdout{Bytes: x.out.Total, Truncated: x.out.Truncated(), Head: x.out.Head()}
	m.Stderr = x.stderr
	for _, b := range r.binds {
		m.Binds = append(m.Binds, runs.Bind{Path: r.mask.String(b.Path), Mode: b.Mode})
	}
	m.Cache = r.keep(x.answer)
	if err := r.finish(ctx, m, store.Synced); err != nil {
		return err
	}
	if x.outcome == runs.Cancelled {
		return cmdline.Exit(1) // a signal ends us, and tells more
	}
	if err := cmdline.Print(x.envelope(r.meta(m, x))); err != nil {
		return err
	}
	e, status := x.failure(r.entry.Tool)
	if e == nil {
		return nil
	}
	cmdline.Complain("forge-call", e)
	return cmdline.Exit(status)
}

// unended records a call whose end could not be: verify would say it was killed.
func (r *calling) unended(ctx context.Context, err error) error {
	if _, told := errors.AsType[cmdline.Exit](err); told || r.ended {
		return err
	}
	return r.Refuse(ctx, "call", r.subject(), err)
}

// manifest begins the manifest of this call.
func (r *calling) manifest(a *answer) *runs.Manifest {
	masked, _ := r.schema.Redact(r.input)
	now := stamp(r.Store.Now())
	limits := map[string]any{}
	for _, f := range r.limits.Fields() {
		limits[f.Name] = *f.Value
	}
	files := a.files
	if files == nil {
		files = []runs.File{}
	}
	return &runs.Manifest{
		Tool: string(r.entry.Tool.Name), Version: r.entry.Ledger.Version, Digest: r.entry.Tool.Digest,
		Persona: r.Persona, Session: r.Session, Started: now, Ended: now,
		Input: masked, Binds: []runs.Bind{}, Files: files, Outcome: a.outcome, Cache: "none",
		Sandbox: runs.Sandbox{Network: "none", Label: sandbox.Label(), Limits: limits},
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// finish writes the manifest and puts the end of the call on the trail, also
// where the manifest cannot be written: what ran has ended. An answer without
// either is not shown.
func (r *calling) finish(ctx context.Context, m *runs.Manifest, sync store.Sync) error {
	sum, err := r.run_.Finish(m, sync)
	if terr := r.called(ctx, m, sum); terr != nil {
		return terr
	}
	if err != nil {
		return fail.New(fail.KindOf(err), "", "the answer is withheld: the manifest cannot be written: %w", err)
	}
	return nil
}

// called puts the end of the call on the trail; sum is "" where there is no
// manifest. An answer whose record cannot be written is not shown.
func (r *calling) called(ctx context.Context, m *runs.Manifest, sum string) error {
	rec := r.subject()
	rec.Event = trail.Called
	details := map[string]any{"outcome": m.Outcome, "exit": m.Exit, "ms": m.MS, "cache": m.Cache}
	if sum != "" {
		details["manifest_sha256"] = sum
	} else {
		details["error"] = fail.IOError
	}
	rec.Details = details
	_, err := r.Trail.Append(ctx, rec)
	r.ended = err == nil
	if err != nil && fail.KindOf(err) != fail.AuditUnavailable {
		err = fail.New(fail.AuditUnavailable, "try again when the trail takes records", "the answer is withheld: %w", err)
	}
	return err
}

// meta is what the envelope says of the run. x is nil for a cached answer.
func (r *calling) meta(m *runs.Manifest, x *execution) []wire.Member {
	str := func(name, s string) wire.Member { return wire.Member{Name: name, Value: wire.StringOf(s)} }
	num := func(name string, n int64) wire.Member { return wire.Member{Name: name, Value: wire.IntOf(n)} }
	flag := func(name string, b bool) wire.Member { return wire.Member{Name: name, Value: wire.BoolOf(b)} }
	out := []wire.Member{
		str("run_id", m.Run), str("tool", m.Tool), num("version", m.Version), str("digest", m.Digest),
		num("duration_ms", m.MS), str("sandbox", m.Sandbox.Label), flag("cached", x == nil),
	}
	if len(r.clamps) > 0 {
		v, _ := wire.Of(r.clamps)
		out = append(out, wire.Member{Name: "limits", Value: v})
	}
	if x == nil {
		return out
	}
	if why := r.mask.Over(); why != "" {
		out = append(out, str("output_withheld", why))
	}
	if x.out.Truncated() {
		out = append(out, flag("stdout_truncated", true), num("stdout_truncated_at_bytes", r.limits.OutputBytes), num("stdout_total_bytes", x.out.Total))
		if x.spilled != "" {
			out = append(out, str("stdout_full_artifact", x.spilled))
		}
		if x.short != "" {
			out = append(out, str("stdout_artifact_short", x.short))
		}
	}
	if m.FilesError != "" {
		out = append(out, str("files_error", m.FilesError))
	}
	if len(x.files) > 0 {
		paths := make([]wire.Value, len(x.files))
		for i, f := range x.files {
			paths[i] = wire.StringOf(filepath.Join(r.run_.Artifacts(), f.Path))
		}
		out = append(out, wire.Member{Name: "files", Value: wire.ArrayOf(paths...)})
	}
	return out
}
