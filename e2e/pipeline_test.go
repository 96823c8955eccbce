package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"forge/e2e/script"
)

const (
	fib = `{"name":"fib","description":"The nth Fibonacci number.","meta":{"deterministic":true},` +
		`"input_schema":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":1000}},"required":["n"]},` +
		`"impl":"import sys, json\nn = json.load(sys.stdin)['n']\na, b = 0, 1\nfor _ in range(n): a, b = b, a + b\nprint(json.dumps({'ok': True, 'data': {'value': a}}))\n"}`
	fib300 = "222232244629420445529739893461909967206666939096499764990979600"

	// noRate is the policy of tests that call one tool often.
	noRate = `{"breakers":{"per_tool_rpm":0,"per_session_forge_count":0}}`
)

// box is a store of its own and a shell in it.
type box struct {
	t    testing.TB
	Dir  string // the working directory
	Home string // the store
	env  []string
}

func newBox(t testing.TB) *box {
	t.Helper()
	dir := t.TempDir()
	b := &box{t: t, Dir: filepath.Join(dir, "work"), Home: filepath.Join(dir, "home", "store")}
	for _, d := range []string{b.Dir, filepath.Dir(b.Home)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.env = script.Env(t, b.Home)
	return b
}

// write makes a file of the working directory and returns its path.
func (b *box) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// policy makes the operator's policy.
func (b *box) policy(text string) {
	b.t.Helper()
	if err := os.MkdirAll(b.Home, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.Home, "policy.json"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) command(line string) *exec.Cmd {
	cmd := exec.Command("/bin/bash", "-o", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = b.Dir, b.env
	return cmd
}

// sh runs a line of shell that must succeed and returns what it printed.
func (b *box) sh(line string) string {
	b.t.Helper()
	cmd := b.command(line)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s\n%v\n%s%s", line, err, out, errs.Bytes())
	}
	return string(out)
}

// status runs a line of shell and returns its output and status.
func (b *box) status(line string) (string, int) {
	b.t.Helper()
	cmd := b.command(line)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// forge registers a tool whose request is built here.
func (b *box) forge(name, schema, runtime, impl, meta string) {
	b.t.Helper()
	req, err := json.Marshal(map[string]any{
		"name": name, "description": "A tool of the tests.", "input_schema": json.RawMessage(schema),
		"runtime": runtime, "impl": impl, "meta": json.RawMessage(meta),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.sh("forge-forge < " + b.write(name+".json", string(req)))
}

// Every digit survives the sandbox, a pipe, the cache and MCP.
func TestDigits(t *testing.T) {
	b := newBox(t)
	b.write("fib.json", fib)
	b.sh("forge-forge < fib.json")
	for _, how := range []string{"sandbox", "cache"} {
		if out := b.sh(`echo '{"n":300}' | forge-call fib`); !strings.Contains(out, `"value":`+fib300+`}`) {
			t.Errorf("%s: %s", how, out)
		}
	}
	piped := b.sh(`echo '{"n":300}' | forge-call fib | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["value"])'`)
	if strings.TrimSpace(piped) != fib300 {
		t.Errorf("piped: %s", piped)
	}
	b.write("frames", frames(call(2, "fib", `{"n":300}`), call(3, "forge_call", `{"name":"fib","arguments":{"n":300}}`)))
	out := b.sh("forge-mcp < frames")
	if got := strings.Count(out, `"structuredContent":{"ok":true,"data":{"value":`+fib300+`}`); got != 2 {
		t.Errorf("over MCP %d of 2 answers have every digit:\n%s", got, out)
	}
}

func call(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

func frames(requests ...string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + strings.Join(requests, "\n") + "\n"
}

// Forge, call, promote, and a call from another session: one line of shell.
func TestOneLine(t *testing.T) {
	b := newBox(t)
	b.write("fib.json", fib)
	out := b.sh(`export FORGE_SESSION=s1; forge-forge < fib.json && echo '{"n":300}' | forge-call fib && forge-promote fib && echo '{"n":300}' | FORGE_SESSION=s2 forge-call fib`)
	if strings.Count(out, fib300) != 2 || !strings.Contains(out, `"from":"session"`) {
		t.Error(out)
	}
	if out := b.sh("forge-audit verify"); out != "" {
		t.Errorf("verify printed %q", out)
	}
}

// The same in one MCP connection whose frames are piped in at once.
func TestOneConnection(t *testing.T) {
	b := newBox(t)
	b.env = append(b.env, "FORGE_SESSION=s1")
	b.write("frames", frames(
		call(2, "forge_tool", fib), `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, call(4, "fib", `{"n":300}`),
		call(5, "forge_promote", `{"name":"fib"}`), call(6, "forge_list", `{"scope":"user"}`)))
	out := b.sh("forge-mcp < frames")
	changed := strings.Index(out, "notifications/tools/list_changed")
	forged := strings.Index(out, `"id":2,`)
	if changed < 0 || forged < changed {
		t.Errorf("list_changed comes not before the reply to forge_tool:\n%s", out)
	}
	for _, want := range []string{`"id":3,"result":{"tools":[`, `{"name":"fib",`, `"value":` + fib300, `"to":"user"`, `"scope":"user"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if n := len(strings.Split(strings.TrimSpace(out), "\n")); n != 7 {
		t.Errorf("%d lines, want 6 replies and a notification:\n%s", n, out)
	}
	again := b.sh(`echo '{"n":300}' | FORGE_SESSION=s2 forge-call fib`)
	if !strings.Contains(again, fib300) {
		t.Error(again)
	}
}

const stats = `import csv, json, math, os, socket, sys
request = json.load(sys.stdin)
values = sorted(float(row[1]) for row in list(csv.reader(open(request['path'])))[1:])
n = len(values)
mean = math.fsum(values) / n
out = {'n': n, 'mean': mean, 'median': values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2,
       'sd': math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1)), 'seen': []}
for path in request['probes']:
    try:
        os.stat(path)
        names = os.listdir(path) if os.path.isdir(path) else open(path).read()
        out['seen'].append([path, names])
    except OSError:
        pass
try:
    socket.create_connection(('127.0.0.1', request['port']), timeout=2)
    out['seen'].append(['port', request['port']])
except OSError:
    pass
print(json.dumps({'ok': True, 'data': out}))
`

// A tool over a bound file of a million rows computes what Go computes, and sees
// nothing else.
func TestMillionRows(t *testing.T) {
	b := newBox(t)
	var rows strings.Builder
	rows.WriteString("id,value\n")
	values := make([]float64, 1_000_000)
	x := uint64(42)
	for i := range values {
		x = x*6364136223846793005 + 1442695040888963407
		values[i] = float64(x>>40) / 1000
		fmt.Fprintf(&rows, "%d,%v\n", i, values[i])
	}
	data := b.write("data.csv", rows.String())
	secret := b.write("secret.txt", "secret")
	b.forge("csv.stats", `{"type":"object","properties":{"path":{"type":"string","x-bind":"ro"},"probes":{"type":"array","items":{"type":"string"}},"port":{"type":"integer"}},"required":["path","probes","port"]}`,
		"python3", stats, `{"limits":{"memory_mb":2048}}`)
	port := listen(t)
	input, _ := json.Marshal(map[string]any{
		"path": "data.csv", "port": port,
		"probes": []string{secret, filepath.Dir(b.Home), b.Home, "/root", "/etc/passwd", "/etc/shadow", "/home", b.Dir, "/var", "/run"},
	})
	b.write("input.json", string(input))
	out := b.sh("forge-call csv.stats < input.json")
	var got struct {
		Data struct {
			N                int
			Mean, Median, SD float64
			Seen             [][]any
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	sort.Float64s(values)
	n := float64(len(values))
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean, sq := sum/n, 0.0
	for _, v := range values {
		sq += (v - mean) * (v - mean)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	near("mean", got.Data.Mean, mean)
	near("median", got.Data.Median, (values[499_999]+values[500_000])/2)
	near("sd", got.Data.SD, math.Sqrt(sq/(n-1)))
	for _, s := range got.Data.Seen {
		// Directories that only lead to the working directory and the bound file.
		if names, ok := s[1].([]any); !ok || len(names) > 1 || !strings.HasPrefix(data, filepath.Join(fmt.Sprint(s[0]), fmt.Sprint(first(names)))) {
			t.Errorf("the tool saw %v", s)
		}
	}
}

func first(names []any) any {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Of 16 forges of one name one succeeds; 16 calls count 16.
func TestSixteen(t *testing.T) {
	b := newBox(t)
	b.write("fib.json", fib)
	b.write("n.json", `{"n":10}`)
	at16 := func(line string) map[int]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		got := map[int]int{}
		for range 16 {
			wg.Go(func() {
				_, status := b.status(line)
				mu.Lock()
				got[status]++
				mu.Unlock()
			})
		}
		wg.Wait()
		return got
	}
	if got := at16("forge-forge < fib.json"); got[0] != 1 || got[73] != 15 {
		t.Errorf("forges by status: %v, want 1 of 0 and 15 of 73", got)
	}
	if n := strings.Count(b.sh("cat $FORGE_HOME/audit/*.jsonl"), `"ev":"forge.created"`); n != 1 {
		t.Errorf("%d records of a creation", n)
	}
	if got := at16("forge-call --no-cache fib < n.json"); got[0] != 16 {
		t.Errorf("calls by status: %v", got)
	}
	if out := b.sh("forge-list"); !strings.Contains(out, `"call_count":16,`) {
		t.Error(out)
	}
	b.sh("forge-audit verify")
}

// Changing any byte of the trail is seen, and its line named.
func TestEveryByte(t *testing.T) {
	b := newBox(t)
	b.write("fib.json", fib)
	b.sh(`forge-forge < fib.json; echo '{"n":5}' | forge-call fib; echo '{"n":"x"}' | forge-call fib; true`)
	path := filepath.Join(b.Home, "audit", "audit-000001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`audit-000001\.jsonl:([0-9]+): ([a-z_]+)`)
	line := 1
	for i, old := range whole {
		// Every byte near the ends and the seams, one in seven elsewhere: the
		// table test of lib/chain has every bit.
		seam := bytes.IndexByte(whole[max(0, i-80):min(len(whole), i+15)], '\n') >= 0
		if i%7 == 0 || seam {
			changed := bytes.Clone(whole)
			changed[i] ^= 0x15
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := b.command("exec forge-audit verify")
			var said bytes.Buffer
			cmd.Stderr = &said
			cmd.Run()
			m := place.FindStringSubmatch(said.String())
			want, reason := 1, ""
			if i == len(whole)-1 {
				want, reason = 4, "torn_tail"
			}
			if cmd.ProcessState.ExitCode() != want || m == nil || m[1] != fmt.Sprint(line) || reason != "" && m[2] != reason {
				t.Fatalf("byte %d of line %d: status %d, %s", i, line, cmd.ProcessState.ExitCode(), said.String())
			}
		}
		if old == '\n' {
			line++
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	b.sh("forge-audit verify")
}

// A tool that prints a gigabyte: memory stays bounded, the artifact is exact,
// and meta says what was cut.
func TestGigabyte(t *testing.T) {
	b := newBox(t)
	b.forge("noise", `{"type":"object"}`, "python3", "import sys\nblock = b'0123456789abcdef' * 4096\nfor _ in range(16384): sys.stdout.buffer.write(block)\n", `{}`)
	// Python measures: a child of this process would be charged with what this
	// process used before it became forge-call.
	out := []byte(b.sh(`python3 -c '
import resource, subprocess, sys
out = subprocess.run(["forge-call", "noise"], input=b"{}", stdout=subprocess.PIPE, check=True).stdout
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=open("rss", "w"))
sys.stdout.buffer.write(out)'`))
	rss, err := strconv.Atoi(strings.TrimSpace(b.sh("cat rss")))
	if err != nil || rss > 64<<10 {
		t.Errorf("forge-call used %d KiB, %v", rss, err)
	}
	t.Logf("forge-call used %d KiB", rss)
	var got struct {
		Data struct {
			Truncated bool
			Head      string
		}
		Meta struct {
			Truncated bool   `json:"stdout_truncated"`
			At        int64  `json:"stdout_truncated_at_bytes"`
			Total     int64  `json:"stdout_total_bytes"`
			Artifact  string `json:"stdout_full_artifact"`
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if !got.Data.Truncated || len(got.Data.Head) != 4096 || !got.Meta.Truncated || got.Meta.At != 4<<20 || got.Meta.Total != 1<<30 {
		t.Errorf("%.300s", out)
	}
	want := b.sh(`python3 -c "
import sys
block = b'0123456789abcdef' * 4096
for _ in range(16384): sys.stdout.buffer.write(block)" | sha256sum`)
	if sum := b.sh("sha256sum < " + got.Meta.Artifact); sum != want {
		t.Errorf("the artifact is not what was printed: %s", sum)
	}
}

// A tool cannot be kept alive by what it started.
func TestNothingLeft(t *testing.T) {
	b := newBox(t)
	b.forge("stay", `{"type":"object"}`, "python3", `import json, os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(['/usr/bin/setsid', '/usr/bin/sleep', '987654'])
if os.fork() == 0:
    os.setsid()
    os.execv('/usr/bin/sleep', ['sleep', '987654'])
print(json.dumps({'ok': True}))
`, `{"capabilities":["process"]}`)
	began := time.Now()
	b.sh("forge-call stay <<< '{}'")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call took %s", took)
	}
	if left := processes(t, "987654"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
