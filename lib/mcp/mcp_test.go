package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"forge/lib/wire"
)

// The test binary plays the programs at both ends of the wire: the commands
// that calls run, and a whole server for what concerns a process.
func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST_ROLE") {
	case "command":
		command0(os.Args[1], os.Args[2:])
	case "server":
		server0()
	default:
		os.Exit(m.Run())
	}
}

// command0 is a sibling: it reads its input and answers in a given way.
func command0(how string, args []string) {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	ok := func(data string) { fmt.Printf(`{"ok":true,"data":%s,"meta":{}}`+"\n", data) }
	switch how {
	case "echo":
		ok(string(in))
	case "sleep": // SECONDS, or as the input says
		s := args[0]
		time.Sleep(seconds(s))
		ok(`{"slept":"` + s + `"}`)
	case "touch":
		if err := os.WriteFile(args[0], nil, 0o600); err != nil {
			panic(err)
		}
		ok("{}")
	case "tree": // a child of its own, both deaf to SIGTERM; their numbers in a file
		signal.Ignore(syscall.SIGTERM)
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "trap '' TERM; while :; do sleep 1; done"},
			&os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
		if err != nil {
			panic(err)
		}
		name := args[0] + "/" + strconv.Itoa(os.Getpid())
		if err := os.WriteFile(name+".new", fmt.Appendf(nil, "%d %d", os.Getpid(), p.Pid), 0o600); err != nil {
			panic(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			panic(err)
		}
		time.Sleep(time.Minute)
	case "leave": // an answer, and a process that keeps the pipes
		if _, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{
			Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: len(args) > 0},
		}); err != nil {
			panic(err)
		}
		ok("{}")
	case "raw":
		fmt.Print(args[0])
	case "exit":
		fmt.Fprintln(os.Stderr, "going down")
		os.Exit(3)
	case "panic":
		panic("a fault of the sibling's")
	case "flood":
		b := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := os.Stdout.Write(b); err != nil {
				os.Exit(1)
			}
		}
	case "deaf": // megabytes to standard error
		_, _ = os.Stderr.Write(bytes.Repeat([]byte(strings.Repeat("e", 99)+"\n"), 20000))
		ok("{}")
	default:
		panic(how)
	}
	os.Exit(0)
}

func seconds(s string) time.Duration {
	d, err := time.ParseDuration(s + "s")
	if err != nil {
		panic(err)
	}
	return d
}

// tool returns one that runs the test binary as command0.
func tool(name, how string, args ...string) Tool {
	return Tool{
		Name: name, Argv: append([]string{os.Args[0], how}, args...),
		Entry: Entry(name, "", "for tests", wire.ObjectOf(wire.Member{Name: "type", Value: wire.StringOf("object")}), wire.Value{}, wire.Value{}),
	}
}

// commandEnv makes the test binary play command0; under the race detector it
// would wait for a second at its end.
func commandEnv() []string {
	return append(os.Environ(), "MCP_TEST_ROLE=command", "GORACE=atexit_sleep_ms=0")
}

func testServer(tools ...Tool) *Server {
	list := NewList(nil, tools)
	return &Server{
		Name: "test", Version: "0", Drain: DefaultDrain, Log: io.Discard,
		List: func() *List { return list },
		Env:  commandEnv(),
	}
}

// A client is the other end of a connection to a server in this process.
type client struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	end   chan error
	stop  context.CancelFunc
}

func dial(t *testing.T, s *Server) *client {
	t.Helper()
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &client{t: t, in: toServer, lines: make(chan string, 1000), end: make(chan error, 1), stop: stop}
	go func() {
		err := s.Serve(ctx, in, out)
		out.Close()
		c.end <- err
	}()
	go readLines(fromServer, c.lines)
	t.Cleanup(func() {
		toServer.Close()
		stop()
	})
	return c
}

func readLines(r io.Reader, lines chan<- string) {
	b := bufio.NewReader(r)
	for {
		line, err := b.ReadString('\n')
		if line != "" {
			lines <- strings.TrimSuffix(line, "\n")
		}
		if err != nil {
			close(lines)
			return
		}
	}
}

func (c *client) send(frames ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, strings.Join(frames, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next line of the server, which must be one message.
func (c *client) next() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the server ended")
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil || string(m["jsonrpc"]) != `"2.0"` {
			c.t.Fatalf("not a message: %s", line)
		}
		return line
	case <-time.After(10 * time.Second):
		c.t.Fatal("no answer")
	}
	return ""
}

// expect reads as many lines and compares them.
func (c *client) expect(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			c.t.Fatalf("\n got %s\nwant %s", got, w)
		}
	}
}

// silent fails if the server says anything for that long.
func (c *client) silent(d time.Duration) {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if ok {
			c.t.Fatalf("unexpected: %s", line)
		}
	case <-time.After(d):
	}
}

// eof ends the input, and returns what comes until the server's end.
func (c *client) eof() (lines []string, err error) {
	c.t.Helper()
	c.in.Close()
	for line := range c.lines {
		lines = append(lines, line)
	}
	return lines, <-c.end
}

const (
	initFrame  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`
	readyFrame = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	changed    = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
)

func ping(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
func pong(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

func callFrame(id, name, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
}

func errorFrame(id string, code int, message string) string {
	b, _ := wire.Encode(message)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, b)
}

// open is dial and the opening of a session.
func open(t *testing.T, s *Server) *client {
	t.Helper()
	c := dial(t, s)
	c.send(initFrame, readyFrame)
	if got := c.next(); !strings.Contains(got, `"id":"i","result":{"protocolVersion":"2025-11-25"`) {
		t.Fatal(got)
	}
	return c
}

// An answer is a reply to tools/call, taken apart.
type answer struct {
	ID     json.RawMessage
	Error  *struct{ Code int }
	Result struct {
		Content           []struct{ Type, Text string }
		StructuredContent struct {
			OK    bool
			Data  json.RawMessage
			Error struct {
				Kind, Message, Hint string
				Details             map[string]any
			}
		}
		IsError *bool
	}
}

func (c *client) answer() answer {
	c.t.Helper()
	return parseAnswer(c.t, c.next())
}

func parseAnswer(t *testing.T, line string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return a
}

// TestFrames holds the rows M01 to M04, M06 to M10 and M16 of the cases, and
// what lies near them: each line of input, and all that comes back.
func TestFrames(t *testing.T) {
	bom := "\ufeff"
	for _, tt := range []struct {
		name string
		in   string
		want []string
	}{
		{"M01 cut line", `{"jsonrpc":"2.0","id":1,` + "\n" + ping("2") + "\n", []string{
			errorFrame("null", -32700, "the line is not one JSON value: unexpected end of JSON input"), pong("2"),
		}},
		{"M02 mark, CR, blank lines", bom + ping("1") + "\r\n\r\n  \n\t" + ping("2") + " \r\n\n", []string{pong("1"), pong("2")}},
		{"last line without its end", ping("1") + "\n" + ping("2"), []string{pong("1"), pong("2")}},
		{"M03 two on a line", ping("1") + ping("2") + "\n" + ping("3") + "\n", []string{
			errorFrame("null", -32700, "the line is not one JSON value: invalid character '{' after top-level value"), pong("3"),
		}},
		{"M04 over three lines", "{\n\"jsonrpc\":\"2.0\",\"id\":1,\n\"method\":\"ping\"}\n" + ping("3") + "\n", []string{
			errorFrame("null", -32700, "the line is not one JSON value: unexpected end of JSON input"),
			errorFrame("null", -32700, "the line is not one JSON value: invalid character ':' after top-level value"),
			errorFrame("null", -32700, "the line is not one JSON value: invalid character ':' after top-level value"),
			pong("3"),
		}},
		{"M06 not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}\n" + ping("2") + "\n", []string{
			errorFrame("null", -32700, "the line is not valid UTF-8"), pong("2"),
		}},
		{
			"M07 ids as they came", strings.Join([]string{ping("0"), ping(`""`), ping(`"7"`), ping("-1"), ping("9007199254740993"), ping("1.5"), ping("1e400"), ping(`"\u0041\ud800\/"`)}, "\n"),
			[]string{pong("0"), pong(`""`), pong(`"7"`), pong("-1"), pong("9007199254740993"), pong("1.5"), pong("1e400"), pong(`"\u0041\ud800\/"`)},
		},
		{"M08 ids that are none", strings.Join([]string{ping("null"), ping("{}"), ping("[]"), ping("true"), ping("1")}, "\n"), []string{
			errorFrame("null", -32600, "id is neither a string nor a number"),
			errorFrame("null", -32600, "id is neither a string nor a number"),
			errorFrame("null", -32600, "id is neither a string nor a number"),
			errorFrame("null", -32600, "id is neither a string nor a number"),
			pong("1"),
		}},
		{"M09 batch", "[" + ping("1") + "," + ping("2") + "]\n" + ping("3"), []string{
			errorFrame("null", -32600, "batches are not taken: write one message a line"), pong("3"),
		}},
		{"M10 jsonrpc", `{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n" + `{"id":2,"method":"ping"}` + "\n" + `{"jsonrpc":2.0,"id":3,"method":"ping"}` + "\n" + `{"method":"ping"}`, []string{
			errorFrame("1", -32600, `jsonrpc is not "2.0"`), errorFrame("2", -32600, `jsonrpc is not "2.0"`),
			errorFrame("3", -32600, `jsonrpc is not "2.0"`), errorFrame("null", -32600, `jsonrpc is not "2.0"`),
		}},
		{"names have their case", `{"jsonrpc":"2.0","ID":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":2,"Method":"ping"}`, []string{
			errorFrame("2", -32600, "method is not a string"),
		}},
		{"a name may be written with escapes", `{"jsonrpc":"2.0","\u0069d":1,"method":"\u0070ing"}`, []string{pong("1")}},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, []string{errorFrame("null", -32600, `member "id" stands twice`)}},
		{"neither request nor answer", `{"jsonrpc":"2.0","id":1}` + "\n7\n" + `{"jsonrpc":"2.0","id":2,"method":3}`, []string{
			errorFrame("1", -32600, "method is not a string"),
			errorFrame("null", -32600, "a message is a JSON object"),
			errorFrame("2", -32600, "method is not a string"),
		}},
		{"M11 stray answers", `{"jsonrpc":"2.0","id":99,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}` + "\n" + ping("1"), []string{pong("1")}},
		{"params is a list", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, []string{errorFrame("1", -32602, "params is not an object")}},
		{"M14 before initialize", strings.Join([]string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"server/discover"}`, ping("3"),
			`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo"}}`,
		}, "\n"), []string{errorFrame("1", -32602, "initialize first"), errorFrame("2", -32602, "initialize first"), pong("3"), errorFrame("4", -32602, "initialize first")}},
		{
			"a probe of the revision after", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			[]string{errorFrame("1", -32601, `"server/discover": the revisions served begin with initialize: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25`)},
		},
		{"M16 unknown notification", `{"jsonrpc":"2.0","method":"notifications/nothing"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}` + "\n" + `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}` + "\n" + ping("1"), []string{pong("1")}},
		{"initialize without a version", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"initialize"}`, []string{
			errorFrame("1", -32602, "initialize: protocolVersion is not a string"), errorFrame("2", -32602, "initialize: protocolVersion is not a string"),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, testServer(tool("echo", "echo")))
			if _, err := io.WriteString(c.in, tt.in); err != nil {
				t.Fatal(err)
			}
			got, err := c.eof()
			if err != nil {
				t.Error(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
			}
		})
	}
}

// A line over the bound is refused and skipped; after 16 bad ones in a row no
// more are answered, until a good one.
func TestBadLines(t *testing.T) {
	c := dial(t, testServer())
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", MaxFrame) + `"}}`)
	c.send(ping("2"))
	c.expect(errorFrame("null", -32600, "the line has more than 16777216 bytes"), pong("2"))
	for range 40 {
		c.send("garbage")
	}
	c.send(ping("3"), "garbage")
	for range 16 {
		c.expect(errorFrame("null", -32700, "the line is not one JSON value: invalid character 'g' looking for beginning of value"))
	}
	c.expect(pong("3"), errorFrame("null", -32700, "the line is not one JSON value: invalid character 'g' looking for beginning of value"))
}

// M13, M15: one initialize, the revision asked for if it is served, tools and
// nothing else.
func TestInitialize(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18",
		"2025-11-25": "2025-11-25", "2026-07-28": "2025-11-25", "1900-01-01": "2025-11-25",
	} {
		s := testServer()
		s.Title, s.Instructions = "Test", "Use <it>."
		c := dial(t, s)
		c.send(strings.Replace(initFrame, "2025-11-25", asked, 1))
		c.expect(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"` + want + `","capabilities":{"tools":{"listChanged":true}},` +
			`"serverInfo":{"name":"test","title":"Test","version":"0"},"instructions":"Use <it>."}}`)
		c.send(initFrame)
		c.expect(errorFrame(`"i"`, -32600, "initialize came before"))
		for _, m := range []string{"prompts/list", "resources/list", "logging/setLevel", "server/discover", "subscriptions/listen", "x"} {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"` + m + `"}`)
			c.expect(errorFrame("1", -32601, `no method "`+m+`"`))
		}
		c.send(`[` + ping("1") + `]`)
		c.expect(errorFrame("null", -32600, "batches are not taken: write one message a line"))
		c.send(ping("9"))
		c.expect(pong("9"))
	}
}

// M05, M30, M31: what a command gets on standard input.
func TestArguments(t *testing.T) {
	c := open(t, testServer(tool("echo", "echo")))
	big := `{"s":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`
	for _, tt := range []struct{ in, want string }{
		{`{"n":9007199254740993,"s":"\u2028","a":1e2}`, `{"n":9007199254740993,"s":"\u2028","a":1e2}`},
		{` { "a" : [ 1.0 , -0 ] , "b" : "<&> x" } `, `{"a":[1.0,-0],"b":"<&> x"}`},
		{`null`, `{}`},
		{big, big},
	} {
		c.send(callFrame("1", "echo", tt.in))
		a := c.answer()
		var text struct{ Data json.RawMessage }
		if err := json.Unmarshal([]byte(a.Result.Content[0].Text), &text); err != nil {
			t.Fatal(err)
		}
		// The envelope is read and printed on the way: escapes may differ there.
		got, _ := wire.Parse(text.Data, wire.Output)
		want, _ := wire.Parse([]byte(tt.want), wire.Output)
		if got.String() != want.String() {
			t.Errorf("%.80s: got %.80s", tt.in, got)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":0}}}`)
	if a := c.answer(); string(a.Result.StructuredContent.Data) != "{}" {
		t.Error(a)
	}
	for _, tt := range []struct{ params, want string }{
		{`{"name":"echo","arguments":[1]}`, "tools/call: arguments is not an object"},
		{`{"name":"echo","arguments":"x"}`, "tools/call: arguments is not an object"},
		{`{"arguments":{}}`, "tools/call: name is not the name of a tool"},
		{`{"name":7}`, "tools/call: name is not the name of a tool"},
		{`{"name":"echo","name":"fib"}`, `tools/call: member "name" stands twice`},
		{`{"name":"ecko"}`, `no tool "ecko"; nearest: echo`},
		{`{"name":"../../bin/sh"}`, `no tool "../../bin/sh"`},
	} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + tt.params + `}`)
		c.expect(errorFrame("1", -32602, tt.want))
	}
}

// What the command reads are the very tokens of the request, escapes included:
// it is the one to judge them.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	s := testServer(Tool{Name: "keep", Argv: []string{"/bin/sh", "-c", `cat >"$0"; echo '{"ok":true}'`, dir + "/in"}})
	c := open(t, s)
	for _, args := range []string{
		`{"n":9007199254740993,"s":"\u2028\u0041","a":1e2}`,
		`{"a":1,"a":2,"z":"\u0000\ud800"}`,
	} {
		c.send(callFrame("1", "keep", args))
		c.next()
		if got, err := os.ReadFile(dir + "/in"); err != nil || string(got) != args {
			t.Errorf("got %s, %v; want %s", got, err, args)
		}
	}
}

// M12, M32 to M34: what commands print, and what the client gets.
func TestAnswers(t *testing.T) {
	good := `{"ok":true,"data":{"n":9007199254740993,"s":"\u2028"},"meta":{},"status":"fine"}`
	c := open(t, testServer(
		tool("good", "raw", good),
		tool("pretty", "raw", "\n{\n  \"ok\": true,\n  \"data\": {\"a\": [1, 2]}\n}\n"),
		tool("bad", "raw", `{"ok":false,"error":{"kind":"not_found","message":"no \"x\""}}`),
		tool("noise", "raw", "hello\n"+good), tool("array", "raw", "[]"), tool("nook", "raw", `{"data":{}}`), tool("twice", "raw", good+good),
		tool("exit", "exit"), Tool{Name: "segv", Argv: []string{"/bin/sh", "-c", "ulimit -c 0; kill -s SEGV $$"}}, tool("panic", "panic"), tool("flood", "flood"), tool("empty", "raw", ""),
		Tool{Name: "missing", Argv: []string{"/nowhere/forge-call"}},
	))
	c.send(callFrame("1", "good", "{}"))
	c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"ok\":true,\"data\":{\"n\":9007199254740993,\"s\":\"\\u2028\"},\"meta\":{},\"status\":\"fine\"}"}],` +
		`"structuredContent":{"ok":true,"data":{"n":9007199254740993,"s":"\u2028"},"meta":{},"status":"fine"}}}`)
	c.send(callFrame("1", "pretty", "{}"))
	c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"ok\":true,\"data\":{\"a\":[1,2]}}"}],"structuredContent":{"ok":true,"data":{"a":[1,2]}}}}`)
	c.send(callFrame("1", "bad", "{}"))
	c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"ok\":false,\"error\":{\"kind\":\"not_found\",\"message\":\"no \\\"x\\\"\"}}"}],` +
		`"structuredContent":{"ok":false,"error":{"kind":"not_found","message":"no \"x\""}},"isError":true}}`)
	c.send(callFrame("1", "missing", "{}"))
	c.expect(errorFrame("1", -32603, `call "missing": fork/exec /nowhere/forge-call: no such file or directory`))
	for name, want := range map[string]string{
		"noise": "exit status 0, and what it printed is no envelope",
		"array": "exit status 0, and what it printed is no envelope",
		"nook":  "exit status 0, and what it printed is no envelope",
		"twice": "exit status 0, and what it printed is no envelope",
		"empty": "exit status 0, and it printed nothing",
		"exit":  "exit status 3, and it printed nothing",
		"segv":  "signal: segmentation fault, and it printed nothing",
		"panic": "exit status 2, and it printed nothing",
		"flood": "more than 16777216 bytes on standard output, and what it printed is no envelope",
	} {
		c.send(callFrame("1", name, "{}"))
		a := c.answer()
		sc := a.Result.StructuredContent
		if a.Result.IsError == nil || !*a.Result.IsError || sc.OK || sc.Error.Kind != "internal" || !strings.HasSuffix(sc.Error.Message, ": "+want) {
			t.Errorf("%s: %+v", name, a.Result)
		}
		switch name {
		case "exit":
			if sc.Error.Details["exit"] != 3.0 || sc.Error.Details["stderr"] != "going down\n" {
				t.Error(sc.Error.Details)
			}
		case "segv":
			if sc.Error.Details["signal"] != "SIGSEGV" {
				t.Error(sc.Error.Details)
			}
		}
	}
	c.send(ping("2"))
	c.expect(pong("2"))
}

// M36: a slow call holds up nothing, and there are never more at once than
// the limit; what waits and is cancelled never starts.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := testServer(tool("slow", "sleep", "2"), tool("quick", "echo"), tool("mark", "touch", dir+"/started"),
		Tool{Name: "count", Argv: []string{"/bin/sh", "-c", `mkdir "$0/$$"; ls "$0" | wc -l >"$0.$$"; sleep 0.05; rmdir "$0/$$"; echo '{"ok":true}'`, dir + "/at"}})
	if err := os.Mkdir(dir+"/at", 0o700); err != nil {
		t.Fatal(err)
	}
	s.limit = 4
	c := open(t, s)
	begin := time.Now()
	c.send(callFrame("0", "slow", "{}"))
	for i := range 8 {
		c.send(callFrame(strconv.Itoa(i+1), "quick", "{}"))
	}
	c.send(ping("9"))
	seen := map[string]bool{}
	for range 9 {
		seen[string(c.answer().ID)] = true
	}
	if d := time.Since(begin); d > 1500*time.Millisecond || seen["0"] {
		t.Errorf("took %v, %v", d, seen)
	}
	if a := c.answer(); string(a.ID) != "0" {
		t.Error(a)
	}

	for i := range 20 {
		c.send(callFrame(strconv.Itoa(i), "count", "{}"))
	}
	for range 20 {
		c.next()
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "at.") {
			b, _ := os.ReadFile(dir + "/" + f.Name())
			if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n > 4 {
				t.Errorf("%d at once, %v", n, err)
			}
		}
	}

	for i := range 4 {
		c.send(callFrame(strconv.Itoa(i), "slow", "{}"))
	}
	c.send(callFrame("7", "mark", "{}"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	for range 4 {
		if id := string(c.answer().ID); id == "7" {
			t.Error("a cancelled call was answered")
		}
	}
	c.silent(100 * time.Millisecond)
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("a call cancelled in the queue was started")
	}
}

// A queue that is full answers with busy, and loses nothing of what it took.
func TestQueueFull(t *testing.T) {
	s := testServer(tool("slow", "sleep", "0.3"), Tool{Name: "quick", Argv: []string{"/bin/echo", `{"ok":true}`}})
	s.limit = 1
	c := open(t, s)
	c.send(callFrame(`"s"`, "slow", "{}"))
	time.Sleep(100 * time.Millisecond)
	for i := range 300 {
		c.send(callFrame(strconv.Itoa(i), "quick", "{}"))
	}
	busy, good := 0, 0
	for range 301 {
		switch a := c.answer(); {
		case a.Result.StructuredContent.OK:
			good++
		case a.Result.StructuredContent.Error.Kind == "busy" && *a.Result.IsError:
			busy++
		}
	}
	if good != 257 || busy != 44 {
		t.Errorf("%d answered, %d busy", good, busy)
	}
}

// M37: an id in use is refused, the first use goes on.
func TestSameID(t *testing.T) {
	c := open(t, testServer(tool("slow", "sleep", "0.3")))
	c.send(callFrame("7", "slow", "{}"), callFrame("7", "slow", "{}"), ping("7"), callFrame(`"7"`, "slow", "{}"))
	c.expect(errorFrame("null", -32600, "id 7 is in use by a request that is not answered yet"), errorFrame("null", -32600, "id 7 is in use by a request that is not answered yet"))
	ids := string(c.answer().ID) + string(c.answer().ID)
	if ids != `7"7"` && ids != `"7"7` {
		t.Error(ids)
	}
	c.send(ping("7"))
	c.expect(pong("7"))
}

// changing is a server whose list is read from a directory, a tool a file.
func changing(t *testing.T, dir string, more ...Tool) *Server {
	t.Helper()
	s := testServer()
	var reads atomic.Int64
	s.List = func() *List {
		reads.Add(1)
		entries, err := os.ReadDir(dir)
		if err != nil {
			panic(err)
		}
		var tools []Tool
		for _, e := range entries {
			tools = append(tools, tool(e.Name(), "echo"))
		}
		return NewList(more, tools)
	}
	return s
}

func names(t *testing.T, line string) (names []string, cursor string) {
	t.Helper()
	var r struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	for _, tool := range r.Result.Tools {
		names = append(names, tool.Name)
	}
	if r.Result.NextCursor != nil {
		if cursor = *r.Result.NextCursor; cursor == "" {
			t.Error("an empty cursor")
		}
	}
	return names, cursor
}

func listFrame(id, cursor string) string {
	if cursor == "" {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{"cursor":"` + cursor + `"}}`
}

// M21 and the barrier: all frames at once, and each sees what the one before
// it did; the list has changed before the answer says so.
func TestBarrier(t *testing.T) {
	dir := t.TempDir()
	forge := func(name, tool string) Tool {
		return Tool{
			Name: name, Barrier: true,
			Argv: []string{"/bin/sh", "-c", `sleep 0.2; : >"$0"; echo '{"ok":true}'`, dir + "/" + tool},
		}
	}
	c := dial(t, changing(t, dir, forge("forge_a", "a"), forge("forge_b", "b"), forge("forge_a_again", "a"), tool("slow", "sleep", "1")))
	c.send(initFrame, readyFrame, callFrame("0", "slow", "{}"), callFrame("1", "forge_a", "{}"), listFrame("2", ""), callFrame("3", "a", `{"x":1}`),
		callFrame("4", "forge_b", "{}"), listFrame("5", ""), callFrame("6", "forge_a_again", "{}"), callFrame("7", "b", "{}"), ping("8"))
	lines, err := c.eof()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	var changes []int
	for i, line := range lines {
		if line == changed {
			changes = append(changes, i)
			continue
		}
		at[string(parseAnswer(t, line).ID)] = i
		if strings.Contains(line, `"error"`) || strings.Contains(line, "isError") {
			t.Error(line)
		}
	}
	if len(at) != 10 || len(changes) != 2 {
		t.Fatalf("%d answers, %d changes", len(at), len(changes))
	}
	// Between the two notifications and after them, in this order; pings and
	// calls that run beside do not matter.
	if at["8"] > changes[0] || changes[0] > at["1"] || at["1"] > at["2"] || at["2"] > changes[1] || changes[1] > at["4"] || at["4"] > at["5"] || at["5"] > at["6"] {
		t.Errorf("order: %v %v", at, changes)
	}
	if n, _ := names(t, lines[at["2"]]); fmt.Sprint(n) != "[slow a]" {
		t.Error(n)
	}
	if n, _ := names(t, lines[at["5"]]); fmt.Sprint(n) != "[slow a b]" {
		t.Error(n)
	}
	if a := parseAnswer(t, lines[at["3"]]); string(a.Result.StructuredContent.Data) != `{"x":1}` {
		t.Error(lines[at["3"]])
	}
}

// Barriers go past calls that hang on every slot.
func TestBarrierBesideSlots(t *testing.T) {
	s := testServer(tool("hang", "sleep", "60"), Tool{Name: "forge_tool", Barrier: true, Argv: []string{"/bin/echo", `{"ok":true}`}})
	s.limit = 2
	c := open(t, s)
	for i := range 3 {
		c.send(callFrame(strconv.Itoa(i), "hang", "{}"))
	}
	c.send(callFrame("9", "forge_tool", "{}"), listFrame("10", ""))
	if a := c.answer(); string(a.ID) != "9" {
		t.Error(a)
	}
	c.next()
}

// A change by another process is told with the next request, once, and a tool
// taken away is no tool any more (M24).
func TestOthersChange(t *testing.T) {
	dir := t.TempDir()
	c := open(t, changing(t, dir))
	c.send(listFrame("1", ""))
	c.expect(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	if err := os.WriteFile(dir+"/fib", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.send(callFrame("2", "fib", "{}"))
	c.expect(changed)
	if a := c.answer(); !a.Result.StructuredContent.OK {
		t.Error(a)
	}
	c.send(listFrame("3", ""), listFrame("4", ""))
	a, b := c.next(), c.next()
	if strings.Replace(a, `"id":3`, `"id":4`, 1) != b { // M25
		t.Errorf("%s\n%s", a, b)
	}
	if err := os.Rename(dir+"/fib", dir+"/fob"); err != nil {
		t.Fatal(err)
	}
	c.send(callFrame("5", "fib", "{}"))
	c.expect(changed, errorFrame("5", -32602, `no tool "fib"; nearest: fob`))
}

// M26: pages.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	add := func(names ...string) {
		for _, n := range names {
			if err := os.WriteFile(dir+"/"+n, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("c", "e", "g", "i", "k", "m")
	s := changing(t, dir, tool("forge_z", "echo"), tool("forge_a", "echo"))
	s.page = 3
	c := open(t, s)
	for _, between := range [][]string{nil, {"a", "d", "h", "z"}} {
		var all []string
		cursor := ""
		for i := 0; ; i++ {
			c.send(listFrame("1", cursor))
			line := c.next()
			if line == changed {
				line = c.next()
			}
			var got []string
			got, cursor = names(t, line)
			if all = append(all, got...); len(got) > 3 {
				t.Error(got)
			}
			if i == 0 {
				add(between...)
			}
			if cursor == "" {
				break
			}
		}
		want := "[forge_z forge_a c e g i k m]"
		if between != nil {
			want = "[forge_z forge_a c d e g h i k m z]"
		}
		if fmt.Sprint(all) != want {
			t.Errorf("got %v, want %s", all, want)
		}
	}
	for _, bad := range []string{"zzz", "_", "Zm9yZ2U"} {
		c.send(listFrame("2", bad))
		c.expect(errorFrame("2", -32602, `tools/list: cursor "`+bad+`" is none of this server's`))
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":1}}`)
	c.expect(errorFrame("2", -32602, "tools/list: cursor is not a string"))
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":null}}`)
	if n, _ := names(t, c.next()); len(n) != 3 {
		t.Error(n)
	}
}

// A tool without an entry is not shown, but called by either of its names.
func TestHidden(t *testing.T) {
	hidden := tool("csv_stats", "echo")
	hidden.Dotted, hidden.Entry = "csv.stats", nil
	c := open(t, testServer(hidden, tool("a", "echo"), tool("z", "echo")))
	c.send(listFrame("1", ""))
	if n, _ := names(t, c.next()); fmt.Sprint(n) != "[a z]" {
		t.Error(n)
	}
	for _, name := range []string{"csv_stats", "csv.stats"} {
		c.send(callFrame("1", name, "{}"))
		if a := c.answer(); !a.Result.StructuredContent.OK {
			t.Error(name)
		}
	}
}
