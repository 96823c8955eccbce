// Package sandbox runs one tool once under bubblewrap and tells how it ended.
//
// What the tool sees:
//
//	/usr                    the host's, read-only; /bin /sbin /lib* as on the host
//	/etc                    ld.so.cache and alternatives, nothing else
//	/proc                   its own processes, read-only as a whole; 1 is closed
//	/dev                    null zero full random urandom, fd stdin stdout stderr, shm
//	/tmp, /dev/shm          64 MiB each, empty, gone afterwards
//	/tool/<File>            the implementation, read-only
//	/artifacts              Spec.Artifacts, read-write, if there is one
//	the caller's directory  as working directory, empty but for bound paths
//	bound paths             each at its own absolute path
//
// Everything else of / is read-only and empty. There is no network but an
// unconnected loopback, no capability, no new privilege, no further namespace,
// no descriptor but 0, 1 and 2, and no system call but those that programs need:
// without Spec.Process none that starts a process, and where a path is bound no
// socket that is named by a path. The environment is PATH=/usr/bin HOME=/tmp
// TMPDIR=/tmp LANG=C.UTF-8, PWD (bwrap sets it), FORGE_ARTIFACTS when there are
// artifacts, and Spec.Env.
//
// # Why it cannot outlive its caller
//
// Bwrap is started as process 1 of a pid namespace of its own, so that killing
// it takes every descendant along, whatever those ignore or detach from; and
// with a parent death signal, so that it is killed when we are. It reads its
// options from a pipe that is written only after it started: if we die before,
// it finds no options, and so an empty root with nothing to execute in it.
//
// # Limits without cgroups
//
// The limits are resource limits, set on bwrap while it waits for its options.
// They hold for each process alone: RLIMIT_CPU, RLIMIT_DATA (private memory
// only: shared mappings and memfd get round it; RLIMIT_AS would break node),
// RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CORE 0. RLIMIT_NPROC counts the whole
// sandbox, but the kernel does not apply it to the real uid 0. [Label] says so.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// The fixed limits of forge-policy(5), LIMITS.
const (
	TmpBytes  = 64 << 20 // of /tmp and of /dev/shm, each
	FileBytes = 1 << 30  // of any file the tool writes
	Processes = 64       // threads count
	OpenFiles = 256
)

// bwrapPath is where bubblewrap is: not searched for in PATH, which is input.
const bwrapPath = "/usr/bin/bwrap"

// stray is how long a descriptor of standard output or error may stay open
// once every process of the sandbox is dead. None should: they leave through
// sockets, and those that lead out are filtered.
const stray = 2 * time.Second

// Limits bounds one run. None may be zero: there is no unlimited run.
type Limits struct {
	Wall     time.Duration // of the whole run, start-up included
	CPU      time.Duration // of each process, rounded up to seconds
	MemoryMB int           // private memory of each process, MiB
}

// A Spec says what to run, on what, within which bounds.
type Spec struct {
	// Argv is the interpreter and its flags, absolute: /usr/bin/python3.11 -I.
	// The path of the implementation inside is appended.
	Argv []string
	File string // base name of the implementation inside, as tool.py: /tool/tool.py
	Impl []byte // its bytes, the very ones that were digested

	// Stdin is the validated input. The tool gets it as a sealed file in
	// memory: it can seek, and nobody can change it.
	Stdin []byte

	// Env holds further KEY=VALUE. They reach bwrap through a pipe: no
	// argument list and no environment but the tool's own ever holds them.
	Env []string

	// Process allows the tool to start processes. Without it fork, vfork and
	// posix_spawn fail with EPERM; threads, and exec in its own place, do not.
	Process bool

	Binds     []*Prepared // see PrepareBind
	Extra     []string    // absolute paths that a configured runtime wants, bound read-only
	Cwd       string      // the caller's working directory, absolute
	Artifacts string      // host directory for /artifacts; "" for none
	Limits    Limits

	// Gate, when set, is called once bwrap is started and waits for its options:
	// the tool runs only if it returns nil, and its error is Run's otherwise.
	// What must come before a run goes on while the sandbox starts.
	Gate func() error

	// Stdout and Stderr get what the tool prints as it prints it, in pieces of
	// at most 32 KiB, each from a goroutine of its own; nil discards. A writer
	// that fails is not written to again, and the tool's output is read on to
	// its end: Result.OutputErr says so. Run waits for a writer that blocks. When Result.Started is false, Stderr
	// got bwrap's words, not a tool's.
	Stdout, Stderr io.Writer
}

// A Result says how a run ended.
type Result struct {
	Started bool // false: the tool did not run. Killed early, it may not have got to run

	// Exit is the status bwrap reports, 0 to 255, or -1 when there is none
	// because the run was killed (TimedOut, Cancelled). Bwrap reports a death
	// by signal n as 128+n, as a shell does, so 137 is SIGKILL or exit(137).
	Exit int
	// Signal is the name of signal n when Exit is 128+n: what the tool
	// probably died of. SIGKILL when we killed it. "" otherwise.
	Signal string

	TimedOut  bool // Limits.Wall passed first
	Cancelled bool // the context ended first

	// Limit names the resource limit the run ended at, or is "":
	//
	//	cpu        SIGXCPU, after a time in which the limit can have been used up
	//	file_size  SIGXFSZ
	//
	// A tool that ignores SIGXCPU gets SIGKILL a second later, which is not
	// told from any other. One that gets an error from a limit instead (no more
	// memory, files or processes) ends as it pleases. Without cgroups nothing
	// tells us of these: bwrap does not wait for its init, so not even the CPU
	// time that was used is known.
	Limit string

	Duration  time.Duration // wall clock, start-up included
	OutputErr error         // the first error of Stdout or Stderr, or exec.ErrWaitDelay
}

// How tells the end of the run in words, for messages: "exit status 3",
// "exit status 139 (SIGSEGV, or exit 139)", "killed at the wall limit".
func (r Result) How() string {
	switch {
	case !r.Started:
		return "not started"
	case r.TimedOut:
		return "killed at the wall limit"
	case r.Cancelled:
		return "killed on cancellation"
	}
	status := "exit status " + itoa(r.Exit)
	switch {
	case r.Limit != "" && r.Signal != "":
		return status + " (" + r.Signal + " at the " + r.Limit + " limit)"
	case r.Signal != "":
		return status + " (" + r.Signal + ", or exit " + itoa(r.Exit) + ")"
	}
	return status
}

// Label names the mechanism, for meta.sandbox and the record: engine, network,
// the filter of system calls, what enforces the limits, and the limits that
// nothing enforces.
func Label() string {
	l := "bwrap net=none seccomp limits=rlimit"
	if !countsProcesses() {
		l += " pids=none"
	}
	return l
}

// CloseOnExec marks every descriptor from 3 up close-on-exec. A command calls
// it first thing in main: a descriptor the command inherited, say of a
// directory, would otherwise reach the tool and be a way out.
func CloseOnExec() error {
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail.New(fail.SandboxUnavailable, "Linux 5.11 or newer is needed, and a container that allows close_range", "close inherited descriptors: %w", err)
	}
	return nil
}

// Run runs s and waits for its end, for Limits.Wall or for the end of ctx,
// whichever is first; afterwards no process of the sandbox is left. How the
// tool ended is in the Result. An error says that the sandbox itself failed:
// kind sandbox_unavailable, runtime_unavailable (the interpreter or a path of
// Extra is missing) or internal (s is wrong, or a fault of ours).
func Run(ctx context.Context, s Spec) (Result, error) {
	if err := s.check(); err != nil {
		return Result{Exit: -1}, err
	}
	if ctx.Err() != nil {
		return Result{Exit: -1, Cancelled: true}, nil
	}

	// The parent death signal is bound to the thread that forks, and Go ends a
	// thread only when a goroutine locked to it returns: so this one is ours
	// until the end, and for root, who changes its mounts, never anybody's again.
	var r Result
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if os.Geteuid() != 0 {
			defer runtime.UnlockOSThread()
		} else if err = ownDevices(); err != nil {
			r.Exit = -1
			return
		}
		r, err = runHere(ctx, s)
	}()
	<-ended
	return r, err
}

// ownDevices gives this thread, and what it starts, a mount namespace in which
// the devices that tools see are mounted read-only. They can be written to
// nevertheless, but root, who owns them, cannot chmod the host's from inside:
// bwrap can bind a device or bind read-only, not both. Root without
// CAP_SYS_ADMIN, in a container, has to do without: the devices are the
// container's.
func ownDevices() error {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "")
	}
	for _, node := range devices {
		if err == nil {
			err = unix.Mount(node, node, "", unix.MS_BIND, "")
		}
		if err == nil {
			err = unix.Mount("", node, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID, "")
		}
	}
	if err != nil {
		return fail.New(fail.SandboxUnavailable, hintSeccomp, "sandbox: mount devices read-only: %w", err)
	}
	return nil
}

// runHere is Run, on the thread that it is on.
func runHere(ctx context.Context, s Spec) (Result, error) {
	began := time.Now()
	b, err := start(s)
	if err != nil {
		return Result{Exit: -1}, err
	}
	defer b.status.Close()
	if s.Gate != nil {
		if err := s.Gate(); err != nil {
			b.cmd.Process.Kill()
			b.cmd.Wait()
			return Result{Exit: -1}, err
		}
		began = time.Now() // what the gate took is not the tool's
	}

	var timedOut, cancelled atomic.Bool
	kill := func(why *atomic.Bool) {
		why.Store(true)
		b.cmd.Process.Kill() // by pidfd: never another process's number
	}
	timer := time.AfterFunc(s.Limits.Wall-time.Since(began), func() { kill(&timedOut) })
	unwatch := context.AfterFunc(ctx, func() { kill(&cancelled) })

	told := b.release()
	err = b.cmd.Wait()
	timer.Stop()
	unwatch()

	r := Result{
		Started:  true,
		Exit:     -1,
		Duration: time.Since(began),
	}
	r.OutputErr = errors.Join(b.stdout.err, b.stderr.err)
	if errors.Is(err, exec.ErrWaitDelay) {
		r.OutputErr = errors.Join(r.OutputErr, err)
	}

	if status, ok := readStatus(b.status); ok {
		// The tool ended by itself, if perhaps a moment before the kill.
		r.Exit = status
		r.Signal = signalName(status)
		r.Limit = limitOf(status, r.Duration, s.Limits)
		return r, nil
	}
	switch {
	case timedOut.Load():
		r.TimedOut, r.Signal = true, "SIGKILL"
		return r, nil
	case cancelled.Load():
		r.Cancelled, r.Signal = true, "SIGKILL"
		return r, nil
	}
	r.Started = false
	if told != nil && len(b.stderr.first) == 0 {
		return r, told
	}
	return r, explain(string(b.stderr.first), b.cmd.ProcessState.String(), s)
}

// check refuses a Spec that its maker got wrong: kind internal.
func (s *Spec) check() error {
	wrong := func(format string, args ...any) error {
		return fail.New(fail.Internal, "", "sandbox: "+format, args...)
	}
	switch {
	case len(s.Argv) == 0 || !filepath.IsAbs(s.Argv[0]):
		return wrong("interpreter %q: not an absolute path", s.Argv)
	case s.File == "" || s.File == "." || s.File == ".." || strings.ContainsAny(s.File, "/\x00"):
		return wrong("implementation file %q: not a base name", s.File)
	case !filepath.IsAbs(s.Cwd):
		return wrong("working directory %q: not an absolute path", s.Cwd)
	case s.Artifacts != "" && !filepath.IsAbs(s.Artifacts):
		return wrong("artifacts directory %q: not an absolute path", s.Artifacts)
	case s.Limits.Wall <= 0 || s.Limits.CPU <= 0 || s.Limits.MemoryMB <= 0:
		return wrong("limits %+v: each must be above 0", s.Limits)
	}
	for _, p := range s.Extra {
		if !filepath.IsAbs(p) {
			return wrong("runtime path %q: not an absolute path", p)
		}
	}
	for _, e := range s.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" {
			return wrong("environment: entry without a name") // the entry may be a secret
		}
	}
	return nil
}

// A box is a bwrap that was started and waits for its options.
type box struct {
	cmd            *exec.Cmd
	newUser        bool     // bwrap is in a user namespace of its own
	args           *os.File // write end of the options' pipe
	status         *os.File // read end of --json-status-fd
	options        []byte
	stdout, stderr *sink
}

// start starts bwrap in its own pid namespace and sets its limits.
func start(s Spec) (*box, error) {
	var passed []*os.File // what bwrap inherits, from descriptor 3 on
	var ours []*os.File   // those of passed that we close
	defer func() {
		for _, f := range ours {
			f.Close()
		}
	}()
	pass := func(f *os.File) (fd int) {
		passed = append(passed, f)
		return 2 + len(passed)
	}

	argsR, argsW, err := os.Pipe()
	if err != nil {
		return nil, internal("options pipe", err)
	}
	ours = append(ours, argsR)
	statusR, statusW, err := os.Pipe()
	if err != nil {
		argsW.Close()
		return nil, internal("status pipe", err)
	}
	ours = append(ours, statusW)
	giveUp := func(err error) (*box, error) {
		argsW.Close()
		statusR.Close()
		return nil, err
	}
	impl, err := memory("forge-impl", s.Impl)
	if err != nil {
		return giveUp(err)
	}
	ours = append(ours, impl)
	stdin, err := memory("forge-stdin", s.Stdin)
	if err != nil {
		return giveUp(err)
	}
	ours = append(ours, stdin)

	filter, err := s.filter()
	if err != nil {
		return giveUp(err)
	}
	ours = append(ours, filter)

	b := &box{args: argsW, status: statusR, stdout: &sink{w: s.Stdout}, stderr: &sink{w: s.Stderr, keep: headBytes}}
	argsFD := pass(argsR)
	b.options, err = options(s, pass(statusW), pass(impl), pass(filter), pass)
	if err != nil {
		return giveUp(err)
	}

	argv := []string{"bwrap", "--args", itoa(argsFD), "--"}
	argv = append(argv, s.Argv...)
	argv = append(argv, "/tool/"+s.File)
	startIn := func(newUser bool) error {
		b.newUser = newUser
		b.cmd = &exec.Cmd{
			Path: bwrapPath, Args: argv,
			Env:   []string{}, // /proc/1/environ shows it inside
			Dir:   "/",
			Stdin: stdin, Stdout: b.stdout, Stderr: b.stderr,
			ExtraFiles:  passed,
			SysProcAttr: ownNamespace(newUser),
			WaitDelay:   stray,
		}
		return b.cmd.Start()
	}
	root := os.Geteuid() == 0
	err = startIn(!root)
	if root && errors.Is(err, unix.EPERM) {
		err = startIn(true) // root without CAP_SYS_ADMIN, as in a container
	}
	if err != nil {
		return giveUp(explainStart(err))
	}
	if b.newUser {
		b.options = append(b.options, ownIDs()...)
		if err = mapUser(b.cmd.Process.Pid); err != nil {
			err = explainStart(err)
		}
	}
	if err == nil {
		err = s.Limits.set(b.cmd.Process.Pid)
	}
	if err != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
		return giveUp(err)
	}
	return b, nil
}

// ownNamespace makes bwrap process 1 of a pid namespace, in a session of its
// own (a terminal's ^C is for us), and dying with us. An ordinary user may do
// that only in a user namespace; see mapUser.
func ownNamespace(newUser bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID,
	}
	if newUser {
		// Package syscall forks without sharing memory for a user namespace,
		// so that the parent can map ids meanwhile, and copying the page tables
		// costs a good half millisecond. We map them later and may share, as
		// it does for every other child.
		a.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_VM | syscall.CLONE_VFORK
	}
	return a
}

// mapUser maps the user to itself in pid's new user namespace, under the number
// that the kernel shows for an unmapped one: bwrap has asked for its own ids
// already, or does so any moment, and is to get the same answer either way.
// OwnIDs gives the tool its true numbers back.
func mapUser(pid int) error {
	dir := "/proc/" + itoa(pid) + "/"
	for _, m := range []struct{ file, text string }{
		{"uid_map", overflow("uid") + " " + itoa(os.Geteuid()) + " 1\n"},
		{"setgroups", "deny"}, // else gid_map is not for an ordinary user
		{"gid_map", overflow("gid") + " " + itoa(os.Getegid()) + " 1\n"},
	} {
		if err := os.WriteFile(dir+m.file, []byte(m.text), 0); err != nil {
			return err
		}
	}
	return nil
}

// overflow returns the number of an unmapped id: proc_sys_kernel(5).
func overflow(what string) string {
	b, err := os.ReadFile("/proc/sys/kernel/overflow" + what)
	if err != nil {
		return "65534"
	}
	return string(bytes.TrimSpace(b))
}

// release hands bwrap its options, which lets it go on. A bwrap that is dead
// already reads none: then the error is told unless bwrap itself said more.
func (b *box) release() error {
	_, err := b.args.Write(b.options)
	if cerr := b.args.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fail.New(fail.SandboxUnavailable, hintUpgrade, "bwrap read no options: %w", err)
	}
	return nil
}

// memory returns a sealed file in memory that holds data, at offset 0.
func memory(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, internal("file in memory", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return nil, internal("file in memory", err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, internal("seal file in memory", err)
	}
	return f, nil
}

// A sink passes what it is given on to w, keeps the first keep bytes, and
// never fails: were it to, the tool would get a broken pipe for our trouble.
type sink struct {
	w     io.Writer
	keep  int
	first []byte
	err   error // the first error of w
}

func (s *sink) Write(p []byte) (int, error) {
	if n := min(len(p), s.keep-len(s.first)); n > 0 {
		s.first = append(s.first, p[:n]...)
	}
	if s.w != nil && s.err == nil {
		_, s.err = s.w.Write(p)
	}
	return len(p), nil
}

func internal(doing string, err error) error {
	for _, short := range []error{unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.ENOMEM, unix.EAGAIN} {
		if errors.Is(err, short) {
			return fail.New(fail.SandboxUnavailable, hintBusy, "sandbox: %s: %w", doing, err)
		}
	}
	return fail.New(fail.Internal, "", "sandbox: %s: %w", doing, err)
}
