package udp_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// TestNamespace runs tests that loopback does not allow in a separate network namespace, which ends with the process:
// IPv6 multicast, other interfaces and their choice, a smaller MTU, a limit on memberships, interfaces that appear and
// disappear.
func TestNamespace(t *testing.T) {
	testenv.Slow(t)
	if !testenv.Namespace(t) {
		return
	}
	t.Run("DefaultInterfaceIsLoopback", testDefaultIsLoopback)
	t.Run("IPv6", testIPv6)
	if !plainPath { // which has no GSO and does not detect changes
		t.Run("GSORefused", testGSORefused)
		t.Run("LinkChanges", testLinkChanges)
		t.Run("ManyGroups", testManyGroups)
	}
	t.Run("GroupLimit", testGroupLimit)
	t.Run("NoMulticast", testNoMulticast)
	t.Run("Interfaces", testInterfaces) // last, because it adds interfaces
}

// If no other interface exists, the default is loopback, and it works.
func testDefaultIsLoopback(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	defer end(a)
	defer end(b)
	if a.Interface() != "lo" {
		t.Fatalf("the default interface is %s, want lo", a.Interface())
	}
	if !receives(t, a, b, "hello") {
		t.Error("packets do not arrive")
	}
}

func testIPv6(t *testing.T) {
	testenv.RouteIPv6Multicast(t, "lo")
	conformance(t, func(t testing.TB) udp.Config {
		return udp.Config{Interface: "lo", Range: netip.MustParsePrefix("ff15::20:0/112"), Port: testenv.Port(t), Groups: 4}
	})
	a := open(t, udp.Config{Range: netip.MustParsePrefix("ff15::20:0/112")})
	defer end(a)
	if got := a.GroupAddress(1); got != "[ff15::20:1]:7400" || a.Interface() != "lo" {
		t.Errorf("group 1 is %s on %s, want [ff15::20:1]:7400 on lo", got, a.Interface())
	}
}

// When the path no longer supports trains, packets are sent singly from then on, and nothing is lost.
func testGSORefused(t *testing.T) {
	cfg := loopback(t)
	a, b := open(t, cfg), open(t, cfg)
	defer end(a)
	defer end(b)
	if !a.Capabilities().GSO || !a.Capabilities().EqualTrains {
		t.Fatal("no GSO at the start")
	}
	testenv.SetMTU(t, "lo", 1000)
	defer testenv.SetMTU(t, "lo", 65536)
	if err := b.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := a.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	const size, count = 1472, 20
	out := &transport.Outbound{Data: make([]byte, size*count), Stride: size, Count: count}
	for i := range count {
		out.Data[i*size] = byte(i)
		out.Lens = append(out.Lens, size)
	}
	for round := range 3 {
		if n, err := s.Send(out); n != count || err != nil {
			t.Fatalf("Send: %d packets, error %v, want %d", n, err, count)
		}
		got := receive(t, b, count)
		for i, p := range got {
			if len(p) != size || p[0] != byte(i) {
				t.Fatalf("round %d: packet %d has %d bytes and number %d, want %d and %d", round, i, len(p), p[0], size, i)
			}
		}
	}
	if c, st := a.Capabilities(), a.Stats(); c.GSO || c.EqualTrains || st.GSORefused != 1 || st.SendErrors != 0 || st.PacketsSent != 3*count {
		t.Errorf("after a refusal: capabilities %+v, statistics %+v, want no GSO, 1 refusal and %d packets sent", c, st, 3*count)
	}
}

// The kernel's limit on memberships is reported as an event whose error matches both ErrGroupLimit and the kernel's,
// and the other groups work.
func testGroupLimit(t *testing.T) {
	const limit = "/proc/sys/net/ipv4/igmp_max_memberships"
	old, err := os.ReadFile(limit)
	if err != nil {
		testenv.Skip(t, "%v", err)
	}
	cfg := loopback(t)
	a, b := open(t, cfg), open(t, cfg)
	defer end(a)
	defer end(b)
	if !receives(t, a, b, "before") {
		t.Fatal("packets do not arrive")
	}
	if err := os.WriteFile(limit, []byte("0"), 0o644); err != nil {
		testenv.Skip(t, "%v", err)
	}
	defer os.WriteFile(limit, old, 0o644)
	if err := b.Join(1); err != nil {
		t.Fatal(err)
	}
	batch := transport.NewBatch(4)
	if err := b.Poll(batch); err != nil || len(batch.Events) != 1 {
		t.Fatalf("events %+v, error %v, want 1 event", batch.Events, err)
	}
	ev := batch.Events[0]
	if ev.Group != 1 || ev.State != transport.Failed || !errors.Is(ev.Err, transport.ErrGroupLimit) || !errors.Is(ev.Err, unix.ENOBUFS) {
		t.Errorf("event %+v, want that joining group 1 failed with %v and %v", ev, transport.ErrGroupLimit, unix.ENOBUFS)
	}
	if !strings.Contains(ev.Err.Error(), "raise net.ipv4.igmp_max_memberships") {
		t.Errorf("the error has no advice: %v", ev.Err)
	}
	if st := b.Stats(); st.JoinsFailed != 1 || st.Joins != 1 {
		t.Errorf("statistics %+v, want 1 join and 1 failed join", st)
	}
	if !receives(t, a, b, "after") {
		t.Error("the group joined before receives nothing")
	}
}

// Each group has a separate socket: a transport can join all groups, however few the kernel permits for one socket.
func testManyGroups(t *testing.T) {
	testenv.Sysctl(t, "net/ipv4/igmp_max_memberships", "1")
	defer testenv.Sysctl(t, "net/ipv4/igmp_max_memberships", "20")
	cfg := loopback(t)
	cfg.Range, cfg.Groups = netip.MustParsePrefix("239.22.0.0/24"), 64
	a := open(t, cfg)
	defer end(a)
	for group := range cfg.Groups {
		if err := a.Join(group); err != nil {
			t.Fatal(err)
		}
	}
	batch := transport.NewBatch(cfg.Groups)
	if err := a.Poll(batch); err != nil {
		t.Fatal(err)
	}
	for _, e := range batch.Events {
		if e.State != transport.Joined {
			t.Errorf("event %+v, want %v", e, transport.Joined)
		}
	}
	if st := a.Stats(); st.Joins != 64 || st.JoinsFailed != 0 {
		t.Errorf("statistics %+v, want 64 joins and none failed", st)
	}
}

// noAddressChecks makes new IPv6 addresses usable immediately, without duplicate address detection.
func noAddressChecks(t *testing.T) {
	t.Helper()
	for _, name := range []string{"all", "default"} {
		testenv.Sysctl(t, "net/ipv6/conf/"+name+"/accept_dad", "0")
	}
}

func awaitIPv6(t *testing.T, name string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		i, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil {
				return
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("%s has no IPv6 address", name)
		}
	}
}

// An interface that does not support multicast is refused, by name and by address. The error names an interface that
// does. It is never the default.
func testNoMulticast(t *testing.T) {
	testenv.AddVeth(t, "mute", "mute-end", 0)
	defer testenv.DelLink(t, "mute")
	testenv.AddAddr(t, "mute", "10.79.0.1/24")
	testenv.LinkUp(t, "mute")
	testenv.LinkUp(t, "mute-end")
	testenv.LinkMulticast(t, "mute", false)
	refused := func(name, other string) {
		t.Helper()
		tr, err := udp.Open(udp.Config{Interface: name})
		if err == nil {
			end(tr)
			t.Fatalf("%s was accepted", name)
		}
		if s := err.Error(); !strings.Contains(s, "interface mute does not support multicast") || !strings.Contains(s, other) {
			t.Errorf("%s: error %s, want that interface mute lacks multicast, and %q", name, s, other)
		}
	}
	refused("mute", "use that") // loopback, which works without the flag MULTICAST
	testenv.AddVeth(t, "good", "good-end", 0)
	defer testenv.DelLink(t, "good")
	testenv.AddAddr(t, "good", "10.79.1.1/24")
	testenv.LinkUp(t, "good")
	testenv.LinkUp(t, "good-end")
	refused("mute", "use good")
	refused("10.79.0.1", "use good")
	tr := open(t, udp.Config{})
	defer end(tr)
	if tr.Interface() != "good" {
		t.Errorf("the default interface is %s, want good", tr.Interface())
	}
	testenv.LinkMulticast(t, "mute", true)
	again := open(t, udp.Config{Interface: "mute"})
	end(again)
}

func testInterfaces(t *testing.T) {
	noAddressChecks(t)
	for i, name := range []string{"left", "right"} {
		testenv.AddVeth(t, name, name+"-end", 0)
		testenv.AddAddr(t, name, fmt.Sprintf("10.77.%d.1/24", i))
		testenv.LinkUp(t, name)
		testenv.LinkUp(t, name+"-end")
	}
	// The kernel assigns link-local addresses some time after the carrier is up.
	for _, name := range []string{"left", "right"} {
		awaitIPv6(t, name)
	}
	for family, groups := range map[string]netip.Prefix{
		"IPv4": netip.MustParsePrefix("239.20.0.0/24"), "IPv6": netip.MustParsePrefix("ff15::20:0/112"), "link-local": netip.MustParsePrefix("ff12::20:0/112"),
	} {
		t.Run(family, func(t *testing.T) {
			cfg := udp.Config{Range: groups, Port: 7411, Groups: 4}
			with := func(name string, change func(*udp.Config)) *udp.Transport {
				c := cfg
				c.Interface = name
				if change != nil {
					change(&c)
				}
				tr := open(t, c)
				t.Cleanup(func() { end(tr) })
				return tr
			}
			// All four have an IPv6 address, and get their routes in the order in which the kernel detects that they are up.
			if tr := with("", nil); tr.Interface() == "lo" || groups.Addr().Is4() && tr.Interface() != "left" {
				t.Errorf("the default interface is %s, want left, or with IPv6 any except loopback", tr.Interface())
			}
			left, right := with("left", nil), with("right", nil)
			if mtu := 1500 - map[bool]int{true: 28, false: 48}[groups.Addr().Is4()]; left.Capabilities().PacketSize != mtu {
				t.Errorf("packets have %d bytes, want %d", left.Capabilities().PacketSize, mtu)
			}
			for _, tr := range []*udp.Transport{left, right} {
				if err := tr.Join(0); err != nil {
					t.Fatal(err)
				}
			}
			if !receives(t, with("left", nil), left, "on the left") || !receives(t, with("right", nil), right, "on the right") {
				t.Fatal("packets do not arrive")
			}
			if got := receive(t, left, 0); len(got) != 0 {
				t.Errorf("left received %q, want nothing", got)
			}
			// Without multicast loopback this host receives nothing. The next packet shows that none was still pending.
			silent := with("left", func(c *udp.Config) { c.NoLoopback = true })
			send(t, silent, "no member here")
			if !receives(t, with("left", nil), left, "all members here") {
				t.Error("received a packet sent without loopback, or none")
			}
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
					c := cfg
					c.Interface, c.Port, c.Peers = "left", 7412, o.Peers
					if !plainPath {
						c.ReceiveBuffer = o.Queue * 1024
					}
					return open(t, c)
				}}
			})
		})
	}
}

// send sends one packet to group 0.
func send(t *testing.T, from *udp.Transport, text string) {
	t.Helper()
	s, err := from.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Send(&transport.Outbound{Data: []byte(text), Stride: len(text), Count: 1, Lens: []uint16{uint16(len(text))}}); n != 1 {
		t.Fatal(err)
	}
}

// receives sends text to group 0 and reports whether it is the next packet to arrive.
func receives(t *testing.T, from, to *udp.Transport, text string) bool {
	t.Helper()
	if err := to.Join(0); err != nil {
		t.Fatal(err)
	}
	send(t, from, text)
	got := receive(t, to, 1)
	return len(got) == 1 && string(got[0]) == text
}

// receive polls until count packets have arrived, and then returns all that have.
func receive(t *testing.T, tr *udp.Transport, count int) (got [][]byte) {
	t.Helper()
	b := transport.NewBatch(16)
	for tries := 0; tries < 2000; tries++ {
		if err := tr.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			for j := range b.Trains[i].Count() {
				got = append(got, bytes.Clone(b.Trains[i].Packet(j)))
			}
			tr.Release(&b.Trains[i])
		}
		if len(b.Trains) == 0 && len(got) >= count {
			return got
		}
		if len(b.Trains) == 0 {
			tr.Wait(5e6)
		}
	}
	return got
}
