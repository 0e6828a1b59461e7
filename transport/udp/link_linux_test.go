package udp_test

import (
	"bytes"
	"encoding/binary"
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
	"github.com/fanfaremq/fanfare/transport/udp"
)

// testLinkChanges takes an interface down, up, away and back, and expects events, and that packets flow
// again.
func testLinkChanges(t *testing.T) {
	noAddressChecks(t)
	testenv.Sysctl(t, "net/ipv4/igmp_qrv", "1") // each report is sent once
	for name, c := range map[string]struct{ addr, groups string }{
		"IPv4":       {"10.88.0.1/24", "239.20.0.0/24"},
		"IPv6":       {"fd00:88::1/64", "ff15::20:0/112"},
		"link-local": {"", "ff12::20:0/112"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				name string
				run  func(*comeAndGo)
			}{
				{"DownAndUp", downAndUp}, {"Deleted", deleted}, {"Unseen", unseen}, {"Carrier", carrier}, {"OtherAddress", otherAddress},
				{"AddressTaken", addressTaken}, {"Neighbour", neighbour}, {"EndWhileAway", endWhileAway},
				{"SameIndex", sameIndex}, {"AddressChecked", addressChecked},
				{"AddressUnknown", addressUnknown}, {"LinkUnknown", linkUnknown}, {"FewDescriptors", fewDescriptors},
			} {
				t.Run(test.name, func(t *testing.T) {
					f := &comeAndGo{t: t, addr: c.addr}
					f.create(0)
					defer testenv.DelLink(t, coming)
					cfg := udp.Config{Interface: coming, Range: netip.MustParsePrefix(c.groups), Port: 7420, Groups: 4}
					f.tx, f.rx = open(t, cfg), open(t, cfg)
					defer end(f.tx)
					defer end(f.rx)
					s, err := f.tx.NewSender(0)
					if err != nil {
						t.Fatal(err)
					}
					f.s = s
					if err := f.rx.Join(0); err != nil {
						t.Fatal(err)
					}
					f.await(f.tx, "sender 0 joined")
					f.await(f.rx, "receiver 0 joined")
					f.flows("at first")
					test.run(f)
				})
			}
		})
	}
}

func downAndUp(f *comeAndGo) {
	local := f.tx.LocalAddr()
	testenv.LinkDown(f.t, coming)
	f.away(unix.ENETDOWN)
	f.newcomers()
	f.again()
	f.back("after down and up")
	if f.tx.LocalAddr() != local {
		f.t.Errorf("the sender was at %v, and is at %v", local, f.tx.LocalAddr())
	}
}

// A deleted interface comes back by its name, with another index.
func deleted(f *comeAndGo) {
	port := f.tx.LocalAddr().Port()
	testenv.DelLink(f.t, coming)
	f.away(unix.ENODEV)
	f.newcomers()
	f.create(0)
	f.back("after a new beginning")
	if at := f.tx.LocalAddr(); at.Port() != port || f.addr != "" && at.Addr() != netip.MustParsePrefix(f.addr).Addr() {
		f.t.Errorf("the sender was at port %d, and is at %v", port, at)
	}
}

// An interface that was away only between two Polls is reported all the same.
func unseen(f *comeAndGo) {
	testenv.DelLink(f.t, coming)
	f.create(0)
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.flows("after an absence between two polls")
	testenv.LinkDown(f.t, coming)
	f.again()
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.flows("after another")
}

// Without a carrier members on this host still receive each other's packets.
func carrier(f *comeAndGo) {
	reports := f.watchReports()
	testenv.LinkDown(f.t, coming+"-end")
	f.await(f.tx, "sender 0 lost")
	errs := f.await(f.rx, "receiver 0 lost")
	if !strings.Contains(errs[0].Error(), "carrier") {
		f.t.Errorf("lost because of %v", errs[0])
	}
	f.flows("without a carrier")
	testenv.LinkUp(f.t, coming+"-end")
	f.await(f.tx, "sender 0 joined")
	f.await(f.rx, "receiver 0 joined")
	f.flows("with a carrier")
	reports("a switch behind the carrier receives a report of the membership")
}

// watchReports reads what arrives at the other end, and returns a function that
// waits for a report that group 0 is joined (RFC 3376) after the first one. Only
// IPv4's are watched: for IPv6 the kernel takes care.
func (f *comeAndGo) watchReports() (another func(what string)) {
	f.t.Helper()
	if !strings.Contains(f.addr, ".") {
		return func(string) {}
	}
	ip := binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(ip))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: testenv.LinkIndex(f.t, coming+"-end")})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { unix.Close(fd) })
	await := func(group byte, what string) {
		f.t.Helper()
		packet := make([]byte, 2048)
		for range 2000 {
			n, _, err := unix.Recvfrom(fd, packet, 0)
			if err == nil && n > 20 && packet[9] == unix.IPPROTO_IGMP && bytes.Contains(packet[20:n], []byte{239, 20, 0, group}) {
				return
			}
			if err != nil { // nothing there, or the end is down
				time.Sleep(5 * time.Millisecond)
			}
		}
		f.t.Errorf("waited in vain until %s", what)
	}
	// The report of group 0 may have gone before, or be on its way; it is not later
	// than that of a group joined now.
	if err := f.rx.Join(1); err != nil {
		f.t.Fatal(err)
	}
	await(1, "a join is reported")
	if err := f.rx.Leave(1); err != nil {
		f.t.Fatal(err)
	}
	f.await(f.rx, "receiver 1 joined", "receiver 1 left")
	return func(what string) { f.t.Helper(); await(0, what) }
}

// When the address of an interface changes, the new one is used, also by active senders.
func otherAddress(f *comeAndGo) {
	if f.addr == "" {
		return // the kernel makes the only one
	}
	busy, err := f.tx.NewSender(0)
	if err != nil {
		f.t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for out := (&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}}); ; {
			select {
			case <-stop:
				return
			default:
				busy.Send(out) // which may fail before Lost is reported
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	port := f.tx.LocalAddr().Port()
	other := strings.Replace(f.addr, "1/", "2/", 1)
	testenv.DelLink(f.t, coming)
	f.await(f.tx, "sender 0 lost")
	f.await(f.rx, "receiver 0 lost")
	f.addr = other
	f.create(0)
	f.await(f.tx, "sender 0 joined")
	f.await(f.rx, "receiver 0 joined")
	f.flows("with another address")
	if at := netip.AddrPortFrom(netip.MustParsePrefix(other).Addr(), port); f.tx.LocalAddr() != at {
		f.t.Errorf("the sender is at %v, want %v", f.tx.LocalAddr(), at)
	}
}

// An address that is taken away, with the interface still up, is waited for.
func addressTaken(f *comeAndGo) {
	if f.addr == "" {
		return // the kernel makes the only one
	}
	testenv.DelAddr(f.t, coming, f.addr)
	if strings.Contains(f.addr, ":") {
		// The link-local one takes its place, as soon as that is seen.
		for _, tr := range []*udp.Transport{f.tx, f.rx} {
			for tries := 0; !tr.LocalAddr().Addr().IsLinkLocalUnicast(); tries++ {
				if tries == 100 {
					f.t.Fatalf("a transport is at %v", tr.LocalAddr())
				}
				receive(f.t, tr, 0)
			}
		}
		f.flows("from the link-local address")
		return
	}
	f.away(unix.EADDRNOTAVAIL)
	f.newcomers()
	testenv.AddAddr(f.t, coming, f.addr)
	f.back("after the address came back")
}

// Changes of other interfaces are not reported.
func neighbour(f *comeAndGo) {
	testenv.AddVeth(f.t, "other", "other-end", 0)
	testenv.AddAddr(f.t, "other", "10.99.0.1/24")
	testenv.LinkUp(f.t, "other")
	f.flows("beside a new interface")
	testenv.LinkDown(f.t, "other")
	testenv.DelLink(f.t, "other")
	f.flows("without it")
	if st := f.rx.Stats(); st.MembershipsLost != 0 || st.Joins != 1 {
		f.t.Errorf("counters %+v", st)
	}
}

// Groups can be left, and a transport can end, while the interface is away;
// nothing stays open.
func endWhileAway(f *comeAndGo) {
	testenv.LinkDown(f.t, coming)
	f.away(unix.ENETDOWN)
	f.newcomers()
	for _, g := range []int{0, 1} {
		if err := f.rx.Leave(g); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.s.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.await(f.rx, "receiver 0 left", "receiver 1 left")
	f.await(f.tx, "sender 0 left")
	before := files(f.t)
	end(f.rx)
	end(f.tx)
	// Each: its unicast socket, epoll, eventfd, timerfd and the watch.
	if after := files(f.t); before-after != 10 {
		f.t.Errorf("%d files were open before, %d after", before, after)
	}
	testenv.LinkUp(f.t, coming)
}

func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// An interface that was replaced by one with the same name and index is another
// one all the same: its memberships are gone.
func sameIndex(f *comeAndGo) {
	index := testenv.LinkIndex(f.t, coming)
	testenv.DelLink(f.t, coming)
	f.create(index)
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.flows("at an interface with the same index")
}

// During duplicate address detection the address cannot be used, and nothing is reported as joined.
func addressChecked(f *comeAndGo) {
	if f.addr != "" {
		return // which is used without asking
	}
	testenv.Sysctl(f.t, "net/ipv6/conf/"+coming+"/accept_dad", "1")
	testenv.LinkDown(f.t, coming)
	f.away(unix.ENETDOWN)
	testenv.LinkUp(f.t, coming)
	f.await(f.tx, "sender 0 joined")
	at := f.tx.LocalAddr().Addr().WithZone(fmt.Sprint(testenv.LinkIndex(f.t, coming)))
	c, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		f.t.Fatalf("joined, but the address is of no use: %v", err)
	}
	c.Close()
	f.await(f.rx, "receiver 0 joined")
	f.flows("after the address was checked")
}

// unlooked is how long there are no descriptors: a look and another one.
const unlooked = 300 * time.Millisecond

// Without a free descriptor the interface cannot be looked at. Nothing is concluded from that, and what happened
// meanwhile is found as soon as it can be seen.
func addressUnknown(f *comeAndGo) {
	if f.addr == "" {
		return // the kernel makes the only one
	}
	at := netip.MustParsePrefix(strings.Replace(f.addr, "1/", "2/", 1))
	to := netip.AddrPortFrom(at.Addr(), f.tx.LocalAddr().Port())
	testenv.DelAddr(f.t, coming, f.addr)
	testenv.AddAddr(f.t, coming, at.String())
	testenv.AwaitAddrs(f.t, coming)
	lost := map[*udp.Transport]int{}
	for free := range 2 { // with one it can be looked at, but no socket opened
		restore := testenv.FewFiles(f.t, free)
		for _, tr := range []*udp.Transport{f.tx, f.rx} {
			for start := time.Now(); time.Since(start) < unlooked; {
				lost[tr] += f.poll(tr)
			}
			if free == 0 && lost[tr] != 0 {
				f.t.Error("the interface is lost, without an observation")
			}
		}
		restore()
	}
	for _, tr := range []*udp.Transport{f.tx, f.rx} {
		for tries := 0; (tr.LocalAddr().Addr() != at.Addr() || lost[tr] != 0) && tries < 2000; tries++ {
			lost[tr] += f.poll(tr)
		}
	}
	if f.tx.LocalAddr() != to {
		f.t.Fatalf("the sender is at %v, want %v", f.tx.LocalAddr(), to)
	}
	f.flows("with an address that could not be seen")
}

// What the kernel says by itself is known also then: that it is down, and that it is gone. That it is back is seen
// later.
func linkUnknown(f *comeAndGo) {
	for _, c := range []struct {
		errno        error
		change, undo func()
	}{
		{unix.ENETDOWN, func() { testenv.LinkDown(f.t, coming) }, f.again},
		{unix.ENODEV, func() { testenv.DelLink(f.t, coming) }, func() { f.create(0) }},
	} {
		c.change()
		restore := testenv.FewFiles(f.t, 0)
		f.away(c.errno)
		restore()
		c.undo()
		restore = testenv.FewFiles(f.t, 0)
		for range 50 {
			if f.poll(f.tx)+f.poll(f.rx) != 0 {
				f.t.Fatal("an unobservable change is reported")
			}
		}
		restore()
		f.await(f.tx, "sender 0 joined")
		f.await(f.rx, "receiver 0 joined")
		f.flows("after what could not be seen")
	}
}

// A group that cannot be joined again for want of a descriptor is lost, and the others are not. It is joined as soon as there is
// one.
func fewDescriptors(f *comeAndGo) {
	testenv.LinkDown(f.t, coming)
	f.away(unix.ENETDOWN)
	for group := 1; group <= 2; group++ {
		if err := f.rx.Join(group); err != nil {
			f.t.Fatal(err)
		}
	}
	f.again()
	testenv.AwaitAddrs(f.t, coming)
	f.await(f.tx, "sender 0 joined")
	restore := testenv.FewFiles(f.t, 1) // to look at the interface, and then for the first group
	errs := f.await(f.rx, "receiver 2 lost", "receiver 0 joined", "receiver 1 joined")
	if !errors.Is(errs[0], unix.EMFILE) || !strings.Contains(errs[0].Error(), "ulimit -n") {
		f.t.Errorf("lost because of %v", errs[0])
	}
	for start := time.Now(); time.Since(start) < unlooked; {
		if f.poll(f.rx) != 0 {
			f.t.Fatal("it is reported again")
		}
	}
	f.flows("without a descriptor")
	restore()
	f.await(f.rx, "receiver 2 joined")
	if st := f.rx.Stats(); st.JoinsFailed != 0 {
		f.t.Errorf("counters %+v", st)
	}
}
