package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// A Bind is a path that a tool's schema declares and a caller gave.
type Bind struct {
	Path string // as the caller wrote it; relative to the working directory
	Mode string // "ro" or "rw"
}

// A Prepared is a bind that was opened and found allowed. What it opened is
// what gets bound, whatever becomes of the path meanwhile.
type Prepared struct {
	Path    string // absolute and without links: where it is inside and outside
	Mode    string // "ro" or "rw"
	Dir     bool
	Created bool // it was missing and was created, empty

	file   *os.File   // O_PATH
	kept   []keptFile // what a directory bound rw has that stays read-only
	parent *os.File   // O_PATH, of a created file
}

// pathMax is PATH_MAX of linux/limits.h without the NUL.
const pathMax = 4095

// base is what every tool runs from. A tool that wrote there would write into
// the next tool, and into the host.
var base = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives"}

// notFiles are file systems whose entries are no files but switches, wherever
// they are mounted.
var notFiles = map[int64]string{
	unix.PROC_SUPER_MAGIC:    "proc",
	unix.SYSFS_MAGIC:         "sysfs",
	unix.DEVPTS_SUPER_MAGIC:  "devpts",
	unix.DEBUGFS_MAGIC:       "debugfs",
	unix.TRACEFS_MAGIC:       "tracefs",
	unix.SECURITYFS_MAGIC:    "securityfs",
	unix.BPF_FS_MAGIC:        "bpf",
	unix.CGROUP_SUPER_MAGIC:  "cgroup",
	unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.EFIVARFS_MAGIC:      "efivarfs",
	unix.BINFMTFS_MAGIC:      "binfmt_misc",
	unix.SELINUX_MAGIC:       "selinuxfs",
}

// runsOutside is what a directory may hold that decides what runs elsewhere: the
// hooks and configuration of git, the tools and policy of a project.
var runsOutside = []string{".git", ".forge"}

// keptFile is an open file (O_PATH) of a bound directory, by its name there.
type keptFile struct {
	name string
	file *os.File
}

// PrepareBind opens b.Path and refuses what forge(7), BOUND PATHS, refuses. Cwd
// is the caller's working directory and store the directory of the store, both
// absolute; store is "" where there is none to protect.
//
// It gives path_denied, with the path to write instead as hint where there is
// one, for: an empty or over-long path and control characters, `..` after a
// name, a link in any component, /proc, /sys, /dev and the like of them
// elsewhere, the sandbox's own /tool and /artifacts, the store and anything
// above or below it, whatever is neither file nor directory, and for rw also
// /usr and the other trees a tool runs from, .git and .forge. It gives not_found for a
// path that is not there, but for rw and a missing file in a directory, which
// it creates with 0666 less the umask, as a shell's `>` would; see Close.
//
// A directory that is bound rw and has a .git (a directory, or the file of a
// worktree) or a .forge gets it bound over itself read-only; where that is a
// link it cannot be done and the directory is refused. One deeper down, or none,
// is not looked after. /tmp may be bound: then it is the tool's /tmp, too.
func PrepareBind(b Bind, cwd, store string) (*Prepared, error) {
	return prepare(b, cwd, store, (*Prepared).create)
}

// WouldBind says what PrepareBind would, and creates nothing.
func WouldBind(b Bind, cwd, store string) error {
	p, err := prepare(b, cwd, store, (*Prepared).wouldCreate)
	if err != nil {
		return err
	}
	return p.Close(false)
}

func prepare(b Bind, cwd, store string, create func(p *Prepared, store string) error) (*Prepared, error) {
	if b.Mode != "ro" && b.Mode != "rw" {
		return nil, fail.New(fail.Internal, "", "path %q: mode %q: not ro or rw", b.Path, b.Mode)
	}
	if !filepath.IsAbs(cwd) || store != "" && !filepath.IsAbs(store) {
		return nil, fail.New(fail.Internal, "", "path %q: working directory %q or store %q: not absolute", b.Path, cwd, store)
	}
	path, err := absolute(b.Path, cwd)
	if err != nil {
		return nil, err
	}
	if err := allowed(b.Path, path, b.Mode, store); err != nil {
		return nil, err
	}

	p := &Prepared{Path: path, Mode: b.Mode}
	p.file, err = openPath(path, 0)
	if errors.Is(err, unix.ENOENT) && b.Mode == "rw" && !strings.HasSuffix(b.Path, "/") {
		err = create(p, store)
	}
	if err == nil && p.file != nil {
		err = p.examine(store)
	}
	if err == nil && !p.Dir && strings.HasSuffix(b.Path, "/") {
		err = unix.ENOTDIR
	}
	if err != nil {
		p.Close(true)
		return nil, refusal(b.Path, path, err)
	}
	return p, nil
}

// denied returns a path_denied about the path as the caller wrote it.
func denied(written, hint, format string, args ...any) error {
	return fail.New(fail.PathDenied, hint, "path %q: %s", clip(written), fmt.Sprintf(format, args...))
}

// absolute returns the path that is meant by written in cwd: lexically clean,
// with no `..` but leading ones, which mean the same everywhere then.
func absolute(written, cwd string) (string, error) {
	if written == "" {
		return "", denied(written, "", "empty")
	}
	if i := strings.IndexFunc(written, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", denied(written, "", "control character at byte %d", i)
	}
	path := written
	if !filepath.IsAbs(path) {
		path = cwd + "/" + path
	}
	path = filepath.Clean(path)
	if len(written) > pathMax || len(path) > pathMax {
		return "", denied(written, "", "longer than %d bytes", pathMax)
	}
	named := false
	for _, part := range strings.Split(written, "/") {
		switch {
		case part == "..":
			if named {
				return "", denied(written, "write "+real(path), "\"..\" after a name")
			}
		case part != "" && part != ".":
			named = true
		}
	}
	return path, nil
}

// real returns path without links, as far as it exists.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(real(dir), filepath.Base(path))
	}
	return path
}

// allowed refuses by name alone, before anything is opened or created.
func allowed(written, path, mode, store string) error {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if within(path, dir) {
			return denied(written, "", "%s is never bound", dir)
		}
	}
	if ownTree(path) {
		return denied(written, "", "the sandbox has its own /tool and /artifacts")
	}
	if path == "/" {
		return denied(written, "name a directory below it", "/ is never bound")
	}
	if store != "" {
		for _, s := range []string{filepath.Clean(store), real(store)} {
			if within(path, s) || within(s, path) {
				return denied(written, "", "the store %q, and what is above or below it, is never bound", s)
			}
		}
	}
	if mode == "rw" {
		for _, dir := range base {
			if within(path, dir) || within(dir, path) {
				return denied(written, "", "%s, from which every tool runs, is never bound rw", dir)
			}
		}
		for _, part := range strings.Split(path, "/") {
			if slices.Contains(runsOutside, part) {
				return denied(written, "", "%s is never bound rw: what is written there runs outside this sandbox", part)
			}
		}
	}
	return nil
}

// openPath opens path as a place, through no link.
func openPath(path string, flags uint64) (*os.File, error) {
	return openPathAt(unix.AT_FDCWD, path, flags, 0)
}

func openPathAt(dir int, path string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | resolve,
	}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			return nil, err
		}
	}
}

// directory opens the directory that a file is to be created in.
func (p *Prepared) directory(store string) (*os.File, error) {
	parent, err := openPath(filepath.Dir(p.Path), unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	if err := p.apartFrom(store, parent, false); err != nil {
		parent.Close()
		return nil, err
	}
	return parent, nil
}

// wouldCreate says whether create could make the missing file.
func (p *Prepared) wouldCreate(store string) error {
	parent, err := p.directory(store)
	if err != nil {
		return err
	}
	defer parent.Close()
	return unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", parent.Fd()), unix.W_OK|unix.X_OK, 0)
}

// create makes the missing file and opens it.
func (p *Prepared) create(store string) error {
	parent, err := p.directory(store)
	if err != nil {
		return err
	}
	name := filepath.Base(p.Path)
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
	if err == unix.EEXIST { // somebody made it meanwhile, and it is theirs
		parent.Close()
		p.file, err = openPath(p.Path, 0)
		return err
	}
	if err != nil {
		parent.Close()
		return err
	}
	defer unix.Close(fd)
	p.Created, p.parent = true, parent
	var made, opened unix.Stat_t
	if p.file, err = openPath(p.Path, 0); err == nil {
		err = errors.Join(unix.Fstat(fd, &made), unix.Fstat(int(p.file.Fd()), &opened))
	}
	if err == nil && !same(&made, &opened) {
		p.Created = false
		return denied(p.Path, "", "replaced while it was created")
	}
	return err
}

// examine refuses by what was opened.
func (p *Prepared) examine(store string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.file.Fd()), &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		p.Dir = true
	case unix.S_IFSOCK:
		return denied(p.Path, "", "a socket is never bound")
	case unix.S_IFIFO:
		return denied(p.Path, "", "a pipe is never bound")
	default:
		return denied(p.Path, "", "a device is never bound")
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(p.file.Fd()), &fs); err != nil {
		return err
	}
	if name, ok := notFiles[int64(fs.Type)]; ok {
		return denied(p.Path, "", "a file system of type %s is never bound", name)
	}
	if err := p.apartFrom(store, p.file, true); err != nil {
		return err
	}
	if p.Dir && p.Mode == "rw" {
		for _, name := range runsOutside {
			f, err := openPathAt(int(p.file.Fd()), name, 0, unix.RESOLVE_BENEATH)
			switch {
			case errors.Is(err, unix.ENOENT):
			case errors.Is(err, unix.ELOOP):
				return denied(p.Path, "make "+name+" a directory", "its %s is a link, which cannot be kept from the tool", name)
			case err != nil:
				return err
			default:
				p.kept = append(p.kept, keptFile{name, f})
			}
		}
	}
	return nil
}

// apartFrom refuses an opened place that is the store or below it under another
// name (a bind mount), or that is not where it was opened any more; with above,
// also what is above the store under another name.
func (p *Prepared) apartFrom(store string, f *os.File, above bool) error {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	if at != f.Name() {
		return denied(p.Path, "", "moved while it was opened")
	}
	if store == "" {
		return nil
	}
	var opened, st, own unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &opened); err != nil {
		return err
	}
	alias := denied(p.Path, "", "the store, or what is above or below it, by another name")
	home := real(store)
	for dir := home; above; dir = filepath.Dir(dir) {
		if unix.Stat(dir, &st) == nil && same(&st, &opened) {
			return alias
		}
		if dir == "/" {
			break
		}
	}
	if unix.Stat(home, &own) != nil {
		return nil // there is none yet
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if unix.Stat(dir, &st) == nil && same(&st, &own) {
			return alias
		}
		if dir == "/" {
			return nil
		}
	}
}

func same(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// refusal gives an error of the kernel its kind.
func refusal(written, path string, err error) error {
	if _, ok := errors.AsType[*fail.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		hint := ""
		if strings.HasPrefix(written, "~") {
			hint = "~ is not expanded: write the whole path"
		}
		return fail.New(fail.NotFound, hint, "path %q: not found", clip(written))
	case errors.Is(err, unix.ELOOP):
		hint := ""
		if r := real(path); r != path {
			hint = "write " + r
		}
		return denied(written, hint, "a component is a link")
	case errors.Is(err, unix.ENOSYS):
		return fail.New(fail.SandboxUnavailable, "Linux 5.6 or newer is needed, and a container that allows openat2", "path %q: openat2: %w", clip(written), err)
	}
	return denied(written, "", "%v", err)
}

// Open opens the bound file itself for reading, whatever its path now holds.
func (p *Prepared) Open() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", p.file.Fd()))
}

// Close lets go of the path. If the tool failed, a file that PrepareBind
// created and that is still empty and in its place is removed again.
func (p *Prepared) Close(failed bool) error {
	var err error
	if p.Created && failed && p.file != nil {
		err = p.remove()
	}
	for _, k := range p.kept {
		err = errors.Join(err, k.file.Close())
	}
	p.kept = nil
	for _, f := range []**os.File{&p.file, &p.parent} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	if err != nil {
		return fail.New(fail.IOError, "", "path %q: %w", p.Path, err)
	}
	return nil
}

func (p *Prepared) remove() error {
	var ours, now unix.Stat_t
	if err := unix.Fstat(int(p.file.Fd()), &ours); err != nil {
		return err
	}
	name := filepath.Base(p.Path)
	err := unix.Fstatat(int(p.parent.Fd()), name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || err == nil && (!same(&ours, &now) || now.Size > 0) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Unlinkat(int(p.parent.Fd()), name, 0)
}
