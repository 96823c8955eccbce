package sandbox

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// bwrapProcesses is bwrap itself and the init it leaves in the sandbox.
const bwrapProcesses = 2

// set puts the limits on pid; its descendants inherit them. A hard limit that
// is lower already stays.
func (l Limits) set(pid int) error {
	cpu := uint64((l.CPU + time.Second - 1) / time.Second)
	data := uint64(l.MemoryMB) << 20
	limits := []struct {
		resource   int
		soft, hard uint64
	}{
		{unix.RLIMIT_CPU, cpu, cpu + 1}, // SIGXCPU, then SIGKILL
		{unix.RLIMIT_DATA, data, data},
		{unix.RLIMIT_FSIZE, FileBytes, FileBytes},
		{unix.RLIMIT_NOFILE, OpenFiles, OpenFiles},
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_NPROC, Processes + bwrapProcesses, Processes + bwrapProcesses},
	}
	for _, r := range limits {
		if r.resource == unix.RLIMIT_NPROC && !countsProcesses() {
			continue
		}
		want := unix.Rlimit{Cur: r.soft, Max: r.hard}
		err := unix.Prlimit(pid, r.resource, &want, nil)
		if errors.Is(err, unix.EPERM) {
			var now unix.Rlimit
			if err = unix.Prlimit(pid, r.resource, nil, &now); err == nil {
				want.Max = min(want.Max, now.Max)
				want.Cur = min(want.Cur, now.Max)
				err = unix.Prlimit(pid, r.resource, &want, nil)
			}
		}
		if errors.Is(err, unix.ESRCH) {
			return nil // dead already: Wait tells of what
		}
		if err != nil {
			return internal("set limits", err)
		}
	}
	return nil
}

// countsProcesses reports whether RLIMIT_NPROC can bound a sandbox. It is not
// applied to the real uid 0, and before Linux 5.14 it counts everything its
// user runs, not what a user namespace holds: there, a user with 64 processes
// could start no tool at all, so it is not set.
func countsProcesses() bool {
	if os.Geteuid() == 0 {
		return false
	}
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := bytes.Cut(u.Release[:], []byte("."))
	minor, _, _ := bytes.Cut(rest, []byte("."))
	x, _ := strconv.Atoi(string(major))
	y, _ := strconv.Atoi(string(minor))
	return x > 5 || x == 5 && y >= 14
}

// limitOf names the limit that a status tells of after a run that took so long,
// or "". A SIGXCPU before the limit can have been used up is a tool's own doing.
func limitOf(status int, took time.Duration, l Limits) string {
	const slack = 200 * time.Millisecond // of the kernel's accounting
	switch unix.Signal(status - 128) {
	case unix.SIGXCPU:
		if (took+slack)*time.Duration(runtime.NumCPU()) >= l.CPU {
			return "cpu"
		}
	case unix.SIGXFSZ:
		return "file_size"
	}
	return ""
}

// signalName returns the name of the signal that a status of 128+n may stand
// for, or "".
func signalName(status int) string {
	if status <= 128 {
		return ""
	}
	return unix.SignalName(unix.Signal(status - 128))
}
