package egress

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"forge/lib/egress/inside"
)

// A Reason is the word for a refusal.
type Reason string

// Why a connection or a name is refused.
const (
	Loopback  Reason = "loopback"
	LinkLocal Reason = "link_local"
	Metadata  Reason = "metadata" // services that hand out a machine's credentials
	Multicast Reason = "multicast"
	Reserved  Reason = "reserved" // nothing public is there
	Private   Reason = "private"  // the policy could allow it
	Host      Reason = "host"     // an address of this machine
	NotListed Reason = "not_listed"
	BadPort   Reason = "port"
	TooMany   Reason = "too_many"
)

// A block of addresses and why it is refused.
type block struct {
	prefix netip.Prefix
	reason Reason
}

func blocks(reason Reason, prefixes ...string) (list []block) {
	for _, p := range prefixes {
		list = append(list, block{netip.MustParsePrefix(p), reason})
	}
	return list
}

// refused holds, after the special registries of IANA (RFC 6890), what is not
// public. The first block that fits gives the word.
var refused = func() (list []block) {
	for _, b := range [][]block{
		blocks(Metadata,
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", // AWS and most others; ECS; EKS
			"100.100.100.200/32", // Alibaba
			"168.63.129.16/32",   // Azure's, in a public range
			"192.0.0.192/32",     // Oracle
			"fd00:ec2::/32",      // AWS
			"fd20:ce::/32"),      // Google
		blocks(Loopback, "127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128"), // 0.0.0.0 connects to loopback
		blocks(LinkLocal, "169.254.0.0/16", "fe80::/10"),
		blocks(Multicast, "224.0.0.0/4", "ff00::/8", "255.255.255.255/32"),
		blocks(Reserved, "240.0.0.0/4", "192.0.0.0/24", "198.18.0.0/15", // the last also our synthetic addresses
			"2001::/23"), // Teredo among them: a tunnel to an address that is not to be seen
		blocks(Private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10",
			"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"), // documentation: somebody's lab, if anything
	} {
		list = append(list, b...)
	}
	return list
}()

var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
	compat = netip.MustParsePrefix("::/96")
	mapped = netip.MustParsePrefix("::ffff:0:0/96")
	// IPv4-translated addresses, RFC 2765.
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// embedded returns the IPv4 addresses that a router could take out of a.
func embedded(a netip.Addr) (list []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(a), compat.Contains(a), mapped.Contains(a), translated.Contains(a):
		list = append(list, at(12))
	case sixTo4.Contains(a):
		list = append(list, at(2))
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		list = append(list, at(12))
	}
	return list
}

// classify returns why a is refused, "" where nothing speaks against it, by the
// address alone.
func classify(a netip.Addr, private bool) Reason {
	if !a.IsValid() {
		return Reserved
	}
	if a.Zone() != "" {
		return LinkLocal
	}
	a = a.Unmap()
	for _, b := range refused {
		if b.prefix.Contains(a) {
			if b.reason == Private && private {
				return ""
			}
			return b.reason
		}
	}
	for _, four := range embedded(a) {
		if r := classify(four, private); r != "" {
			return r
		}
	}
	if a.Is6() && !global.Contains(a) && !nat64.Contains(a) {
		return Reserved
	}
	return ""
}

// judge returns why a is refused now: by classify, or as an address of this
// machine, which is asked each time. Where the machine cannot be asked, it is
// an error and nothing is allowed.
func judge(a netip.Addr, private bool) (Reason, error) {
	if r := classify(a, private); r != "" {
		return r, nil
	}
	a = a.Unmap()
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("read the addresses of this machine: %w", err)
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			continue // not an IP network
		}
		mine := p.Addr().Unmap().WithZone("")
		if mine == a {
			return Host, nil
		}
		for _, four := range embedded(a) {
			if mine == four {
				return Host, nil
			}
		}
	}
	// A load balancer's address may be this machine's by a route alone.
	for _, each := range append(embedded(a), a) {
		if kind, err := inside.RouteType(each.AsSlice()); err == nil && kind != unix.RTN_UNICAST {
			return Host, nil
		}
	}
	return "", nil
}
