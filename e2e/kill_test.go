package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"forge/lib/tool"
	"forge/lib/wire"
)

// listen opens a port on the host's loopback and fails the test when anything
// connects to it.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		if n := hits.Load(); n > 0 {
			t.Errorf("%d connections reached the host", n)
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// processes lists the processes whose command line holds a text, other than
// shells that were given it.
func processes(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, _ := os.ReadFile(d + "/cmdline")
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if strings.Contains(line, text) && d != fmt.Sprintf("/proc/%d", os.Getpid()) {
			out = append(out, filepath.Base(d)+" "+line)
		}
	}
	return out
}

// Five hundred commands are killed at random moments while others run. What was
// acknowledged is on the chain; after one more append verify finds nothing; no
// file is half written and no process is left.
func TestKilled(t *testing.T) {
	b := newBox(t)
	b.policy(noRate)
	b.write("fib.json", fib)
	b.sh("forge-forge < fib.json")
	marker := fmt.Sprintf("77%06d", os.Getpid())
	b.forge("slow", `{"type":"object","properties":{"n":{"type":"integer"}}}`, "bash", "sleep 0.0"+marker+"\nprintf '{\"ok\":true}'\n", `{}`)

	var kills, n atomic.Int64
	var mu sync.Mutex
	var acknowledged []string // run ids that forge-call printed, and names that forge-forge did
	work := func() {
		for kills.Load() < 500 {
			i := n.Add(1)
			var line string
			switch i % 5 {
			case 0:
				line = fmt.Sprintf(`sed 's/"fib"/"t%d"/' fib.json | exec forge-forge`, i)
			case 1:
				line = fmt.Sprintf(`exec forge-call fib <<< '{"n":%d}'`, i%7)
			case 2:
				line = fmt.Sprintf(`exec forge-call slow <<< '{"n":%d}'`, i)
			case 3:
				line = `exec forge-audit append test.event <<< '{"a":1}'`
			case 4:
				line = `exec forge-call fib <<< '{"n":"bad"}'`
			}
			cmd := b.command(line)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var out strings.Builder
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case <-done:
			case <-time.After(time.Duration(rand.IntN(150_000)) * time.Microsecond):
				// The command alone: what it started must go with it.
				syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
				if i%5 == 0 { // a pipeline: the shell is not the command
					syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				}
				<-done
				kills.Add(1)
			}
			if strings.HasPrefix(out.String(), `{"ok":true`) && strings.HasSuffix(out.String(), "\n") {
				mu.Lock()
				acknowledged = append(acknowledged, out.String())
				mu.Unlock()
			}
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(work)
	}
	wg.Wait()

	b.sh(`forge-audit append test.after <<< '{}'`)
	if out := b.sh("forge-audit verify --json"); !strings.Contains(out, `"verdict":"intact"`) {
		t.Error(out)
	}
	chain := b.sh("cat $FORGE_HOME/audit/*.jsonl")
	for _, out := range acknowledged {
		v, err := wire.Parse([]byte(out), wire.Output)
		if err != nil {
			t.Fatal(err)
		}
		meta, _ := v.Get("meta")
		data, _ := v.Get("data")
		want := ""
		if run, ok := meta.Get("run_id"); ok {
			want = `"ev":"forge.called","sev":"info","run":"` + run.Text() + `"`
		} else if name, ok := data.Get("name"); ok {
			want = `"ev":"forge.created","sev":"notice","tool":"` + name.Text() + `"`
		} else if seq, ok := data.Get("seq"); ok {
			want = `{"payload":{"seq":` + seq.Text() + `,`
		}
		if want == "" || !strings.Contains(chain, want) {
			t.Fatalf("acknowledged and not on the chain: %s%s", want, out)
		}
	}
	t.Logf("%d commands, %d killed, %d acknowledged", n.Load(), kills.Load(), len(acknowledged))
	wholeFiles(t, b.Home)
	deadline := time.Now().Add(2 * time.Second)
	for len(processes(t, marker)) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if left := processes(t, marker); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// Every tool that is there runs.
	for line := range strings.Lines(b.sh("forge-list --plain | cut -f1 | head -n 5")) {
		b.sh(`forge-call --check ` + strings.TrimSpace(line) + ` <<< '{"n":5}'`)
	}
}

// wholeFiles reads every file of a store under its final name.
func wholeFiles(t *testing.T, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(home, path)
		switch {
		case strings.HasPrefix(rel, "tools/"):
			_, err = tool.Parse(b)
		case strings.HasPrefix(rel, "cache/"):
			if _, ok := wire.Sealed(b); !ok {
				err = fmt.Errorf("not whole")
			}
		case strings.HasSuffix(rel, ".json"):
			_, err = wire.Parse(b, wire.File)
		}
		if err != nil {
			t.Errorf("%s: %v: %.80q", rel, err, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
