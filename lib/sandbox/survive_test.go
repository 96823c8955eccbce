package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// supervisor returns the command of a supervisor, from the copy of the test
// binary that shared made.
func supervisor(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(filepath.Join(os.TempDir(), "self"), append([]string{"supervise"}, words...)...)
}

// shared puts a copy of the test binary into a directory for everybody and
// makes that the test's TMPDIR.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, "self"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	return dir
}

// No sandbox survives its supervisor, whenever that is killed.
func TestKilledSupervisor(t *testing.T) {
	shared(t)
	users := map[string]*syscall.SysProcAttr{"self": {}}
	if os.Geteuid() == 0 {
		users["ordinary"] = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	kills := 300
	if testing.Short() {
		kills = 30
	}
	for name, attr := range users {
		t.Run(name, func(t *testing.T) {
			mark := fmt.Sprintf("survivor-%d", rand.Int64())
			seen := 0
			for range kills {
				cmd := supervisor(t, "plain", mark)
				cmd.SysProcAttr = attr
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
					t.Fatalf("supervisor said %q", line)
				}
				time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Millisecond))))
				if len(processes(mark)) > 1 {
					seen++
				}
				cmd.Process.Kill()
				cmd.Wait()
			}
			gone(t, mark)
			t.Logf("%d kills, %d of them with a sandbox under way", kills, seen)
			if seen == 0 {
				t.Error("no sandbox was ever under way: the test tests nothing")
			}
		})
	}
}

// ownMounts lets a child mount what it likes, as whoever runs the tests.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// S01, S02: no namespaces, no bwrap, one that is too old, no filter of system
// calls. The tool never runs.
func TestUnavailable(t *testing.T) {
	dir := shared(t)
	old := write(t, filepath.Join(dir, "bwrap"), "#!/bin/sh\necho 'bwrap: Unknown option --bind-fd' >&2\nexit 1\n")
	if err := os.Chmod(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		want []string // kind, part of the message, part of the hint
	}{
		{"no-namespaces", []string{"sandbox_unavailable", "no further user namespace is allowed", "user.max_user_namespaces"}},
		{"no-bwrap", []string{"sandbox_unavailable", "/usr/bin/bwrap: not found", "apt-get install bubblewrap"}},
		{"old-bwrap", []string{"sandbox_unavailable", "bubblewrap is too old", "upgrade bubblewrap"}},
		{"no-seccomp", []string{"sandbox_unavailable", "system calls cannot be filtered here", "CONFIG_SECCOMP_FILTER"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := supervisor(t, c.name, "never", old)
			cmd.SysProcAttr = ownMounts()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			said := strings.Split(string(out), "\n")
			if len(said) < 4 || said[1] != c.want[0] || !strings.Contains(said[2], c.want[1]) || !strings.Contains(said[3], c.want[2]) {
				t.Errorf("got %q\nwant %q", said, c.want)
			}
		})
	}
}
