// Package mcp is the Model Context Protocol as forge-mcp speaks it on standard
// input and output: one JSON-RPC message a line, revisions 2024-11-05 to
// 2025-11-25, the server's part of tools.
//
//	→ {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",…}}
//	← {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},…}}
//	→ {"jsonrpc":"2.0","method":"notifications/initialized"}
//	→ {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"forge_tool","arguments":{…}}}
//	← {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
//	← {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"ok\":true,…}"}],"structuredContent":{"ok":true,…}}}
//
// It knows frames, ids, their order and process groups, and how replies look.
// Which tools there are it is told by a function, and a call is a command that
// takes the arguments on standard input and prints one envelope: nothing is
// validated, allowed or run here. An error of the protocol answers what cannot
// be understood or found; whatever goes wrong with a call that could be started
// is an envelope with isError, so that the model sees it.
//
// Order: a frame is read as soon as it comes. Lists, and the start of calls,
// happen in the order they came in; a call is not waited for, except a barrier,
// which may change the list: what came after it starts when it is done, and the
// client hears of the changed list before it hears the answer. So forge, list
// and call may be piped in at once.
//
// End of input means that there are no more requests, not that the answers are
// unwanted: accepted calls go on, each for Drain at most, counted from the end
// of input or its own start.
package mcp

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"forge/lib/fail"
)

// Revisions are those served, oldest first.
var Revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// DefaultDrain lets an ordinary call that was piped in come to its answer, and
// is short enough to be gone 1.8 s after the end of input: clients send SIGTERM
// after 2.
const DefaultDrain = 1400 * time.Millisecond

const (
	maxBad   = 16       // lines in a row that are refused before it stops answering them
	maxQueue = 256      // requests that wait
	maxHeld  = 64 << 20 // bytes of arguments they hold
	pageSize = 1000     // tools in one answer of tools/list
)

// A Server is one program's side of the protocol.
type Server struct {
	Name, Title, Version string
	Instructions         string
	// List returns the tools as they are now, the same pointer if nothing
	// changed. It is called by one goroutine, before a list, a call, and after a
	// barrier, and for the first time once initialize is answered.
	List  func() *List
	Env   []string      // of the commands; nil: this process's
	Drain time.Duration // see the package comment
	Log   io.Writer     // diagnostics, whole lines; must not block; nil: none

	page, limit int // tools in a page, calls at once; 0: the default
}

func (s *Server) logf(format string, args ...any) {
	if s.Log != nil {
		fmt.Fprintf(s.Log, "forge-mcp: "+format+"\n", args...)
	}
}

// Serve reads in to its end and answers on out, one write a message. It returns
// nil when the input ended and everything accepted has been answered; the cause
// of ctx when that was done first, or an error of kind io_error when in or out
// failed: then every process group is killed, within 500 ms.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	limit := s.limit
	if limit == 0 {
		limit = max(4, 2*runtime.NumCPU())
	}
	c := &session{
		Server: s, out: out,
		broken: make(chan struct{}),
		live:   map[string]*request{},
		order:  make(chan *request, maxQueue+1),
		done:   make(chan struct{}, 1),
		ended:  make(chan struct{}),
		slots:  make(chan struct{}, limit),
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	defer c.stop(errStopped)
	go c.dispatch()
	failed := make(chan error, 1)
	go func() { failed <- c.read(in) }()

	select {
	case err := <-failed:
		if err != nil {
			return c.kill(fail.New(fail.IOError, "", "read standard input: %w", err))
		}
	case <-ctx.Done():
		return c.kill(context.Cause(ctx))
	case <-c.broken:
		return c.kill(c.failure)
	}
	// A client that neither reads nor goes away must not keep this process: a
	// request ends within Drain, or its answer finds no reader.
	stuck := time.NewTimer(s.Drain + time.Second)
	for c.pending() > 0 {
		select {
		case <-c.done:
			stuck.Reset(s.Drain + time.Second)
		case <-ctx.Done():
			return c.kill(context.Cause(ctx))
		case <-c.broken:
			return c.kill(c.failure)
		case <-stuck.C:
			return c.kill(fail.New(fail.IOError, "", "write standard output: nobody reads it"))
		}
	}
	return nil
}
