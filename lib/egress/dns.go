package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"forge/lib/egress/inside"
)

// synthetic is the range of the made-up addresses, RFC 2544.
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

const (
	maxNames   = 4096 // names a call may know
	maxRefused = 256  // refused names that are recorded
	maxQueries = 16   // at a time; a packet beyond is dropped, as on any network
	// maxAnswers keeps every answer below 512 bytes, so none is ever cut:
	// 12 of header, at most 259 of question, 8 of 28 bytes.
	maxAnswers = 8
	ttl        = 10 // seconds
)

// names is what the addresses given to the tool stand for.
type names struct {
	mu      sync.Mutex
	byAddr  map[netip.Addr]string
	byName  map[string]netip.Addr // made-up ones
	order   []netip.Addr          // of real ones: the oldest makes room
	refused map[string]bool
}

func (t *names) of(a netip.Addr) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.byAddr[a]
	return name, ok
}

// synthesize returns the made-up address of a name, false where there are
// maxNames already: an address never changes its name.
func (t *names) synthesize(name string) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.byName[name]; ok {
		return a, true
	}
	if len(t.byName) >= maxNames {
		return netip.Addr{}, false
	}
	if t.byName == nil {
		t.byName, t.byAddr = map[string]netip.Addr{}, map[netip.Addr]string{}
	}
	a := synthetic.Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+uint32(len(t.byName))+1)
	addr := netip.AddrFrom4(a)
	t.byName[name], t.byAddr[addr] = addr, name
	return addr, true
}

// remember notes that a real address was given for a name.
func (t *names) remember(a netip.Addr, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byAddr == nil {
		t.byAddr = map[netip.Addr]string{}
	}
	if _, known := t.byAddr[a]; !known {
		if len(t.order) >= maxNames {
			delete(t.byAddr, t.order[0])
			t.order = t.order[1:]
		}
		t.order = append(t.order, a)
	}
	t.byAddr[a] = name
}

// refuse reports whether the refusal of a name is new and to be recorded.
func (t *names) refuse(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused[name] || len(t.refused) >= maxRefused {
		return false
	}
	if t.refused == nil {
		t.refused = map[string]bool{}
	}
	t.refused[name] = true
	return true
}

// resolve asks the machine's resolver for the addresses of a name, the dot at
// the end keeping its search list out.
func (n *Net) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	network := "ip4"
	if n.v6 {
		network = "ip"
	}
	addrs, err := n.Resolver.LookupNetIP(ctx, network, name+".")
	if len(addrs) > 64 {
		addrs = addrs[:64]
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// lookup decides what a name is to the tool: its addresses, or a code.
func (n *Net) lookup(ctx context.Context, asked string) ([]netip.Addr, dnsmessage.RCode) {
	refuse := func(name string, a netip.Addr, reason Reason) {
		name = strings.Map(func(r rune) rune { // may hold anything
			if r <= ' ' || r >= 0x7f {
				return '?'
			}
			return r
		}, name)
		if n.names.refuse(name) {
			n.tell(Record{Time: time.Now(), Name: name, Addr: a, Verdict: Denied, Reason: reason})
		}
	}
	name, ok := hostName(asked)
	if len(n.policy.hosts) > 0 {
		if !ok || !n.policy.listed(name) {
			refuse(name, netip.Addr{}, NotListed)
			return nil, dnsmessage.RCodeNameError
		}
		a, ok := n.names.synthesize(name)
		if !ok {
			return nil, dnsmessage.RCodeServerFailure
		}
		return []netip.Addr{a}, dnsmessage.RCodeSuccess
	}
	if !ok {
		return nil, dnsmessage.RCodeNameError
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	all, err := n.resolve(ctx, name)
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil, dnsmessage.RCodeNameError
	}
	if err != nil {
		return nil, dnsmessage.RCodeServerFailure
	}
	var good []netip.Addr
	for _, a := range all {
		reason, err := judge(a, n.policy.private)
		if err != nil {
			return nil, dnsmessage.RCodeServerFailure
		}
		if reason != "" {
			refuse(name, a, reason)
			continue
		}
		good = append(good, a)
		n.names.remember(a, name)
	}
	if len(good) == 0 {
		return nil, dnsmessage.RCodeNameError
	}
	return good, dnsmessage.RCodeSuccess
}

// answer returns the reply to one query, nil for none. It never fails: what
// cannot be read as a query of one question is told so, or passed over.
// Additional records (EDNS) are not looked at; no reply is longer than 512 bytes.
func (n *Net) answer(ctx context.Context, query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := func(code dnsmessage.RCode, question *dnsmessage.Question, addrs []netip.Addr) []byte {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
			ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired,
			RecursionAvailable: true, RCode: code,
		})
		b.EnableCompression()
		_ = b.StartQuestions() // none of these can fail in this order
		if question != nil {
			if b.Question(*question) != nil {
				return nil
			}
			_ = b.StartAnswers()
			rh := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
			for _, a := range addrs {
				if a.Is4() {
					err = b.AResource(rh, dnsmessage.AResource{A: a.As4()})
				} else {
					err = b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: a.As16()})
				}
				if err != nil {
					return nil
				}
			}
		}
		out, err := b.Finish()
		if err != nil {
			return nil
		}
		return out
	}
	if h.OpCode != 0 {
		return reply(dnsmessage.RCodeNotImplemented, nil, nil)
	}
	q, err := p.Question()
	if err != nil {
		return reply(dnsmessage.RCodeFormatError, nil, nil)
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return reply(dnsmessage.RCodeFormatError, nil, nil)
	}
	if q.Class != dnsmessage.ClassINET || q.Type == dnsmessage.TypeALL || q.Type == dnsmessage.TypeAXFR {
		return reply(dnsmessage.RCodeNotImplemented, &q, nil)
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA && len(n.policy.hosts) == 0 {
		return reply(dnsmessage.RCodeSuccess, &q, nil) // whether it exists is not asked
	}
	addrs, code := n.lookup(ctx, q.Name.String())
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		return a.Is4() != (q.Type == dnsmessage.TypeA) || a.Is6() != (q.Type == dnsmessage.TypeAAAA)
	})
	return reply(code, &q, addrs[:min(len(addrs), maxAnswers)])
}

// dnsPackets answers over UDP until the socket is closed.
func (n *Net) dnsPackets(ctx context.Context, all *sync.WaitGroup) {
	slots := make(chan struct{}, maxQueries)
	buf, control := make([]byte, 4096), make([]byte, 256)
	for {
		size, nc, _, from, err := n.udpDNS.ReadMsgUDPAddrPort(buf, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		if from.Port() == inside.DNSPort { // another resolver: answers would go round
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		// The control message says which address was asked, and as it
		// stands, that the answer comes from there.
		query, at := slices.Clone(buf[:size]), slices.Clone(control[:nc])
		all.Go(func() {
			defer func() { <-slots }()
			if out := n.answer(ctx, query); out != nil {
				_, _, _ = n.udpDNS.WriteMsgUDPAddrPort(out, at, from)
			}
		})
	}
}

// dnsStream answers over TCP, RFC 1035 §4.2.2.
func (n *Net) dnsStream(ctx context.Context, c *net.TCPConn) {
	defer c.Close()
	for {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		out := n.answer(ctx, query)
		if out == nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}
