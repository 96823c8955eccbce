// Package egress is the network of a tool that may have one. The tool's own
// network namespace has no way out. Every address in it is local, so whatever a
// program connects to, by whatever means, ends at a listener there; the
// listeners are served from here, outside:
//
//	tool                      its namespace        forge-call             the world
//	connect 93.184.216.34:80  [::]:80 accepts ───▶ getsockname: where to?
//	                                               may it? dial, check ──▶ 93.184.216.34:80
//	ask 9.9.9.9 for a name    [::]:53 UDP, TCP ──▶ answered here
//
// Nothing is read from the tool's memory and no system call is watched, so there
// is nothing to race and nothing to go round: what is not caught goes nowhere.
// Where this end dies, the tool has no network.
//
// Without hosts a policy opens any public host: names are resolved by the
// machine's resolver and answered with what is public of their addresses. With
// hosts, the names listed get made-up addresses of 198.18.0.0/15, which stand
// for the name until it is resolved at the dial; any other name does not exist
// and no query for it leaves the machine. Either way the address that is really
// dialled is judged at that moment. TLS is not opened: who shares an address
// with an allowed host may be reached through it.
//
// Each connection and each refused name gives one Record.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/egress/inside"
	"forge/lib/fail"
)

// A Verdict says what became of a connection.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed" // it was made
	Denied  Verdict = "denied"  // Reason says why; nothing was sent
	Failed  Verdict = "failed"  // it was allowed, and the far end or the resolver did not answer
)

// A Record tells of one connection, when it has ended, or of one refused name,
// which has no port. The tool chooses the names it asks for: they are its words.
type Record struct {
	Time     time.Time  // it came
	Name     string     // as asked for; without hosts, the last name answered with that address, "" for none
	Addr     netip.Addr // dialled or refused; not valid where it did not come to one
	Port     uint16
	Verdict  Verdict
	Reason   Reason // of a refusal
	Err      error  // of a failure
	Sent     int64  // bytes, from the tool
	Received int64
}

// MaxConns is how many connections a call has open at a time; one more is
// refused.
const MaxConns = 256

// dialTime bounds resolving and connecting, tryTime one address of several.
const (
	dialTime = 30 * time.Second
	tryTime  = 10 * time.Second
)

// A Resolver knows addresses of names, as *net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Net is the network of one call, not yet served.
type Net struct {
	Resolver Resolver // net.DefaultResolver unless set before Serve

	policy Policy
	v6     bool
	tcp    []*net.TCPListener
	udpDNS *net.UDPConn
	tcpDNS *net.TCPListener
	names  names
	record func(Record)
	mu     sync.Mutex // one record at a time
}

// Plan returns what inside.Open opens for a policy on this machine: IPv6 only
// where the machine would go out with a public address of it. A program takes
// the connection to its listener for one to the far end, and tries no other.
func Plan(p Policy) inside.Plan {
	plan := inside.Plan{Ports: p.ports, Loopback: p.loopback}
	if c, err := net.Dial("udp6", "[2600::]:53"); err == nil { // sends nothing
		a, _ := netip.ParseAddrPort(c.LocalAddr().String())
		plan.V6 = classify(a.Addr(), false) == ""
		c.Close()
	}
	return plan
}

// Listen prepares a new network namespace, open as netns, and returns its
// network. The caller needs CAP_SYS_ADMIN over it. Errors are of kind
// network_unavailable.
func Listen(netns *os.File, p Policy) (*Net, error) {
	plan := Plan(p)
	var files []*os.File
	err := onThread(func() (err error) {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the sandbox's network: %w", err)
		}
		files, err = inside.Open(plan)
		return err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return Adopt(files, p)
}

// onThread runs f on an operating system thread of its own that ends with it.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread would stay, and /proc/self speak of its
			// namespace. This goroutine keeps it until another is done.
			defer runtime.UnlockOSThread()
			done <- onThread(f)
			return
		}
		done <- f()
	}()
	return <-done
}

func unavailable(err error) error {
	return fail.New(fail.NetworkUnavailable, "", "%w", err)
}

// Adopt returns the network of sockets that inside.Open opened, and closes the
// files. Errors are of kind network_unavailable; one is that a socket belongs
// to the caller's own network.
func Adopt(files []*os.File, p Policy) (n *Net, err error) {
	n = &Net{Resolver: net.DefaultResolver, policy: p}
	defer func() {
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			n.Close()
			n, err = nil, unavailable(err)
		}
	}()
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return n, fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(own)
	here, _ := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE) // Linux 5.14
	for _, f := range files {
		if err := n.adopt(f, here); err != nil {
			return n, fmt.Errorf("take over %s of the sandbox's network: %w", f.Name(), err)
		}
	}
	if n.udpDNS == nil || n.tcpDNS == nil {
		return n, errors.New("take over the sandbox's network: no socket for names")
	}
	return n, nil
}

func (n *Net) adopt(f *os.File, here uint64) error {
	fd := int(f.Fd())
	there, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == nil && there == here {
		return errors.New("the socket belongs to this machine's network")
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return err
	}
	if kind == unix.SOCK_DGRAM {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		udp, ok := c.(*net.UDPConn)
		if !ok || n.udpDNS != nil || port(udp.LocalAddr()) != inside.DNSPort {
			c.Close()
			return errors.New("not the socket for names")
		}
		n.udpDNS = udp
		return nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return errors.New("not a socket of TCP")
	}
	at := port(tcp.Addr())
	switch {
	case at == inside.DNSPort && n.tcpDNS == nil:
		n.tcpDNS = tcp
	case slices.Contains(n.policy.ports, at), slices.Contains(n.policy.loopback, at):
		n.tcp = append(n.tcp, tcp)
	default:
		l.Close()
		return fmt.Errorf("port %d is not in the policy", at)
	}
	a, _ := netip.ParseAddrPort(tcp.Addr().String())
	n.v6 = n.v6 || a.Addr().Is6() && !a.Addr().Is4In6()
	return nil
}

func port(a net.Addr) uint16 {
	p, _ := netip.ParseAddrPort(a.String())
	return p.Port()
}

// Close ends a network that is not served.
func (n *Net) Close() {
	for _, l := range n.tcp {
		l.Close()
	}
	if n.udpDNS != nil {
		n.udpDNS.Close()
	}
	if n.tcpDNS != nil {
		n.tcpDNS.Close()
	}
}

// Serve gives the tool its network until ctx ends, then closes every connection
// and returns when the last record was given. Record is called for one record
// at a time and holds up the next.
func (n *Net) Serve(ctx context.Context, record func(Record)) {
	n.record = record
	var all sync.WaitGroup
	defer all.Wait()
	defer n.Close()
	slots := make(chan struct{}, MaxConns)
	for _, l := range n.tcp {
		all.Go(func() {
			accept(ctx, l, &all, slots, n.connection, func(c *net.TCPConn) {
				to := destination(c)
				reset(c)
				name, _ := n.names.of(to.Addr())
				n.tell(Record{Time: time.Now(), Name: name, Addr: to.Addr(), Port: to.Port(), Verdict: Denied, Reason: TooMany})
			})
		})
	}
	all.Go(func() { accept(ctx, n.tcpDNS, &all, make(chan struct{}, maxQueries), n.dnsStream, reset) })
	all.Go(func() { n.dnsPackets(ctx, &all) })
	<-ctx.Done()
}

func (n *Net) tell(r Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.record(r)
}

// accept gives each connection of l to serve, in a goroutine of its own that
// all knows, or to refuse where there is no slot left. The connection is closed
// when ctx ends.
func accept(ctx context.Context, l *net.TCPListener, all *sync.WaitGroup, slots chan struct{},
	serve func(context.Context, *net.TCPConn), refuse func(*net.TCPConn),
) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // it went away, or descriptors are short
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			refuse(c)
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			stop := context.AfterFunc(ctx, func() { reset(c) })
			defer stop()
			serve(ctx, c)
		})
	}
}

// destination is the address the tool connected to, as the kernel says.
func destination(c *net.TCPConn) netip.AddrPort {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	to := a.AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
}

// reset closes c so that the other end sees an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
