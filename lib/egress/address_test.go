package egress

import (
	"net/netip"
	"testing"

	"forge/lib/fail"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		addr    string
		closed  Reason // without private
		private Reason // with it
	}{
		{"93.184.216.34", "", ""},
		{"::ffff:93.184.216.34", "", ""},
		{"2606:2800:220:1::34", "", ""},
		{"64:ff9b::5db8:d822", "", ""}, // 93.184.216.34 by way of NAT64
		{"2002:5db8:d822::1", "", ""},
		{"127.0.0.1", Loopback, Loopback},
		{"127.255.255.255", Loopback, Loopback},
		{"0.0.0.0", Loopback, Loopback},
		{"0.1.2.3", Loopback, Loopback},
		{"::1", Loopback, Loopback},
		{"::", Loopback, Loopback},
		{"::ffff:127.0.0.1", Loopback, Loopback},
		{"::ffff:0.0.0.0", Loopback, Loopback},
		{"::ffff:0:127.0.0.1", Loopback, Loopback},
		{"::127.0.0.1", Loopback, Loopback},
		{"64:ff9b::7f00:1", Loopback, Loopback},
		{"2002:7f00:1::1", Loopback, Loopback},
		{"169.254.169.254", Metadata, Metadata},
		{"169.254.170.2", Metadata, Metadata},
		{"169.254.170.23", Metadata, Metadata},
		{"::ffff:a9fe:a9fe", Metadata, Metadata},
		{"::169.254.169.254", Metadata, Metadata},
		{"64:ff9b::a9fe:a9fe", Metadata, Metadata},
		{"2002:a9fe:a9fe::", Metadata, Metadata},
		{"2606:2800:220:1:0:5efe:a9fe:a9fe", Metadata, Metadata}, // ISATAP
		{"fd00:ec2::254", Metadata, Metadata},
		{"fd00:ec2::23", Metadata, Metadata},
		{"fd20:ce::254", Metadata, Metadata},
		{"100.100.100.200", Metadata, Metadata},
		{"168.63.129.16", Metadata, Metadata},
		{"192.0.0.192", Metadata, Metadata},
		{"169.254.0.1", LinkLocal, LinkLocal},
		{"fe80::1", LinkLocal, LinkLocal},
		{"fe80::1%eth0", LinkLocal, LinkLocal},
		{"2606:2800:220:1::34%eth0", LinkLocal, LinkLocal},
		{"febf::1", LinkLocal, LinkLocal},
		{"224.0.0.1", Multicast, Multicast},
		{"239.255.255.250", Multicast, Multicast},
		{"255.255.255.255", Multicast, Multicast},
		{"ff02::1", Multicast, Multicast},
		{"64:ff9b::e000:1", Multicast, Multicast},
		{"240.0.0.1", Reserved, Reserved},
		{"198.18.0.1", Reserved, Reserved},
		{"192.0.0.1", Reserved, Reserved},
		{"2001:0:5db8:d822::1", Reserved, Reserved}, // Teredo
		{"64:ff9b:1::7f00:1", Reserved, Reserved},
		{"64:ff9b:1::5db8:d822", Reserved, Reserved},
		{"::93.184.216.34", Reserved, Reserved},
		{"100::1", Reserved, Reserved},
		{"4000::1", Reserved, Reserved},
		{"10.0.0.1", Private, ""},
		{"172.16.0.1", Private, ""},
		{"172.32.0.1", "", ""},
		{"192.168.0.1", Private, ""},
		{"::ffff:192.168.0.1", Private, ""},
		{"64:ff9b::c0a8:1", Private, ""},
		{"2002:c0a8:1::1", Private, ""},
		{"100.64.0.1", Private, ""},
		{"100.128.0.1", "", ""},
		{"fc00::1", Private, ""},
		{"fd12::1", Private, ""},
		{"192.0.2.1", Private, ""},
		{"2001:db8::1", Private, ""},
	} {
		a := netip.MustParseAddr(c.addr)
		if got := classify(a, false); got != c.closed {
			t.Errorf("%s: %q, want %q", c.addr, got, c.closed)
		}
		if got := classify(a, true); got != c.private {
			t.Errorf("%s, private: %q, want %q", c.addr, got, c.private)
		}
	}
	if got := classify(netip.Addr{}, true); got == "" {
		t.Error("no address is allowed")
	}
}

// judge knows this machine's addresses, in every form and as they are now.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		addr string
		want Reason
	}{
		{"10.77.0.1", Host},
		{"::ffff:10.77.0.1", Host},
		{"64:ff9b::a4d:1", Host},
		{"2002:a4d:1::1", Host},
		{"fd77::1", Host},
		{"10.77.0.255", Host}, // broadcast
		{"45.0.0.9", Host},    // by a route alone
		{"64:ff9b::2d00:9", Host},
		{"10.77.0.2", ""},
		{public4, ""},
	} {
		if got, err := judge(netip.MustParseAddr(c.addr), true); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.addr, got, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		hosts           []string
		ports, loopback []int64
		err             string
	}{
		{hosts: []string{"example.org", "*.Example.ORG", "xn--bcher-kva.example", "a_b.example", "localhost"}},
		{ports: []int64{443, 8443, 443}, loopback: []int64{5432}},
		{hosts: []string{"a.org", ""}, err: `hosts item 1: host "": not a name`},
		{hosts: []string{"*"}, err: `hosts item 0: host "*": not a name`},
		{hosts: []string{"a.*.org"}, err: `hosts item 0: host "a.*.org": a star elsewhere`},
		{hosts: []string{"*.*.org"}, err: `hosts item 0: host "*.*.org": a star elsewhere`},
		{hosts: []string{"10.0.0.1"}, err: `hosts item 0: host "10.0.0.1": an address, and the tool reaches hosts by name only`},
		{hosts: []string{"[::1]"}, err: `hosts item 0: host "[::1]": an address, and the tool reaches hosts by name only`},
		{hosts: []string{"127.1"}, err: `hosts item 0: host "127.1": not a name`},
		{hosts: []string{"0x7f000001"}, err: `hosts item 0: host "0x7f000001": not a name`},
		{hosts: []string{"bücher.example"}, err: `hosts item 0: host "bücher.example": not a name`},
		{hosts: []string{"http://a.org"}, err: `hosts item 0: host "http://a.org": not a name`},
		{hosts: []string{"a..org"}, err: `hosts item 0: host "a..org": not a name`},
		{hosts: make([]string, 257), err: `257 hosts are more than 256`},
		{ports: []int64{0}, err: `ports item 0: port 0`},
		{ports: []int64{80, 65536}, err: `ports item 1: port 65536`},
		{ports: []int64{53}, err: `ports item 0: port 53 belongs to the resolver`},
		{loopback: []int64{-1}, err: `loopback item 0: port -1`},
	} {
		_, err := Parse(c.hosts, c.ports, c.loopback, false)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.err != "" && (err == nil || err.Error() != c.err || fail.KindOf(err) != fail.PolicyMalformed):
			t.Errorf("%+v: %v (%s)", c, err, fail.KindOf(err))
		}
	}
	p := parse(t, []string{"one.example", "*.two.example"}, nil, nil, false)
	for name, want := range map[string]bool{
		"one.example": true, "a.one.example": false, "one.example.evil": false,
		"two.example": false, "a.two.example": true, "a.b.two.example": true, "atwo.example": false, ".two.example": true,
	} {
		if p.listed(name) != want {
			t.Errorf("%q: listed is not %v", name, want)
		}
	}
}
