package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"forge/lib/egress/inside"
	"forge/lib/fail"
)

// Policy is what a call may reach, as Parse returns it.
type Policy struct {
	hosts    []string // lower-case, without a trailing dot; "*." first for what is below
	ports    []uint16
	loopback []uint16
	private  bool
}

// The most that one policy may hold.
const (
	maxHosts = 256
	maxPorts = 64
)

// Parse returns what the operator wrote as a Policy. A host is a name, or
// *.example.org for every name below example.org (and not itself); none at all
// is any public host. No ports are 80 and 443. Loopback ports are those of the
// host's own loopback that the tool reaches under 127.0.0.1 and ::1. Private
// opens the ranges of RFC 1918, CGNAT and ULA. Errors are of kind
// policy_malformed.
func Parse(hosts []string, ports, loopback []int64, private bool) (Policy, error) {
	p := Policy{private: private}
	if len(hosts) > maxHosts {
		return p, fail.New(fail.PolicyMalformed, "use a pattern such as *.example.org", "%d hosts are more than %d", len(hosts), maxHosts)
	}
	for i, h := range hosts {
		host, err := parseHost(h)
		if err != nil {
			return p, fmt.Errorf("hosts item %d: %w", i, err)
		}
		p.hosts = append(p.hosts, host)
	}
	if len(ports) == 0 {
		ports = []int64{80, 443}
	}
	var err error
	if p.ports, err = parsePorts("ports", ports); err != nil {
		return p, err
	}
	p.loopback, err = parsePorts("loopback", loopback)
	return p, err
}

func parsePorts(what string, list []int64) (ports []uint16, err error) {
	for i, n := range list {
		if n < 1 || n > 65535 {
			return nil, fail.New(fail.PolicyMalformed, "write ports from 1 to 65535", "%s item %d: port %d", what, i, n)
		}
		if n == inside.DNSPort {
			return nil, fail.New(fail.PolicyMalformed, "leave it out: names are always resolved", "%s item %d: port 53 belongs to the resolver", what, i)
		}
		if !slices.Contains(ports, uint16(n)) {
			ports = append(ports, uint16(n))
		}
	}
	if len(ports) > maxPorts {
		return nil, fail.New(fail.PolicyMalformed, "", "%s: %d ports are more than %d", what, len(ports), maxPorts)
	}
	return ports, nil
}

func parseHost(s string) (string, error) {
	bad := func(hint, cause string) (string, error) {
		return "", fail.New(fail.PolicyMalformed, hint, "host %q: %s", s, cause)
	}
	if s == "*" {
		return bad("leave hosts out for any public host", "not a name")
	}
	name, wild := strings.CutPrefix(s, "*.")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return bad("write the name it has", "an address, and the tool reaches hosts by name only")
	}
	name, ok := hostName(name)
	switch {
	case ok && wild:
		return "*." + name, nil
	case ok:
		return name, nil
	case strings.Contains(name, "*"):
		return bad("a pattern is *. and then a name, such as *.example.org", "a star elsewhere")
	}
	return bad("write a name such as example.org, an international one in its xn-- form", "not a name")
}

// hostName returns s in lower case and without its last dot, and whether it is
// a name: at most 253 bytes, labels of 1 to 63 letters, digits, - and _, the
// last one not a number (which would be read as an address).
func hostName(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if s == "" || len(s) > 253 {
		return s, false
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return s, false
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return s, false
	}
	return s, true
}

// listed reports whether a name, as hostName returns it, fits the hosts.
func (p *Policy) listed(name string) bool {
	return slices.ContainsFunc(p.hosts, func(h string) bool {
		if below, wild := strings.CutPrefix(h, "*"); wild {
			return strings.HasSuffix(name, below)
		}
		return name == h
	})
}
