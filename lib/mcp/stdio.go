package mcp

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// Guard takes standard output for the protocol alone and returns it: whatever
// else in this process, or a library in it, prints to descriptor 1 goes to
// standard error from now on. A standard error that was closed fails its
// writers and no longer ends the process. To be called once, before anything is
// started.
func Guard() (*os.File, error) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup3(2, 1, 0)
	}
	if err != nil {
		return nil, fail.New(fail.IOError, "", "set standard output apart: %w", err)
	}
	return os.NewFile(uintptr(fd), "standard output"), nil
}

// Gone returns a channel that is closed when nobody is left to read what is
// written to f, a pipe or socket. For a file or terminal that never happens.
func Gone(f *os.File) <-chan struct{} {
	gone := make(chan struct{})
	raw, err := f.SyscallConn()
	if err != nil {
		return gone
	}
	go func() {
		_ = raw.Control(func(fd uintptr) {
			for {
				set := []unix.PollFd{{Fd: int32(fd)}} // POLLERR and POLLHUP are always asked for
				n, err := unix.Poll(set, -1)
				if n > 0 && set[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
					close(gone)
					return
				}
				if err != nil && err != unix.EINTR {
					return
				}
			}
		})
	}()
	return gone
}

// A Log is standard error for a process that must not wait for its reader: the
// pipe of a client that never reads it is full after 64 KiB. What finds no room
// is dropped and counted.
type Log struct {
	lines chan []byte
	idle  chan struct{}
	lost  atomic.Int64
}

// NewLog returns a Log that writes to w.
func NewLog(w io.Writer) *Log {
	l := &Log{lines: make(chan []byte, 256), idle: make(chan struct{})}
	go func() {
		for line := range l.lines {
			if line == nil {
				close(l.idle)
				return
			}
			if n := l.lost.Swap(0); n > 0 {
				fmt.Fprintf(w, "(%d lines lost)\n", n)
			}
			_, _ = w.Write(line)
		}
	}()
	return l
}

// Write takes b, whole lines, and never waits nor fails.
func (l *Log) Write(b []byte) (int, error) {
	select {
	case l.lines <- append([]byte{}, b...):
	default:
		l.lost.Add(1)
	}
	return len(b), nil
}

// Printf writes one line.
func (l *Log) Printf(format string, args ...any) {
	_, _ = l.Write(fmt.Appendf(nil, format+"\n", args...))
}

// Close waits until what was written is out, but no longer than that; what is
// written later goes nowhere. To be called once.
func (l *Log) Close(wait time.Duration) {
	late := time.After(wait)
	select {
	case l.lines <- nil:
	case <-late:
		return
	}
	select {
	case <-l.idle:
	case <-late:
	}
}
