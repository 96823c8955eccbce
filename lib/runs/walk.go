package runs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// What a run may leave: so many files, directories and the like, so deep.
const (
	maxEntries = 10_000
	maxDepth   = 32
)

// Why a walk does not see all there is.
var (
	errMany = fmt.Errorf("there are more than %d entries", maxEntries)
	errDeep = fmt.Errorf("directories lie deeper than %d", maxDepth)
	errShut = errors.New("a directory cannot be read")
)

// level is a directory on the way down.
type level struct {
	fd    int
	path  string
	names []string // still to see
}

// walk calls visit for everything below top, in the order of names, following
// no link: an entry is its name in the directory that dir describes. It holds a
// descriptor for each level and opens one component at a time, so that depth
// costs no more than breadth. What the tool closed to us, its owner, is opened
// again. The first error of visit or of ctx ends it; else the error is the first
// reason why something was passed over, or nil.
func walk(ctx context.Context, top int, visit func(dir int, name, path string, st *unix.Stat_t) error) error {
	var stack []level
	defer func() {
		for _, l := range stack {
			unix.Close(l.fd)
		}
	}()
	left := maxEntries
	var short error
	passed := func(err error) {
		if short == nil && err != nil {
			short = err
		}
	}
	enter := func(dir int, name, path string) {
		if len(stack) == maxDepth {
			passed(errDeep)
			return
		}
		fd, err := openDir(dir, name)
		if err != nil {
			if !gone(err) {
				passed(errShut)
			}
			return
		}
		names, err := list(fd, left)
		passed(err)
		left -= len(names)
		stack = append(stack, level{fd, path, names})
	}
	enter(top, ".", "")
	for len(stack) > 0 {
		l := &stack[len(stack)-1]
		if len(l.names) == 0 {
			unix.Close(l.fd)
			stack = stack[:len(stack)-1]
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name := l.names[0]
		l.names = l.names[1:]
		dir, below := l.fd, path.Join(l.path, name)
		var st unix.Stat_t
		err := opened(dir, func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		if err != nil {
			if !gone(err) {
				passed(errShut)
			}
			continue
		}
		if err := visit(dir, name, below, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			enter(dir, name, below)
		}
	}
	return short
}

// gone says of an error that the entry went, or became something else, since
// its directory was read.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// list returns up to most names in a directory, sorted.
func list(fd, most int) (names []string, err error) {
	buf := make([]byte, 32<<10)
	for len(names) <= most {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !gone(err) {
			return names, errShut
		}
		if n <= 0 {
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	names = names[:most]
	slices.Sort(names)
	return names, errMany
}

// tries is how often a door is opened that a tool closes again meanwhile.
const tries = 3

// opened calls f, which looks something up in dir, and opens dir to us where it
// must.
func opened(dir int, f func() error) error {
	err := f()
	for range tries {
		if !errors.Is(err, unix.EACCES) || unix.Fchmod(dir, 0o700) != nil {
			break
		}
		err = f()
	}
	return err
}

// openDir opens a directory in another.
func openDir(dir int, name string) (int, error) {
	return openAt(dir, name, unix.O_DIRECTORY, 0o700)
}

// openAt opens name in dir for reading, never through a link, and without
// waiting for whoever is behind a pipe. Where the tool took our permission, as
// its owner we give ourselves mode again, by descriptor: what is changed is what
// was there.
func openAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	for range tries {
		fd, err = unix.Openat(dir, name, flags|unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EACCES) {
			return fd, err
		}
		err = opened(dir, func() error {
			p, err := unix.Openat(dir, name, flags|unix.O_PATH, 0)
			if err != nil {
				return err
			}
			defer unix.Close(p)
			var st unix.Stat_t
			if err := unix.Fstat(p, &st); err != nil {
				return err
			}
			// fchmod(2) takes no O_PATH descriptor; its name in /proc does.
			return unix.Chmod("/proc/self/fd/"+strconv.Itoa(p), st.Mode&0o777|mode)
		})
		if err != nil {
			return -1, err
		}
	}
	return fd, err
}
