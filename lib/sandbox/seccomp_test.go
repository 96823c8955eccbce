package sandbox

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raw is tries and, for system calls as they are, sys(name, args…): it fails as
// the kernel says, and its arguments are 64 bits wide.
const raw = tries + `
import ctypes, platform, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
amd64 = platform.machine() == "x86_64"
numbers = dict(clone=(56, 220), clone3=(435, 435), fork=(57, None), vfork=(58, None), unshare=(272, 97), setns=(308, 268),
    mount=(165, 40), umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51), open_tree=(428, 428), move_mount=(429, 429),
    fsopen=(430, 430), fsconfig=(431, 431), fsmount=(432, 432), fspick=(433, 433), mount_setattr=(442, 442),
    name_to_handle_at=(303, 264), open_by_handle_at=(304, 265), ptrace=(101, 117), process_vm_readv=(310, 270),
    process_vm_writev=(311, 271), pidfd_open=(434, 434), pidfd_getfd=(438, 438), kcmp=(312, 272), ioctl=(16, 29),
    io_uring_setup=(425, 425), io_uring_enter=(426, 426), io_uring_register=(427, 427), bpf=(321, 280), perf_event_open=(298, 241),
    userfaultfd=(323, 282), add_key=(248, 217), request_key=(249, 218), keyctl=(250, 219), personality=(135, 92), getpid=(39, 172),
    settimeofday=(164, 170), clock_settime=(227, 112), adjtimex=(159, 171), syslog=(103, 116), reboot=(169, 142), swapon=(167, 224),
    acct=(163, 89), quotactl=(179, 60), kexec_load=(246, 104), init_module=(175, 105), finit_module=(313, 273), openat2=(437, 437),
    sendto=(44, 206), openat=(257, 56), fchmodat2=(452, 452), unknown=(1000, 1000))
def sys_(name, *args):
    n = numbers[name][0 if amd64 else 1]
    r = libc.syscall(ctypes.c_long(n), *[a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in args])
    if r < 0: raise OSError(ctypes.get_errno(), "")
    return r
def call(name, *args): try_(name, sys_, name, *args)
`

// refused fails unless every line of the script is a name and one of these
// errors, EPERM if there are none.
func refused(t *testing.T, s Spec, errors ...string) {
	t.Helper()
	if len(errors) == 0 {
		errors = []string{"EPERM"}
	}
	got := lines(t, s)
	for _, l := range got {
		if words := strings.Fields(l); !slices.Contains(errors, words[len(words)-1]) {
			t.Errorf("%s, want %s", l, errors)
		}
	}
	t.Log(strings.Join(got, ", "))
}

// P06: no way into another process, a sibling's or that of bwrap's init.
func TestP06OtherProcesses(t *testing.T) {
	s := spec("python", raw+`
child = os.fork()
if child == 0:
    import time; time.sleep(60)
for pid in (child, 1):
    for request in (16, 0x4206): call("ptrace", request, pid, 0, 0)
    call("process_vm_readv", pid, bytes(16), 1, bytes(16), 1, 0)
    call("process_vm_writev", pid, bytes(16), 1, bytes(16), 1, 0)
    call("pidfd_getfd", os.pidfd_open(pid), 1, 0)
    call("kcmp", os.getpid(), pid, 0, 0, 0)
call("ptrace", 0, 0, 0, 0)
os.kill(child, 9)`)
	s.Process = true
	refused(t, s)
}

// P07: no further namespace, by any of the calls that make or enter one.
func TestP07Namespaces(t *testing.T) {
	script := raw + `
kinds = dict(time=0x80, mnt=0x20000, cgroup=0x2000000, uts=0x4000000, ipc=0x8000000, user=0x10000000, pid=0x20000000, net=0x40000000)
for name, flag in kinds.items():
    try_("unshare " + name, sys_, "unshare", flag)
    if flag > 0xff: try_("clone " + name, sys_, "clone", flag | 17, 0, 0, 0, 0)
    if flag > 0xff: try_("clone wide " + name, sys_, "clone", 1 << 32 | flag | 17, 0, 0, 0, 0)
    try_("setns " + name, sys_, "setns", os.open("/proc/self/ns/" + name, os.O_RDONLY), flag)
`
	for _, process := range []bool{false, true} {
		s := spec("python", script)
		s.Process = process
		refused(t, s)
	}
	s := spec("python", raw+`
call("clone3", bytes([17]) + bytes(87), 88)
t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()`)
	says(t, s, "clone3 ENOSYS", "thread")
}

// P08: no mount, by the old calls or the new.
func TestP08Mounts(t *testing.T) {
	refused(t, spec("python", raw+`
call("mount", b"none", b"/tmp", b"tmpfs", 0, 0)
try_("remount", sys_, "mount", b"none", b"/usr", 0, 32, 0)
try_("bind", sys_, "mount", b"/tmp", b"/usr", 0, 4096, 0)
call("umount2", b"/proc", 2)
call("pivot_root", b"/tmp", b"/tmp")
call("chroot", b"/tmp")
call("fsopen", b"tmpfs", 0)
call("fsconfig", 0, 0, 0, 0, 0)
call("fsmount", 0, 0, 0)
call("fspick", -100, b"/tmp", 0)
call("open_tree", -100, b"/tmp", 1)
call("move_mount", -100, b"/tmp", -100, b"/usr", 0)
call("mount_setattr", -100, b"/usr", 0, bytes(32), 32)
call("name_to_handle_at", -100, b"/tmp", bytes(128), bytes(8), 0)
call("open_by_handle_at", 0, bytes(16), 0)`))
}

// P09: nothing is typed into a terminal. Standard input is none, which another
// kernel would say: the filter looks first, and at 32 bits.
func TestP09Terminal(t *testing.T) {
	refused(t, spec("python", raw+`
for fd in (0, 1):
    for request in (0x5412, 0x5412 + (1 << 32), 0x5412 - (1 << 40), 0x541c, 0x541c + (1 << 63) - (1 << 64), 0x5423):
        try_("ioctl %#x" % request, sys_, "ioctl", fd, request, b"x")`))
	says(t, spec("python", raw+`try_("TCGETS", sys_, "ioctl", 0, 0x5401, ctypes.create_string_buffer(64))`), "TCGETS ENOTTY")
}

// P10: nothing that runs code in the kernel, hides calls from the filter, or
// changes the machine.
func TestP10Kernel(t *testing.T) {
	refused(t, spec("python", raw+`
call("io_uring_setup", 8, ctypes.create_string_buffer(120))
call("io_uring_enter", 0, 0, 0, 0, 0, 0)
call("io_uring_register", 0, 0, 0, 0)
call("bpf", 0, bytes(128), 128)
call("perf_event_open", bytes(128), 0, -1, -1, 0)
call("userfaultfd", 1)
call("keyctl", 0, -3, 0, 0, 0)
call("add_key", b"user", b"forge", b"x", 1, -3)
call("request_key", b"user", b"forge", 0, 0)
call("settimeofday", bytes(16), 0)
call("clock_settime", 0, bytes(16))
call("adjtimex", ctypes.create_string_buffer(256))
call("syslog", 10, 0, 0)
call("reboot", 0, 0, 0, 0)
call("swapon", b"/tmp", 0)
call("acct", b"/tmp")
call("quotactl", 0, 0, 0, 0)
call("kexec_load", 0, 0, 0, 0)
call("init_module", b"", 0, b"")
call("finit_module", 0, b"", 0)
try_("READ_IMPLIES_EXEC", sys_, "personality", 0x400000)`))
	says(t, spec("python", raw+`
call("unknown")
call("openat2", -100, b"/", bytes(24), 24)
call("personality", 0xffffffff)`), "unknown ENOSYS", "openat2 ENOSYS", "personality ok")
}

// P11: sockets of the internet alone, streams and datagrams.
func TestP11Sockets(t *testing.T) {
	refused(t, spec("python", raw+`
for family, kind, proto in ((17, 3, 0), (17, 2, 0x300), (40, 1, 0), (40, 2, 0), (38, 5, 0), (2, 3, 1), (2, 3, 255), (10, 3, 58),
        (2, 10, 0), (2, 2, 1), (2, 1, 132), (2, 5, 132), (2, 1, 262), (2, 6, 33), (16, 3, 9), (16, 3, 12), (16, 2, 15), (15, 3, 2),
        (29, 3, 1), (31, 3, 1), (44, 3, 0), (30, 5, 0), (21, 5, 0), (43, 1, 0), (9, 5, 0), (3, 5, 0)):
    try_("socket %d %d %d" % (family, kind, proto), socket.socket, family, kind, proto)
s = socket.socket(socket.AF_INET)
l = socket.create_server(("127.0.0.1", 0))
try_("fast open sendto", s.sendto, b"x", 0x20000000, l.getsockname())
try_("fast open sendmsg", s.sendmsg, [b"x"], [], 0x20000000, l.getsockname())
try_("fast open, wide", sys_, "sendto", s.fileno(), b"x", 1, 0x120000000, 0, 0)`))
	// What runtimes ask for: names, interfaces, addresses.
	says(t, spec("python", `
import socket
print(socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)[0][4], [n for _, n in socket.if_nameindex()])
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM): socket.socket(family, kind)`),
		"('127.0.0.1', 80) ['lo']")
	says(t, spec("node", `console.log(Object.keys(require("os").networkInterfaces()).join())`), "lo")
}

// The other architectures that the processor has: 32 bits by int 0x80 is the
// end of the process, x32 is not there.
func TestForeignCalls(t *testing.T) {
	s := spec("python", raw+`
import mmap
if not amd64: print("none here"); raise SystemExit
for n in (39, 41, 57, 425, 520, 521): # getpid, socket, fork, io_uring_setup; x32's execve, ptrace
    try_("x32 %d" % n, lambda: sys_("getpid") and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")) if libc.syscall(ctypes.c_long(0x40000000 | n), 2, 1, 0) < 0 else None)
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000" "cd80" "c3")) # mov eax, 20 (getpid); int 0x80; ret
print("calls", flush=True)
print("int 0x80:", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())`)
	r, out, errs := run(t, s)
	if out == "none here\n" {
		t.Skip("this architecture has no other here")
	}
	want := "x32 39 ENOSYS\nx32 41 ENOSYS\nx32 57 ENOSYS\nx32 425 ENOSYS\nx32 520 ENOSYS\nx32 521 ENOSYS\ncalls\n"
	// A kernel without 32 bits ends it by SIGSEGV before the filter is asked.
	if out != want || r.Exit != 128+int(syscall.SIGSYS) && r.Exit != 128+int(syscall.SIGSEGV) {
		t.Errorf("%s\n%s%s", r.How(), out, errs)
	}
	t.Log(r.How())
}

// F09: a socket in a bound directory is not reached, by a stream or a datagram
// or from a pair, and no descriptor leaves through it.
func TestF09Sockets(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", dir+"/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/datagram", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	heard := make(chan string, 2)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			heard <- "stream"
		}
	}()
	go func() {
		if _, _, err := d.ReadFrom(make([]byte, 9)); err == nil {
			heard <- "datagram"
		}
	}()
	script := raw + fmt.Sprintf(`
d = %q
print(sorted(os.listdir(d)))
for kind in (1, 2, 3, 5): try_("socket %%d" %% kind, socket.socket, socket.AF_UNIX, kind)
def dgram(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    socket.send_fds(a, [b"x"], [1], 0, d + "/datagram")
for kind in (2, 3): try_("pair %%d" %% kind, dgram, kind)
for kind in (1, 5):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.send(b"pair"); print(b.recv(9).decode())
    for path in ("/stream", "/datagram"):
        try_("connect", a.connect, d + path)
    try_("sendto", a.sendto, b"x", d + "/datagram")
    b.close(); try_("connect again", a.connect, d + "/stream")
`, dir)
	for mode, extra := range map[string]bool{"ro": false, "rw": false, "extra": true} {
		s := spec("python", script)
		if extra {
			s.Extra = []string{dir}
		} else {
			s.Binds = []*Prepared{bind(t, dir, mode)}
		}
		got := lines(t, s)
		head := []string{
			"['datagram', 'stream']", "socket 1 EPERM", "socket 2 EPERM", "socket 3 EPERM", "socket 5 EPERM",
			"pair 2 EPERM", "pair 3 EPERM", "pair",
		}
		if len(got) < len(head) || !slices.Equal(got[:len(head)], head) {
			t.Errorf("%s: %q", mode, got)
		}
		for _, line := range got[min(len(head), len(got)):] {
			if strings.HasPrefix(line, "connect") && strings.HasSuffix(line, " ok") {
				t.Errorf("%s: %s", mode, line)
			}
		}
	}
	select {
	case who := <-heard:
		t.Errorf("the %s socket heard something", who)
	case <-time.After(50 * time.Millisecond):
	}
}

// Where nothing is bound, a tool's sockets by path reach itself.
func TestOwnSockets(t *testing.T) {
	says(t, spec("python", `
import socket, threading
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/s"); l.listen()
threading.Thread(target=lambda: l.accept()[0].sendall(b"served")).start()
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/s"); print(c.recv(9).decode())`), "served")
}

// No file that a tool leaves lends anybody its owner's rights.
func TestNoSetuidMade(t *testing.T) {
	dir := t.TempDir()
	s := spec("python", raw+fmt.Sprintf(`
os.chdir(%q); os.umask(0)
create("f")
for mode in (0o4755, 0o2755, 0o6755):
    try_("chmod %%o" %% mode, os.chmod, "f", mode)
    try_("fchmod %%o" %% mode, os.chmod, os.open("f", os.O_RDONLY), mode)
    try_("fchmodat %%o" %% mode, lambda: os.chmod("f", mode, dir_fd=os.open(".", os.O_RDONLY)))
    try_("fchmodat2 %%o" %% mode, sys_, "fchmodat2", -100, b"f", mode, 0)
    try_("open %%o" %% mode, os.open, "g", os.O_CREAT | os.O_WRONLY, mode)
    try_("tmpfile %%o" %% mode, os.open, ".", os.O_TMPFILE | os.O_WRONLY, mode)
    try_("mknod %%o" %% mode, os.mknod, "h", 0o100000 | mode)
    try_("mknod wide %%o" %% mode, sys_, "openat", -100, b"i", os.O_CREAT | 1 << 32, 1 << 40 | mode)
for kind in (0o020000, 0o060000): try_("device %%o" %% kind, os.mknod, "d", kind | 0o600, 0)
`, dir))
	s.Binds = []*Prepared{bind(t, dir, "rw")}
	refused(t, s)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || e.Name() != "f" || fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s %v", e.Name(), fi)
		}
	}
	// What archives, copies and build tools do is not in the way.
	s = spec("bash", fmt.Sprintf("cd %q && mkdir -p a/b && mkfifo a/p && chmod 1777 a && cp -rp a c && tar cf - a | (mkdir e; tar xpf - -C e) && ln -s f a/l && stat -c %%a e/a", dir))
	s.Binds = []*Prepared{bind(t, dir, "rw")}
	says(t, s, "1777")
}

// Without the capability process a tool starts no other, by any of the ways
// there are, and threads run.
func TestNoProcess(t *testing.T) {
	t.Run("python", func(t *testing.T) {
		s := spec("python", raw+`
import subprocess, multiprocessing, asyncio, concurrent.futures
try_("fork", os.fork)
try_("posix_spawn", os.posix_spawn, "/usr/bin/true", ["true"], {})
try_("subprocess", subprocess.run, ["true"])
try_("shell", lambda: subprocess.run("true", shell=True))
try_("preexec", lambda: subprocess.run(["true"], preexec_fn=lambda: None))
print("system", os.system("true") != 0)
try_("popen", os.popen, "true")
try_("multiprocessing", multiprocessing.get_context("fork").Process(target=print).start)
try_("spawn", multiprocessing.get_context("spawn").Process(target=print).start)
call("clone", 17, 0, 0, 0, 0)
try_("clone of shared memory", sys_, "clone", 0x4111, 0, 0, 0, 0)
if amd64: call("fork"); call("vfork")
call("clone3", bytes([17]) + bytes(87), 88)
async def f():
    print("to_thread", await asyncio.to_thread(threading.active_count) > 1)
    try: await asyncio.create_subprocess_exec("true")
    except OSError as e: print("asyncio", errno.errorcode[e.errno])
    r, w = await asyncio.open_connection(sock=(p := socket.socketpair())[0])
    p[1].send(b"line\n"); print((await r.readline()).decode().strip())
asyncio.run(f())
with concurrent.futures.ThreadPoolExecutor(8) as e: print("threads", sum(e.map(abs, range(-9, 0))))
import sys; sys.stdout.flush()
os.execv("/usr/bin/echo", ["echo", "exec"])`)
		want := []string{
			"fork EPERM", "posix_spawn EPERM", "subprocess EPERM", "shell EPERM", "preexec EPERM", "system True", "popen EPERM",
			"multiprocessing EPERM", "spawn EPERM", "clone EPERM", "clone of shared memory EPERM", "fork EPERM", "vfork EPERM", "clone3 ENOSYS",
			"to_thread True", "asyncio EPERM", "line", "threads 45", "exec",
		}
		if filterArch != "amd64" {
			want = slices.Delete(want, 11, 13)
		}
		says(t, s, want...)
	})
	t.Run("node", func(t *testing.T) {
		says(t, spec("node", `
const { Worker } = require("worker_threads"), child = require("child_process"), fs = require("fs");
for (const f of ["execSync", "execFileSync"]) try { child[f]("/usr/bin/true"); console.log(f) } catch (e) { console.log(f, e.code) }
console.log("spawnSync", child.spawnSync("true").error.code);
new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
try { child.spawn("true") } catch (e) { console.log("spawn", e.code) }
fs.promises.readFile("/tool/tool").then(b => { console.log("pool", b.length > 0);
    new Worker("require('worker_threads').parentPort.postMessage('worker')", { eval: true }).on("message", m => { console.log(m);
      fetch("http://127.0.0.1:9/").catch(() => console.log("refused")) }) });`),
			"execSync EPERM", "execFileSync EPERM", "spawnSync EPERM", "spawn EPERM", "pool true", "worker", "refused")
	})
	t.Run("bash", func(t *testing.T) {
		s := spec("bash", `read -r line; printf '%s\n' "$line"; x=(1 2 3); echo "${#x[@]} $((6*7))"; while read -r w; do echo "$w"; done <<<here
mapfile -t l </tool/tool; [[ ${l[0]} =~ ^read ]] && echo match; exec /usr/bin/echo exec`)
		s.Process, s.Stdin = false, []byte("input\n")
		says(t, s, "input", "3 42", "here", "match", "exec")
		for _, script := range []string{"/usr/bin/true; echo went on", "x=$(echo a); echo went on", "(:); echo went on", ": & echo went on", ": | :; echo went on"} {
			s := spec("bash", script)
			s.Process = false
			r, out, errs := run(t, s)
			if r.Exit == 0 || out != "" || !strings.Contains(errs, "fork: Operation not permitted") {
				t.Errorf("%s: %s %q %q", script, r.How(), out, errs)
			}
		}
	})
}

// P14: with the capability, every way of the runtimes to start a process works,
// also where a path is bound.
func TestP14Processes(t *testing.T) {
	script := `
import subprocess, asyncio, multiprocessing, mmap, sqlite3, os, threading, concurrent.futures
from multiprocessing import shared_memory
print(subprocess.check_output("echo shell | tr a-z A-Z", shell=True, text=True).strip())
os.waitpid(os.posix_spawn("/usr/bin/echo", ["echo", "spawned"], {}), 0)
async def f():
    p = await asyncio.create_subprocess_shell("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    print((await p.communicate(b"asyncio"))[0].decode())
asyncio.run(f())
with multiprocessing.get_context("fork").Pool(3) as p: print("pool", sum(p.map(abs, range(-9, 0))))
with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as e: print("executor", e.submit(len, "abc").result())
m = shared_memory.SharedMemory(create=True, size=1 << 20); m.buf[7] = 7; n = shared_memory.SharedMemory(m.name); print("shared", n.buf[7]); n.close(); m.unlink()
a = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE); a.madvise(mmap.MADV_HUGEPAGE); a[1 << 20] = 1; a.madvise(mmap.MADV_DONTNEED); print("mmap", a[1 << 20])
db = sqlite3.connect("/tmp/x.db"); print(db.execute("pragma journal_mode=wal").fetchone()[0])
db.execute("create table t(a)"); db.execute("insert into t values(7)"); db.commit(); print(db.execute("select a from t").fetchone()[0])
os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1); os.setsid() if os.getpid() != os.getsid(0) else None
`
	for _, bound := range []bool{false, true} {
		s := spec("python", script)
		s.Process = true
		if bound {
			s.Binds = []*Prepared{bind(t, t.TempDir(), "rw")}
		}
		says(t, s, "spawned", "SHELL", "asyncio", "pool 45", "executor 3", "shared 7", "mmap 0", "wal", "7")
	}
}

// P13: the interpreter and bwrap are the same before and after a tool tried to
// write into them, while they run and after.
func TestP13Overwrite(t *testing.T) {
	paths := []string{"/usr/bin/python3", "/usr/bin/bash", bwrapPath}
	var before []string
	for _, p := range paths {
		before = append(before, content(t, p))
	}
	s := spec("python", tries+`
fd = os.open("/proc/self/exe", os.O_PATH)
for p in ("/proc/self/exe", "/proc/1/exe", "/proc/1/task/1/exe", "/usr/bin/bwrap", "/proc/self/fd/%d" % fd, os.path.realpath("/usr/bin/python3")):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC): try_(p, os.open, p, flags)
    try_(p, os.truncate, p, 0)
    try_(p, lambda: os.chmod(p, os.stat(p).st_mode & 0o777))
    try_(p, lambda: os.utime(p))`)
	refused(t, s, "ETXTBSY", "EROFS", "EACCES", "ENOENT", "EPERM")
	for i, p := range paths {
		if content(t, p) != before[i] {
			t.Errorf("%s was changed", p)
		}
	}
}

// P01: the filter is on every process inside, bwrap's init with them. The one
// outside, which waits for that init, has none and is in nobody's reach.
func TestP01Filter(t *testing.T) {
	s := spec("bash", "while read -r k v _; do case $k in Seccomp*|NoNewPrivs:) echo $k $v;; esac; done </proc/self/status; sleep 0.3")
	s.File = fmt.Sprintf("filtered-%d", rand.Int64())
	var inside, outside int
	seen := make(chan bool)
	go func() {
		defer close(seen)
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && inside < 2; time.Sleep(10 * time.Millisecond) {
			inside, outside = 0, 0
			for _, pid := range processes(s.File) {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
				switch status := string(b); {
				case strings.Contains(status, "\nSeccomp:\t2\n"):
					inside++
				case len(b) > 0:
					outside++
				}
			}
		}
	}()
	says(t, s, "NoNewPrivs: 1", "Seccomp: 2", "Seccomp_filters: 1")
	<-seen
	if inside != 2 || outside != 1 {
		t.Errorf("%d processes with a filter and %d without, want the init and bash, and the one that waits", inside, outside)
	}
	if !strings.Contains(Label(), " seccomp ") {
		t.Error(Label())
	}
}

// Each run gets the filter that its Spec calls for.
func TestFilterNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct {
		s    Spec
		want string
	}{
		{Spec{}, "-unix"},
		{Spec{Process: true}, "-process-unix"},
		{Spec{Binds: []*Prepared{{}}}, ""},
		{Spec{Process: true, Binds: []*Prepared{{}}}, "-process"},
		{Spec{Extra: []string{"/opt"}}, ""},
	} {
		if got := c.s.filterName(); got != "filters/"+filterArch+c.want+".bpf" {
			t.Errorf("%+v: %s", c.s, got)
		}
		text, err := filterFiles.ReadFile(c.s.filterName())
		if err != nil || len(text)%8 != 0 || bytes.Equal(text, nil) {
			t.Errorf("%+v: %d bytes, %v", c.s, len(text), err)
		}
		seen[string(text)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d filters that differ, want 4", len(seen))
	}
}
