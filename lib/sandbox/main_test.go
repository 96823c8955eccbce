package sandbox

// The rows are those of the sandbox's case list. Which wait for what:
//
//	cgroups  L03 (resource_limit, pids), L04
//	network  N03 to N11, N13, N15 to N17, S03
//
// S04 is Benchmark.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// The test binary is also the supervisor that some tests kill, or run where
// there are no namespaces or no bwrap.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise(os.Args[2:]))
	}
	if err := CloseOnExec(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// supervise does what words[0] says to its surroundings, says "ready", runs a
// tool named words[1] that sleeps and prints the kind and hint of the error.
func supervise(words []string) int {
	var err error
	switch words[0] {
	case "plain":
	case "no-namespaces":
		err = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	case "no-bwrap":
		err = syscall.Mount("none", "/usr/bin", "tmpfs", 0, "")
	case "no-seccomp":
		err = forbidSeccomp()
	case "alias":
		return prepareAliases(words[1])
	case "old-bwrap":
		err = syscall.Mount(words[2], bwrapPath, "", syscall.MS_BIND, "")
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	s := spec("bash", "sleep 3600")
	s.File = words[1]
	r, err := Run(context.Background(), s)
	if err != nil {
		e := fail.Of(err)
		fmt.Printf("%s\n%s\n%s\n", e.Kind, e.Message, e.Hint)
		return 0
	}
	fmt.Println(r.How())
	return 0
}

// forbidSeccomp makes this process, and what it starts, one whose kernel has no
// filters of system calls: prctl(PR_SET_SECCOMP) is EINVAL.
func forbidSeccomp() error {
	prctl := uint32(unix.SYS_PRCTL)
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: prctl},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.PR_SET_SECCOMP},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

var interpreters = map[string][]string{
	"bash":   {"/usr/bin/bash", "--noprofile", "--norc"},
	"python": {"/usr/bin/python3", "-I"},
	"node":   {"/usr/bin/node"},
}

func spec(language, script string) Spec {
	return Spec{
		Argv: interpreters[language], File: "tool", Impl: []byte(script),
		Cwd:     "/",
		Process: language == "bash", // as forge-forge derives it
		Limits:  Limits{Wall: 30 * time.Second, CPU: 30 * time.Second, MemoryMB: 512},
	}
}

// run runs s and returns its result and what it printed.
func run(t *testing.T, s Spec) (r Result, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr = &out, &errs
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatalf("Run: %v\n%s", err, errs.String())
	}
	return r, out.String(), errs.String()
}

// lines runs a script that must end with 0 and returns its lines.
func lines(t *testing.T, s Spec) []string {
	t.Helper()
	r, out, errs := run(t, s)
	if r.Exit != 0 {
		t.Fatalf("%s\n%s%s", r.How(), out, errs)
	}
	return strings.Split(strings.TrimRight(out, "\n"), "\n")
}

// says fails unless the script ends with 0 and prints exactly want.
func says(t *testing.T, s Spec, want ...string) {
	t.Helper()
	if got := lines(t, s); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the tool printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// bind prepares path and has it closed at the test's end.
func bind(t *testing.T, path, mode string) *Prepared {
	t.Helper()
	p, err := PrepareBind(Bind{path, mode}, "/", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(false) })
	return p
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// processes returns the ids of those whose command line holds mark.
func processes(mark string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && bytes.Contains(b, []byte(mark)) {
			if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(n))); pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// gone waits at most a second for the processes with mark to be gone.
func gone(t *testing.T, mark string) {
	t.Helper()
	var left []int
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left = processes(mark); len(left) == 0 {
			return
		}
	}
	t.Errorf("processes left: %v", left)
	for _, pid := range left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// tries is a Python prelude: try_(name, f) prints how f fails.
const tries = `
import os, errno, socket
def try_(name, f, *a):
    try:
        f(*a)
        print(name, "ok")
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
def create(p):
    os.close(os.open(p, os.O_CREAT | os.O_WRONLY, 0o644))
`

type failingWriter struct{ n int }

func (w *failingWriter) Write(p []byte) (int, error) {
	w.n++
	return 0, io.ErrClosedPipe
}

type countingWriter struct{ n int64 }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return len(p), nil
}
