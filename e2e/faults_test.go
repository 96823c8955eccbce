package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every file system call of an append and of a call fails in turn, as on a full
// or broken disk. Whatever comes of it, verify never says tampering, no tool ran
// without its begin on the chain, and an answer that was given is there, too.
func TestFaults(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal(err)
	}
	b := newBox(t)
	b.policy(noRate)
	b.env = append(b.env, "GOMAXPROCS=1") // strace counts calls by thread
	b.forge("mark", `{"type":"object","properties":{"to":{"type":"string","x-bind":"rw"}},"required":["to"]}`,
		"bash", `echo ran >> "$(sed 's/.*:"//; s/".*//')"; printf '{"ok":true}'`, `{"limits":{"wall_s":3}}`) // a fault in bwrap itself may leave it waiting
	begins := func() int {
		return strings.Count(b.sh("cat $FORGE_HOME/audit/audit-*.jsonl"), `"ev":"forge.call.begin"`)
	}
	injected, kept := 0, 0
	for _, command := range []string{
		`forge-audit append test.fault <<< '{"a":1}'`,
		`forge-call mark <<< '{"to":"marker"}'`,
	} {
		for _, call := range []struct{ name, errno string }{
			{"write", "ENOSPC"},
			{"write", "EIO"},
			{"pwrite64", "EIO"},
			{"fdatasync", "EIO"},
			{"fsync", "EIO"},
			{"fallocate", "ENOSPC"},
			{"renameat", "EIO"},
			{"openat", "EACCES"},
			{"openat", "EMFILE"},
			{"pread64", "EIO"},
			{"flock", "EINTR"},
			{"mkdirat", "ENOSPC"},
			{"linkat", "EIO"},
			{"ftruncate", "EIO"},
			{"unlinkat", "EIO"},
			{"newfstatat", "EACCES"},
			{"fstat", "EIO"},
		} {
			for n := 1; n <= 12; n++ {
				marker := filepath.Join(b.Dir, "marker")
				os.Remove(marker)
				before := begins()
				out, status := b.status(fmt.Sprintf("strace -f -qq -o trace -e trace=%s -e inject=%s:error=%s:when=%d %s 2>/dev/null",
					call.name, call.name, call.errno, n, command))
				trace, err := os.ReadFile(filepath.Join(b.Dir, "trace"))
				if err != nil {
					t.Fatal(err)
				}
				where := fmt.Sprintf("%s: %s of %s %d", command, call.errno, call.name, n)
				if _, statErr := os.Stat(marker); statErr == nil && begins() == before {
					t.Errorf("%s: the tool ran, and its begin is not on the chain", where)
				}
				if said, code := b.status("forge-audit verify --json"); code != 0 && code != 4 {
					t.Errorf("%s: verify: %d %s", where, code, said)
				}
				if status == 0 && strings.HasPrefix(out, `{"ok":true`) {
					kept++
					if strings.Contains(command, "forge-call") && !strings.Contains(b.sh("tail -n 1 $FORGE_HOME/audit/audit-*.jsonl"), `"ev":"forge.called"`) {
						t.Errorf("%s: an answer was given whose record is not the last", where)
					}
				}
				if _, err := os.Stat(filepath.Join(b.Home, "audit", "FAILED")); err == nil {
					b.sh("forge-audit recover")
				}
				if !strings.Contains(string(trace), "(INJECTED)") {
					break
				}
				injected++
			}
		}
	}
	t.Logf("%d faults, %d commands that succeeded all the same", injected, kept)
	if injected < 60 {
		t.Errorf("only %d faults were injected", injected)
	}
	b.sh("forge-audit append test.after <<< '{}' && forge-audit verify")
	wholeFiles(t, b.Home)
}
