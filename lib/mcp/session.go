package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"forge/lib/fail"
	"forge/lib/wire"
)

// A session is one connection.
type session struct {
	*Server
	out io.Writer

	writing sync.Mutex
	broken  chan struct{} // closed when out cannot be written to
	failure error

	ctx  context.Context
	stop context.CancelCauseFunc

	ready bool // initialize was answered; the reader's own

	mu     sync.Mutex
	live   map[string]*request // by key of the id: accepted, nothing said of it yet
	open   int                 // accepted and not ended
	queued int                 // of these, not yet started
	held   int                 // bytes of arguments the queued ones hold
	order  chan *request       // to the dispatcher; never full, since queued is bounded
	done   chan struct{}       // one for each request that ended
	ended  chan struct{}       // closed at the end of input
	slots  chan struct{}
	last   *List // what the client knows of; the dispatcher's own
}

// A request is a list or call that was accepted.
type request struct {
	key    string
	id     []byte
	call   bool
	name   string // of the tool
	args   []byte // compact
	cursor string
	ctx    context.Context
	cancel context.CancelCauseFunc
	start  sync.Once
}

// kill ends every process group at once, waits for that, and returns err.
func (c *session) kill(err error) error {
	c.stop(errStopped)
	late := time.After(450 * time.Millisecond)
	for c.pending() > 0 {
		select {
		case <-c.done:
		case <-late:
			return err
		}
	}
	return err
}

func (c *session) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// read takes frame after frame and never waits for a call.
func (c *session) read(in io.Reader) error {
	defer close(c.ended)
	f := newFrames(in, MaxFrame)
	bad := 0
	for {
		line, err := f.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != errTooLong:
			return err
		}
		var m message
		var e *protoError
		if err == errTooLong {
			e = protof(codeRequest, "the line has more than %d bytes", f.max)
		} else {
			m, e = parse(line)
		}
		if e != nil && m.id == nil {
			// Answering garbage for ever can keep two programs busy with each other.
			if bad++; bad <= maxBad {
				c.reply(nil, nil, e)
			}
			continue
		}
		bad = 0
		c.take(m, e)
	}
}

// take answers a message or puts it in the queue.
func (c *session) take(m message, e *protoError) {
	key := keyOf(m.id)
	if m.id != nil {
		c.mu.Lock()
		_, twice := c.live[key]
		c.mu.Unlock()
		if twice && !m.response {
			c.reply(nil, nil, protof(codeRequest, "id %s is in use by a request that is not answered yet", clip(string(m.id))))
			return
		}
	}
	switch {
	case e != nil:
		c.reply(m.id, nil, e)
	case m.response:
	case m.id == nil:
		if m.method == "notifications/cancelled" {
			c.cancelled(m.params)
		}
	default:
		c.ask(key, m)
	}
}

func (c *session) ask(key string, m message) {
	var result []byte
	var e *protoError
	switch {
	case m.method == "ping":
		result = []byte("{}")
	case m.method == "initialize":
		result, e = c.initialize(m.params)
	case !c.ready && modern(m.params):
		e = protof(codeMethod, "%q: the revisions served begin with initialize: %s", clip(m.method), strings.Join(Revisions, ", "))
	case !c.ready:
		e = protof(codeParams, "initialize first")
	case m.method == "tools/list", m.method == "tools/call":
		result, e = c.accept(key, m)
		if result == nil && e == nil {
			return
		}
	default:
		e = protof(codeMethod, "no method %q", clip(m.method))
	}
	c.reply(m.id, result, e)
	if m.method == "initialize" && e == nil {
		c.order <- nil // the list is wanted next
	}
}

func (c *session) initialize(params []byte) ([]byte, *protoError) {
	if c.ready {
		return nil, protof(codeRequest, "initialize came before")
	}
	var version []byte
	if params != nil {
		p, _ := cut(params, "protocolVersion")
		if p != nil {
			version = p[0]
		}
	}
	revision := text(version)
	if revision == "" {
		return nil, protof(codeParams, "initialize: protocolVersion is not a string")
	}
	if !slices.Contains(Revisions, revision) {
		revision = Revisions[len(Revisions)-1]
	}
	type info struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}
	result, err := wire.Encode(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      info            `json:"serverInfo"`
		Instructions    string          `json:"instructions,omitempty"`
	}{revision, json.RawMessage(`{"tools":{"listChanged":true}}`), info{c.Name, c.Title, c.Version}, c.Instructions})
	if err != nil {
		return nil, protof(codeInternal, "initialize: %v", err)
	}
	c.ready = true
	return result, nil
}

// modern says whether a request speaks the revisions that have no initialize.
func modern(params []byte) bool {
	if params == nil {
		return false
	}
	p, _ := cut(params, "_meta")
	if p == nil || !object(p[0]) {
		return false
	}
	p, _ = cut(p[0], "io.modelcontextprotocol/protocolVersion")
	return p != nil && p[0] != nil
}

// accept puts a list or call in the queue. It returns nothing at all when that
// is done, else the answer.
func (c *session) accept(key string, m message) ([]byte, *protoError) {
	r := &request{key: key, id: bytes.Clone(m.id), call: m.method == "tools/call"}
	params := m.params
	if params == nil {
		params = []byte("{}")
	}
	p, twice := cut(params, "cursor", "name", "arguments")
	switch {
	case twice != "":
		return nil, protof(codeParams, "%s: member %q stands twice", m.method, twice)
	case !r.call && !null(p[0]) && p[0][0] != '"':
		return nil, protof(codeParams, "tools/list: cursor is not a string")
	case r.call && text(p[1]) == "":
		return nil, protof(codeParams, "tools/call: name is not the name of a tool")
	case r.call && !null(p[2]) && !object(p[2]):
		return nil, protof(codeParams, "tools/call: arguments is not an object")
	}
	r.cursor, r.name, r.args = text(p[0]), text(p[1]), []byte("{}")
	if r.call && object(p[2]) {
		// The tokens as they came: the command that reads them is the one that
		// refuses what it does not like.
		var buf bytes.Buffer
		if err := json.Compact(&buf, p[2]); err != nil {
			return nil, protof(codeParams, "tools/call: %v", err)
		}
		r.args = buf.Bytes()
	}
	r.ctx, r.cancel = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	full := c.queued >= maxQueue || c.held+len(r.args) > maxHeld
	if !full {
		c.open++
		c.queued++
		c.held += len(r.args)
		c.live[key] = r
	}
	c.mu.Unlock()
	if !full {
		c.order <- r
		return nil, nil
	}
	if !r.call {
		return nil, protof(codeInternal, "busy: %d requests wait already", maxQueue)
	}
	return refusal(fail.New(fail.Busy, "wait for the answers to the calls before, then call again",
		"call %q: %d requests wait already", r.name, maxQueue)), nil
}

// started takes r out of the count of those that wait.
func (c *session) started(r *request) {
	r.start.Do(func() {
		c.mu.Lock()
		c.queued--
		c.held -= len(r.args)
		c.mu.Unlock()
	})
}

// finish answers r, unless its client or the end of the server cancelled it.
func (c *session) finish(r *request, result []byte, e *protoError) {
	c.started(r)
	c.mu.Lock()
	delete(c.live, r.key) // before the answer: with it the id is free again
	c.mu.Unlock()
	cause := context.Cause(r.ctx)
	if cause == errCancelled {
		c.logf("request %s was cancelled: %q", clip(string(r.id)), clip(r.name))
	} else if cause != errStopped {
		c.reply(r.id, result, e)
	}
	r.cancel(nil)
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	select {
	case c.done <- struct{}{}:
	default:
	}
}

// cancelled stops the request that a notification names, whether it waits or
// runs. An id that is none of those is no fault: the answer may have crossed it.
func (c *session) cancelled(params []byte) {
	if params == nil {
		return
	}
	p, _ := cut(params, "requestId")
	if p == nil || p[0] == nil {
		return
	}
	c.mu.Lock()
	r := c.live[keyOf(p[0])]
	c.mu.Unlock()
	if r != nil {
		r.cancel(errCancelled)
	}
}

// dispatch takes what was accepted in its order.
func (c *session) dispatch() {
	for {
		var r *request
		select {
		case r = <-c.order:
		case <-c.ctx.Done():
			c.drop()
			return
		}
		list := c.refresh()
		switch {
		case r == nil:
		case r.ctx.Err() != nil:
			c.finish(r, nil, nil)
		case !r.call:
			size := c.page
			if size == 0 {
				size = pageSize
			}
			page, ok := list.page(nil, r.cursor, size)
			if !ok {
				c.finish(r, nil, protof(codeParams, "tools/list: cursor %q is none of this server's", clip(r.cursor)))
				continue
			}
			c.finish(r, oneLine(page), nil)
		default:
			c.dispatchCall(r, list)
		}
	}
}

// drop ends what waits when the server stops.
func (c *session) drop() {
	for {
		select {
		case r := <-c.order:
			if r != nil {
				c.finish(r, nil, nil)
			}
		default:
			return
		}
	}
}

func (c *session) dispatchCall(r *request, list *List) {
	t, ok := list.find(r.name)
	switch {
	case !ok:
		go func() { // looking for near names in a long list takes its time
			msg := "no tool " + strconv.Quote(clip(r.name))
			if near := list.near(r.name); len(near) > 0 {
				msg += "; nearest: " + strings.Join(near, ", ")
			}
			c.finish(r, nil, protof(codeParams, "%s", msg))
		}()
	case t.Barrier:
		// Beside the slots: calls that hang must not keep the list from changing.
		result, e := c.run(r, t)
		c.refresh()
		c.finish(r, result, e)
	default:
		go func() {
			select {
			case c.slots <- struct{}{}:
				result, e := c.run(r, t)
				<-c.slots
				c.finish(r, result, e)
			case <-r.ctx.Done():
				c.finish(r, nil, nil)
			}
		}()
	}
}

// run runs one call; once the input has ended, for Drain at most.
func (c *session) run(r *request, t Tool) ([]byte, *protoError) {
	c.started(r)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-c.ended:
		case <-over:
			return
		}
		select {
		case <-time.After(c.Drain):
			r.cancel(errDrained)
		case <-over:
		}
	}()
	return c.call(r.ctx, t, r.args)
}

// refresh returns the list as it is now, and tells the client if it looks
// otherwise than the last one.
func (c *session) refresh() *List {
	list := c.List()
	if c.last != nil && c.last != list && !c.last.same(list) {
		c.write([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"))
	}
	c.last = list
	return list
}

// reply writes the answer to the request with that id, nil being none.
func (c *session) reply(id, result []byte, e *protoError) {
	if id == nil {
		id = []byte("null")
	}
	b := make([]byte, 0, len(result)+len(id)+64)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if e != nil {
		b = append(b, `,"error":{"code":`...)
		b = wire.IntOf(int64(e.code)).Append(b)
		b = append(b, `,"message":`...)
		b = append(b, oneLine(wire.StringOf(wire.Clean([]byte(e.message))).Bytes())...)
		b = append(b, "}}\n"...)
	} else {
		b = append(append(b, `,"result":`...), result...)
		b = append(b, "}\n"...)
	}
	c.write(b)
}

// write writes one frame, whole. After a failure nothing is written any more.
func (c *session) write(frame []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.failure != nil {
		return
	}
	if _, err := c.out.Write(frame); err != nil {
		c.failure = fail.New(fail.IOError, "", "write standard output: %w", err)
		close(c.broken)
	}
}

// keyOf returns what two ids have in common when they are the same one: the
// type and the characters.
func keyOf(id []byte) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + text(id)
	}
	return string(id)
}

// clip shortens what a client sent, for a message.
func clip(s string) string {
	if len(s) > 64 {
		return wire.Clean([]byte(s[:64])) + "…"
	}
	return s
}
