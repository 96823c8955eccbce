package runs

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A file that was removed and is still open, or mapped, is in no directory and
// has its blocks all the same. Only the processes that hold it show it. Looking
// through them costs more than a look four times a second should, so it is done
// when the file system has lost more space than a run may take; who took it
// does not matter then, for only what our own children hold is counted.
//
// What stays unseen is a descriptor that is nowhere but on its way through a
// socket (unix(7), SCM_RIGHTS), and what another writer frees meanwhile as much
// as the tool takes. Such blocks are free again when the run ends, at its wall
// limit at the latest; a quota of the file system is the only sure bound.

// free returns how many bytes the file system of fd has left.
func free(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize
}

// unlinked returns how many bytes of removed artifacts our descendants hold. A
// path is what the sandbox calls it: /artifacts/NAME; dir is what we do.
func unlinked(dir string) int64 {
	held := map[uint64]int64{} // by inode
	removed := func(path string) bool {
		return strings.HasSuffix(path, " (deleted)") && (strings.HasPrefix(path, "/artifacts/") || strings.HasPrefix(path, dir+"/"))
	}
	for _, pid := range descendants() {
		proc := "/proc/" + strconv.Itoa(pid)
		fds, err := os.ReadDir(proc + "/fd")
		if err != nil {
			continue // it ended
		}
		for _, fd := range fds {
			link := proc + "/fd/" + fd.Name()
			if path, err := os.Readlink(link); err != nil || !removed(path) {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(link, &st) == nil && st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				held[st.Ino] = st.Blocks * 512
			}
		}
		for ino, n := range mapped(proc+"/maps", removed) {
			held[ino] = max(held[ino], n)
		}
	}
	var sum int64
	for _, n := range held {
		sum += n
	}
	return sum
}

// mapped returns, by inode, how many bytes of files a process has mapped:
// proc_pid_maps(5). It reads no more than a mebibyte: some 10,000 mappings.
func mapped(maps string, want func(path string) bool) map[uint64]int64 {
	f, err := os.Open(maps)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	out := map[uint64]int64{}
	for line := range strings.Lines(string(b)) {
		field := strings.Fields(line)
		at := strings.IndexByte(line, '/')
		if len(field) < 6 || at < 0 || !want(strings.TrimSuffix(line[at:], "\n")) {
			continue
		}
		from, to, _ := strings.Cut(field[0], "-")
		a, err1 := strconv.ParseInt(from, 16, 64)
		z, err2 := strconv.ParseInt(to, 16, 64)
		ino, err3 := strconv.ParseUint(field[4], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			out[ino] += z - a
		}
	}
	return out
}

// descendants returns our children, theirs, and so on.
func descendants() []int {
	children := map[int][]int{}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything: proc_pid_stat(5).
		b, _ := os.ReadFile("/proc/" + p.Name() + "/stat")
		if f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]); len(f) > 1 {
			parent, _ := strconv.Atoi(string(f[1]))
			children[parent] = append(children[parent], pid)
		}
	}
	out := children[os.Getpid()]
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}
