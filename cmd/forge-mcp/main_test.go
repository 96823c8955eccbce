package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"forge/e2e/script"
)

func TestMain(m *testing.M) { script.Main(m) }

func TestScripts(t *testing.T) { script.Run(t) }

// environment is all that a server in these tests gets.
func environment(t *testing.T, home string, more ...string) []string {
	return append(script.Env(t, home+"/store"), more...)
}

// A client is one connection to a forge-mcp of its own.
type client struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	stderr lockedBuffer
	n      int // the last id
	notes  int // list_changed seen
}

const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func start(t *testing.T, program string, env []string, args ...string) *client {
	t.Helper()
	c := &client{t: t, cmd: exec.Command(program, args...), lines: make(chan string, 10000)}
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = env, "/", &c.stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		c.in.Close()
		for range c.lines {
		}
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("standard error:\n%s", c.stderr.String())
		}
	})
	c.rpc("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`)
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func serveIn(t *testing.T, home string, more ...string) *client {
	t.Helper()
	return start(t, script.Bin(t)+"/forge-mcp", environment(t, home, more...))
}

func (c *client) write(frame string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, frame+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

type reply struct {
	ID    json.RawMessage
	Error *struct {
		Code    int
		Message string
	}
	Result json.RawMessage
}

// rpc sends one request and returns its reply. Notifications before it are
// counted.
func (c *client) rpc(method, params string) reply {
	c.t.Helper()
	c.n++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params))
	for {
		line := c.line()
		if line == changed {
			c.notes++
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			c.t.Fatalf("%v: %s", err, line)
		}
		if string(r.ID) != strconv.Itoa(c.n) {
			c.t.Fatalf("want the answer to %d, got %s", c.n, line)
		}
		return r
	}
}

func (c *client) line() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the server ended")
		}
		return line
	case <-time.After(30 * time.Second):
		c.t.Fatal("no answer")
	}
	return ""
}

type envelope struct {
	OK    bool
	Data  map[string]json.RawMessage
	Error struct{ Kind, Message, Hint string }
}

// call calls a tool and returns its envelope; the kind is "" on success.
func (c *client) call(name, args string) (kind string, e envelope) {
	c.t.Helper()
	return c.envelope(c.rpc("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)))
}

func (c *client) envelope(r reply) (kind string, e envelope) {
	c.t.Helper()
	if r.Error != nil {
		c.t.Fatalf("code %d: %s", r.Error.Code, r.Error.Message)
	}
	var res struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           *bool
	}
	if err := json.Unmarshal(r.Result, &res); err != nil || len(res.Content) != 1 {
		c.t.Fatalf("%v: %s", err, r.Result)
	}
	if res.Content[0].Text != string(res.StructuredContent) {
		c.t.Errorf("text %s\nstructuredContent %s", res.Content[0].Text, res.StructuredContent)
	}
	if err := json.Unmarshal(res.StructuredContent, &e); err != nil {
		c.t.Fatal(err)
	}
	if e.OK == (res.IsError != nil) || res.IsError != nil && !*res.IsError {
		c.t.Errorf("isError and ok: %s", r.Result)
	}
	return e.Error.Kind, e
}

type listed struct {
	Name, Title, Description string
	InputSchema              json.RawMessage
	Annotations              json.RawMessage
	Meta                     json.RawMessage `json:"_meta"`
}

func (c *client) list() []listed {
	c.t.Helper()
	var res struct {
		Tools      []listed
		NextCursor string
	}
	r := c.rpc("tools/list", "{}")
	if err := json.Unmarshal(r.Result, &res); err != nil || res.NextCursor != "" {
		c.t.Fatalf("%v: %s", err, r.Result)
	}
	return res.Tools
}

// forged returns the names of the list but for those of the siblings.
func (c *client) forged() []string {
	c.t.Helper()
	names := []string{}
	for _, l := range c.list() {
		if !strings.HasPrefix(l.Name, "forge_") {
			names = append(names, l.Name)
		}
	}
	return names
}

// request is a request for forge_tool: a tool that answers with its input.
func request(name string, more ...string) string {
	r := map[string]json.RawMessage{
		"name":         json.RawMessage(strconv.Quote(name)),
		"description":  json.RawMessage(`"Answers with its input."`),
		"input_schema": json.RawMessage(`{"type":"object"}`),
		"runtime":      json.RawMessage(`"bash"`),
		"impl":         json.RawMessage(`"read -r x; printf '{\"ok\":true,\"data\":{\"in\":%s}}' \"$x\""`),
	}
	for i := 0; i < len(more); i += 2 {
		r[more[i]] = json.RawMessage(more[i+1])
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (c *client) forge(name string, more ...string) {
	c.t.Helper()
	if kind, e := c.call("forge_tool", request(name, more...)); kind != "" {
		c.t.Fatalf("forge %s: %+v", name, e)
	}
}

// shell runs a line of shell in the same store.
func shell(t *testing.T, home, line string, more ...string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env, cmd.Dir = environment(t, home, more...), "/"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}

// A lockedBuffer is written by the copying goroutine and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// warned waits for a text on standard error, which comes when it comes.
func (c *client) warned(want string) {
	c.t.Helper()
	for begin := time.Now(); !strings.Contains(c.stderr.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			c.t.Errorf("no warning: %s", want)
			return
		}
	}
}

// The main job in one connection, all frames at once: forge, list, call,
// promote; then another session calls it.
func TestPiped(t *testing.T) {
	home := t.TempDir()
	const fib300 = "222232244629420445529739893461909967206666939096499764990979600"
	impl := `"import sys, json\nn = json.load(sys.stdin)['n']\na, b = 0, 1\nfor _ in range(n): a, b = b, a + b\nprint(json.dumps({'ok': True, 'data': {'value': a}}))\n"`
	frames := []string{
		`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"before","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"forge","method":"tools/call","params":{"name":"forge_tool","arguments":` +
			request("math.fib", "impl", impl, "runtime", `"python3"`, "meta", `{"deterministic":true}`) + `}}`,
		`{"jsonrpc":"2.0","id":"after","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"math_fib","arguments":{"n":300}}}`,
		`{"jsonrpc":"2.0","id":"meta","method":"tools/call","params":{"name":"forge_call","arguments":{"name":"math.fib","arguments":{"n":300}}}}`,
		`{"jsonrpc":"2.0","id":"promote","method":"tools/call","params":{"name":"forge_promote","arguments":{"name":"math.fib","to":"user"}}}`,
		`{"jsonrpc":"2.0","id":"discover","method":"tools/call","params":{"name":"forge_list","arguments":{}}}`,
	}
	cmd := exec.Command(script.Bin(t) + "/forge-mcp")
	cmd.Env, cmd.Dir, cmd.Stderr = environment(t, home, "FORGE_SESSION=one", "FORGE_MCP_DRAIN_MS=20000"), "/", os.Stderr
	cmd.Stdin = strings.NewReader(strings.Join(frames, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	var order []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line == changed {
			order = append(order, "changed")
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		id := strings.Trim(string(r.ID), `"`)
		got[id] = line
		order = append(order, id)
	}
	if len(got) != 8 || strings.Join(order[:5], " ") != "i before changed forge after" {
		t.Fatalf("order %v", order)
	}
	for id, line := range got {
		if strings.Contains(line, "isError") || strings.Contains(line, `"error"`) {
			t.Errorf("%s: %s", id, line)
		}
	}
	for _, id := range []string{"call", "meta"} {
		if !strings.Contains(got[id], `"structuredContent":{"ok":true,"data":{"value":`+fib300+`}`) {
			t.Error(got[id])
		}
	}
	if strings.Contains(got["before"], "math_fib") || !strings.Contains(got["after"], `"name":"math_fib","title":"math.fib"`) {
		t.Errorf("%s\n%s", got["before"], got["after"])
	}
	c := serveIn(t, home, "FORGE_SESSION=two")
	if _, e := c.call("math.fib", `{"n":300}`); string(e.Data["value"]) != fib300 {
		t.Error(e)
	}
	shell(t, home, "forge-audit verify")
}

// The siblings' own tools come from what they print for --describe: first, in
// one order, marked so that clients load them at once.
func TestStatic(t *testing.T) {
	c := serveIn(t, t.TempDir())
	var names []string
	for _, l := range c.list() {
		names = append(names, l.Name)
		if string(l.Meta) != `{"anthropic/alwaysLoad":true}` || l.Description == "" || !strings.Contains(string(l.InputSchema), `"type":"object"`) {
			t.Errorf("%+v", l)
		}
	}
	for _, want := range []string{"forge_call", "forge_list", "forge_promote", "forge_tool"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %v", want, names)
		}
	}
	if !slices.IsSorted(names) {
		t.Error(names)
	}
	for _, name := range []string{"prompts/list", "server/discover"} {
		if r := c.rpc(name, "{}"); r.Error == nil || r.Error.Code != -32601 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Rows M21, M24, M25 and M27 of the cases.
func TestNames(t *testing.T) {
	c := serveIn(t, t.TempDir())
	if got := c.forged(); len(got) != 0 {
		t.Fatal(got)
	}
	c.forge("csv.stats")
	if c.notes != 1 {
		t.Errorf("%d notifications", c.notes)
	}
	c.forge("b")
	c.forge("a")
	if got := fmt.Sprint(c.forged()); got != "[a b csv_stats]" {
		t.Error(got)
	}
	for _, name := range []string{"csv.stats", "csv_stats"} {
		if _, e := c.call(name, `{"x":1e2}`); string(e.Data["in"]) != `{"x":1e2}` {
			t.Errorf("%s: %+v", name, e)
		}
	}
	c.notes = 0
	for name, want := range map[string]string{"csv_stats": "name_taken", "forge.tool": "name_invalid", "A": "name_invalid", "a__b": "name_invalid"} {
		if kind, e := c.call("forge_tool", request(name)); kind != want {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if c.notes != 0 {
		t.Errorf("%d notifications of nothing", c.notes)
	}
	r := c.rpc("tools/call", `{"name":"csv_stat"}`)
	if r.Error == nil || r.Error.Code != -32602 || r.Error.Message != `no tool "csv_stat"; nearest: csv_stats` {
		t.Errorf("%+v", r)
	}
	if a, b := c.rpc("tools/list", "{}"), c.rpc("tools/list", "{}"); string(a.Result) != string(b.Result) {
		t.Errorf("%s\n%s", a.Result, b.Result)
	}
}

// Rows M28 and M29: what cannot be enforced is refused, what cannot be shown
// is called all the same, and what is shown is what every client bears.
func TestSchemas(t *testing.T) {
	c := serveIn(t, t.TempDir())
	for _, schema := range []string{
		`{"type":"array"}`, `{"type":"strng"}`, `{"type":"object","properties":{"a":{"$ref":"http://localhost/x"}}}`,
	} {
		if kind, e := c.call("forge_tool", request("bad", "input_schema", schema)); kind != "schema_unsupported" {
			t.Errorf("%s: %+v", schema, e)
		}
	}
	c.forge("rooted", "input_schema", `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`)
	c.forge("cyclic", "input_schema", `{"type":"object","properties":{"next":{"$ref":"#"}}}`)
	c.forge("plain", "input_schema", `{"type":"object","properties":{"p":{"$ref":"#/$defs/path"}},"$defs":{"path":{"type":"string","x-bind":"ro","x-redact":false}}}`)
	c.forge("bare")
	if got := fmt.Sprint(c.forged()); got != "[bare plain]" {
		t.Error(got)
	}
	for _, name := range []string{"rooted", "cyclic"} {
		if kind, e := c.call(name, `{"a":1}`); kind != "" {
			t.Errorf("%s: %+v", name, e)
		}
		if kind, e := c.call("forge_call", `{"name":"`+name+`","arguments":{"a":1}}`); kind != "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, l := range c.list() {
		s := string(l.InputSchema)
		if strings.Contains(s, "x-") || strings.Contains(s, "$ref") || !strings.Contains(s, `"properties":{`) {
			t.Errorf("%s: %s", l.Name, s)
		}
		if l.Name == "plain" && !strings.Contains(s, `"p":{"type":"string"}`) {
			t.Error(s)
		}
	}
}

// Row M34: whatever a tool does, the client gets an envelope and the server
// goes on.
func TestToolFails(t *testing.T) {
	c := serveIn(t, t.TempDir())
	for name, tt := range map[string]struct{ impl, want string }{
		"silent": {`exit 3`, "tool_crashed"},
		"signal": {`kill -s SEGV $$`, "tool_crashed"},
		"hello":  {`echo hello`, "bad_output"},
		"own":    {`echo '{"ok":false,"error":{"kind":"no_such_column","message":"no column x"}}'`, "no_such_column"},
	} {
		c.forge(name, "impl", strconv.Quote(tt.impl))
		if kind, e := c.call(name, "{}"); kind != tt.want || e.Error.Message == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if r := c.rpc("ping", "{}"); string(r.Result) != "{}" {
		t.Error(r)
	}
}

// Row M43: what a client is told of a tool follows from what is enforced.
func TestAnnotations(t *testing.T) {
	c := serveIn(t, t.TempDir())
	for name, tt := range map[string]struct{ meta, want string }{
		"none":  {`{"capabilities":[]}`, `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`},
		"read":  {`{"capabilities":["read"]}`, `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`},
		"net":   {`{"capabilities":["read","network"],"deterministic":true}`, `{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true}`},
		"write": {`{"capabilities":["write"]}`, `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false}`},
		"same":  {`{"capabilities":[],"deterministic":true}`, `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`},
	} {
		c.forge(name, "meta", tt.meta, "runtime", `"python3"`, "impl", `"print('{\"ok\":true}')"`)
		i := slices.IndexFunc(c.list(), func(l listed) bool { return l.Name == name })
		if l := c.list()[max(i, 0)]; string(l.Annotations) != tt.want || l.Title != name {
			t.Errorf("%s: %+v %s", name, l, l.Annotations)
		}
	}
}

// Rows M22 (at the next request), M23 and M45: what others do to the registry,
// and a file that is none.
func TestOthers(t *testing.T) {
	home := t.TempDir()
	a, b := serveIn(t, home), serveIn(t, home)
	a.forge("one")
	if got := fmt.Sprint(b.forged(), b.notes); got != "[one] 1" {
		t.Error(got)
	}
	if kind, _ := b.call("one", "{}"); kind != "" {
		t.Error(kind)
	}
	if kind, _ := b.call("forge_tool", request("one")); kind != "name_taken" {
		t.Error(kind)
	}
	for i := range 10 {
		shell(t, home, fmt.Sprintf("echo '%s' | forge-forge >/dev/null", strings.ReplaceAll(request("q"+strconv.Itoa(i)), "'", `'\''`)))
	}
	a.notes = 0
	if got := a.forged(); len(got) != 11 || a.notes != 1 {
		t.Error(got, a.notes)
	}

	file := home + "/store/tools/one.json"
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"by rename", "in place"} {
		write := func(b []byte) {
			to := file
			if in == "by rename" {
				to = home + "/new"
			}
			if err := os.WriteFile(to, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if to != file {
				if err := os.Rename(to, file); err != nil {
					t.Fatal(err)
				}
			}
		}
		a.notes = 0
		if in == "by rename" {
			write(whole[:len(whole)/2])
		} else {
			// Only a change of the directory is looked for, so that a request costs
			// the same with any number of tools: take it away, then put half of it.
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			write(whole[:len(whole)/2])
		}
		if got := a.forged(); len(got) != 10 || a.notes != 1 || slices.Contains(got, "one") {
			t.Errorf("%s: %v, %d notifications", in, got, a.notes)
		}
		a.warned("forge-mcp: warning: " + file + ": ")
		write(whole)
		if got := a.forged(); len(got) != 11 || a.notes != 2 {
			t.Errorf("%s: %v, %d notifications", in, got, a.notes)
		}
	}
}

// A tool whose definition was never recorded here is not shown; called, the
// answer says why.
func TestUnrecorded(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	c := serveIn(t, home)
	c.forge("here")
	serveIn(t, other).forge("there")
	shell(t, home, "cp "+other+"/store/tools/there.json $FORGE_HOME/tools/")
	if got := fmt.Sprint(c.forged()); got != "[here]" {
		t.Error(got)
	}
	if kind, e := c.call("there", "{}"); kind != "unrecorded" {
		t.Errorf("%+v", e)
	}
	// The record of a definition may come and go while its file stays.
	shell(t, home, "cp "+other+"/store/ledger/* $FORGE_HOME/ledger/")
	if got := fmt.Sprint(c.forged()); got != "[here there]" {
		t.Error(got)
	}
	shell(t, home, "rm $FORGE_HOME/ledger/*")
	if got := fmt.Sprint(c.forged()); got != "[]" {
		t.Error(got)
	}
}

// The narrowest definition of a name is the one shown and the one called; a
// project's scope may appear while the server runs.
func TestScopes(t *testing.T) {
	home := t.TempDir()
	work := home + "/src/project"
	if err := os.MkdirAll(work+"/.git", 0o700); err != nil {
		t.Fatal(err)
	}
	say := func(what string) string { return strconv.Quote(`echo '{"ok":true,"data":{"said":"` + what + `"}}'`) }
	serveIn(t, home).forge("say", "impl", say("user"))

	c := start(t, "/bin/sh", environment(t, home), "-c", "cd "+work+" && exec "+script.Bin(t)+"/forge-mcp")
	said := func(want string) {
		t.Helper()
		if _, e := c.call("say", "{}"); string(e.Data["said"]) != `"`+want+`"` {
			t.Errorf("%+v, want %s", e, want)
		}
		if got := fmt.Sprint(c.forged()); got != "[say]" {
			t.Error(got)
		}
	}
	said("user")
	c.forge("say", "impl", say("project"), "scope", `"project"`, "description", `"Of the project."`)
	said("project")
	if c.notes != 1 {
		t.Errorf("%d notifications", c.notes)
	}
	d := start(t, "/bin/sh", environment(t, home), "-c", "cd "+work+" && exec "+script.Bin(t)+"/forge-mcp --session s1")
	d.forge("say", "impl", say("session"))
	c = d
	said("session")
}

// Persona, allowed tools and session come from the environment or the flags of
// the server, and are the siblings' to check: forge_call is refused as the tool
// itself is.
func TestAllowed(t *testing.T) {
	home := t.TempDir()
	serveIn(t, home).forge("csv.stats")
	serveIn(t, home).forge("csv.sum")
	for _, c := range []*client{
		serveIn(t, home, "FORGE_ALLOWED_TOOLS=csv.sum"),
		start(t, script.Bin(t)+"/forge-mcp", environment(t, home, "FORGE_ALLOWED_TOOLS=csv.stats"), "--allowed-tools", "csv.sum"),
	} {
		for _, f := range []func(string) (string, envelope){
			func(n string) (string, envelope) { return c.call(n, "{}") },
			func(n string) (string, envelope) { return c.call("forge_call", `{"name":"`+n+`"}`) },
		} {
			if kind, e := f("csv.stats"); kind != "persona_denied" {
				t.Errorf("%+v", e)
			}
			if kind, e := f("csv.sum"); kind != "" {
				t.Errorf("%+v", e)
			}
		}
	}
	c := start(t, script.Bin(t)+"/forge-mcp", environment(t, home), "--persona", "research")
	if kind, e := c.call("csv.sum", "{}"); kind != "" {
		t.Errorf("%+v", e)
	}
	if last := shell(t, home, "forge-audit tail"); !strings.Contains(last, `"persona":"research"`) {
		t.Error(last)
	}
}

// Row M35 with a real tool: cancelled, the command, its sandbox and what runs
// in it are gone within 500 ms, and nothing is said.
func TestCancel(t *testing.T) {
	home := t.TempDir()
	c := serveIn(t, home)
	c.forge("hang", "impl", `"sleep 600 & sleep 600"`, "meta", `{"limits":{"wall_s":60}}`)
	c.write(`{"jsonrpc":"2.0","id":"hang","method":"tools/call","params":{"name":"hang"}}`)
	deadline := time.Now().Add(10 * time.Second)
	var tree []int
	for sleeps := 0; sleeps < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the tool does not run: %v", tree)
		}
		tree, sleeps = descendants(c.cmd.Process.Pid), 0
		for _, pid := range tree {
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(b) == "sleep\n" {
				sleeps++
			}
		}
	}
	begin := time.Now()
	c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"hang"}}`)
	for len(alive(tree)) > 0 {
		if time.Since(begin) > 500*time.Millisecond {
			t.Fatalf("still there: %v of %v", alive(tree), tree)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if r := c.rpc("ping", "{}"); string(r.Result) != "{}" {
		t.Error(r)
	}
	select {
	case line := <-c.lines:
		t.Error(line)
	case <-time.After(200 * time.Millisecond):
	}
	if last := shell(t, home, "forge-audit tail"); !strings.Contains(last, `"outcome":"cancelled"`) {
		t.Error(last)
	}
}

// descendants returns the processes below pid.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

func alive(pids []int) (left []int) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if i := bytes.LastIndexByte(b, ')'); err == nil && b[i+2] != 'Z' {
			left = append(left, pid)
		}
	}
	return left
}

// Row M38: a call that hangs does not keep the server once the input has ended,
// and the calls beside it are answered.
func TestEOF(t *testing.T) {
	home := t.TempDir()
	c := serveIn(t, home)
	c.forge("hang", "impl", `"sleep 600"`, "meta", `{"limits":{"wall_s":60}}`)
	c.forge("quick")
	c.write(`{"jsonrpc":"2.0","id":"hang","method":"tools/call","params":{"name":"hang"}}`)
	c.write(`{"jsonrpc":"2.0","id":"quick","method":"tools/call","params":{"name":"quick"}}`)
	begin := time.Now()
	c.in.Close()
	var lines []string
	for line := range c.lines {
		lines = append(lines, line)
	}
	if err := c.cmd.Wait(); err != nil || time.Since(begin) > 1800*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `"id":"quick","result":{"content"`) || !strings.Contains(lines[1], "FORGE_MCP_DRAIN_MS") {
		t.Error(strings.Join(lines, "\n"))
	}
}

// Row M34: siblings that are missing. A server alone still speaks.
func TestMissing(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	serveIn(t, home).forge("echo")
	cp := func(name string) {
		t.Helper()
		b, err := os.ReadFile(script.Bin(t) + "/" + name)
		if err == nil {
			err = os.WriteFile(dir+"/"+name, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cp("forge-mcp")
	c := start(t, dir+"/forge-mcp", environment(t, home))
	if l := c.list(); len(l) != 1 || l[0].Name != "echo" {
		t.Error(l)
	}
	r := c.rpc("tools/call", `{"name":"echo"}`)
	if r.Error == nil || r.Error.Code != -32603 || !strings.Contains(r.Error.Message, "forge-call: no such file or directory") {
		t.Errorf("%+v", r.Error)
	}
	c.warned("forge-mcp: warning: no command in " + dir + " offers anything to toolset forge")
	c.warned(`forge-mcp: call "echo": `)
	// Beside it: a command that knows no --describe, one that prints rubbish, one
	// whose tool would break the list of some clients, and one that offers to
	// another toolset. Through a link, too.
	for name, script := range map[string]string{
		"forge-deaf": "exit 64", "forge-noise": "echo hello",
		"forge-bad":   `echo '{"toolset":"forge","tools":[{"name":"forge_bad","description":"x","inputSchema":{"type":"array"},"run":["forge-bad"]},{"name":"forge_out","description":"x","inputSchema":{"type":"object"},"run":["../x"]}]}'`,
		"forge-skill": `echo '{"toolset":"skill","tools":[{"name":"skill_list","description":"x","inputSchema":{"type":"object"},"run":["forge-skill","list"]}]}'`,
	} {
		if err := os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cp("forge-call")
	if err := os.Symlink(dir+"/forge-mcp", home+"/linked"); err != nil {
		t.Fatal(err)
	}
	c = start(t, home+"/linked", environment(t, home))
	var names []string
	for _, l := range c.list() {
		names = append(names, l.Name)
	}
	if fmt.Sprint(names) != "[forge_call echo]" {
		t.Error(names)
	}
	for _, want := range []string{"forge-noise --describe: ", `tool "forge_bad": inputSchema is not of type object`, `tool "forge_out": run names no sibling`} {
		c.warned(want)
	}
	if kind, e := c.call("echo", "{}"); kind != "" {
		t.Errorf("%+v", e)
	}
	c = start(t, dir+"/forge-mcp", environment(t, home), "--toolset", "skill", "--name", "skills")
	if l := c.list(); len(l) != 1 || l[0].Name != "skill_list" {
		t.Error(l)
	}
}

// A store that is not ours does not end the server: the calls say what is
// wrong.
func TestForeignStore(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(home+"/store", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := serveIn(t, home)
	if got := c.forged(); len(got) != 0 {
		t.Error(got)
	}
	if kind, e := c.call("forge_list", "{}"); kind != "io_error" {
		t.Errorf("%+v", e)
	}
	c.warned("warning: store ")
	if n := strings.Count(c.stderr.String(), "warning: store "); n != 1 {
		t.Errorf("%d warnings\n%s", n, c.stderr.String())
	}
	if err := os.Remove(home + "/store"); err != nil {
		t.Fatal(err)
	}
	c.forge("echo")
	if got := fmt.Sprint(c.forged()); got != "[echo]" {
		t.Error(got)
	}
}

// Row M46: what the server inherited reaches no command, and no tool.
func TestInherited(t *testing.T) {
	home := t.TempDir()
	c := start(t, "/bin/sh", environment(t, home), "-c", "exec 7</etc/passwd; exec "+script.Bin(t)+"/forge-mcp")
	c.forge("fds", "runtime", `"python3"`, "impl", strconv.Quote(
		`import os, json
fds = []
for fd in range(64):
    try: os.fstat(fd); fds.append(fd)
    except OSError: pass
print(json.dumps({"ok": True, "data": {"fds": fds}}))
`))
	if _, e := c.call("fds", "{}"); string(e.Data["fds"]) != "[0,1,2]" {
		t.Errorf("%+v", e)
	}
}
