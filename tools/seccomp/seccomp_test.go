package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
)

const dir = "../../lib/sandbox/filters"

// The files that are embedded are what the policy says.
func TestFiles(t *testing.T) {
	want, err := filters()
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Glob(dir + "/*")
	if err != nil || len(there) != len(want) {
		t.Errorf("%d files, want %d: %v", len(there), len(want), err)
	}
	for name, w := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, w) {
			t.Errorf("%s is not what the policy says (%v): make filters", name, err)
		}
		// One page, so that it fits into the smallest pipe.
		if len(w) > 4096 {
			t.Errorf("%s: %d bytes", name, len(w))
		}
	}
}

// A filter is one of the files, in a machine of its own.
type filter struct {
	machine
	variant
	vm *bpf.VM
}

func load(t *testing.T, m machine, v variant) filter {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileName(m, v)))
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for ; len(text) > 0; text = text[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(text), Jt: text[2], Jf: text[3], K: binary.LittleEndian.Uint32(text[4:]),
		})
	}
	code, whole := bpf.Disassemble(raw)
	if !whole {
		t.Fatalf("%s: unknown instructions", fileName(m, v))
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return filter{m, v, vm}
}

// ask returns the verdict on a call. The simulator reads words big-endian, as
// of a packet, and so they are written; the order of halves is the machine's.
func (f filter) ask(t *testing.T, arch, nr uint32, args ...uint64) verdict {
	t.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], nr)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[offArgs+8*i+4:], uint32(a>>32))
	}
	n, err := f.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return verdict(n)
}

func (v verdict) String() string {
	if name, known := map[verdict]string{allow: "allow", refuse: "EPERM", absent: "ENOSYS", kill: "kill"}[v]; known {
		return name
	}
	return fmt.Sprintf("%#x", uint32(v))
}

// Both machines, every number: the assembled filter says what the policy says,
// whatever the arguments.
func TestEveryNumber(t *testing.T) {
	interesting := []uint64{0, 1, 2, 3, 5, 6, 10, 16, 17, 0x40, 0x400000, 0x400, 0x800, 0x5412, 0x541c, 0x10000, 0x20000000, 0xffffffff}
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range machines {
		for _, v := range variants {
			f := load(t, m, v)
			rules, err := rulings(m, v)
			if err != nil {
				t.Fatal(err)
			}
			numbers := []uint32{0x40000000, 0x40000000 | 512, 0x7fffffff, 0x80000000, ^uint32(0)}
			for n := range uint32(1024) {
				numbers = append(numbers, n, 0x40000000|n)
			}
			for _, nr := range numbers {
				rule, has := rules[nr]
				if !has {
					rule = ruling{verdict: absent}
				}
				for range 1 + 200*min(1, len(rule.lines)) {
					args := make([]uint64, 6)
					for i := range args {
						args[i] = interesting[r.IntN(len(interesting))]
						if r.IntN(3) == 0 {
							args[i] |= interesting[r.IntN(len(interesting))]
						}
						if r.IntN(3) == 0 {
							args[i] |= r.Uint64() << 32
						}
					}
					want := rule.verdict
					if slices.ContainsFunc(rule.lines, func(l []test) bool { return holds(l, args) }) {
						want = allow
					}
					if got := f.ask(t, uint32(m.ID), nr, args...); got != want {
						t.Errorf("%s: %d %s %#x: %s, want %s", fileName(m, v), nr, m.SyscallNumbers[int(nr)], args, got, want)
					}
				}
			}
		}
	}
}

// holds says in other words what line assembles.
func holds(tests []test, args []uint64) bool {
	for _, t := range tests {
		if slices.Contains(t.values, uint32(args[t.arg])&t.mask) == t.not {
			return false
		}
	}
	return true
}

// The other architectures of a process are killed, whatever they call.
func TestForeign(t *testing.T) {
	for _, m := range machines {
		for _, v := range variants {
			f := load(t, m, v)
			for _, arch := range []uint32{0, 0x40000003, 0x40000028, 0xc000003e, 0xc00000b7, 0xc00000f3} {
				for nr := range uint32(512) {
					if got := f.ask(t, arch, nr); (got == kill) == (arch == uint32(m.ID)) {
						t.Fatalf("%s: %#x %d: %s", fileName(m, v), arch, nr, got)
					}
				}
			}
		}
	}
}

var (
	any_        = [4]verdict{allow, allow, allow, allow}
	none        = [4]verdict{refuse, refuse, refuse, refuse}
	nowhere     = [4]verdict{absent, absent, absent, absent}
	withProcess = [4]verdict{refuse, allow, refuse, allow} // in the order of variants
	withUnix    = [4]verdict{refuse, refuse, allow, allow}
)

// verdicts is the policy in numbers that were looked up by hand: it catches
// what a wrong table or constant would do to everything above alike.
var verdicts = []struct {
	name         string
	amd64, arm64 int // -1: not there
	args         []uint64
	want         [4]verdict
}{
	{"read", 0, 63, nil, any_},
	{"execve", 59, 221, nil, any_},
	{"newfstatat", 262, 79, nil, any_},
	{"fork", 57, -1, nil, withProcess},
	{"vfork", 58, -1, nil, withProcess},
	{"clone as fork", 56, 220, []uint64{0x01200011}, withProcess},
	{"clone as posix_spawn", 56, 220, []uint64{0x4111}, withProcess},
	{"clone as pthread_create", 56, 220, []uint64{0x3d0f00}, any_},
	{"clone of a thread, high bits", 56, 220, []uint64{0xffffffff003d0f00}, any_},
	{"clone, CLONE_THREAD in the high half", 56, 220, []uint64{0x10000_00000011}, withProcess},
	{"clone NEWNS", 56, 220, []uint64{0x00020011}, none},
	{"clone NEWCGROUP", 56, 220, []uint64{0x02000011}, none},
	{"clone NEWUTS", 56, 220, []uint64{0x04000011}, none},
	{"clone NEWIPC", 56, 220, []uint64{0x08000011}, none},
	{"clone NEWUSER", 56, 220, []uint64{0x10000011}, none},
	{"clone NEWPID", 56, 220, []uint64{0x20000011}, none},
	{"clone NEWNET", 56, 220, []uint64{0x40000011}, none},
	{"clone NEWUSER of a thread", 56, 220, []uint64{0x103d0f00}, none},
	{"clone NEWUSER, high bits", 56, 220, []uint64{1<<32 | 0x10000011}, none},
	{"clone3", 435, 435, nil, nowhere},
	{"unshare NEWUSER", 272, 97, []uint64{0x10000000}, none},
	{"setns", 308, 268, nil, none},

	{"socket unix stream", 41, 198, []uint64{1, 1, 0}, withUnix},
	{"socket unix datagram", 41, 198, []uint64{1, 0x80002, 0}, withUnix},
	{"socket unix, high bits", 41, 198, []uint64{1<<32 | 1, 1, 0}, withUnix},
	{"socketpair stream", 53, 199, []uint64{1, 0x80801, 0}, any_},
	{"socketpair seqpacket", 53, 199, []uint64{1, 5, 0}, any_},
	{"socketpair datagram", 53, 199, []uint64{1, 2, 0}, withUnix},
	{"socketpair raw, which is datagram", 53, 199, []uint64{1, 3, 0}, withUnix},
	{"socketpair inet", 53, 199, []uint64{2, 1, 0}, none},
	{"socket tcp", 41, 198, []uint64{2, 0x80801, 6}, any_},
	{"socket tcp, protocol 0", 41, 198, []uint64{2, 1, 0}, any_},
	{"socket udp 6", 41, 198, []uint64{10, 0x80002, 17}, any_},
	{"socket raw", 41, 198, []uint64{2, 3, 1}, none},
	{"socket raw 6", 41, 198, []uint64{10, 0x80003, 58}, none},
	{"socket packet of old", 41, 198, []uint64{2, 10, 0}, none},
	{"socket ping", 41, 198, []uint64{2, 2, 1}, none},
	{"socket sctp", 41, 198, []uint64{2, 1, 132}, none},
	{"socket mptcp", 41, 198, []uint64{2, 1, 262}, none},
	{"socket dccp", 41, 198, []uint64{2, 6, 0}, none},
	{"socket netlink route", 41, 198, []uint64{16, 0x80003, 0}, any_},
	{"socket netlink netfilter", 41, 198, []uint64{16, 3, 12}, none},
	{"socket netlink audit", 41, 198, []uint64{16, 3, 9}, none},
	{"socket packet", 41, 198, []uint64{17, 3, 0}, none},
	{"socket alg", 41, 198, []uint64{38, 5, 0}, none},
	{"socket vsock", 41, 198, []uint64{40, 1, 0}, none},
	{"socket key", 41, 198, []uint64{15, 3, 2}, none},
	{"socket can", 41, 198, []uint64{29, 3, 1}, none},
	{"socket bluetooth", 41, 198, []uint64{31, 3, 1}, none},
	{"socket xdp", 41, 198, []uint64{44, 3, 0}, none},
	{"socket tipc", 41, 198, []uint64{30, 5, 0}, none},
	{"sendto", 44, 206, []uint64{3, 0, 0, 0x4000}, any_},
	{"sendto fast open", 44, 206, []uint64{3, 0, 0, 0x20004000}, none},
	{"sendmsg", 46, 211, []uint64{3, 0, 0x4000}, any_},
	{"sendmsg fast open", 46, 211, []uint64{3, 0, 0x20000000}, none},
	{"sendmmsg fast open", 307, 269, []uint64{3, 0, 1, 0x20000000}, none},
	{"sendmmsg", 307, 269, []uint64{3, 0, 1, 0}, any_},

	{"ioctl TCGETS", 16, 29, []uint64{0, 0x5401}, any_},
	{"ioctl TIOCSTI", 16, 29, []uint64{0, 0x5412}, none},
	{"ioctl TIOCSTI + 2^32", 16, 29, []uint64{0, 0x100005412}, none},
	{"ioctl TIOCLINUX", 16, 29, []uint64{0, 0x541c}, none},
	{"ioctl TIOCLINUX, sign extended", 16, 29, []uint64{0, 0xffffffff0000541c}, none},
	{"ioctl TIOCSETD", 16, 29, []uint64{0, 0x5423}, none},
	{"ioctl FIONREAD", 16, 29, []uint64{0, 0x541b}, any_},
	{"personality 0", 135, 92, []uint64{0}, any_},
	{"personality ask", 135, 92, []uint64{0xffffffff}, any_},
	{"personality ask, sign extended", 135, 92, []uint64{0xffffffffffffffff}, any_},
	{"personality ADDR_NO_RANDOMIZE", 135, 92, []uint64{0x40000}, none},
	{"personality READ_IMPLIES_EXEC", 135, 92, []uint64{0x400000}, none},

	{"open to read, with rubbish for a mode", 2, -1, []uint64{0, 0, 0o4755}, any_},
	{"open O_CREAT", 2, -1, []uint64{0, 0o101, 0o1777}, any_},
	{"open O_CREAT setuid", 2, -1, []uint64{0, 0o101, 0o4755}, none},
	{"openat to read, with rubbish for a mode", 257, 56, []uint64{0, 0, 0o100000, 0xffff}, any_},
	{"openat O_CREAT", 257, 56, []uint64{0, 0, 0o1101, 0o666}, any_},
	{"openat O_CREAT setgid", 257, 56, []uint64{0, 0, 0o1101, 0o2755}, none},
	{"openat O_TMPFILE setuid", 257, 56, []uint64{0, 0, 0o20200002, 0o4755}, none},
	{"openat O_DIRECTORY", 257, 56, []uint64{0, 0, 0o200000, 0o4755}, any_},
	{"creat setuid", 85, -1, []uint64{0, 0o4755}, none},
	{"openat2", 437, 437, nil, nowhere},
	{"chmod", 90, -1, []uint64{0, 0o1777}, any_},
	{"chmod setuid", 90, -1, []uint64{0, 0o4755}, none},
	{"fchmod setgid", 91, 52, []uint64{0, 0o2755}, none},
	{"fchmodat setuid", 268, 53, []uint64{0, 0, 0o4755}, none},
	{"fchmodat2 setuid", 452, 452, []uint64{0, 0, 0o4755}, none},
	{"fchmodat", 268, 53, []uint64{0, 0, 0o755, 0o4755}, any_},
	{"mknod pipe", 133, -1, []uint64{0, 0o10600}, any_},
	{"mknodat pipe", 259, 33, []uint64{0, 0, 0o10600}, any_},
	{"mknodat file", 259, 33, []uint64{0, 0, 0o100600}, any_},
	{"mknodat socket", 259, 33, []uint64{0, 0, 0o140600}, any_},
	{"mknodat block", 259, 33, []uint64{0, 0, 0o60600}, none},
	{"mknodat character", 259, 33, []uint64{0, 0, 0o20600}, none},
	{"mknodat setuid", 259, 33, []uint64{0, 0, 0o104600}, none},

	{"ptrace", 101, 117, nil, none},
	{"process_vm_readv", 310, 270, nil, none},
	{"process_vm_writev", 311, 271, nil, none},
	{"pidfd_getfd", 438, 438, nil, none},
	{"kcmp", 312, 272, nil, none},
	{"io_uring_setup", 425, 425, nil, none},
	{"io_uring_enter", 426, 426, nil, none},
	{"io_uring_register", 427, 427, nil, none},
	{"bpf", 321, 280, nil, none},
	{"perf_event_open", 298, 241, nil, none},
	{"userfaultfd", 323, 282, nil, none},
	{"add_key", 248, 217, nil, none},
	{"request_key", 249, 218, nil, none},
	{"keyctl", 250, 219, nil, none},
	{"mount", 165, 40, nil, none},
	{"umount2", 166, 39, nil, none},
	{"pivot_root", 155, 41, nil, none},
	{"chroot", 161, 51, nil, none},
	{"open_tree", 428, 428, nil, none},
	{"move_mount", 429, 429, nil, none},
	{"fsopen", 430, 430, nil, none},
	{"fsconfig", 431, 431, nil, none},
	{"fsmount", 432, 432, nil, none},
	{"fspick", 433, 433, nil, none},
	{"mount_setattr", 442, 442, nil, none},
	{"open_tree_attr", 467, 467, nil, none},
	{"open_by_handle_at", 304, 265, nil, none},
	{"clock_settime", 227, 112, nil, none},
	{"settimeofday", 164, 170, nil, none},
	{"adjtimex", 159, 171, nil, none},
	{"reboot", 169, 142, nil, none},
	{"kexec_load", 246, 104, nil, none},
	{"init_module", 175, 105, nil, none},
	{"finit_module", 313, 273, nil, none},
	{"swapon", 167, 224, nil, none},
	{"quotactl", 179, 60, nil, none},
	{"acct", 163, 89, nil, none},
	{"syslog", 103, 116, nil, none},
	{"one that is yet to be", 600, 600, nil, nowhere},
}

func TestVerdicts(t *testing.T) {
	for i, m := range machines {
		for k, v := range variants {
			f := load(t, m, v)
			for _, c := range verdicts {
				nr := []int{c.amd64, c.arm64}[i]
				if nr < 0 {
					continue
				}
				if got := f.ask(t, uint32(m.ID), uint32(nr), c.args...); got != c.want[k] {
					t.Errorf("%s: %s: %s, want %s", fileName(m, v), c.name, got, c.want[k])
				}
				if i == 0 { // x32
					if got := f.ask(t, uint32(m.ID), 0x40000000|uint32(nr), c.args...); got != absent {
						t.Errorf("%s: %s by x32: %s", fileName(m, v), c.name, got)
					}
				}
			}
		}
	}
}

// What a runtime allows beyond the least is never less than the least.
func TestVariantsGrow(t *testing.T) {
	for _, m := range machines {
		least, err := rulings(m, variant{})
		if err != nil {
			t.Fatal(err)
		}
		most, err := rulings(m, variant{process: true, unix: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, nr := range slices.Sorted(maps.Keys(least)) {
			if least[nr].verdict == allow && most[nr].verdict != allow {
				t.Errorf("%s: %d is refused to those who may more", m.goarch, nr)
			}
		}
	}
}

// The search is short, and its code small.
func TestSize(t *testing.T) {
	files, err := filters()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t.Logf("%-24s %d instructions", name, len(files[name])/8)
	}
}
