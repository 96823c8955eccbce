package egress

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"forge/lib/egress/inside"
	"forge/lib/fail"
)

// N03: what is public is reached, by any way to connect, and recorded.
func TestPublic(t *testing.T) {
	far := serve(t, internet, ":80", echo)
	b := newBox(t, parse(t, nil, nil, nil, false), &fake{names: map[string][]string{"example.org": {public4 + " " + public6}}})
	for i, address := range []string{public4 + ":80", "[" + public6 + "]:80", "[::ffff:" + public4 + "]:80"} {
		got, err := b.fetch(address)
		if got != "hello" {
			t.Errorf("%s: %q, %v", address, got, err)
		}
		r := b.wait(i + 1)[i]
		if r.Verdict != Allowed || r.Sent != 5 || r.Received != 5 || r.Port != 80 || r.Addr != netip.MustParseAddrPort(address).Addr().Unmap() {
			t.Errorf("%s: %+v", address, r)
		}
	}
	out, err := b.bash(`exec 3<>/dev/tcp/example.org/80 && echo hi >&3 && read -r x <&3 && echo "got $x"`)
	if out != "got hi\n" {
		t.Errorf("bash: %q, %v", out, err)
	}
	if r := b.wait(4)[3]; r.Name != "example.org" || r.Verdict != Allowed {
		t.Errorf("bash: %+v", r)
	}
	if far.count() != 4 {
		t.Errorf("the far end saw %d", far.count())
	}
	if _, err := b.fetch(public4 + ":81"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a port that is not in the policy: %v", err)
	}
}

// N04, N05: nothing that means this machine, its neighbours or a metadata
// service is reached. That the lab would let them through is asserted first.
func TestDenied(t *testing.T) {
	far := serve(t, internet, ":80", echo)
	host := serve(t, nil, ":80", echo)
	for _, a := range elsewhere {
		if a == "169.254.1.1" || a == "169.254.169.254" {
			continue
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort(a, "80"), time.Second)
		if err != nil {
			t.Errorf("the lab has no %s: %v", a, err)
			continue
		}
		c.Close()
	}
	if c, err := net.Dial("tcp", "169.254.169.254:80"); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	time.Sleep(50 * time.Millisecond)
	before, hostBefore := far.count(), host.count()

	b := newBox(t, parse(t, nil, nil, nil, false), nil)
	n := 0
	for _, c := range []struct {
		addr   string
		reason Reason // "" for an error at once and no record
	}{
		{"127.0.0.1", Loopback},
		{"127.9.9.9", Loopback},
		{"0.0.0.0", Loopback},
		{"::1", Loopback},
		{"::", Loopback},
		{"::ffff:127.0.0.1", Loopback},
		{"::127.0.0.1", Loopback},
		{"64:ff9b::7f00:1", Loopback},
		{"2002:7f00:1::", Loopback},
		{"169.254.169.254", Metadata},
		{"169.254.170.2", Metadata},
		{"::ffff:169.254.169.254", Metadata},
		{"64:ff9b::a9fe:a9fe", Metadata},
		{"2002:a9fe:a9fe::1", Metadata},
		{"fd00:ec2::254", Metadata},
		{"100.100.100.200", Metadata},
		{"168.63.129.16", Metadata},
		{"169.254.1.1", ""},
		{"::ffff:169.254.1.1", ""},
		{"fe80::1", ""},
		{"240.0.0.1", ""},
		{"0.1.2.3", ""},
		{"10.77.0.1", Private},
		{"::ffff:10.77.0.1", Private},
		{"fd77::1", Private},
		{"192.168.7.7", Private},
		{"100.64.0.7", Private},
		{"fc00::7", Private},
		{"45.0.0.7", Host},
		{"198.18.0.1", Reserved},
	} {
		got, err := b.fetch(net.JoinHostPort(c.addr, "80"))
		if err == nil {
			t.Errorf("%s answered %q", c.addr, got)
		}
		if c.reason == "" {
			if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) {
				t.Errorf("%s: %v, want EACCES", c.addr, err)
			}
			continue
		}
		n++
		if r := b.wait(n)[n-1]; r.Verdict != Denied || r.Reason != c.reason || r.Port != 80 || r.Sent+r.Received != 0 {
			t.Errorf("%s: %+v, want %s", c.addr, r, c.reason)
		}
	}
	// The other ways to write them are the program's, and the kernel sees no more.
	for _, form := range []string{"127.1", "2130706433", "0x7f000001", "0", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "localhost"} {
		out, err := b.bash("exec 3<>/dev/tcp/" + form + "/80 && echo hi >&3 && read -r x <&3 && echo got $x")
		if err == nil || strings.Contains(out, "got") {
			t.Errorf("bash %s: %q, %v", form, out, err)
		}
	}
	if far.count() != before || host.count() != hostBefore {
		t.Errorf("outside saw %v and %v", far.seen[before:], host.seen[hostBefore:])
	}
}

// Private opens private ranges, and neither this machine nor a metadata service.
func TestPrivate(t *testing.T) {
	serve(t, internet, ":80", echo)
	host := serve(t, nil, ":80", echo)
	b := newBox(t, parse(t, nil, nil, nil, true), nil)
	for _, c := range []struct {
		addr string
		ok   bool
	}{
		{"192.168.7.7", true},
		{"100.64.0.7", true},
		{"fc00::7", true},
		{"10.77.0.2", true},
		{"10.77.0.1", false},
		{"fd77::1", false},
		{"fd00:ec2::254", false},
		{"100.100.100.200", false},
		{"127.0.0.1", false},
	} {
		if got, err := b.fetch(net.JoinHostPort(c.addr, "80")); (got == "hello") != c.ok {
			t.Errorf("%s: %q, %v", c.addr, got, err)
		}
	}
	if host.count() != 0 {
		t.Errorf("this machine saw %v", host.seen)
	}
}

// N06: a name that alternates between a public address and loopback.
func TestRebinding(t *testing.T) {
	far := serve(t, internet, ":80", echo)
	host := serve(t, nil, ":80", echo)
	for _, hosts := range [][]string{nil, {"rebind.example"}} {
		// An odd number, since A and AAAA take an answer each.
		r := &fake{names: map[string][]string{"rebind.example": {public4, "127.0.0.1", "169.254.169.254", "10.77.0.1", "0.0.0.0"}}}
		b := newBox(t, parse(t, hosts, nil, nil, false), r)
		before, reached := far.count(), 0
		for range 12 {
			out, _ := b.bash(`exec 3<>/dev/tcp/rebind.example/80 && echo hi >&3 && read -r x <&3 && echo "got $x"`)
			if strings.Contains(out, "got hi") {
				reached++
			}
		}
		if reached == 0 || reached == 12 || far.count()-before != reached {
			t.Errorf("hosts %v: reached %d of 12, the far end saw %d", hosts, reached, far.count()-before)
		}
		b.end()
		for _, rec := range b.records {
			if rec.Name != "rebind.example" || rec.Verdict == Failed || rec.Verdict == Allowed && rec.Addr.String() != public4 {
				t.Errorf("%+v", rec)
			}
		}
	}
	if host.count() != 0 {
		t.Errorf("this machine saw %v", host.seen)
	}
}

// N08, N15: with hosts, a listed name is reached by name, no other name is
// resolved anywhere and no address written out is reached.
func TestHosts(t *testing.T) {
	far := serve(t, internet, ":80", echo)
	r := &fake{names: map[string][]string{"a.example.org": {public4}, "example.org": {public4}, "evil.test": {public4}, "in.example.org": {"10.77.0.2"}}}
	b := newBox(t, parse(t, []string{"*.example.org"}, nil, nil, false), r)
	line := `exec 3<>/dev/tcp/%s/80 && echo hi >&3 && read -r x <&3 && echo "got $x"`
	for _, name := range []string{"a.example.org", "A.Example.ORG", "a.example.org"} {
		if out, err := b.bash(fmt.Sprintf(line, name)); out != "got hi\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	b.wait(3) // a connection is recorded when it ends
	for _, name := range []string{"example.org", "evil.test", strings.Repeat("0123456789abcdef.", 13) + "evil.test", "aexample.org"} {
		if out, err := b.bash(fmt.Sprintf(line, name)); err == nil {
			t.Errorf("%s: %q", name, out)
		}
	}
	if _, err := b.fetch(public4 + ":80"); err == nil {
		t.Error("an address written out was reached")
	}
	if out, err := b.bash(fmt.Sprintf(line, "in.example.org")); err == nil {
		t.Errorf("in.example.org: %q", out)
	}
	records := b.wait(9)
	var words []string
	for _, r := range records {
		words = append(words, fmt.Sprintf("%.20s %s %s%s", r.Name, r.Addr, r.Verdict, r.Reason))
	}
	want := []string{
		"a.example.org 93.184.216.34 allowed", "a.example.org 93.184.216.34 allowed", "a.example.org 93.184.216.34 allowed",
		"example.org invalid IP deniednot_listed", "evil.test invalid IP deniednot_listed",
		"0123456789abcdef.012 invalid IP deniednot_listed", "aexample.org invalid IP deniednot_listed",
		" 93.184.216.34 deniednot_listed", "in.example.org 10.77.0.2 deniedprivate",
	}
	if !slices.Equal(words, want) {
		t.Errorf("records:\n%s", strings.Join(words, "\n"))
	}
	for _, name := range r.asked {
		if name != "a.example.org." && name != "in.example.org." {
			t.Errorf("the resolver was asked for %q", name)
		}
	}
	if far.count() != 3 {
		t.Errorf("the far end saw %d", far.count())
	}
}

// N12, N13: loopback ports reach this machine's, others stay inside.
func TestLoopback(t *testing.T) {
	open := serve(t, nil, "127.0.0.1:5001", echo)
	shut := serve(t, nil, "127.0.0.1:5002", echo)
	b := newBox(t, parse(t, nil, nil, []int64{5001, 80}, false), nil)
	for _, a := range []string{"127.0.0.1:5001", "[::1]:5001", "0.0.0.0:5001"} {
		if got, err := b.fetch(a); got != "hello" {
			t.Errorf("%s: %q, %v", a, got, err)
		}
	}
	for _, a := range []string{"127.0.0.1:5002", "127.0.0.2:5001", "10.77.0.1:5001", public4 + ":5001"} {
		if _, err := b.fetch(a); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v", a, err)
		}
	}
	if open.count() != 3 || shut.count() != 0 {
		t.Errorf("this machine saw %v and %v", open.seen, shut.seen)
	}
	if _, err := b.fetch("127.0.0.1:80"); err == nil { // allowed, and nobody is there
		t.Error("127.0.0.1:80 answered")
	}
	if r := b.wait(4)[3]; r.Verdict != Failed || r.Err == nil {
		t.Errorf("%+v", r)
	}
	own := serve(t, b.ns, "127.0.0.1:5000", echo)
	if got, err := b.fetch("127.0.0.1:5000"); got != "hello" || own.count() != 1 {
		t.Errorf("the tool's own server: %q, %v", got, err)
	}
}

// N17: connections beyond MaxConns are refused, another call's are not.
func TestCap(t *testing.T) {
	serve(t, internet, ":80", func(c *net.TCPConn) { _, _ = c.Write([]byte("x")); _, _ = io.Copy(io.Discard, c) })
	b := newBox(t, parse(t, nil, nil, nil, false), nil)
	other := newBox(t, parse(t, nil, nil, nil, false), nil)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	alive := 0
	for range 500 {
		c, err := b.dial(public4 + ":80")
		if err != nil {
			continue
		}
		held = append(held, c)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			alive++
		}
	}
	if alive != MaxConns {
		t.Errorf("%d of 500 are open, want %d", alive, MaxConns)
	}
	for _, r := range b.wait(500 - MaxConns) {
		if r.Verdict != Denied || r.Reason != TooMany || r.Addr.String() != public4 {
			t.Fatalf("%+v", r)
		}
	}
	if c, err := other.dial(public4 + ":80"); err != nil {
		t.Error(err)
	} else if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("another call: %v", err)
	}
	// The end of the call ends them all, and says so.
	b.end()
	for _, c := range held {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after the end: %v", err)
		}
	}
	if b.wait(500); slices.ContainsFunc(b.records, func(r Record) bool { return r.Verdict == Failed }) {
		t.Error("a connection failed")
	}
}

// 100 MB each way, the directions ending apart, arrive whole.
func TestSplice(t *testing.T) {
	const size = 100 << 20
	sum := func(seed uint64) (io.Reader, func() [32]byte) {
		h := sha256.New()
		src := io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), size)
		return io.TeeReader(src, h), func() [32]byte { return [32]byte(h.Sum(nil)) }
	}
	up, upSum := sum(1)
	down, downSum := sum(2)
	got := make(chan [32]byte, 1)
	serve(t, internet, ":80", func(c *net.TCPConn) {
		h := sha256.New()
		_, _ = io.Copy(h, c) // until the tool's half is closed, and only then answer
		got <- [32]byte(h.Sum(nil))
		_, _ = io.Copy(c, down)
	})
	b := newBox(t, parse(t, nil, nil, nil, false), nil)
	c, err := b.dial(public4 + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(c, up); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		t.Fatal(err)
	}
	if <-got != upSum() || [32]byte(h.Sum(nil)) != downSum() {
		t.Error("the bytes are not those sent")
	}
	if r := b.wait(1)[0]; r.Sent != size || r.Received != size {
		t.Errorf("%+v", r)
	}
}

// A reset and a host that is not there are told as such.
func TestFailures(t *testing.T) {
	serve(t, internet, ":80", func(c *net.TCPConn) {
		_, _ = c.Write([]byte("half"))
		_, _ = c.Read(make([]byte, 5))
		reset(c)
	})
	b := newBox(t, parse(t, nil, nil, nil, false), nil)
	const rounds = 50
	for range rounds {
		c, err := b.dial(public4 + ":80")
		if err != nil {
			t.Fatal(err)
		}
		failed := false
		var all sync.WaitGroup
		all.Go(func() {
			for range 1000 { // the write that meets the reset
				if _, err := c.Write([]byte("hello")); err != nil {
					failed = true
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
		_, err = io.ReadAll(c)
		all.Wait() // the error comes once, to the one or the other
		if err == nil && !failed {
			t.Error("a reset came as an end")
		}
		c.Close()
	}
	for _, r := range b.wait(rounds) {
		if r.Verdict != Allowed {
			t.Errorf("%+v", r)
		}
	}
	if _, err := b.fetch(public4 + ":443"); err == nil {
		t.Error("nobody answered")
	}
	if r := b.wait(rounds + 1)[rounds]; r.Verdict != Failed || r.Err == nil || r.Addr.String() != public4 {
		t.Errorf("%+v", r)
	}
}

// After calls have ended no descriptor is left, whatever state they were in.
func TestNothingLeft(t *testing.T) {
	serve(t, internet, ":80", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	run := func() {
		b := newBox(t, parse(t, nil, nil, []int64{5001}, false), nil)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if c, err := b.dial(public4 + ":80"); err == nil {
					_, _ = c.Write([]byte("x"))
					c.Close()
				}
			})
		}
		all.Wait()
		b.end()
	}
	count := func() int {
		for range 3 { // the pipes of splices are pooled until they are collected
			runtime.GC()
			time.Sleep(20 * time.Millisecond)
		}
		return descriptors(t)
	}
	run()
	before := count()
	for range 5 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// Adopt takes what inside.Open opened, as the stage hands it over, and no
// socket of this machine's own network.
func TestAdopt(t *testing.T) {
	serve(t, internet, ":80", echo)
	p := parse(t, nil, nil, nil, false)
	ns, err := newNetns()
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	if err := in(ns, func() (err error) {
		files, err = inside.Open(Plan(p))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	n, err := Adopt(files, p)
	if err != nil {
		t.Fatal(err)
	}
	b := serveBox(t, ns, n, nil)
	if got, err := b.fetch(public4 + ":80"); got != "hello" {
		t.Errorf("%q, %v", got, err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Adopt([]*os.File{f}, p); fail.KindOf(err) != fail.NetworkUnavailable || !strings.Contains(err.Error(), "this machine's network") {
		t.Errorf("a socket of this machine: %v", err)
	}
	if _, err := Adopt(nil, p); fail.KindOf(err) != fail.NetworkUnavailable {
		t.Errorf("no sockets: %v", err)
	}
}

// The address that is dialled is judged even where the name was fine before.
func TestDialJudges(t *testing.T) {
	_, err := dial(context.Background(), netip.MustParseAddrPort("127.0.0.1:80"), func(a, _ netip.AddrPort) error {
		reason, _ := judge(a.Addr(), true)
		return denial{reason, a.Addr()}
	})
	var d denial
	if !errors.As(err, &d) || d.reason != Loopback {
		t.Error(err)
	}
}

// N07: a thread that flips the address under connect gains nothing, since the
// program's memory is never read.
func TestFlip(t *testing.T) {
	seen := serve(t, internet, "169.254.169.254:80", echo)
	serve(t, internet, public4+":80", echo)
	b := newBox(t, parse(t, nil, nil, nil, false), nil)
	sa := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: binary.NativeEndian.Uint16([]byte{0, 80})}
	word := (*atomic.Uint32)(unsafe.Pointer(&sa.Addr))
	good := binary.NativeEndian.Uint32(netip.MustParseAddr(public4).AsSlice())
	evil := binary.NativeEndian.Uint32([]byte{169, 254, 169, 254})
	word.Store(good)
	var stop atomic.Bool
	var flipper sync.WaitGroup
	flipper.Go(func() {
		for !stop.Load() {
			word.Store(evil)
			word.Store(good)
		}
	})
	connected := 0
	err := in(b.ns, func() error {
		for range 1500 {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), unix.SizeofSockaddrInet4); e == 0 {
				connected++
			}
			unix.Close(fd)
		}
		return nil
	})
	stop.Store(true)
	flipper.Wait()
	if err != nil || connected == 0 {
		t.Fatalf("%d connected, %v", connected, err)
	}
	b.wait(connected)
	denied := 0
	for _, r := range b.records {
		if r.Reason == Metadata {
			denied++
		}
	}
	if denied == 0 || seen.count() != 0 {
		t.Errorf("%d of %d denied, the metadata service saw %d", denied, connected, seen.count())
	}
}

// On a machine without IPv6 the tool has none, and IPv4 in its mapped form.
func TestOnlyIPv4(t *testing.T) {
	serve(t, internet, ":80", echo)
	p := parse(t, nil, nil, nil, false)
	ns, err := newNetns()
	if err != nil {
		t.Fatal(err)
	}
	plan := Plan(p)
	if !plan.V6 {
		t.Error("the lab has IPv6, and Plan does not see it")
	}
	plan.V6 = false
	var files []*os.File
	if err := in(ns, func() (err error) {
		files, err = inside.Open(plan)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	n, err := Adopt(files, p)
	if err != nil {
		t.Fatal(err)
	}
	b := serveBox(t, ns, n, &fake{names: map[string][]string{"a.example": {public4 + " " + public6}}})
	for _, a := range []string{public4, "::ffff:" + public4} {
		if got, err := b.fetch(net.JoinHostPort(a, "80")); got != "hello" {
			t.Errorf("%s: %q, %v", a, got, err)
		}
	}
	if _, err := b.fetch("[" + public6 + "]:80"); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("IPv6: %v", err)
	}
	if out, err := b.bash(`exec 3<>/dev/tcp/a.example/80 && echo hi >&3 && read -r x <&3 && echo "got $x"`); out != "got hi\n" {
		t.Errorf("by name: %q, %v", out, err)
	}
	if got := say(n.answer(t.Context(), query("a.example.", dnsmessage.TypeAAAA))); got != "Success" {
		t.Errorf("AAAA: %s", got)
	}
}

// What a call pays before its tool starts.
func BenchmarkListen(b *testing.B) {
	p, err := Parse(nil, nil, nil, false)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		ns, err := newNetns()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		n, err := Listen(ns, p)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		n.Close()
		ns.Close()
		b.StartTimer()
	}
}

// A reset that a write met reads as an end; gone tells the two apart.
func TestGone(t *testing.T) {
	peer, hold := make(chan *net.TCPConn), make(chan struct{})
	serve(t, internet, ":80", func(c *net.TCPConn) { peer <- c; <-hold })
	t.Cleanup(func() { close(hold) }) // before that of serve
	for _, c := range []struct {
		end  func(*net.TCPConn)
		want bool
	}{
		{func(c *net.TCPConn) { _ = c.CloseWrite() }, false},
		{reset, true},
	} {
		conn, err := net.Dial("tcp", public4+":80")
		if err != nil {
			t.Fatal(err)
		}
		near := conn.(*net.TCPConn)
		c.end(<-peer)
		time.Sleep(20 * time.Millisecond)
		if _, err := near.Write([]byte("x")); (err != nil) != c.want {
			t.Errorf("write: %v", err)
		}
		n, err := near.Read(make([]byte, 1))
		if n != 0 || !errors.Is(err, io.EOF) || gone(near) != c.want {
			t.Errorf("%d, %v, gone is not %v", n, err, c.want)
		}
		near.Close()
	}
}
