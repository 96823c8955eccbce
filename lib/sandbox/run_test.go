package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"forge/lib/fail"
)

func TestRun(t *testing.T) {
	s := spec("python", "import sys, json\nprint(json.load(sys.stdin)['n'] + 1, end='')\nprint('note', file=sys.stderr)\nsys.exit(3)")
	s.Stdin = []byte(`{"n":41}`)
	r, out, errs := run(t, s)
	if !r.Started || r.Exit != 3 || r.Signal != "" || r.Limit != "" || r.How() != "exit status 3" || r.OutputErr != nil {
		t.Errorf("%+v", r)
	}
	if out != "42" || errs != "note\n" {
		t.Errorf("printed %q and %q", out, errs)
	}
	if r.Duration <= 0 {
		t.Errorf("no time: %+v", r)
	}
}

func TestInputIsSealed(t *testing.T) {
	s := spec("python", tries+`
try_("write", os.write, 0, b"x")
try_("truncate", os.ftruncate, 0, 0)
print(os.read(0, 10).decode())`)
	s.Stdin = []byte("input")
	says(t, s, "write EPERM", "truncate EPERM", "input")
}

func TestEnvironment(t *testing.T) {
	s := spec("python", "import os\nfor k in sorted(os.environ): print(k + '=' + os.environ[k])\nprint(os.getcwd(), os.listdir('.'), os.uname().nodename)")
	s.Cwd = "/home/someone/project"
	s.Env = []string{"TOKEN=a=b c\n\"", "EMPTY="}
	says(t, s, "EMPTY=", "HOME=/tmp", "LANG=C.UTF-8", "PATH=/usr/bin", "PWD=/home/someone/project", "TMPDIR=/tmp",
		"TOKEN=a=b c", `"`, "/home/someone/project [] tool")

	s.Env = nil
	s.Artifacts = t.TempDir()
	s.Impl = []byte("import os\nprint(os.environ['FORGE_ARTIFACTS'])\nopen('/artifacts/f', 'w').write('kept')")
	says(t, s, "/artifacts")
	if got := content(t, filepath.Join(s.Artifacts, "f")); got != "kept" {
		t.Errorf("artifact %q", got)
	}
}

func TestWorkingDirectory(t *testing.T) {
	for cwd, want := range map[string]string{
		"/": "/", "/proc/1": "/", "/dev/shm/x": "/", "/sys": "/", "/artifacts/x": "/", "/tool": "/",
		"/tmp": "/tmp", "/tmp/a/b": "/tmp/a/b", "/usr/bin": "/usr/bin", "/--bind": "/--bind", "/a b/ü": "/a b/ü",
	} {
		s := spec("bash", "pwd")
		s.Cwd = cwd
		says(t, s, want)
	}
}

func TestWrongSpec(t *testing.T) {
	for name, edit := range map[string]func(*Spec){
		"relative interpreter": func(s *Spec) { s.Argv = []string{"bash"} },
		"no interpreter":       func(s *Spec) { s.Argv = nil },
		"file with a slash":    func(s *Spec) { s.File = "../x" },
		"relative cwd":         func(s *Spec) { s.Cwd = "x" },
		"NUL in cwd":           func(s *Spec) { s.Cwd = "/a\x00--bind\x00/\x00/" },
		"NUL in a variable":    func(s *Spec) { s.Env = []string{"A=b\x00--bind"} },
		"nameless variable":    func(s *Spec) { s.Env = []string{"=x"} },
		"no wall limit":        func(s *Spec) { s.Limits.Wall = 0 },
		"negative CPU limit":   func(s *Spec) { s.Limits.CPU = -1 },
		"no memory limit":      func(s *Spec) { s.Limits.MemoryMB = 0 },
	} {
		s := spec("bash", "echo ran")
		edit(&s)
		var out bytes.Buffer
		s.Stdout = &out
		if r, err := Run(t.Context(), s); fail.KindOf(err) != fail.Internal || r.Started || out.Len() > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// F01, F02: what is there, and what is not.
func TestF01F02Root(t *testing.T) {
	dir := t.TempDir()
	s := spec("python", "import os\nprint(*sorted(os.listdir('/')))\nprint(*sorted(os.listdir('/etc')))\nprint(*sorted(os.listdir('/dev')))\nprint(os.listdir('/home'), os.listdir('/home/u'))\n"+
		"print(os.path.exists('/etc/shadow'), os.path.exists('/root'), os.path.exists('/var'), os.path.exists('"+filepath.Dir(dir)+"/002'))")
	s.Cwd = "/home/u/p"
	s.Binds = []*Prepared{bind(t, dir, "ro")}
	t.TempDir() // 002, a sibling that must not show
	want := []string{"dev", "etc", "home", "proc", "tmp", "tool", "usr"}
	if first := strings.Split(dir, "/")[1]; !slices.Contains(want, first) {
		want = append(want, first)
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if _, err := os.Lstat("/" + d); err == nil {
			want = append(want, d)
		}
	}
	slices.Sort(want)
	says(t, s, strings.Join(want, " "), "alternatives ld.so.cache",
		"fd full null random shm stderr stdin stdout urandom zero", "['u'] ['p']", "False False False False")
}

// F03: nothing outside the scratch space can be written.
func TestF03ReadOnly(t *testing.T) {
	name := fmt.Sprintf("forge-f03-%d", os.Getpid())
	s := spec("python", strings.ReplaceAll(tries+`
for p in ("/usr/x", "/etc/x", "/x", "/dev/x", "/tool/x", "/tool/tool", "/proc/self/comm", "/home/u/x"):
    try_(p, create, p)
try_("unlink", os.unlink, "/tool/tool")
try_("chmod", os.chmod, "/tool/tool", 0o777)
try_("/tmp/x", create, "/tmp/x")
try_("/dev/shm/x", create, "/dev/shm/x")`, "/x\"", "/"+name+"\""))
	s.Cwd = "/home/u"
	for _, l := range lines(t, s) {
		path, how, _ := strings.Cut(l, " ")
		scratch := path == "/tmp/"+name || path == "/dev/shm/"+name
		// Without the right to write there in the first place, it is EACCES.
		if scratch != (how == "ok") || !scratch && how != "EROFS" && how != "EACCES" {
			t.Errorf("%s", l)
		}
	}
	for _, dir := range []string{"/usr", "/etc", "", "/dev", "/tmp", "/dev/shm"} {
		if _, err := os.Lstat(dir + "/" + name); err == nil {
			t.Errorf("%s/%s is on the host", dir, name)
		}
	}
}

// F03: devices work, and are the host's: nobody changes them from inside.
func TestF03Devices(t *testing.T) {
	s := spec("python", tries+`
for n in ("null", "zero", "full", "random", "urandom"):
    p = "/dev/" + n
    mode = os.stat(p).st_mode & 0o777
    if (mode := os.stat(p).st_mode & 0o777) == 0o666: try_(n, os.chmod, p, 0o666)
    else: print(n, "%o" % mode)
    try_(n, os.chown, p, os.getuid(), os.getgid())
    try_(n, os.utime, p, (1, 1))
    try_(n, os.setxattr, p, "user.x", b"x")
    print(len(os.read(os.open(p, os.O_RDONLY), 4)))
os.write(os.open("/dev/null", os.O_WRONLY), b"x")`)
	for _, l := range lines(t, s) {
		switch _, how, _ := strings.Cut(l, " "); {
		case l == "0" || l == "4", how == "EROFS", how == "EPERM" && os.Geteuid() != 0:
		default:
			t.Error(l)
		}
	}
}

// F13: scratch space is private and gone afterwards.
func TestF13Scratch(t *testing.T) {
	s := spec("bash", "ls -A /tmp /dev/shm | grep -v : | grep . ; echo $$ >/tmp/a; sleep 0.2; [ $(cat /tmp/a) = $$ ]; ls /tmp")
	done := make(chan string, 2)
	for range 2 {
		go func() {
			var out bytes.Buffer
			s := s
			s.Stdout = &out
			_, err := Run(context.Background(), s)
			done <- fmt.Sprint(out.String(), err)
		}()
	}
	for range 2 {
		if got := <-done; got != "a\n<nil>" {
			t.Error(got)
		}
	}
}

// F14: scratch space has a size.
func TestF14Size(t *testing.T) {
	s := spec("python", `
import os, errno
for d in ("/tmp", "/dev/shm"):
    fd, n = os.open(d + "/fill", os.O_CREAT | os.O_WRONLY), 0
    try:
        while True: n += os.write(fd, bytes(4096))
    except OSError as e:
        print(errno.errorcode[e.errno], abs(n - (64 << 20)) <= 4096)`)
	says(t, s, "ENOSPC True", "ENOSPC True")
}

// P01: no capability, no new privilege, also after another exec.
func TestP01Privileges(t *testing.T) {
	s := spec("bash", "f() { grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -s '\\t\\n' '  '; }; f; echo; bash -c \"$(declare -f f); f\"; echo; id -u")
	zero := "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 "
	says(t, s, zero, zero, fmt.Sprint(os.Geteuid()))
}

// P02, P03: no switch of the kernel can be thrown.
func TestP02P03Proc(t *testing.T) {
	before := content(t, "/proc/sys/kernel/core_pattern")
	s := spec("python", `
import os
n = 0
for top, dirs, files in os.walk("/proc"):
    if top == "/proc": dirs[:] = [d for d in dirs if not d.isdigit() or d == "1"]
    for f in files:
        p = top + "/" + f
        if os.path.islink(p): continue
        try: fd = os.open(p, os.O_WRONLY)
        except OSError: continue
        os.close(fd); n += 1; print(p)
print(n)
for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/1/mem"):
    try: open(p, "w").write("x"); print("wrote", p)
    except OSError: pass`)
	says(t, s, "0")
	if after := content(t, "/proc/sys/kernel/core_pattern"); after != before {
		t.Errorf("core_pattern is %q now", after)
	}
}

// P04: secrets are nowhere but in the tool's own environment.
func TestP04Secrets(t *testing.T) {
	secret := fmt.Sprintf("secret-%d", rand.Int64())
	s := spec("python", `
import os, glob, time
try: open("/proc/1/environ")
except OSError as e: print(e.strerror)
print(sum(os.environ["TOKEN"] in open(f).read() for f in glob.glob("/proc/*/cmdline")))
print(len(os.environ["TOKEN"]))
time.sleep(0.3)`)
	s.Env = []string{"TOKEN=" + secret}
	done := make(chan []int)
	go func() {
		var found []int
		for end := time.Now().Add(250 * time.Millisecond); time.Now().Before(end); {
			found = append(found, processes(secret)...)
		}
		done <- found
	}()
	says(t, s, "Permission denied", "0", fmt.Sprint(len(secret)))
	if found := <-done; len(found) > 0 {
		t.Errorf("on the command line of %v", found)
	}
}

// P05: the tool has descriptors 0, 1 and 2, whatever the caller held.
func TestP05Descriptors(t *testing.T) {
	fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := CloseOnExec(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir+"/.git/config", "")
	s := spec("python", "import os\nfor f in sorted(os.listdir('/proc/self/fd')):\n  try: print(f, os.readlink('/proc/self/fd/' + f).split(':')[0])\n  except OSError: pass")
	s.Binds = []*Prepared{bind(t, dir, "rw")}
	says(t, s, "0 /memfd", "1 pipe", "2 pipe")
}

// P12: processes of the host cannot be seen or signalled.
func TestP12Processes(t *testing.T) {
	s := spec("python", tries+fmt.Sprintf("try_('kill', os.kill, %d, 9)\nprint(len([p for p in os.listdir('/proc') if p.isdigit()]))", os.Getpid()+100000))
	says(t, s, "kill ESRCH", "2")
}

// P14: what honest tools do works.
func TestP14Compatible(t *testing.T) {
	s := spec("python", `
import threading, subprocess, asyncio, sqlite3, tempfile, multiprocessing, ssl, json
t = threading.Thread(target=lambda: None); t.start(); t.join()
print(subprocess.run(["/bin/sh", "-c", "echo sub"], capture_output=True, text=True).stdout, end="")
async def f():
    p = await asyncio.create_subprocess_exec("echo", "async", stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode(), end="")
asyncio.run(f())
db = sqlite3.connect("/tmp/x.db"); db.execute("create table t(a)"); db.execute("insert into t values(7)"); db.commit()
print(db.execute("select a from t").fetchone()[0])
with multiprocessing.get_context("fork").Pool(2) as p: print(sum(p.map(abs, [-1, -2])))`)
	s.Process = true
	says(t, s, "sub", "async", "7", "3")
	says(t, spec("bash", "cat <(echo a) <<<x; cat <<<x; echo b >/dev/stdout; awk 'BEGIN{print \"c\"}'; head -c1 /dev/urandom | wc -c"),
		"a", "x", "b", "c", "1")
}

// L09: node runs under the default limits.
func TestL09Node(t *testing.T) {
	s := spec("node", `
const { Worker } = require("worker_threads");
new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
console.log(typeof fetch, JSON.parse(require("fs").readFileSync(0, "utf8") || "{}").a);
console.log(require("child_process").execSync("echo child").toString().trim());
new Worker("require('worker_threads').parentPort.postMessage('worker')", { eval: true }).on("message", m => console.log(m));
fetch("http://127.0.0.1:9/").catch(e => console.log("refused"));
`)
	s.Process = true
	says(t, s, "function undefined", "child", "refused", "worker")
}

// N01, N02, N14: no network, and no abstract socket of the host.
func TestN01N02N14Network(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name := fmt.Sprintf("@forge-test-%d", rand.Int64())
	a, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	heard := make(chan string, 9)
	for _, l := range []net.Listener{l, a} {
		go func() {
			if c, err := l.Accept(); err == nil {
				c.Close()
				heard <- l.Addr().String()
			}
		}()
	}
	s := spec("python", tries+fmt.Sprintf(`
print(*[n for _, n in socket.if_nameindex()])
for host, port in (("127.0.0.1", %d), ("10.0.0.5", 80), ("203.0.113.1", 80), ("169.254.169.254", 80)):
    try_(host, lambda: socket.create_connection((host, port), 3))
s = socket.socket(socket.AF_UNIX)
try_("abstract", s.connect, "\0%s")
`, l.Addr().(*net.TCPAddr).Port, name[1:]))
	began := time.Now()
	says(t, s, "lo", "127.0.0.1 ECONNREFUSED", "10.0.0.5 ENETUNREACH", "203.0.113.1 ENETUNREACH", "169.254.169.254 ENETUNREACH", "abstract ECONNREFUSED")
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	select {
	case who := <-heard:
		t.Errorf("%s was connected to", who)
	default:
	}
}

// N12: a tool's own server and socket pair work.
func TestN12Loopback(t *testing.T) {
	says(t, spec("python", `
import socket, threading
l = socket.create_server(("127.0.0.1", 5000))
threading.Thread(target=lambda: l.accept()[0].sendall(b"served")).start()
print(socket.create_connection(("127.0.0.1", 5000)).recv(9).decode())
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9).decode())`), "served", "pair")
}

// L01: nothing outlives the wall limit.
func TestL01Wall(t *testing.T) {
	s := spec("bash", "trap '' TERM INT HUP; (setsid bash -c \"trap '' TERM; sleep 3600\" &) ; setsid sleep 3600 & echo up; while :; do sleep 3600; done")
	s.File = fmt.Sprintf("wall-%d", rand.Int64())
	s.Limits.Wall = 300 * time.Millisecond
	began := time.Now()
	r, out, _ := run(t, s)
	if !r.TimedOut || r.Exit != -1 || r.Signal != "SIGKILL" || r.Cancelled || out != "up\n" || r.How() != "killed at the wall limit" {
		t.Errorf("%+v %q", r, out)
	}
	if d := time.Since(began); d < s.Limits.Wall || d > time.Second {
		t.Errorf("took %v", d)
	}
	if left := processes(s.File); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCancelled(t *testing.T) {
	s := spec("bash", "sleep 3600")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, err := Run(ctx, s)
	if err != nil || !r.Cancelled || r.TimedOut || !r.Started || r.Duration > time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Run(ctx, s); err != nil || !r.Cancelled || r.Started {
		t.Errorf("cancelled before: %+v, %v", r, err)
	}
}

// L02: a daemon neither delays the end nor survives it.
func TestL02Daemon(t *testing.T) {
	s := spec("bash", "setsid sleep 3600 & disown; echo done")
	s.File = fmt.Sprintf("daemon-%d", rand.Int64())
	r, out, _ := run(t, s)
	if r.Exit != 0 || out != "done\n" || r.Duration > 2*time.Second {
		t.Errorf("%+v %q", r, out)
	}
}

// L03: a fork bomb stays inside; where nothing counts processes the label says so.
func TestL03Forks(t *testing.T) {
	n := 200
	s := spec("python", fmt.Sprintf(`
import os, time
n = 0
try:
    for _ in range(%d):
        if os.fork() == 0: time.sleep(60); os._exit(0)
        n += 1
except OSError as e: print(e.strerror)
print(n)`, n))
	s.Process = true
	got := lines(t, s)
	if strings.Contains(Label(), "pids=none") {
		if len(got) != 1 || got[0] != fmt.Sprint(n) {
			t.Errorf("%q", got)
		}
	} else if !slices.Equal(got, []string{"Resource temporarily unavailable", "63"}) {
		t.Errorf("%q", got)
	}
}

func TestMemory(t *testing.T) {
	s := spec("python", "try: bytearray(600 << 20)\nexcept MemoryError: print('MemoryError')")
	says(t, s, "MemoryError")
	s.Limits.MemoryMB = 1024
	says(t, s)

	// Too little to start in: the tool's own loader or interpreter says so.
	s.Limits.MemoryMB = 1
	var out bytes.Buffer
	s.Stderr = &out
	if r, err := Run(t.Context(), s); err == nil && r.Exit == 0 {
		t.Errorf("%+v", r)
	} else {
		t.Log(r.How(), err, out.String())
	}
}

func TestOpenFiles(t *testing.T) {
	says(t, spec("bash", "ulimit -n; ulimit -Hn; ulimit -c"), "256", "256", "0")
}

// L05: output is streamed, not stored, and a writer that fails harms nobody.
func TestL05Output(t *testing.T) {
	s := spec("bash", "head -c 300000000 /dev/zero & head -c 300000000 /dev/zero >&2; wait; exit 5")
	var out, errs countingWriter
	s.Stdout, s.Stderr = &out, &errs
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Run(t.Context(), s)
	runtime.ReadMemStats(&after)
	if err != nil || r.Exit != 5 || out.n != 300000000 || errs.n != 300000000 {
		t.Errorf("%+v, %v, %d and %d bytes", r, err, out.n, errs.n)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory", took)
	}

	s = spec("bash", "head -c 1000000 /dev/zero && echo whole >&2; exit 6")
	var bad failingWriter
	var said bytes.Buffer
	s.Stdout, s.Stderr = &bad, &said
	r, err = Run(t.Context(), s)
	if err != nil || r.Exit != 6 || bad.n != 1 || said.String() != "whole\n" || !errors.Is(r.OutputErr, io.ErrClosedPipe) {
		t.Errorf("%+v, %v, %d writes, %q", r, err, bad.n, said.String())
	}
}

// L06: no file grows over its limit.
func TestL06FileSize(t *testing.T) {
	s := spec("bash", "truncate -s 1073741824 /artifacts/f && echo x >>/artifacts/f; echo $?; ls -s /artifacts; exec dd if=/dev/zero of=/artifacts/f bs=1 count=1 seek=1073741824 status=none")
	s.Artifacts = t.TempDir()
	r, out, _ := run(t, s)
	if r.Exit != 153 || r.Signal != "SIGXFSZ" || r.Limit != "file_size" || r.How() != "exit status 153 (SIGXFSZ at the file_size limit)" {
		t.Errorf("%+v\n%s", r, out)
	}
}

func TestCPU(t *testing.T) {
	s := spec("bash", "while :; do :; done")
	s.Limits.CPU = time.Second
	r, _, _ := run(t, s)
	if r.Exit != 152 || r.Limit != "cpu" {
		t.Errorf("%+v", r)
	}
	s = spec("bash", "exit 152")
	if r, _, _ := run(t, s); r.Exit != 152 || r.Limit != "" {
		t.Errorf("%+v", r)
	}
}

// L07: ends that differ are told apart, or not claimed to be.
func TestL07Ends(t *testing.T) {
	for script, want := range map[string]string{
		"exit 1":        "exit status 1",
		"exit 137":      "exit status 137 (SIGKILL, or exit 137)",
		"kill -KILL $$": "exit status 137 (SIGKILL, or exit 137)",
		"kill -SEGV $$": "exit status 139 (SIGSEGV, or exit 139)",
		"exit 255":      "exit status 255",
	} {
		if r, _, _ := run(t, spec("bash", script)); r.How() != want || !r.Started {
			t.Errorf("%s: %s, want %s", script, r.How(), want)
		}
	}
}

// L08: what is missing is named, and is not the tool's exit 1.
func TestL08Missing(t *testing.T) {
	for _, c := range []struct {
		argv        string
		extra       []string
		kind        fail.Kind
		said, hints string
	}{
		{"/usr/bin/python3.99", nil, fail.RuntimeUnavailable, "interpreter \"/usr/bin/python3.99\": no such file or directory", "apt-get install python3.99"},
		{"/opt/none/bin/perl", nil, fail.RuntimeUnavailable, "interpreter \"/opt/none/bin/perl\": no such file or directory", "see the runtime's command in config.toml"},
		{"/usr/share", nil, fail.RuntimeUnavailable, "interpreter \"/usr/share\": permission denied", "see the runtime's command in config.toml"},
		{"/usr/bin/bash", []string{"/opt/none"}, fail.RuntimeUnavailable, "runtime path \"/opt/none\": not found", "see the runtime's paths in config.toml"},
	} {
		s := spec("bash", "echo ran")
		s.Argv, s.Extra = []string{c.argv}, c.extra
		r, err := Run(t.Context(), s)
		e := fail.Of(err)
		if e == nil || e.Kind != c.kind || e.Message != c.said || e.Hint != c.hints || r.Started || r.Exit != -1 {
			t.Errorf("%s: %+v, %+v", c.argv, r, e)
		}
	}
}

func TestExtra(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/lib/x", "from the runtime")
	s := spec("bash", "cat "+dir+"/lib/x; : >"+dir+"/lib/x || echo; ")
	s.Extra = []string{dir}
	r, out, errs := run(t, s)
	if r.Exit != 0 || out != "from the runtime\n" || !strings.Contains(errs, "Read-only file system") {
		t.Errorf("%+v %q %q", r, out, errs)
	}
}

func TestExplain(t *testing.T) {
	s := spec("bash", "")
	for said, hint := range map[string]string{
		"bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.": hintSeccomp,
		"bwrap: Creating new namespace failed: Operation not permitted":                                                           hintSeccomp,
		"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)":                hintUserns,
		"bwrap: setting up uid map: Permission denied":                                                                            hintArmor,
		"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted":                                                            hintArmor,
		"bwrap: prctl(PR_SET_SECCOMP): Operation not permitted":                                                                   hintFilter,
		"bwrap: Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. (Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)": hintFilter,
		"bwrap: Can't mount proc on /newroot/proc: Operation not permitted": hintProc,
		"bwrap: Unknown option --ro-bind-fd\nusage: bwrap [OPTIONS...]":     hintUpgrade,
		"bwrap: something new": "",
		"Killed":               "",
	} {
		e := fail.Of(explain(said, "signal: killed", s))
		if e.Kind != fail.SandboxUnavailable || e.Hint != hint {
			t.Errorf("%s: %s: %s", said, e.Kind, e.Hint)
		}
	}
}

// A run leaves nothing: descriptors, processes, files.
func TestLeavesNothing(t *testing.T) {
	count := func() int {
		l, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	run(t, spec("bash", "")) // the runtime's own poller opens descriptors once
	before := count()
	for range 5 {
		run(t, spec("bash", "echo x"))
		s := spec("bash", "")
		s.Argv = []string{"/usr/bin/none"}
		Run(t.Context(), s)
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Error(err)
	}
}
