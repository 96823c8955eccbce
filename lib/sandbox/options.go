package sandbox

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"forge/lib/fail"
)

func itoa(n int) string { return strconv.Itoa(n) }

// devices is what /dev has, but for links.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// optionList is bwrap's options, NUL-terminated as --args wants them. A NUL
// inside one would make it two, so it is refused.
type optionList struct {
	buf []byte
	nul bool
}

func (o *optionList) add(words ...string) {
	for _, w := range words {
		o.nul = o.nul || strings.IndexByte(w, 0) >= 0
		o.buf = append(append(o.buf, w...), 0)
	}
}

// options returns bwrap's options for s. Mount operations happen in their
// order: the base, the working directory, bound paths (a directory before what
// is bound below it), and last / itself read-only. Pass makes a file one of
// bwrap's descriptors and returns its number there.
func options(s Spec, statusFD, implFD, filterFD int, pass func(*os.File) int) ([]byte, error) {
	var o optionList
	o.add("--json-status-fd", itoa(statusFD))
	o.add("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
	o.add("--new-session", "--die-with-parent", "--hostname", "tool")
	o.add("--seccomp", itoa(filterFD))

	o.add("--clearenv")
	o.add("--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/tmp")
	o.add("--setenv", "TMPDIR", "/tmp", "--setenv", "LANG", "C.UTF-8")
	if s.Artifacts != "" {
		o.add("--setenv", "FORGE_ARTIFACTS", "/artifacts")
	}
	for _, e := range s.Env {
		k, v, _ := strings.Cut(e, "=")
		o.add("--setenv", k, v)
	}

	o.add("--ro-bind", "/usr", "/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			o.add("--symlink", target, dir)
		} else if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
			o.add("--ro-bind", dir, dir)
		}
	}
	o.add("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
	o.add("--ro-bind-try", "/etc/alternatives", "/etc/alternatives")

	// Read-only as a whole, for root: bwrap thinks /proc/sys is so already and
	// leaves it, yet uid 0 owns the files there. It closes /proc/1/mem too.
	o.add("--proc", "/proc", "--remount-ro", "/proc")
	// Process 1 is bwrap's init, with the tool's uid: its exe is bwrap on the
	// host's own mount, where root may chmod it. Nobody misses it.
	o.add("--perms", "0000", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1")

	// Not --dev, whose /dev stays writable and which costs an ordinary user a
	// second user namespace. See ownDevices.
	for _, node := range devices {
		o.add("--dev-bind", node, node)
	}
	o.add("--symlink", "/proc/self/fd", "/dev/fd")
	for n, link := range []string{"/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		o.add("--symlink", "/proc/self/fd/"+itoa(n), link)
	}
	for _, dir := range []string{"/dev/shm", "/tmp"} {
		o.add("--perms", "1777", "--size", itoa(TmpBytes), "--tmpfs", dir)
	}

	o.add("--perms", "0444", "--file", itoa(implFD), "/tool/"+s.File) // read-only with /
	for _, p := range s.Extra {
		o.add("--ro-bind", p, p)
	}

	// Made before anything writable is bound, so that it is never made on the
	// host. A directory in the sandbox's own trees cannot be shown empty.
	cwd := s.Cwd
	if ownTree(cwd) {
		cwd = "/"
	}
	if cwd != "/" {
		o.add("--dir", cwd)
	}
	if s.Artifacts != "" {
		o.add("--bind", s.Artifacts, "/artifacts")
	}
	for _, p := range inOrder(s.Binds) {
		if p.file == nil {
			return nil, fail.New(fail.Internal, "", "sandbox: bind %q: closed", p.Path)
		}
		op := "--ro-bind-fd"
		if p.Mode == "rw" {
			op = "--bind-fd"
		}
		o.add(op, itoa(pass(p.file)), p.Path)
		for _, k := range p.kept {
			o.add("--ro-bind-fd", itoa(pass(k.file)), p.Path+"/"+k.name)
		}
	}
	o.add("--remount-ro", "/", "--chdir", cwd)

	if o.nul {
		return nil, fail.New(fail.Internal, "", "sandbox: a NUL in a path or in the environment")
	}
	return o.buf, nil
}

// ownIDs returns the options that give the tool the caller's ids where mapUser
// changed them on the way. Only these: another number would leave files of
// /proc that belong to the caller's without their protection.
func ownIDs() []byte {
	var o optionList
	o.add("--uid", itoa(os.Geteuid()), "--gid", itoa(os.Getegid()))
	return o.buf
}

// inOrder returns the binds with a directory before what lies in it, and each
// path once: rw if any of them asked for that.
func inOrder(binds []*Prepared) []*Prepared {
	sorted := slices.SortedStableFunc(slices.Values(binds), func(a, b *Prepared) int {
		// rw sorts after ro, and the later of two equal paths is kept.
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Mode, b.Mode))
	})
	var kept []*Prepared
	for _, p := range sorted {
		if n := len(kept); n > 0 && kept[n-1].Path == p.Path {
			kept[n-1] = p
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// ownTree reports whether path lies in a tree that is the sandbox's own, where
// the host's path of that name means something else.
func ownTree(path string) bool {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tool", "/artifacts"} {
		if within(path, dir) {
			return true
		}
	}
	return false
}

// within reports whether the clean path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
