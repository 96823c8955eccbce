package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests run in a lab: this process again, in a network namespace of its own
// that plays the machine, joined by a veth to another that plays the internet,
// which has every address that must not be reached. As an ordinary user the lab
// lies in a user namespace. Nothing in it has a way to the real network, and it
// goes with the process.

const inLab = "EGRESS_LAB"

var internet *os.File // the namespace

func TestMain(m *testing.M) {
	if os.Getenv(inLab) == "" {
		os.Exit(enterLab())
	}
	// A worker of a fuzz target is started within the lab and wants none.
	if slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.fuzzworker") }) {
		os.Exit(m.Run())
	}
	if err := buildLab(); err != nil {
		fmt.Fprintln(os.Stderr, "build the lab:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enterLab runs this test binary again in the namespace of the lab.
func enterLab() int {
	runtime.LockOSThread() // the lab dies with this thread
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inLab+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "enter the lab:", err)
		return 1
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	fmt.Fprintln(os.Stderr, "the lab:", err)
	return 1
}

// The machine is 10.77.0.1, fd77::1 and 2606:2800:220:2::1; its way out ends in 2.
const (
	public4 = "93.184.216.34"
	public6 = "2606:2800:220:1::34"
)

var elsewhere = []string{
	public4, public6, "1.1.1.1",
	"169.254.169.254", "169.254.170.2", "169.254.1.1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
	"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "192.168.7.7", "100.64.0.7", "fc00::7",
}

func buildLab() error {
	var err error
	if internet, err = newNetns(); err != nil {
		return err
	}
	script := `set -e
ip link set lo up
ip link add wan type veth peer name isp netns /proc/self/fd/3
ip link set wan up
ip addr add 10.77.0.1/24 dev wan
ip addr add fd77::1/64 dev wan nodad
ip addr add 2606:2800:220:2::1/64 dev wan nodad
nsenter --net=/proc/self/fd/3 sh -ec '
	ip link set lo up; ip link set isp up
	ip addr add 10.77.0.2/24 dev isp; ip addr add fd77::2/64 dev isp nodad
	ip addr add 2606:2800:220:2::2/64 dev isp nodad
	for a in ` + strings.Join(elsewhere, " ") + `; do case $a in
		*:*) ip addr add $a/128 dev lo nodad;;
		*) ip addr add $a/32 dev lo;;
	esac; done'
ip route add default via 10.77.0.2
ip -6 route add default via 2606:2800:220:2::2
ip -6 route add fc00::/7 via fd77::2
ip route add local 45.0.0.0/24 dev lo # as a load balancer would have it
`
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.ExtraFiles = []*os.File{internet}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s (iproute2 and util-linux are wanted)", err, out)
	}
	return nil
}

// newNetns returns a new network namespace.
func newNetns() (f *os.File, err error) {
	err = onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		f, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return f, err
}

// in runs f on a thread in a namespace.
func in(ns *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// A far is a listener in the lab and what it saw.
type far struct {
	mu   sync.Mutex
	seen []string // addresses connections came to
	all  sync.WaitGroup
}

func (f *far) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// serve opens a listener in a namespace, of the machine with nil, that gives
// each connection to do and closes it then.
func serve(t *testing.T, ns *os.File, address string, do func(*net.TCPConn)) *far {
	t.Helper()
	if ns == nil {
		var err error
		if ns, err = os.Open("/proc/self/ns/net"); err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
	}
	var l net.Listener
	err := in(ns, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &far{}
	f.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.seen = append(f.seen, c.LocalAddr().String())
			f.mu.Unlock()
			f.all.Go(func() { defer c.Close(); do(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { l.Close(); f.all.Wait() })
	return f
}

// echo gives back what comes, to the end.
func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// A box is a tool's network under test.
type box struct {
	t       *testing.T
	ns      *os.File
	end     func()
	mu      sync.Mutex
	records []Record
}

func parse(t *testing.T, hosts []string, ports, loopback []int64, private bool) Policy {
	t.Helper()
	p, err := Parse(hosts, ports, loopback, private)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBox(t *testing.T, p Policy, r Resolver) *box {
	t.Helper()
	ns, err := newNetns()
	if err != nil {
		t.Fatal(err)
	}
	n, err := Listen(ns, p)
	if err != nil {
		t.Fatal(err)
	}
	return serveBox(t, ns, n, r)
}

func serveBox(t *testing.T, ns *os.File, n *Net, r Resolver) *box {
	if r != nil {
		n.Resolver = r
	}
	b := &box{t: t, ns: ns}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Serve(ctx, func(r Record) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.records = append(b.records, r)
		})
	}()
	b.end = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("Serve did not return within 10 s of its context")
		}
		ns.Close()
	})
	t.Cleanup(b.end)
	return b
}

// dial connects inside the box, as the kernel does it for any program.
func (b *box) dial(address string) (*net.TCPConn, error) {
	a := netip.MustParseAddrPort(address)
	var c net.Conn
	err := in(b.ns, func() error {
		family := unix.AF_INET
		var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(a.Port())}
		if a.Addr().Is4() {
			to.(*unix.SockaddrInet4).Addr = a.Addr().As4()
		} else { // ::ffff:127.0.0.1 too
			family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), address)
		defer f.Close()
		if err := unix.Connect(fd, to); err != nil {
			return err
		}
		c, err = net.FileConn(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// fetch sends a word to an address inside the box and returns the answer.
func (b *box) fetch(address string) (string, error) {
	c, err := b.dial(address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("hello")); err != nil {
		return "", err
	}
	if err := c.CloseWrite(); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	if err == nil && len(out) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return string(out), err
}

// bash runs a line of bash inside the box, 5 seconds at most.
func (b *box) bash(line string) (string, error) {
	var out bytes.Buffer
	err := in(b.ns, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd.Run()
	})
	return out.String(), err
}

// wait returns the records once there are n, and fails the test where there
// are others.
func (b *box) wait(n int) []Record {
	b.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b.mu.Lock()
		got := slices.Clone(b.records)
		b.mu.Unlock()
		if len(got) == n {
			return got
		}
		if len(got) > n || time.Now().After(end) {
			b.t.Fatalf("%d records, want %d: %+v", len(got), n, got)
		}
	}
}

// fake resolves names for the tests; each call of a name takes the next answer.
type fake struct {
	mu    sync.Mutex
	names map[string][]string
	asked []string
}

func (f *fake) LookupNetIP(_ context.Context, network, host string) (out []netip.Addr, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, host)
	answers, ok := f.names[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		f.names[strings.TrimSuffix(host, ".")] = append(answers[1:len(answers):len(answers)], answers[0])
	}
	for a := range strings.FieldsSeq(answers[0]) {
		if ip := netip.MustParseAddr(a); network == "ip" || ip.Is4() {
			out = append(out, ip)
		}
	}
	return out, nil
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
