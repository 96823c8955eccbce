package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// F04: a path bound read-only can be read, and that is all.
func TestF04ReadOnlyBind(t *testing.T) {
	dir := t.TempDir()
	f := write(t, dir+"/in", "data")
	s := spec("python", tries+fmt.Sprintf(`
d = %q
print(open(d + "/in").read())
try_("write", lambda: open(d + "/in", "w"))
try_("create", create, d + "/new")
try_("chmod", os.chmod, d + "/in", 0o777)
try_("rename", os.rename, d + "/in", d + "/out")
try_("unlink", os.unlink, d + "/in")`, dir))
	s.Binds = []*Prepared{bind(t, dir, "ro")}
	says(t, s, "data", "write EROFS", "create EROFS", "chmod EROFS", "rename EROFS", "unlink EROFS")
	if content(t, f) != "data" {
		t.Error("the file was changed")
	}
}

// F05: what is made in a path bound rw is the caller's; siblings do not show.
func TestF05ReadWriteBind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/in", "data")
	write(t, dir+"/b/in", "data")
	s := spec("bash", "cd "+dir+" && ls && echo made >a/out && cat a/in")
	s.Cwd = dir
	s.Binds = []*Prepared{bind(t, dir+"/a", "rw")}
	says(t, s, "a", "data")
	fi, err := os.Stat(dir + "/a/out")
	if err != nil {
		t.Fatal(err)
	}
	if content(t, dir+"/a/out") != "made\n" || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("%v", fi.Sys())
	}
}

// A directory comes before what is bound below it, in either order of asking.
func TestNestedBinds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/b/f", "f\n")
	s := spec("bash", fmt.Sprintf("cd %s/a; echo 1 >new; echo 2 2>/dev/null >b/f; cat b/f; ls", dir))
	s.Binds = []*Prepared{bind(t, dir+"/a/b", "ro"), bind(t, dir+"/a", "rw"), bind(t, dir+"/a", "ro")}
	says(t, s, "f", "b", "new")
}

func TestPrepareBind(t *testing.T) {
	dir := t.TempDir()
	store := dir + "/store"
	work := dir + "/project"
	write(t, store+"/secrets.json", "{}")
	write(t, work+"/file", "x")
	write(t, work+"/--bind", "x")
	write(t, work+"/sub/deep/file", "x")
	write(t, work+"/repo/.git/config", "x")
	write(t, work+"/linked/x", "x")
	for link, to := range map[string]string{
		work + "/link": "file", work + "/sublink": "sub", work + "/out": "/etc", work + "/dangling": "nowhere",
		work + "/linked/.git": "../repo/.git", work + "/stores": "../store",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(work+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", work+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	for _, c := range []struct {
		path, mode string
		kind       fail.Kind // "" is allowed
		hint       string
	}{
		{"file", "ro", "", ""},
		{"./file", "rw", "", ""},
		{"sub//deep/./file", "ro", "", ""},
		{"../project/file", "ro", "", ""},
		{"sub/", "rw", "", ""},
		{".", "rw", "", ""},
		{work + "/file", "ro", "", ""},
		{"--bind", "ro", "", ""},
		{"/usr/share", "ro", "", ""},
		{"/tmp", "ro", fail.PathDenied, ""}, // above this store
		{"repo", "rw", "", ""},
		{"repo/.git", "ro", "", ""},

		{"", "ro", fail.PathDenied, ""},
		{"missing", "ro", fail.NotFound, ""},
		{"missing/deep", "rw", fail.NotFound, ""},
		{"missing/", "rw", fail.NotFound, ""},
		{"file/", "ro", fail.NotFound, ""},
		{"file/x", "ro", fail.NotFound, ""},
		{"~/x", "ro", fail.NotFound, "~ is not expanded: write the whole path"},
		{"--ro-bind", "ro", fail.NotFound, ""},
		{"sub/../file", "ro", fail.PathDenied, "write " + work + "/file"},
		{"sub/..", "ro", fail.PathDenied, "write " + work},
		{"sublink/../link", "ro", fail.PathDenied, "write " + work + "/file"},
		{"../../../../../../../..", "ro", fail.PathDenied, "name a directory below it"},
		{"..", "ro", fail.PathDenied, ""},
		{"../store", "ro", fail.PathDenied, ""},
		{"../store/secrets.json", "ro", fail.PathDenied, ""},
		{"../store/new", "rw", fail.PathDenied, ""},
		{"../store/none", "ro", fail.PathDenied, ""},
		{"stores/secrets.json", "ro", fail.PathDenied, "write " + store + "/secrets.json"},
		{"link", "ro", fail.PathDenied, "write " + work + "/file"},
		{"sublink/deep/file", "rw", fail.PathDenied, "write " + work + "/sub/deep/file"},
		{"sublink/new", "rw", fail.PathDenied, "write " + work + "/sub/new"},
		{"out/shadow", "ro", fail.PathDenied, "write /etc/shadow"},
		{"dangling", "rw", fail.PathDenied, ""},
		{"a\x00b", "ro", fail.PathDenied, ""},
		{"a\nb", "ro", fail.PathDenied, ""},
		{"a\x1b[2Jb", "ro", fail.PathDenied, ""},
		{strings.Repeat("a/", 2500), "ro", fail.PathDenied, ""},
		{strings.Repeat("a", 300), "rw", fail.PathDenied, ""},
		{"pipe", "rw", fail.PathDenied, ""},
		{"sock", "ro", fail.PathDenied, ""},
		{"/", "ro", fail.PathDenied, "name a directory below it"},
		{"/proc/self/environ", "ro", fail.PathDenied, ""},
		{"/proc", "ro", fail.PathDenied, ""},
		{"/sys/kernel", "ro", fail.PathDenied, ""},
		{"/dev/null", "rw", fail.PathDenied, ""},
		{"/dev", "ro", fail.PathDenied, ""},
		{"/artifacts", "rw", fail.PathDenied, ""},
		{"/tool/x", "ro", fail.PathDenied, ""},
		{"/usr", "rw", fail.PathDenied, ""},
		{"/usr/bin/python3.11", "rw", fail.PathDenied, ""},
		{"/etc", "rw", fail.PathDenied, ""},
		{"repo/.git", "rw", fail.PathDenied, ""},
		{"repo/.git/hooks", "rw", fail.PathDenied, ""},
		{"linked", "rw", fail.PathDenied, "make .git a directory"},
		{"linked", "ro", "", ""},
	} {
		p, err := PrepareBind(Bind{c.path, c.mode}, work, store)
		if fail.KindOf(err) != c.kind || c.hint != "" && fail.Of(err).Hint != c.hint {
			t.Errorf("%.40q %s: got %v (hint %q), want %q (hint %q)", c.path, c.mode, err, fail.Of(err).Hint, c.kind, c.hint)
		}
		if err == nil {
			if p.Created {
				t.Errorf("%q was created", c.path)
			}
			p.Close(true)
		}
	}
	if _, err := os.Lstat(store + "/new"); err == nil {
		t.Error("a file was made in the store")
	}
	if _, err := os.Lstat(work + "/nowhere"); err == nil {
		t.Error("a file was made through a link")
	}
	if _, err := PrepareBind(Bind{"file", "rwx"}, work, store); fail.KindOf(err) != fail.Internal {
		t.Error(err)
	}
}

// The store by another name is still the store.
func TestStoreAlias(t *testing.T) {
	dir := shared(t)
	write(t, dir+"/home/store/x", "")
	if err := os.Mkdir(dir+"/alias", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := supervisor(t, "alias", dir)
	cmd.SysProcAttr = ownMounts()
	out, err := cmd.CombinedOutput()
	want := "alias path_denied\nalias/store path_denied\nalias/store/x path_denied\nalias/store/new path_denied\nalias/new \n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

func prepareAliases(dir string) int {
	if err := syscall.Mount(dir+"/home", dir+"/alias", "", syscall.MS_BIND, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, path := range []string{"alias", "alias/store", "alias/store/x", "alias/store/new", "alias/new"} {
		p, err := PrepareBind(Bind{path, "rw"}, dir, dir+"/home/store")
		fmt.Println(path, fail.KindOf(err))
		if err == nil {
			p.Close(true)
		}
	}
	return 0
}

// A missing file is made for rw, and goes again if it was left empty by a
// tool that failed.
func TestCreated(t *testing.T) {
	for _, c := range []struct {
		script string
		failed bool
		there  bool
	}{
		{"exit 1", true, false},
		{"echo x >$F; exit 1", true, true},
		{"exit 0", false, true},
	} {
		dir := t.TempDir()
		f := dir + "/new"
		p, err := PrepareBind(Bind{"new", "rw"}, dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if !p.Created || p.Dir || p.Path != f {
			t.Errorf("%+v", p)
		}
		s := spec("bash", c.script)
		s.Env = []string{"F=" + f}
		s.Binds = []*Prepared{p}
		run(t, s)
		if err := p.Close(c.failed); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(f); (err == nil) != c.there {
			t.Errorf("%q: there: %v", c.script, err == nil)
		}
	}
	// Somebody else's file of that name stays.
	dir := t.TempDir()
	p, err := PrepareBind(Bind{"new", "rw"}, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(dir + "/new")
	write(t, dir+"/new", "")
	if err := p.Close(true); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/new"); err != nil {
		t.Error(err)
	}
}

// What was opened is what is bound: a swap in between is refused or harmless.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/f", "mine")
	secret := write(t, dir+"/secret/f", "secret")
	p := bind(t, dir+"/a", "ro")
	if err := os.Rename(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), dir+"/a"); err != nil {
		t.Fatal(err)
	}
	s := spec("bash", "cat "+dir+"/a/f")
	s.Binds = []*Prepared{p}
	says(t, s, "mine")
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// F08: a link inside a bound directory leads nowhere.
func TestF08LinkInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	s := spec("python", tries+fmt.Sprintf("try_('open', open, %q)", dir+"/link"))
	s.Binds = []*Prepared{bind(t, dir, "rw")}
	says(t, s, "open ENOENT")
}

// F10, F11: no device and no setuid file works in a bound directory.
func TestF10F11NoDevicesNoSetuid(t *testing.T) {
	dir := t.TempDir()
	bash, err := os.ReadFile("/usr/bin/bash")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/bash", bash, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // a file of another user, that would change the euid
		if err := os.Chown(dir+"/bash", 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(dir+"/node", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/bash", 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	s := spec("python", tries+fmt.Sprintf(`
import subprocess
d = %q
try_("mknod", os.mknod, d + "/dev", 0o60600, os.makedev(7, 0))
if os.path.exists(d + "/node"): try_("node", os.open, d + "/node", 0)
print(subprocess.check_output([d + "/bash", "-p", "-c", "echo $EUID"], text=True).strip())`, dir))
	s.Binds, s.Process = []*Prepared{bind(t, dir, "rw")}, true
	want := []string{"mknod EPERM", fmt.Sprint(os.Geteuid())}
	if os.Geteuid() == 0 {
		want = []string{"mknod EPERM", "node EACCES", "0"}
	}
	says(t, s, want...)
}

// The tools and policy of a project whose directory is bound rw are read-only:
// a tool must not put another definition in its own place.
func TestProjectKept(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/.forge/tools/t.json", "{}")
	s := spec("python", tries+fmt.Sprintf(`
os.chdir(%q)
try_("work", create, "work")
try_("remove", os.unlink, ".forge/tools/t.json")
try_("rename", os.rename, ".forge", "old")
try_("add", create, ".forge/tools/u.json")`, dir))
	s.Binds = []*Prepared{bind(t, dir, "rw")}
	got := lines(t, s)
	if len(got) != 4 || got[0] != "work ok" || strings.Contains(strings.Join(got[1:], " "), "ok") {
		t.Errorf("%q", got)
	}
	if _, err := os.Lstat(dir + "/.forge/tools/t.json"); err != nil {
		t.Error(err)
	}
	if _, err := PrepareBind(Bind{dir + "/.forge/tools/t.json", "rw"}, "/", ""); fail.KindOf(err) != fail.PathDenied {
		t.Errorf("%v", err)
	}
}

// F12: .git of a directory bound rw is read-only as a whole.
func TestF12Git(t *testing.T) {
	for _, kind := range []string{"directory", "file"} {
		dir := t.TempDir()
		if kind == "file" {
			write(t, dir+"/.git", "gitdir: elsewhere")
		} else {
			write(t, dir+"/.git/config", "[core]")
			write(t, dir+"/.git/hooks/sample", "")
		}
		s := spec("python", tries+fmt.Sprintf(`
os.chdir(%q)
try_("work", create, "work")
for p in (".git/hooks/pre-commit", ".git/config", ".git/commondir", ".git"):
    try: open(p, "w"); print("wrote", p)
    except OSError: pass
try_("rename", os.rename, ".git", "old")
try_("unlink", os.unlink if os.path.isfile(".git") else os.rmdir, ".git")`, dir))
		s.Binds = []*Prepared{bind(t, dir, "rw")}
		got := lines(t, s)
		if len(got) != 3 || got[0] != "work ok" || strings.HasSuffix(got[1], "ok") || strings.HasSuffix(got[2], "ok") {
			t.Errorf("%s: %q", kind, got)
		}
		if _, err := os.Lstat(dir + "/work"); err != nil {
			t.Error(err)
		}
	}
}
