// Package inside prepares a network namespace for lib/egress: what has to be
// done by a thread that is in it. It needs no more than the system calls, so
// that the stage of an ordinary user's sandbox stays small.
//
// Every address becomes an address of the namespace itself ("AnyIP"), so that a
// connection to anywhere ends at a listener opened here, and getsockname on the
// accepted socket tells where it was meant to go. A socket stays in the
// namespace it was opened in, whoever holds it: the listeners are served from
// outside, and nothing of that runs beside the tool.
//
//	ip link set lo up
//	ip route add local 0.0.0.0/0 dev lo
//	ip route add prohibit 169.254.0.0/16 table local
package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A Plan is what to open.
type Plan struct {
	Ports    []uint16 // caught whatever the address
	Loopback []uint16 // caught on 127.0.0.1 and ::1 only
	V6       bool     // IPv6 too
}

// A route of the namespace's local table.
type route struct {
	kind   byte // unix.RTN_*
	family byte
	prefix []byte
	bits   byte
}

// The addresses no connection may go to and nobody needs a record of fail at
// once, with EACCES. The metadata services within them are left to the
// listeners, since an attempt on those belongs on the record.
var (
	routes4 = []route{
		{unix.RTN_LOCAL, unix.AF_INET, nil, 0},
		{unix.RTN_PROHIBIT, unix.AF_INET, []byte{0, 0, 0, 0}, 8},
		{unix.RTN_PROHIBIT, unix.AF_INET, []byte{169, 254, 0, 0}, 16},
		{unix.RTN_LOCAL, unix.AF_INET, []byte{169, 254, 169, 254}, 32},
		{unix.RTN_LOCAL, unix.AF_INET, []byte{169, 254, 170, 2}, 32},
		{unix.RTN_LOCAL, unix.AF_INET, []byte{169, 254, 170, 23}, 32},
		{unix.RTN_PROHIBIT, unix.AF_INET, []byte{240, 0, 0, 0}, 4},
	}
	routes6 = []route{
		{unix.RTN_LOCAL, unix.AF_INET6, nil, 0},
		{unix.RTN_PROHIBIT, unix.AF_INET6, append([]byte{0xfe, 0x80}, make([]byte, 14)...), 10},
	}
)

// loopback is the index of lo in every namespace (LOOPBACK_IFINDEX).
const loopback = 1

// DNSPort is where names are asked for, over UDP and TCP.
const DNSPort = 53

// Open prepares the network namespace of the calling thread and returns its
// sockets, close-on-exec and not blocking: a listener for each port, two (one
// without V6) for each loopback port that is not among the ports, then DNS over
// UDP and over TCP. The caller is locked to its thread and holds CAP_NET_ADMIN
// and CAP_NET_BIND_SERVICE over the namespace, which is new.
func Open(p Plan) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			files = nil
		}
	}()
	routes := routes4
	if p.V6 {
		routes = slices.Concat(routes4, routes6)
	}
	if err := configure(routes); err != nil {
		return nil, err
	}
	open := func(kind int, a unix.Sockaddr, what string) error {
		fd, err := socket(kind, a)
		if err != nil {
			return fmt.Errorf("open %s in the sandbox's network: %w", what, err)
		}
		files = append(files, os.NewFile(uintptr(fd), what))
		return nil
	}
	any := func(port uint16) unix.Sockaddr {
		if p.V6 {
			return &unix.SockaddrInet6{Port: int(port)}
		}
		return &unix.SockaddrInet4{Port: int(port)}
	}
	for _, port := range p.Ports {
		if err := open(unix.SOCK_STREAM, any(port), fmt.Sprintf("tcp port %d", port)); err != nil {
			return files, err
		}
	}
	for _, port := range p.Loopback {
		if slices.Contains(p.Ports, port) {
			continue // caught by its wildcard; a second listener would be EADDRINUSE
		}
		at := []unix.Sockaddr{&unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}}
		if p.V6 {
			at = append(at, &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}})
		}
		for _, a := range at {
			if err := open(unix.SOCK_STREAM, a, fmt.Sprintf("loopback port %d", port)); err != nil {
				return files, err
			}
		}
	}
	if err := open(unix.SOCK_DGRAM, any(DNSPort), "dns over udp"); err != nil {
		return files, err
	}
	return files, open(unix.SOCK_STREAM, any(DNSPort), "dns over tcp")
}

func socket(kind int, a unix.Sockaddr) (fd int, err error) {
	family := unix.AF_INET
	if _, six := a.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	set := func(level, option, value int) {
		if err == nil {
			err = unix.SetsockoptInt(fd, level, option, value)
		}
	}
	if six, ok := a.(*unix.SockaddrInet6); ok {
		only := 0
		if six.Addr != [16]byte{} {
			only = 1 // ::1 beside 127.0.0.1
		}
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	switch {
	case kind == unix.SOCK_STREAM:
		set(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	case family == unix.AF_INET6:
		// An answer comes from the address that was asked. IPv6 wants a
		// word for a source that no interface has; IPv4 looks in the table.
		set(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		set(unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	default:
		set(unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	if err == nil {
		err = unix.Bind(fd, a)
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// configure brings lo up and adds the routes, in one message to the kernel.
func configure(routes []route) error {
	link := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(link[4:], loopback)
	binary.NativeEndian.PutUint32(link[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(link[12:], unix.IFF_UP)
	batch := message(nil, unix.RTM_NEWLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 0, link)
	for i, r := range routes {
		scope := byte(unix.RT_SCOPE_UNIVERSE)
		if r.kind == unix.RTN_LOCAL {
			scope = unix.RT_SCOPE_HOST
		}
		body := []byte{r.family, r.bits, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, scope, r.kind, 0, 0, 0, 0}
		if r.prefix != nil {
			body = attribute(body, unix.RTA_DST, r.prefix)
		}
		if r.kind == unix.RTN_LOCAL {
			body = attribute(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
		}
		batch = message(batch, unix.RTM_NEWROUTE, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, uint32(i+1), body)
	}
	done := 0
	err := exchange(batch, func(kind uint16, seq uint32, body []byte) (bool, error) {
		if kind != unix.NLMSG_ERROR || len(body) < 4 {
			return false, nil
		}
		if e := -int32(binary.NativeEndian.Uint32(body)); e != 0 {
			if seq == 0 {
				return false, fmt.Errorf("bring up lo in the sandbox's network: %w", unix.Errno(e))
			}
			r := routes[seq-1]
			return false, fmt.Errorf("add route %v/%d (type %d) in the sandbox's network: %w", r.prefix, r.bits, r.kind, unix.Errno(e))
		}
		done++
		return done == len(routes)+1, nil
	})
	return err
}

// RouteType returns how the network namespace of the calling thread would route
// to an address of 4 or 16 bytes: unix.RTN_UNICAST for elsewhere,
// unix.RTN_LOCAL for this machine. An address without a route is an error.
func RouteType(ip []byte) (byte, error) {
	family := byte(unix.AF_INET)
	if len(ip) == 16 {
		family = unix.AF_INET6
	}
	body := []byte{family, byte(8 * len(ip)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	body = attribute(body, unix.RTA_DST, ip)
	var kind byte
	err := exchange(message(nil, unix.RTM_GETROUTE, unix.NLM_F_REQUEST, 1, body), func(t uint16, _ uint32, body []byte) (bool, error) {
		switch {
		case t == unix.RTM_NEWROUTE && len(body) >= unix.SizeofRtMsg:
			kind = body[7]
			return true, nil
		case t == unix.NLMSG_ERROR && len(body) >= 4:
			return true, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		}
		return false, nil
	})
	return kind, err
}

// exchange sends what is in batch and gives each message that comes back to
// take, until that says true or returns an error.
func exchange(batch []byte, take func(kind uint16, seq uint32, body []byte) (bool, error)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to netlink: %w", err)
	}
	buf := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive from netlink: %w", err)
		}
		for in := buf[:n]; len(in) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(in))
			if size < unix.SizeofNlMsghdr || size > len(in) {
				return errors.New("receive from netlink: a message longer than its datagram")
			}
			end, err := take(binary.NativeEndian.Uint16(in[4:]), binary.NativeEndian.Uint32(in[8:]), in[unix.SizeofNlMsghdr:size])
			if end || err != nil {
				return err
			}
			in = in[min(align(size), len(in)):]
		}
	}
}

func align(n int) int { return (n + 3) &^ 3 }

// message appends one netlink message to b, netlink(7).
func message(b []byte, kind, flags uint16, seq uint32, body []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, body...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

// attribute appends one attribute to b, rtnetlink(7).
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}
