package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// denial is a refusal on its way to the record.
type denial struct {
	reason Reason
	addr   netip.Addr
}

func (d denial) Error() string { return fmt.Sprintf("%s is denied: %s", d.addr, d.reason) }

// connection serves one connection of the tool: decide, dial, splice, record.
func (n *Net) connection(ctx context.Context, c *net.TCPConn) {
	to := destination(c)
	r := Record{Time: time.Now(), Addr: to.Addr(), Port: to.Port()}
	r.Name, _ = n.names.of(to.Addr())
	far, err := n.reach(ctx, to, r.Name)
	var d denial
	switch {
	case err == nil:
		r.Verdict = Allowed
		r.Addr = far.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		stop := context.AfterFunc(ctx, func() { reset(far) })
		r.Sent, r.Received = splice(c, far)
		stop()
	case errors.As(err, &d):
		r.Verdict, r.Reason = Denied, d.reason
		if d.addr.IsValid() {
			r.Addr = d.addr
		}
	default:
		r.Verdict, r.Err = Failed, err
	}
	reset(c) // after an orderly end there is nothing left to reset
	n.tell(r)
}

// reach dials what the tool connected to. name is what a made-up address
// stands for. A refusal is a denial.
func (n *Net) reach(ctx context.Context, to netip.AddrPort, name string) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	p := &n.policy
	if a := to.Addr(); (a == loopback4 || a == loopback6) && slices.Contains(p.loopback, to.Port()) {
		// The host's service may be on either.
		far, err := dial(ctx, netip.AddrPortFrom(loopback4, to.Port()), exactly)
		if err != nil {
			far, err = dial(ctx, netip.AddrPortFrom(loopback6, to.Port()), exactly)
		}
		return far, err
	}
	if !slices.Contains(p.ports, to.Port()) {
		return nil, denial{BadPort, to.Addr()}
	}
	public := func(a, _ netip.AddrPort) error {
		reason, err := judge(a.Addr(), p.private)
		if reason != "" {
			return denial{reason, a.Addr()}
		}
		return err
	}
	if len(p.hosts) == 0 {
		return dial(ctx, to, public)
	}
	if name == "" {
		reason := classify(to.Addr(), p.private)
		if reason == "" || synthetic.Contains(to.Addr()) {
			reason = NotListed
		}
		return nil, denial{reason, to.Addr()}
	}
	addrs, err := n.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	// A refusal counts only where no address did better.
	var refusal, failure error
	slices.SortStableFunc(addrs, netip.Addr.Compare) // IPv4 first: the one that always works
	for _, a := range addrs {
		try, cancel := context.WithTimeout(ctx, tryTime)
		far, err := dial(try, netip.AddrPortFrom(a, to.Port()), public)
		cancel()
		if err == nil {
			return far, nil
		}
		if errors.As(err, new(denial)) {
			refusal = err
		} else {
			failure = err
		}
	}
	if failure != nil {
		return nil, failure
	}
	if refusal != nil {
		return nil, refusal
	}
	return nil, fmt.Errorf("resolve %q: no address", name)
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// exactly allows nothing but the address that was asked for.
func exactly(a, asked netip.AddrPort) error {
	if a != asked {
		return denial{Loopback, a.Addr()}
	}
	return nil
}

// dial connects to an address from this machine. allow sees the address that is
// really dialled, as the socket is about to be connected, and the one asked for.
func dial(ctx context.Context, to netip.AddrPort, allow func(dialled, asked netip.AddrPort) error) (*net.TCPConn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return allow(a, to)
	}}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// splice copies both ways until both have ended and returns the bytes from near
// and from far. An end is passed on as an end, an error as a reset of both.
func splice(near, far *net.TCPConn) (sent, received int64) {
	var nearShut, farShut atomic.Bool // our half of it is
	copyTo := func(to, from *net.TCPConn, toShut, fromShut *atomic.Bool) int64 {
		n, err := io.Copy(to, from)
		if err == nil && !fromShut.Load() && gone(from) {
			err = syscall.ECONNRESET // told to the other direction, whose write came first
		}
		if err == nil {
			toShut.Store(true)
			err = to.CloseWrite()
		}
		if err != nil {
			reset(to)
			reset(from)
		}
		return n
	}
	var up sync.WaitGroup
	up.Go(func() { sent = copyTo(far, near, &farShut, &nearShut) })
	received = copyTo(near, far, &nearShut, &farShut)
	up.Wait()
	_ = near.Close() // not a reset: what was written is still on its way
	_ = far.Close()
	return sent, received
}

// gone reports whether c, read to its end and not shut by us, has no connection
// any more: the end was a reset.
func gone(c *net.TCPConn) (yes bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		yes = err == nil && info.State == unix.BPF_TCP_CLOSE
	})
	return yes || err != nil
}
