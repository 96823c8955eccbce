package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/wire"
)

const (
	// termGrace is how long a process group has between SIGTERM and SIGKILL.
	termGrace = 200 * time.Millisecond
	// pipeGrace is how long a process that left its group may hold a pipe open.
	pipeGrace = 200 * time.Millisecond
	// stderrTail is how much of a command's standard error is kept for an answer.
	stderrTail = 8 << 10
)

// Why a call is stopped, as the cause of its context.
var (
	errCancelled = errors.New("cancelled by the client")
	errStopped   = errors.New("the server stops")
	errDrained   = errors.New("still running when the time after the end of input was over")
)

// A command is one process of Forge on its way, the leader of a group of its
// own.
type command struct {
	argv   []string
	env    []string // nil: this process's
	input  []byte
	log    io.Writer // its standard error, too; may be nil
	bound  int       // most bytes of standard output
	stderr tail
}

// run runs c to its end, or until ctx is done: then the whole group gets
// SIGTERM, and SIGKILL 200 ms later. Whatever the leader left in its group is
// killed when it ends, before its number can belong to another. It returns
// standard output and, when the process did not exit with 0, an
// *exec.ExitError. An error that is a fs.ErrNotExist or the like: never started.
func (c *command) run(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := bounded{max: c.bound}
	c.stderr.log = c.log
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.env
	cmd.Stdin = bytes.NewReader(c.input)
	cmd.Stdout = &out
	cmd.Stderr = &c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeGrace
	if err := cmd.Start(); err != nil {
		return nil, &startError{err}
	}
	group := -cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for { // the leader stays a zombie, so that the group keeps its number
			err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if err != unix.EINTR {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = unix.Kill(group, unix.SIGTERM)
		select {
		case <-ended:
		case <-time.After(termGrace):
			_ = unix.Kill(group, unix.SIGKILL)
			<-ended
		}
	}
	_ = unix.Kill(group, unix.SIGKILL)
	err := cmd.Wait()
	c.stderr.flush()
	if out.over {
		err = fmt.Errorf("more than %d bytes on standard output", c.bound)
	}
	return out.b, err
}

// A startError says that there was no process.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// Output runs argv with nothing on standard input, as a call is run, and
// returns what it printed, at most bound bytes.
func Output(ctx context.Context, argv, env []string, bound int) ([]byte, error) {
	c := command{argv: argv, env: env, bound: bound}
	return c.run(ctx)
}

// call runs t on args and returns the result of tools/call: the sibling's one
// envelope, or one of kind internal that says how it came to none, or of kind
// timeout when the time after the end of input was over. A protoError: the
// sibling could not be started.
func (s *Server) call(ctx context.Context, t Tool, args []byte) ([]byte, *protoError) {
	c := command{argv: t.Argv, env: s.Env, input: args, log: s.Log, bound: wire.Output.Size}
	out, err := c.run(ctx)
	if start, ok := errors.AsType[*startError](err); ok {
		s.logf("call %q: %v", t.Name, start)
		return nil, protof(codeInternal, "call %q: %v", t.Name, start)
	}
	env, ok := envelope(out)
	good, _ := env.Get("ok")
	switch cause := context.Cause(ctx); {
	case cause == errCancelled || cause == errStopped:
		return nil, nil // nobody waits for it
	case cause == errDrained && good.Text() != "true":
		return refusal(fail.New(fail.Timeout,
			"keep standard input open until the answer is there, or set FORGE_MCP_DRAIN_MS",
			"call %q: %w", t.Name, errDrained)), nil
	case ok:
		return result(env), nil
	}
	what := "exit status 0"
	if err != nil {
		what = err.Error()
	}
	if len(bytes.TrimSpace(out)) > 0 {
		what += ", and what it printed is no envelope"
	} else {
		what += ", and it printed nothing"
	}
	e := fail.New(fail.Internal, "", "%s: %s", filepath.Base(t.Argv[0]), what).
		With("stdout", wire.Clean(out[:min(len(out), 512)])).
		With("stderr", wire.Clean(c.stderr.b))
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			e = e.With("signal", unix.SignalName(ws.Signal()))
		} else {
			e = e.With("exit", x.ExitCode())
		}
	}
	s.logf("call %q: %s", t.Name, e.Message)
	return refusal(e), nil
}

// envelope returns what a sibling printed, compact, if it is one JSON object
// with a boolean ok.
func envelope(out []byte) (wire.Value, bool) {
	v, err := wire.Parse(out, wire.Output)
	if err != nil {
		return v, false
	}
	ok, _ := v.Get("ok")
	return v, ok.Type() == wire.Bool
}

// result renders an envelope as the result of tools/call. Clients differ in
// which of the two places they show a model, so both hold the same.
func result(env wire.Value) []byte {
	text := env.Bytes()
	out := append(make([]byte, 0, 2*len(text)+len(text)/4+128), `{"content":[{"type":"text","text":`...)
	out = wire.StringOf(string(text)).Append(out)
	out = append(out, `}],"structuredContent":`...)
	out = append(out, text...)
	if ok, _ := env.Get("ok"); ok.Text() != "true" {
		out = append(out, `,"isError":true`...)
	}
	return oneLine(append(out, '}'))
}

// refusal is the result of a call that no sibling answered.
func refusal(e *fail.Error) []byte {
	env, err := wire.Of(wire.Envelope{Error: e})
	if err != nil { // no detail of ours is without a JSON form
		panic(err)
	}
	return result(env)
}

// oneLine escapes in JSON text what some readers take for the end of a line.
func oneLine(text []byte) []byte {
	for raw, escaped := range map[string]string{"\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(text, []byte(raw)) {
			text = bytes.ReplaceAll(text, []byte(raw), []byte(escaped))
		}
	}
	return text
}

// A bounded keeps what is written to it up to a bound, and fails beyond.
type bounded struct {
	b    []byte
	max  int
	over bool
}

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.max {
		w.over = true
		return 0, errors.New("too much output")
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// A tail keeps the end of what is written to it and passes whole lines on.
type tail struct {
	b    []byte
	log  io.Writer
	line []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - stderrTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	if t.log == nil {
		return len(p), nil
	}
	t.line = append(t.line, p...)
	if i := bytes.LastIndexByte(t.line, '\n'); i >= 0 || len(t.line) > stderrTail {
		if i < 0 {
			i = len(t.line) - 1
		}
		_, _ = t.log.Write(t.line[:i+1])
		t.line = append(t.line[:0], t.line[i+1:]...)
	}
	return len(p), nil
}

func (t *tail) flush() {
	if len(t.line) > 0 && t.log != nil {
		_, _ = t.log.Write(append(t.line, '\n'))
		t.line = nil
	}
}
