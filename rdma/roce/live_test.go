//go:build linux

package roce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// texts returns messages of several sizes, in runs of equal size.
func texts() (list []string) {
	for i, size := range []int{100, 100, 100, 100, 60, 60, 61, 4096, 4096, 4096, 1, 0, 0, 2000} {
		list = append(list, strings.Repeat(fmt.Sprint(i%10), size))
	}
	for range 150 {
		list = append(list, strings.Repeat("z", 256))
	}
	return list
}

// Messages arrive in order, as trains and singly, with and without GSO and GRO, and with every check.
func TestTrains(t *testing.T) {
	for _, check := range []Check{CheckUDP, CheckFull} {
		for _, c := range []Config{{}, {NoGSO: true}, {NoGRO: true}, {NoGSO: true, NoGRO: true}} {
			t.Run(fmt.Sprintf("check=%v,gso=%v,gro=%v", check, !c.NoGSO, !c.NoGRO), func(t *testing.T) {
				if check == CheckFull && !rawAllowed() {
					testenv.Skip(t, "CAP_NET_RAW is missing")
				}
				c.Interfaces, c.Check = []string{"lo"}, check
				to, from := newPeerAt(t, openProvider(t, c), loopback), newPeerAt(t, openProvider(t, c), loopback)
				to.enter(wireGroup, rdma.JoinFullMember)
				want := texts()
				from.send(from.wrs(from.enter(wireGroup, rdma.JoinSendOnlyFullMember), 0, want...))
				for i, m := range to.wait(len(want)) {
					if m.data != want[i] {
						t.Fatalf("message %d is %.20q of %d bytes, want %.20q of %d", i, m.data, len(m.data), want[i], len(want[i]))
					}
					h, ok := rdma.ParseGRH(rdma.LinkLayerEthernet, m.area[:])
					if !ok || h.Src != rdma.GIDFromIP(loopback) || h.Dst.String() != "::ffff:"+wireGroup || h.HopLimit != 64 || m.wc.SrcQPN != from.qp.QPN() {
						t.Fatalf("message %d has header %+v, want from %v to %s with hop limit 64", i, h, loopback, wireGroup)
					}
				}
				s, r := from.counters(), to.counters()
				if s.Sent != uint64(len(want)) || r.Received != uint64(len(want)) || s.SendErrors+r.ICRCErrors+r.Malformed+r.Overflow+r.Recovered > 0 {
					t.Errorf("want %d packets sent and received, no errors; sender %+v\nreceiver %+v", len(want), s, r)
				}
				if (s.SendCalls < 20) == c.NoGSO && s.SendCalls > 60 {
					t.Errorf("%d calls for sending, want fewer than 20 with GSO", s.SendCalls)
				}
			})
		}
	}
}

// Hop limit and traffic class of an address handle are sent and received.
func TestHeaderFields(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Check: CheckUDP})
	n := newPeerAt(t, p, loopback)
	attr := n.enter(wireGroup, rdma.JoinFullMember).Attr()
	for _, gso := range []bool{true, false} {
		attr.GRH.HopLimit, attr.GRH.TrafficClass = 7, 0x5c
		p.devices[0].trains.Store(gso)
		n.send(n.wrs(n.to(attr), 0, "one", "two"))
		attr.GRH.HopLimit, attr.GRH.TrafficClass = 64, 0
		n.send(n.wrs(n.to(attr), 0, "one", "two"))
		for i, m := range n.wait(4) {
			h, _ := rdma.ParseGRH(rdma.LinkLayerEthernet, m.area[:])
			if i < 2 && (h.HopLimit != 7 || h.TrafficClass != 0x5c) || i >= 2 && (h.HopLimit != 64 || h.TrafficClass != 0) {
				t.Errorf("GSO %v, message %d: header %+v, want hop limit 7 and traffic class 0x5c first, then 64 and 0", gso, i, h)
			}
		}
	}
}

// If a path does not support trains, datagrams are sent singly, with the ICRC for that.
func TestGSORefused(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Check: CheckUDP})
	n := newPeerAt(t, p, loopback)
	ah := n.enter(wireGroup, rdma.JoinFullMember)
	n.send(n.wrs(ah, 0, "opens", "the sockets"))
	n.wait(2)
	// The kernel rejects trains without a UDP checksum with EINVAL.
	o := p.devices[0].senders[n.qp.QPN()].outlets[0]
	must(t, "SO_NO_CHECK", unix.SetsockoptInt(o.train, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	n.send(n.wrs(ah, 0, "three", "equal", "sizes"))
	for i, m := range n.wait(3) {
		if want := []string{"three", "equal", "sizes"}[i]; m.data != want {
			t.Errorf("received %q, want %q", m.data, want)
		}
	}
	if c := n.counters(); c.GSORefused != 1 || c.Recovered != 0 || c.Sent != 5 {
		t.Errorf("counters %+v, want 1 GSO refused, none recovered and 5 sent", c)
	}
}

// The connection manager does not join an IPv6 group on RoCEv2, but attaching does.
func TestIPv6Group(t *testing.T) {
	if os.Getenv(isolated) == "" {
		testenv.Skip(t, "this system cannot make a network namespace, and loopback has no route for IPv6 multicast")
	}
	testenv.RouteIPv6Multicast(t, "lo")
	ip := netip.MustParseAddr("::1")
	to := newPeerAt(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}}), ip)
	from := newPeerAt(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}}), ip)
	gid, err := rdma.ParseGID("ff15::1234")
	must(t, "GID", err)
	must(t, "attach", to.qp.AttachMcast(gid, 0))
	ah := from.to(rdma.AHAttr{GRH: rdma.GRH{DGID: gid, HopLimit: 3}, IsGlobal: true, Port: 1})
	want := texts()
	from.send(from.wrs(ah, 0, want...))
	for i, m := range to.wait(len(want)) {
		if m.data != want[i] {
			t.Fatalf("message %d of %d bytes, want %d", i, len(m.data), len(want[i]))
		}
		if h, ok := rdma.ParseGRH(rdma.LinkLayerEthernet, m.area[:]); !ok || h.Src != rdma.GIDFromIP(ip) || h.Dst != gid || h.HopLimit != 3 {
			t.Fatalf("header %+v, %v, want from %v to %v with hop limit 3", h, ok, ip, gid)
		}
	}
	must(t, "detach", to.qp.DetachMcast(gid, 0))
	from.send(from.wrs(ah, 0, "after"))
	to.none("after the detach")
}

// An armed queue notifies without being polled, and its goroutine ends with the provider.
func TestCompletionChannel(t *testing.T) {
	before := runtime.NumGoroutine()
	p := openProvider(t, Config{Interfaces: []string{"lo"}})
	n := newPeerAt(t, p, loopback)
	ah := n.enter(wireGroup, rdma.JoinFullMember)
	for i := range 20 {
		must(t, "arm", n.cq.RequestNotify(false))
		n.none("nothing was sent")
		wr := n.wrs(ah, 0, fmt.Sprint("message ", i))
		wr[0].Flags = 0 // only the receiver has a completion
		go func() {
			if _, err := n.qp.PostSend(wr); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		cq, err := n.cc.Wait(ctx)
		cancel()
		must(t, "wait", err)
		if cq != n.cq {
			t.Fatalf("notification for %v, want %v", cq, n.cq)
		}
		if got := n.wait(1); got[0].data != fmt.Sprint("message ", i) {
			t.Errorf("received %q, want %q", got[0].data, fmt.Sprint("message ", i))
		}
	}
	must(t, "close", p.Close())
	testenv.AwaitGoroutines(t, before)
}

// A waiter is woken by a datagram, Wake, the end of its timeout, an event of the connection manager and the end of the
// provider.
func TestWaiter(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}})
	n := newPeerAt(t, p, loopback)
	ah := n.enter(wireGroup, rdma.JoinFullMember)
	w, err := n.dev.(rdma.Waiting).NewWaiter()
	must(t, "waiter", err)
	done := make(chan error)
	wait := func(what string, timeout time.Duration, cause func()) {
		t.Helper()
		go func() { done <- w.Wait(timeout) }()
		time.Sleep(time.Millisecond) // usually it waits then; otherwise it must also be woken
		cause()
		select {
		case err := <-done:
			must(t, what, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s does not end the wait", what)
		}
	}
	n.none("nothing was sent")
	must(t, "wait", w.Wait(0))
	wait("a datagram", -1, func() { n.send(n.wrs(ah, 0, "x")[:1]) })
	n.wait(1)
	wait("Wake", -1, w.Wake)
	w.Wake()
	wait("an earlier Wake", -1, func() {})
	wait("the timeout", 3*time.Millisecond, func() {})
	group, err := rdma.ParseAddr("239.1.2.9")
	must(t, "group", err)
	wait("an event", -1, func() { must(t, "join", n.id.JoinMulticast(group, nil)) })
	n.join = append(n.join, group)
	wait("the provider's end", -1, func() { must(t, "close", p.Close()) })
	must(t, "close", w.Close())
	if err := w.Wait(0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second Close returns %v, want %v", err, net.ErrClosed)
	}
}

// If another program uses the port, that is reported with advice.
func TestPortInUse(t *testing.T) {
	ip := netip.MustParseAddr("127.77.2.1")
	other, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 4791)))
	must(t, "listen", err)
	defer other.Close()
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}})
	dev, err := p.OpenDevice("lo")
	must(t, "open", err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	must(t, "PD", err)
	defer pd.Close()
	cq, err := dev.CreateCQ(1, nil, nil)
	must(t, "CQ", err)
	defer cq.Close()
	_, err = pd.CreateQP(rdma.QPInitAttr{SendCQ: cq, RecvCQ: cq})
	var inUse *PortInUseError
	if !errors.As(err, &inUse) || !errors.Is(err, syscall.EADDRINUSE) || inUse.Addr != netip.AddrPortFrom(ip, 4791) || !strings.Contains(err.Error(), "end that program") {
		t.Errorf("CreateQP fails with %v, want EADDRINUSE for %v and advice", err, netip.AddrPortFrom(ip, 4791))
	}
	// When the port is free, the queue pair can be created.
	other.Close()
	qp, err := pd.CreateQP(rdma.QPInitAttr{SendCQ: cq, RecvCQ: cq})
	must(t, "QP", err)
	must(t, "close QP", qp.Close())
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Interfaces: []string{"nosuch0"}}, `there is no interface "nosuch0"; this host has`},
		{Config{ReceiveBuffer: -1}, "ReceiveBuffer is -1 bytes"},
		{Config{SendBuffer: 2 << 30}, "SendBuffer is 2147483648 bytes"},
		{Config{Check: 3}, "no Check 3"},
		{Config{Addrs: []netip.Addr{loopback}}, "Addrs needs exactly one interface"},
		{Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{{}}}, "is not an address"},
		{Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("239.1.2.3")}}, "is not an address"},
		{Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{}}, "has no address"},
	} {
		p, err := Open(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
		if p != nil && err != nil {
			t.Errorf("%+v: returned a provider and an error", c.cfg)
		}
	}
	p := openProvider(t, Config{Interfaces: []string{"lo"}})
	if _, err := p.Stats("eth99"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("counters of an unknown device fail with %v, want ENODEV", err)
	}
	// An address of another host.
	p = openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	dev, err := p.OpenDevice("lo")
	must(t, "open", err)
	defer dev.Close()
	if _, err := dev.(rdma.Waiting).NewWaiter(); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("NewWaiter on a foreign address fails with %v, want EADDRNOTAVAIL", err)
	}
}

// Messages do not allocate, on any path.
func TestNoAllocation(t *testing.T) {
	for _, noGSO := range []bool{false, true} {
		p := openProvider(t, Config{Interfaces: []string{"lo"}, Check: CheckUDP, NoGSO: noGSO})
		n := newPeerAt(t, p, loopback)
		ah := n.enter(wireGroup, rdma.JoinFullMember)
		wrs := n.wrs(ah, 0, "one", "two", "six")
		recv := make([]rdma.RecvWR, 1)
		var sge [1]rdma.SGE
		if a := testing.AllocsPerRun(200, func() {
			if _, err := n.qp.PostSend(wrs); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < 4; { // including the send's completion
				k, err := n.cq.Poll(n.wcs[:])
				if err != nil {
					t.Fatal(err)
				}
				got += k
				for _, wc := range n.wcs[:k] {
					if wc.Opcode == rdma.WCRecv {
						sge[0] = rdma.SGE{Buf: n.mem[wc.WRID*slotBytes:][:slotBytes], LKey: n.mr.LKey()}
						recv[0] = rdma.RecvWR{WRID: wc.WRID, SG: sge[:]}
						if _, err := n.qp.PostRecv(recv); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}); a != 0 {
			t.Errorf("GSO off is %v: %v allocations for three messages, want none", noGSO, a)
		}
	}
}
