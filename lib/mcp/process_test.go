package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// server0 is a whole server process, with the tools the tests of this file use.
// It prints to standard output as a careless library would.
func server0() {
	// As cmdline.Main does for every command.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	out, err := Guard()
	if err != nil {
		panic(err)
	}
	fmt.Println("a stray line")
	log := NewLog(os.Stderr)
	dir := os.Getenv("MCP_TEST_DIR")
	list := NewList(nil, []Tool{
		{Name: "fds", Argv: []string{"/bin/sh", "-c", `printf '{"ok":true,"data":['; ls -m /proc/$$/fd; printf ']}'`}},
		tool("tree", "tree", dir), tool("quick", "echo"), tool("deaf", "deaf"),
		tool("leave", "leave"), tool("leave_group", "leave", "setsid"),
	})
	another := sync.OnceFunc(func() { fmt.Println("another") })
	s := &Server{
		Name: "test", Version: "0", Drain: DefaultDrain, Log: log,
		List: func() *List { another(); return list },
		Env:  commandEnv(),
	}
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			stop(errors.New("signal"))
		case <-Gone(out):
			stop(errors.New("gone"))
		}
	}()
	if err := s.Serve(ctx, os.Stdin, out); err != nil {
		log.Printf("end: %v", err)
		log.Close(50 * time.Millisecond)
		os.Exit(1)
	}
	log.Close(50 * time.Millisecond)
	os.Exit(0)
}

// A process is server0 and the ends of its pipes.
type process struct {
	client
	cmd    *exec.Cmd
	dir    string
	out    *os.File
	waited chan error
}

func spawn(t *testing.T, stderr *os.File) *process {
	t.Helper()
	p := &process{dir: t.TempDir(), waited: make(chan error, 1)}
	p.t, p.lines = t, make(chan string, 1000)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), "MCP_TEST_ROLE=server", "GORACE=atexit_sleep_ms=0", "MCP_TEST_DIR="+p.dir)
	p.cmd.Stderr = stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.cmd.Stdout = r, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go readLines(r, p.lines)
	go func() { p.waited <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.send(initFrame, readyFrame)
	p.next()
	return p
}

// trees waits for n of the tool tree to run and returns their processes.
func (p *process) trees(n int) (pids []int) {
	p.t.Helper()
	return trees(p.t, p.dir, n)
}

func trees(t *testing.T, dir string, n int) (pids []int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		pids = nil
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(dir + "/" + f.Name())
			var a, c int
			if _, e := fmt.Sscan(string(b), &a, &c); err == nil && e == nil && !strings.HasSuffix(f.Name(), ".new") {
				pids = append(pids, a, c)
			}
		}
		if len(pids) == 2*n {
			return pids
		}
	}
	t.Fatalf("%d processes, want %d", len(pids), 2*n)
	return nil
}

// alive returns those of pids that run; a zombie does not.
func alive(pids []int) (left []int) {
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if i := bytes.LastIndexByte(b, ')'); err == nil && b[i+2] != 'Z' {
			left = append(left, pid)
		}
	}
	return left
}

// gone fails unless all pids end within d.
func gone(t *testing.T, pids []int, d time.Duration) {
	t.Helper()
	begin := time.Now()
	for len(alive(pids)) > 0 {
		if time.Since(begin) > d {
			t.Fatalf("still there after %v: %v", d, alive(pids))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *process) wait(d time.Duration) error {
	p.t.Helper()
	select {
	case err := <-p.waited:
		return err
	case <-time.After(d):
		p.t.Fatalf("the server is still there after %v", d)
		return nil
	}
}

// M35: the whole tree goes, nothing is said of the call, ids are told apart by
// their type.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	c := open(t, testServer(tool("tree", "tree", dir), tool("quick", "echo")))
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"no"}}`
	}
	c.send(callFrame("7", "tree", "{}"))
	pids := trees(t, dir, 1)
	c.send(cancel(`"7"`), cancel("8"), cancel("null"), `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	time.Sleep(300 * time.Millisecond)
	if len(alive(pids)) != 2 {
		t.Fatal("a cancellation of something else ended it")
	}
	c.send(cancel("7"))
	gone(t, pids, 500*time.Millisecond)
	c.silent(200 * time.Millisecond)
	c.send(callFrame("7", "quick", "{}")) // the id is free again
	if a := c.answer(); string(a.ID) != "7" || !a.Result.StructuredContent.OK {
		t.Error(a)
	}
}

// Many groups end as fast as one.
func TestCancelMany(t *testing.T) {
	dir := t.TempDir()
	s := testServer(tool("tree", "tree", dir))
	s.limit = 8
	c := open(t, s)
	for i := range 8 {
		c.send(callFrame(strconv.Itoa(i), "tree", "{}"))
	}
	pids := trees(t, dir, 8)
	begin := time.Now()
	c.stop()
	select {
	case err := <-c.end:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Serve goes on")
	}
	if d := time.Since(begin); d > 600*time.Millisecond {
		t.Error(d)
	}
	gone(t, pids, 300*time.Millisecond)
}

// M38: end of input. What hangs is told so, and does not hold up the end.
func TestEOF(t *testing.T) {
	p := spawn(t, nil)
	p.send(callFrame("1", "tree", "{}"), callFrame("2", "quick", "{}"))
	pids := p.trees(1)
	begin := time.Now()
	p.in.Close()
	if err := p.wait(3 * time.Second); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 1800*time.Millisecond {
		t.Errorf("%v", d)
	}
	gone(t, pids, 0)
	p.answer()
	a := p.answer()
	if e := a.Result.StructuredContent.Error; string(a.ID) != "1" || e.Kind != "timeout" || !strings.Contains(e.Hint, "FORGE_MCP_DRAIN_MS") {
		t.Error(a)
	}
}

// Without end of input nothing is cut short; with it, each call has its time
// from its own start.
func TestDrainIsPerCall(t *testing.T) {
	s := testServer(Tool{Name: "step", Barrier: true, Argv: []string{"/bin/sh", "-c", `sleep 0.3; echo '{"ok":true}'`}})
	s.Drain = 500 * time.Millisecond
	c := dial(t, s)
	c.send(initFrame, callFrame("1", "step", "{}"), callFrame("2", "step", "{}"), callFrame("3", "step", "{}"), callFrame("4", "step", "{}"))
	lines, err := c.eof()
	if err != nil || len(lines) != 5 || strings.Contains(strings.Join(lines, ""), "isError") {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

// M39: a signal, and a client that closes its end.
func TestStop(t *testing.T) {
	for name, stop := range map[string]func(p *process){
		"SIGTERM":       func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		"output closed": func(p *process) { p.out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := spawn(t, nil)
			for i := range 3 {
				p.send(callFrame(strconv.Itoa(i), "tree", "{}"))
			}
			pids := p.trees(3)
			begin := time.Now()
			stop(p)
			if err := p.wait(3 * time.Second); err == nil {
				t.Error("exit status 0")
			}
			if d := time.Since(begin); d > 500*time.Millisecond {
				t.Errorf("%v", d)
			}
			gone(t, pids, 0)
		})
	}
}

// M12: nothing but messages on standard output; what is printed goes to
// standard error. M46: a command has its three descriptors and no other.
func TestDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := spawn(t, w)
	w.Close()
	p.send(callFrame("1", "fds", "{}"))
	if a := p.answer(); string(a.Result.StructuredContent.Data) != "[0,1,2]" {
		t.Errorf("%+v", a)
	}
	p.in.Close()
	if err := p.wait(3 * time.Second); err != nil {
		t.Error(err)
	}
	if b, _ := io.ReadAll(r); !strings.Contains(string(b), "a stray line\nanother\n") {
		t.Errorf("%q", b)
	}
}

// A standard error that nobody reads holds up neither server nor command.
func TestStderrUnread(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := spawn(t, w)
	w.Close()
	for i := range 3 {
		p.send(callFrame(strconv.Itoa(i), "deaf", "{}"))
		if a := p.answer(); !a.Result.StructuredContent.OK {
			t.Error(a)
		}
	}
	p.in.Close()
	if err := p.wait(3 * time.Second); err != nil {
		t.Error(err)
	}
}

// A standard error that was closed does not end the server.
func TestStderrClosed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := spawn(t, w)
	w.Close()
	r.Close()
	for i := range 3 {
		p.send(callFrame(strconv.Itoa(i), "deaf", "{}"))
		if a := p.answer(); !a.Result.StructuredContent.OK {
			t.Error(a)
		}
	}
}

// What a command leaves behind is ended with it if it is in its group, and
// keeps the answer for a moment only if it is not.
func TestLeftBehind(t *testing.T) {
	p := spawn(t, nil)
	for _, name := range []string{"leave", "leave_group"} {
		begin := time.Now()
		p.send(callFrame("1", name, "{}"))
		if a := p.answer(); !a.Result.StructuredContent.OK {
			t.Error(a)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// A client that does not read cannot keep a server whose input has ended.
func TestOutputUnread(t *testing.T) {
	s := testServer(tool("big", "raw", `{"ok":true,"data":"`+strings.Repeat("x", 100000)+`"}`))
	s.Drain = 100 * time.Millisecond
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	end := make(chan error, 1)
	go func() { end <- s.Serve(context.Background(), in, out) }()
	fmt.Fprintln(toServer, initFrame+"\n"+callFrame("1", "big", "{}"))
	toServer.Close()
	select {
	case err := <-end:
		if err == nil || err.Error() != "write standard output: nobody reads it" {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Serve goes on")
	}
}

// A large answer arrives whole, and the room for it is given back.
func TestLargeAnswer(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<18)
	file := t.TempDir() + "/big"
	if err := os.WriteFile(file, []byte(`{"ok":true,"data":"`+big+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, testServer(Tool{Name: "big", Argv: []string{"/bin/cat", file}}))
	c.send(callFrame("1", "big", "{}"))
	a := c.answer()
	if string(a.Result.StructuredContent.Data) != `"`+big+`"` || a.Result.Content[0].Text != `{"ok":true,"data":"`+big+`"}` {
		t.Error("not the same")
	}
}
