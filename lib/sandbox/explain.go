package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// headBytes of standard error are kept, for the case that they are bwrap's.
const headBytes = 8 << 10

// readStatus reads what bwrap wrote to --json-status-fd, two objects:
//
//	{ "child-pid": 2, "net-namespace": 4026532214, … }
//	{ "exit-code": 0 }
//
// The second is missing when bwrap could not start the command, or was killed
// before its end. Bwrap is dead by now, so this waits for nothing; the deadline
// is for a stray holder of the pipe.
func readStatus(f *os.File) (status int, ok bool) {
	f.SetReadDeadline(time.Now().Add(stray))
	for d := json.NewDecoder(io.LimitReader(f, 64<<10)); ; {
		var line struct {
			ExitCode *int `json:"exit-code"`
		}
		if d.Decode(&line) != nil {
			return 0, false
		}
		if line.ExitCode != nil {
			return *line.ExitCode, true
		}
	}
}

const (
	hintInstall = "apt-get install bubblewrap"
	hintUpgrade = "upgrade bubblewrap: --bind-fd came with 0.10 and with the security updates of older ones (Debian 12: 0.8.0-2+deb12u1)"
	hintUserns  = "allow user namespaces: sysctl -w user.max_user_namespaces=15000"
	hintSeccomp = "allow namespaces: in a container, a seccomp profile with unshare, clone and mount (docker run --security-opt seccomp=…); on an older Debian, sysctl -w kernel.unprivileged_userns_clone=1"
	hintFilter  = "a kernel with CONFIG_SECCOMP_FILTER is needed; in a container, a seccomp profile that allows prctl(PR_SET_SECCOMP)"
	hintArmor   = "install an AppArmor profile with `userns,` for bwrap and for this program, as /etc/apparmor.d/bwrap-userns-restrict does for bwrap"
	hintBusy    = "try again later"
	hintProc    = "unmask /proc in the container (docker run --security-opt systempaths=unconfined)"
)

// complaints is what bwrap says when it cannot build a sandbox, the particular
// before the general, and what to do about it. Texts of bwrap 0.8 to 0.11.
var complaints = []struct {
	text, means, hint string
}{
	{"Unknown option", "bubblewrap is too old", hintUpgrade},
	{"Resource temporarily unavailable", "no further process is allowed", hintBusy},
	{"Out of memory", "memory is short, or limits.memory_mb too low to start in", hintBusy},
	{"No permissions to create new namespace", "namespaces are forbidden here", hintSeccomp},
	{"No permissions to creating new namespace", "namespaces are forbidden here", hintSeccomp},
	{"setting up uid map: Permission denied", "user namespaces have no rights here", hintArmor},
	{"RTM_NEWADDR", "user namespaces have no rights here", hintArmor},
	{"ENOSPC", "no further user namespace is allowed", hintUserns},
	{"max_user_namespaces", "no further user namespace is allowed", hintUserns},
	{"Creating new namespace failed", "namespaces are forbidden here", hintSeccomp},
	{"PR_SET_SECCOMP", "system calls cannot be filtered here", hintFilter},
	{"Can't mount proc", "/proc cannot be mounted here", hintProc},
}

// explain turns bwrap's own words into an error: it ran, but the tool did not.
func explain(stderr, state string, s Spec) error {
	stderr = strings.TrimSpace(stderr)
	first, _, _ := strings.Cut(stderr, "\n")
	said, isBwrap := strings.CutPrefix(first, "bwrap: ")
	if !isBwrap {
		return fail.New(fail.SandboxUnavailable, "", "sandbox: bwrap ended without a word of the tool: %s: %q", state, clip(stderr))
	}
	if name := "execvp " + s.Argv[0] + ": "; strings.HasPrefix(said, name) {
		return fail.New(fail.RuntimeUnavailable, installHint(s.Argv[0]),
			"interpreter %q: %s", s.Argv[0], strings.ToLower(said[len(name):]))
	}
	for _, p := range s.Extra {
		if strings.Contains(said, "source path "+p+": ") {
			return fail.New(fail.RuntimeUnavailable, "see the runtime's paths in config.toml", "runtime path %q: not found", p)
		}
	}
	for _, c := range complaints {
		if strings.Contains(said, c.text) {
			return fail.New(fail.SandboxUnavailable, c.hint, "sandbox: %s: %q", c.means, clip(said))
		}
	}
	return fail.New(fail.SandboxUnavailable, "", "sandbox: bwrap: %q", clip(said))
}

// explainStart turns a failed start of bwrap into an error.
func explainStart(err error) error {
	switch {
	case missing(bwrapPath):
		return fail.New(fail.SandboxUnavailable, hintInstall, "sandbox: %s: not found", bwrapPath)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return fail.New(fail.SandboxUnavailable, hintUserns, "sandbox: no further user namespace is allowed: %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
		hint := hintSeccomp
		if restrictedByAppArmor() {
			hint = hintArmor
		}
		return fail.New(fail.SandboxUnavailable, hint, "sandbox: namespaces are forbidden here: %w", err)
	case errors.Is(err, unix.EACCES):
		hint := "see the permissions of " + bwrapPath
		if restrictedByAppArmor() {
			hint = hintArmor
		}
		return fail.New(fail.SandboxUnavailable, hint, "sandbox: start bwrap: %w", err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return fail.New(fail.SandboxUnavailable, hintBusy, "sandbox: no further process is allowed: %w", err)
	}
	return internal("start bwrap", err)
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

func restrictedByAppArmor() bool {
	b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	return err == nil && len(bytes.TrimSpace(b)) > 0 && b[0] != '0'
}

// installHint says how to get an interpreter.
func installHint(path string) string {
	if filepath.Dir(path) != "/usr/bin" {
		return "see the runtime's command in config.toml"
	}
	name := filepath.Base(path)
	if name == "node" {
		name = "nodejs"
	}
	return "apt-get install " + name
}

// clip bounds what a message quotes.
func clip(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}
