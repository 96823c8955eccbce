package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// query is a question as a program's resolver packs it, with EDNS.
func query(name string, kind dnsmessage.Type) []byte {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 4711, RecursionDesired: true})
	_ = b.StartQuestions()
	_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET})
	_ = b.StartAdditionals()
	var h dnsmessage.ResourceHeader
	_ = h.SetEDNS0(1232, dnsmessage.RCodeSuccess, true)
	_ = b.OPTResource(h, dnsmessage.OPTResource{})
	out, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return out
}

// say is a reply in short.
func say(reply []byte) string {
	if reply == nil {
		return "nothing"
	}
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		return err.Error()
	}
	words := []string{strings.TrimPrefix(m.RCode.String(), "RCode")}
	for _, a := range m.Answers {
		switch r := a.Body.(type) {
		case *dnsmessage.AResource:
			words = append(words, netip.AddrFrom4(r.A).String())
		case *dnsmessage.AAAAResource:
			words = append(words, netip.AddrFrom16(r.AAAA).String())
		}
	}
	if !m.Response || m.ID != 4711 || !m.RecursionAvailable || len(reply) > 512 {
		words = append(words, fmt.Sprintf("%+v, %d bytes", m.Header, len(reply)))
	}
	return strings.Join(words, " ")
}

func testNet(r Resolver, hosts ...string) *Net {
	p, err := Parse(hosts, nil, nil, false)
	if err != nil {
		panic(err)
	}
	return &Net{Resolver: r, policy: p, v6: true, record: func(Record) {}}
}

func TestAnswer(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 62)+".", 4) // 252 bytes
	long = "b" + long                                      // 253 with the dot, and a label of 63
	many := ""
	for i := range 80 {
		many += fmt.Sprintf("93.184.217.%d 2606:2800:220:1::%x ", i, i)
	}
	r := &fake{names: map[string][]string{
		"both.example": {public4 + " " + public6 + " 127.0.0.1 ::1 10.77.0.1 fd00:ec2::254"},
		"four.example": {public4}, "bad.example": {"127.0.0.1 169.254.169.254 ::ffff:10.0.0.1"},
		"many.example": {many}, strings.TrimSuffix(long, "."): {public4},
	}}
	open, listed := testNet(r), testNet(r, "both.example", "*.wild.example")
	raw := func(edit func([]byte) []byte) []byte { return edit(query("both.example.", dnsmessage.TypeA)) }
	for _, c := range []struct {
		what         string
		query        []byte
		open, listed string
	}{
		{"A", query("both.example.", dnsmessage.TypeA), "Success " + public4, "Success 198.18.0.1"},
		{"AAAA", query("both.example.", dnsmessage.TypeAAAA), "Success " + public6, "Success"},
		{"another case", query("BOTH.example.", dnsmessage.TypeA), "Success " + public4, "Success 198.18.0.1"},
		{"below a pattern", query("x.wild.example.", dnsmessage.TypeA), "NameError", "Success 198.18.0.2"},
		{"AAAA of a name without", query("four.example.", dnsmessage.TypeAAAA), "Success", "NameError"},
		{"nothing public", query("bad.example.", dnsmessage.TypeA), "NameError", "NameError"},
		{"no such name", query("none.example.", dnsmessage.TypeA), "NameError", "NameError"},
		{"TXT", query("both.example.", dnsmessage.TypeTXT), "Success", "Success"},
		{"HTTPS", query("none.example.", 65), "Success", "NameError"},
		{"PTR", query("34.216.184.93.in-addr.arpa.", dnsmessage.TypePTR), "Success", "NameError"},
		{"ANY", query("both.example.", dnsmessage.TypeALL), "NotImplemented", "NotImplemented"},
		{"AXFR", query("both.example.", dnsmessage.TypeAXFR), "NotImplemented", "NotImplemented"},
		{"the root", query(".", dnsmessage.TypeA), "NameError", "NameError"},
		{"an address as a name", query("127.0.0.1.", dnsmessage.TypeA), "NameError", "NameError"},
		{"253 bytes", query(long, dnsmessage.TypeA), "Success " + public4, "NameError"},
		{"a space", query("a b.example.", dnsmessage.TypeA), "NameError", "NameError"},
		{"empty", nil, "nothing", "nothing"},
		{"a response", raw(func(b []byte) []byte { b[2] |= 0x80; return b }), "nothing", "nothing"},
		{"another opcode", raw(func(b []byte) []byte { b[2] |= 5 << 3; return b }), "NotImplemented", "NotImplemented"},
		{"another class", raw(func(b []byte) []byte { b[29] = 3; return b }), "NotImplemented", "NotImplemented"},
		{"cut short", raw(func(b []byte) []byte { return b[:20] }), "FormatError", "FormatError"},
		{"no question", raw(func(b []byte) []byte { b[5] = 0; return b }), "FormatError", "FormatError"},
		{"two questions", raw(func(b []byte) []byte { b[5] = 2; return b }), "FormatError", "FormatError"},
		{"65,535 questions", raw(func(b []byte) []byte { b[4], b[5] = 255, 255; return b }), "FormatError", "FormatError"},
		{"a name that points at itself", raw(func(b []byte) []byte { b[12], b[13] = 0xc0, 12; return b }), "FormatError", "FormatError"},
		{"garbage behind", raw(func(b []byte) []byte { return append(b, 1, 2, 3) }), "Success " + public4, "Success 198.18.0.1"},
	} {
		if got := say(open.answer(t.Context(), c.query)); got != c.open {
			t.Errorf("%s: %s, want %s", c.what, got, c.open)
		}
		if got := say(listed.answer(t.Context(), c.query)); got != c.listed {
			t.Errorf("%s, with hosts: %s, want %s", c.what, got, c.listed)
		}
	}
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		if got := strings.Fields(say(open.answer(t.Context(), query("many.example.", kind)))); len(got) != 1+maxAnswers {
			t.Errorf("many addresses: %v", got)
		}
	}
	r.asked = nil
	for _, name := range []string{"both.example.", "none.example.", "secret.in.a.label.evil.example."} {
		listed.answer(t.Context(), query(name, dnsmessage.TypeA))
	}
	if r.asked != nil {
		t.Errorf("with hosts, the resolver was asked for %q", r.asked)
	}
}

type failing struct{ error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, f }

func TestAnswerFailure(t *testing.T) {
	n := testNet(failing{errors.New("no resolver")})
	if got := say(n.answer(t.Context(), query("a.example.", dnsmessage.TypeA))); got != "ServerFailure" {
		t.Error(got)
	}
}

// What a tool can make the supervisor keep is bounded.
func TestTables(t *testing.T) {
	recorded := 0
	n := testNet(&fake{}, "*.example")
	n.record = func(Record) { recorded++ }
	seen := map[string]bool{}
	for i := range 5000 {
		got := say(n.answer(t.Context(), query(fmt.Sprintf("n%d.example.", i), dnsmessage.TypeA)))
		if i >= maxNames && got != "ServerFailure" || i < maxNames && seen[got] {
			t.Fatalf("name %d: %s", i, got)
		}
		seen[got] = true
		n.answer(t.Context(), query(fmt.Sprintf("n%d.evil.", i), dnsmessage.TypeA))
	}
	if recorded != maxRefused {
		t.Errorf("%d refused names recorded", recorded)
	}
	var real names
	for i := range 5000 {
		real.remember(netip.AddrFrom4([4]byte{93, 1, byte(i >> 8), byte(i)}), "a.example")
	}
	if len(real.byAddr) != maxNames || len(real.order) != maxNames {
		t.Errorf("%d addresses remembered, %d in order", len(real.byAddr), len(real.order))
	}
}

// N10: a name is answered from whatever address it was asked of, over UDP and
// TCP, and no other packet leaves.
func TestNameservers(t *testing.T) {
	var heard []net.PacketConn
	for _, address := range []string{public4 + ":53", "[" + public6 + "]:53", public4 + ":5353"} {
		if err := in(internet, func() error {
			c, err := net.ListenPacket("udp", address)
			heard = append(heard, c)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	b := newBox(t, parse(t, nil, nil, nil, false), &fake{names: map[string][]string{"a.example": {public4}}})
	for _, server := range []string{public4, public6, "127.0.0.1", "::1", "8.8.8.8", "10.255.255.53"} {
		for _, network := range []string{"udp", "tcp"} {
			var c net.Conn
			err := in(b.ns, func() (err error) {
				c, err = net.Dial(network, net.JoinHostPort(server, "53"))
				return err
			})
			if err != nil {
				t.Errorf("%s %s: %v", network, server, err)
				continue
			}
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			q, buf := query("a.example.", dnsmessage.TypeA), make([]byte, 1500)
			n := 0
			if network == "tcp" {
				_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...))
				if _, err = io.ReadFull(c, buf[:2]); err == nil {
					n, err = io.ReadFull(c, buf[:binary.BigEndian.Uint16(buf)])
				}
			} else {
				_, _ = c.Write(q)
				n, err = c.Read(buf) // connected: only an answer from there arrives
			}
			if got := say(buf[:n]); got != "Success "+public4 || err != nil {
				t.Errorf("%s %s: %s, %v", network, server, got, err)
			}
			c.Close()
		}
	}
	err := in(b.ns, func() error {
		c, err := net.Dial("udp", public4+":5353")
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = c.Write([]byte("out?"))
		_, err = c.Write([]byte("out?"))
		return err
	})
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("UDP to a port nobody has: %v", err)
	}
	for _, c := range heard {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, from, err := c.ReadFrom(make([]byte, 1500)); err == nil {
			t.Errorf("%s got %d bytes from %s", c.LocalAddr(), n, from)
		}
		c.Close()
	}
}

// FuzzAnswer holds for any packet: no panic, nothing longer than 512 bytes, and
// a reply that reads as one to the packet.
func FuzzAnswer(f *testing.F) {
	f.Add(query("both.example.", dnsmessage.TypeA))
	f.Add(query("x.wild.example.", dnsmessage.TypeAAAA))
	f.Add(query(strings.Repeat("a.", 126)+".", dnsmessage.TypeA)[:40])
	f.Add([]byte{18, 103, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	r := &fake{names: map[string][]string{"both.example": {public4 + " " + public6}}}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, n := range []*Net{testNet(r), testNet(r, "both.example", "*.wild.example")} {
			out := n.answer(t.Context(), slices.Clone(in))
			if out == nil {
				continue
			}
			var m dnsmessage.Message
			if err := m.Unpack(out); err != nil || len(out) > 512 || !m.Response || m.ID != binary.BigEndian.Uint16(in) {
				t.Fatalf("%x: %x, %v", in, out, err)
			}
			for _, a := range m.Answers {
				if four, ok := a.Body.(*dnsmessage.AResource); ok && len(n.policy.hosts) > 0 && !synthetic.Contains(netip.AddrFrom4(four.A)) {
					t.Fatalf("%x: a real address", in)
				}
			}
		}
	})
}
