//go:build bench

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/registry"
	"forge/lib/schema"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

const rounds = 60

// side is one side of a ratio.
type side struct {
	name string
	run  func()
	took []time.Duration
}

func (s *side) median() time.Duration {
	slices.Sort(s.took)
	return s.took[len(s.took)/2]
}

// compare runs the sides in turn, so that whatever else the machine does falls
// on all of them alike, and prints medians and the ratio of each to the first.
func compare(t *testing.T, title string, sides ...*side) {
	t.Helper()
	for _, s := range sides {
		s.run()
	}
	for range rounds {
		for _, s := range sides {
			began := time.Now()
			s.run()
			s.took = append(s.took, time.Since(began))
		}
	}
	report(title, rounds, sides)
}

// report prints medians, and each against the first.
func report(title string, rounds int, sides []*side) {
	fmt.Printf("\n%s (medians of %d, interleaved)\n", title, rounds)
	base := sides[0].median()
	for _, s := range sides {
		m := s.median()
		fmt.Printf("  %-46s %8.3f ms  %5.2fx  %+7.3f ms\n", s.name, float64(m.Microseconds())/1000, float64(m)/float64(base), float64((m-base).Microseconds())/1000)
	}
}

// process returns a side that runs a program with input and must succeed.
func process(t *testing.T, b *box, input string, argv ...string) func() {
	env := b.env
	return func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin = b.Dir, env, strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
}

// yardstick compiles a Go program without flags or anything else.
func yardstick(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "yardstick"), src)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "yardstick")
}

// bareBwrap is what forge-call does to run a script, without forge-call: the
// same mounts and namespaces, and no limits.
func bareBwrap(b *box, script string, interpreter ...string) []string {
	argv := []string{
		"/usr/bin/bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
		"--new-session", "--die-with-parent", "--hostname", "tool", "--clearenv",
		"--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/tmp", "--setenv", "LANG", "C.UTF-8",
		"--setenv", "FORGE_ARTIFACTS", "/artifacts", "--ro-bind", "/usr", "/usr",
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			argv = append(argv, "--symlink", target, dir)
		} else if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
			argv = append(argv, "--ro-bind", dir, dir)
		}
	}
	argv = append(argv, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
		"--proc", "/proc", "--remount-ro", "/proc")
	for _, node := range []string{"null", "zero", "full", "random", "urandom"} {
		argv = append(argv, "--dev-bind", "/dev/"+node, "/dev/"+node)
	}
	argv = append(argv, "--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/proc/self/fd/0", "/dev/stdin",
		"--symlink", "/proc/self/fd/1", "/dev/stdout", "--symlink", "/proc/self/fd/2", "/dev/stderr")
	for _, dir := range []string{"/dev/shm", "/tmp"} {
		argv = append(argv, "--perms", "1777", "--size", "67108864", "--tmpfs", dir)
	}
	artifacts := filepath.Join(b.Dir, "artifacts")
	os.MkdirAll(artifacts, 0o700)
	argv = append(argv, "--ro-bind", script, "/tool/tool", "--dir", b.Dir, "--bind", artifacts, "/artifacts",
		"--remount-ro", "/", "--chdir", b.Dir)
	return append(append(argv, interpreter...), "/tool/tool")
}

func benchBox(t *testing.T) *box {
	b := newBox(t)
	b.policy(noRate)
	return b
}

const sum = "import sys, json\nv = json.load(sys.stdin)\nprint(json.dumps({'ok': True, 'data': {'sum': v['a'] + v['b']}}))\n"

const sumSchema = `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`

func bin(t *testing.T, b *box, name string) string {
	return strings.TrimSpace(b.sh("command -v " + name))
}

func TestBenchUncached(t *testing.T) {
	b := benchBox(t)
	b.forge("sum", sumSchema, "python3", sum, `{}`)
	b.forge("nothing", `{"type":"object"}`, "bash", `printf '{"ok":true}'`, `{}`)
	call := bin(t, b, "forge-call")
	py := b.write("sum.py", sum)
	sh := b.write("nothing.sh", `printf '{"ok":true}'`)
	input := `{"a":1,"b":2}`
	compare(t, "uncached forge-call, a python tool; bar 1.25x, reach for 1.10x",
		&side{name: "bare bwrap, same mounts and script", run: process(t, b, input, bareBwrap(b, py, "/usr/bin/python3", "-I")...)},
		&side{name: "forge-call", run: process(t, b, input, call, "sum")})
	compare(t, "uncached forge-call, a bash tool that does nothing",
		&side{name: "bare bwrap, same mounts and script", run: process(t, b, `{}`, bareBwrap(b, sh, "/usr/bin/bash", "--noprofile", "--norc")...)},
		&side{name: "forge-call", run: process(t, b, `{}`, call, "nothing")})
}

func TestBenchCached(t *testing.T) {
	b := benchBox(t)
	b.write("fib.json", fib)
	b.sh(`forge-forge < fib.json; forge-call fib <<< '{"n":300}'`)
	constant := yardstick(t, "package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"{\\\"ok\\\":true}\\n\") }\n")
	compare(t, "cached forge-call; bar 3x, reach for 2.5x",
		&side{name: "a Go program that prints a constant", run: process(t, b, `{"n":300}`, constant)},
		&side{name: "forge-call, cached", run: process(t, b, `{"n":300}`, bin(t, b, "forge-call"), "fib")})
}

func TestBenchAppend(t *testing.T) {
	b := benchBox(t)
	b.sh(`forge-audit append test.first <<< '{}'`)
	write := yardstick(t, `package main
import ("os"; "syscall")
func main() {
	f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil { panic(err) }
	f.Write(make([]byte, 400))
	syscall.Fdatasync(int(f.Fd()))
}`)
	compare(t, "a durable append, whole process; bar 1.5x, reach for 1.2x",
		&side{name: "a process of one write and fdatasync", run: process(t, b, "", write, filepath.Join(b.Dir, "file"))},
		&side{name: "forge-audit append", run: process(t, b, `{"n":1}`, bin(t, b, "forge-audit"), "append", "test.bench")})
}

// One process makes the medium case ready and checks a value; then the worst
// that a value of 1 MiB can do.
func TestBenchSchema(t *testing.T) {
	b := benchBox(t)
	checker := filepath.Join(t.TempDir(), "checker")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", checker, "./testdata/checker").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(name string) string {
		text, err := os.ReadFile("testdata/checker/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b.write(name, string(text))
	}
	author, value := read("schema.json"), read("value.json")
	text, err := os.ReadFile(author)
	if err != nil {
		t.Fatal(err)
	}
	v, err := wire.Parse(text, wire.File)
	if err != nil {
		t.Fatal(err)
	}
	low, err := schema.Lower(v)
	if err != nil {
		t.Fatal(err)
	}
	lowered := b.write("lowered.json", low.String())
	empty := yardstick(t, "package main\nfunc main() {}\n")
	compare(t, "make ready and check the medium case, whole process; bars: lowered 2.5x, afresh 5 ms",
		&side{name: "an empty process", run: process(t, b, "", empty)},
		&side{name: "with the stored lowered document", run: process(t, b, "", checker, author, value, lowered)},
		&side{name: "lowered afresh", run: process(t, b, "", checker, author, value)})

	b.write("tree.json", `{"name":"tree","description":"A tree.","impl":"print(1)","input_schema":{"type":"object","properties":{"v":{"$ref":"#/$defs/n"}},`+
		`"$defs":{"n":{"oneOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"},"maxItems":1000000},{"type":"string"}]}}}}`)
	b.sh("forge-forge < tree.json")
	deep := strings.Repeat("[", 40) + `"` + strings.Repeat("x", 1<<20-1000) + `"` + strings.Repeat("]", 40)
	b.write("deep.json", `{"v":`+deep+`}`)
	began := time.Now()
	out, status := b.status("forge-call --check tree < deep.json")
	fmt.Printf("  %-46s %8.3f s, status %d: %.120s\n", "1 MiB against a union that recurses; bar 2 s", time.Since(began).Seconds(), status, out)
}

func TestBenchForge(t *testing.T) {
	b := benchBox(t)
	req := strings.Replace(fib, `"fib"`, `"other"`, 1)
	forge := bin(t, b, "forge-forge")
	n := 0
	compare(t, "forge-forge; bar: 3 ms more than the checks alone",
		&side{name: "forge-forge --check", run: process(t, b, req, forge, "--check")},
		&side{name: "forge-forge", run: func() {
			n++
			process(t, b, strings.Replace(fib, `"fib"`, fmt.Sprintf(`"t%d"`, n), 1), forge)()
		}})
}

// grow fills a store with tools and records, each as a command would have left
// them.
func grow(t *testing.T, b *box, tools, records int) {
	t.Helper()
	st, err := store.Open(b.Home)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trail.New(st, trail.Who{}).Append(context.Background(), trail.Record{Event: "test.grown"}); err != nil {
		t.Fatal(err)
	}
	place := store.Place{Scope: store.User, Root: b.Home}
	reg := registry.New(st, []store.Place{place})
	author, err := wire.Parse([]byte(sumSchema), wire.Request)
	if err != nil {
		t.Fatal(err)
	}
	lowered, err := schema.Lower(author)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tools {
		tl, err := tool.New(tool.Request{Name: fmt.Sprintf("grown.t%d", i), Description: "Grown.", InputSchema: author, Impl: sum})
		if err != nil {
			t.Fatal(err)
		}
		tl.Meta.Capabilities = []string{}
		line := tl.Encode()
		if _, err := reg.Record(tl.Digest, registry.Ledger{Seq: 1, Version: 1, Listed: true, Lowering: schema.Lowering, Lowered: lowered}); err != nil {
			t.Fatal(err)
		}
		if err := st.WriteFile(place.Tool(tl.Name.Wire()), line, store.Renamed); err != nil {
			t.Fatal(err)
		}
	}
	numbers, err := st.Segments()
	if err != nil {
		t.Fatal(err)
	}
	newest := st.Segment(numbers[len(numbers)-1])
	whole, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	last, reason := chain.Parse(append(bytes.Clone(lines[len(lines)-1]), '\n'))
	if reason != "" {
		t.Fatal(reason)
	}
	rest := last.Payload[len(chain.SeqHead(last.Seq)):]
	sha := last.Sha
	for i := range records {
		payload := append([]byte(chain.SeqHead(last.Seq+uint64(i)+1)), rest...)
		whole, sha = chain.AppendLine(whole, payload, sha)
	}
	if err := os.WriteFile(newest, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	b.sh("forge-audit verify")
}

func TestBenchGrowth(t *testing.T) {
	small, tools, records := benchBox(t), benchBox(t), benchBox(t)
	grow(t, small, 10, 10)
	grow(t, tools, 10_000, 10)
	grow(t, records, 10, 100_000)
	boxes := []*box{small, tools, records}
	names := []string{"10 tools, 10 records", "10,000 tools, 10 records", "10 tools, 100,000 records"}
	for _, b := range boxes {
		b.write("fib.json", fib)
		b.sh(`forge-forge < fib.json; forge-call fib <<< '{"n":300}'`)
	}
	for _, what := range []struct {
		title, input string
		argv         []string
	}{
		{"forge-call, cached; bar 1.1x", `{"n":300}`, []string{"forge-call", "fib"}},
		{"forge-call, uncached; bar 1.1x", `{"n":300}`, []string{"forge-call", "--no-cache", "fib"}},
		{"forge-audit append; bar 1.1x", `{"n":1}`, []string{"forge-audit", "append", "test.bench"}},
	} {
		var sides []*side
		for i, b := range boxes {
			argv := append([]string{bin(t, b, what.argv[0])}, what.argv[1:]...)
			sides = append(sides, &side{name: names[i], run: process(t, b, what.input, argv...)})
		}
		compare(t, what.title, sides...)
	}
}

// bigLog makes a chain of about size bytes, in segments of 64 MiB, of lines like
// a call's.
func bigLog(t *testing.T, b *box, size int64) {
	t.Helper()
	b.sh(`forge-audit append test.first <<< '{}'`)
	st, err := store.Open(b.Home)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(st.Segment(1))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(first, []byte("\n"))
	last, reason := chain.Parse(lines[len(lines)-2])
	if reason != "" {
		t.Fatal(reason)
	}
	seq, sha := last.Seq, last.Sha
	segment, out := 1, first
	add := func(rest string) {
		seq++
		out, sha = chain.AppendLine(out, append([]byte(chain.SeqHead(seq)), rest...), sha)
	}
	const tail = `"sev":"info","boot":"6cacef41-f305-4fdb-be58-606257248b21","up":1899646`
	flush := func() {
		if err := os.WriteFile(st.Segment(segment), out, 0o600); err != nil {
			t.Fatal(err)
		}
		size -= int64(len(out))
	}
	for int64(len(out)) < size {
		add(fmt.Sprintf(`"ts":"2026-11-30T19:15:00.%09dZ","ev":"test.event",%s}`, seq, tail))
		if len(out) < trail.DefaultSegmentBytes {
			continue
		}
		add(fmt.Sprintf(`"ts":"2026-11-30T19:15:00.%09dZ","ev":"audit.rotate",%s,"details":{"next":"audit-%06d.jsonl"}}`, seq, tail, segment+1))
		flush()
		segment, out = segment+1, nil
		add(fmt.Sprintf(`"ts":"2026-11-30T19:15:00.%09dZ","ev":"audit.segment",%s,"details":{"segment":%d}}`, seq, tail, segment))
	}
	flush()
}

func TestBenchVerify(t *testing.T) {
	b, small := benchBox(t), benchBox(t)
	bigLog(t, b, 1<<30)
	small.sh(`forge-audit append test.first <<< '{}'`)
	audit := bin(t, b, "forge-audit")
	b.sh("cat $FORGE_HOME/audit/audit-*.jsonl > all")
	few(t, 7, "verify of 1 GiB; bars: one worker 1.6x openssl and 0.5x sha256sum, two workers 0.6x of one, strict 3x openssl",
		&side{name: "openssl dgst -sha256", run: process(t, b, "", "openssl", "dgst", "-sha256", "all")},
		&side{name: "sha256sum", run: process(t, b, "", "sha256sum", "all")},
		&side{name: "verify, one worker", run: process(t, b, "", audit, "verify", "--workers", "1")},
		&side{name: "verify, two workers", run: process(t, b, "", audit, "verify", "--workers", "2")},
		&side{name: "verify --strict, one worker", run: process(t, b, "", audit, "verify", "--strict", "--workers", "1")})
	peak := b.sh(`python3 -c '
import resource, subprocess
subprocess.run(["forge-audit", "verify"], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)'`)
	fmt.Printf("  peak memory of verify: %s KiB; bar 65536\n", strings.TrimSpace(peak))

	compare(t, "append at 1 GiB of chain; bar 1.2x of empty",
		&side{name: "nearly empty", run: process(t, small, `{"n":1}`, audit, "append", "test.bench")},
		&side{name: "1 GiB", run: process(t, b, `{"n":1}`, audit, "append", "test.bench")})

	nothing := yardstick(t, "package main\nfunc main() {}\n")
	for _, x := range []*box{small, b} {
		x.sh("forge-audit keygen && forge-audit checkpoint")
		grow(t, x, 0, 10_000)
	}
	compare(t, "10,000 new lines since a checkpoint; bar: 15 ms more than an empty process",
		&side{name: "an empty process", run: process(t, b, "", nothing)},
		&side{name: "verify --since-checkpoint, nearly empty before", run: process(t, small, "", audit, "verify", "--since-checkpoint")},
		&side{name: "verify --since-checkpoint, 1 GiB before", run: process(t, b, "", audit, "verify", "--since-checkpoint")})
}

// few is compare with fewer rounds, for what takes long.
func few(t *testing.T, n int, title string, sides ...*side) {
	t.Helper()
	for range n {
		for _, s := range sides {
			began := time.Now()
			s.run()
			s.took = append(s.took, time.Since(began))
		}
	}
	report(title, n, sides)
}

func TestBenchWriters(t *testing.T) {
	b := benchBox(t)
	st, err := store.Open(b.Home)
	if err != nil {
		t.Fatal(err)
	}
	write := func(writers, each int) func() {
		return func() {
			done := make(chan error, writers)
			for range writers {
				go func() {
					tr := trail.New(st, trail.Who{})
					var err error
					for i := 0; i < each && err == nil; i++ {
						_, err = tr.Append(context.Background(), trail.Record{Event: "test.bench"})
					}
					done <- err
				}()
			}
			for range writers {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	compare(t, "800 durable appends; bar: 8 writers at least 1.5 times as fast as one",
		&side{name: "one writer", run: write(1, 800)},
		&side{name: "eight writers, 100 each", run: write(8, 100)})
}
