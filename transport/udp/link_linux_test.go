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

// testLinkChanges takes an interface down and up, deletes it and makes it again, and expects events and packets.
func testLinkChanges(t *testing.T) {
	noAddressChecks(t)
	testenv.Sysctl(t, "net/ipv4/igmp_qrv", "1") // each IGMP report is sent once
	for name, c := range map[string]struct{ addr, groups string }{
		"IPv4":       {"10.88.0.1/24", "239.20.0.0/24"},
		"IPv6":       {"fd00:88::1/64", "ff15::20:0/112"},
		"link-local": {"", "ff12::20:0/112"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				name string
				run  func(*linkRig)
			}{
				{"DownAndUp", downAndUp}, {"Deleted", deleted}, {"BetweenPolls", betweenPolls}, {"Carrier", carrier}, {"OtherAddress", otherAddress},
				{"AddressRemoved", addressRemoved}, {"OtherInterface", otherInterface}, {"CloseWhileDown", closeWhileDown},
				{"SameIndex", sameIndex}, {"AddressChecked", addressChecked},
				{"AddressUnobservable", addressUnobservable}, {"LinkUnobservable", linkUnobservable}, {"FewDescriptors", fewDescriptors},
			} {
				t.Run(test.name, func(t *testing.T) {
					f := &linkRig{t: t, addr: c.addr}
					f.create(0)
					defer testenv.DelLink(t, linkName)
					cfg := udp.Config{Interface: linkName, Range: netip.MustParsePrefix(c.groups), Port: 7420, Groups: 4}
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
					f.checkTraffic("at first")
					test.run(f)
				})
			}
		})
	}
}

func downAndUp(f *linkRig) {
	local := f.tx.LocalAddr()
	testenv.LinkDown(f.t, linkName)
	f.expectLost(unix.ENETDOWN)
	f.joinWhileDown()
	f.again()
	f.expectRestored("after down and up")
	if f.tx.LocalAddr() != local {
		f.t.Errorf("the sender's address was %v, and is %v, want no change", local, f.tx.LocalAddr())
	}
}

// A deleted interface is made again with its name and another index.
func deleted(f *linkRig) {
	port := f.tx.LocalAddr().Port()
	testenv.DelLink(f.t, linkName)
	f.expectLost(unix.ENODEV)
	f.joinWhileDown()
	f.create(0)
	f.expectRestored("with a new interface")
	if at := f.tx.LocalAddr(); at.Port() != port || f.addr != "" && at.Addr() != netip.MustParsePrefix(f.addr).Addr() {
		f.t.Errorf("the sender's address is %v, want port %d and address %q", at, port, f.addr)
	}
}

// The absence of an interface between two Polls is also reported.
func betweenPolls(f *linkRig) {
	testenv.DelLink(f.t, linkName)
	f.create(0)
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.checkTraffic("after an absence between two polls")
	testenv.LinkDown(f.t, linkName)
	f.again()
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.checkTraffic("after a second absence")
}

// Without a carrier, members on this host still receive each other's packets.
func carrier(f *linkRig) {
	reports := f.watchReports()
	testenv.LinkDown(f.t, linkName+"-end")
	f.await(f.tx, "sender 0 lost")
	errs := f.await(f.rx, "receiver 0 lost")
	if !strings.Contains(errs[0].Error(), "carrier") {
		f.t.Errorf("loss reported with error %v, want the missing carrier named", errs[0])
	}
	f.checkTraffic("without a carrier")
	testenv.LinkUp(f.t, linkName+"-end")
	f.await(f.tx, "sender 0 joined")
	f.await(f.rx, "receiver 0 joined")
	f.checkTraffic("with a carrier")
	reports("the other end receives a report of the membership")
}

// watchReports reads packets at the other end of the link, and returns a function that waits for another IGMP report
// that group 0 is joined (RFC 3376). For IPv6 it does nothing, because there the kernel sends reports by itself.
func (f *linkRig) watchReports() (another func(what string)) {
	f.t.Helper()
	if !strings.Contains(f.addr, ".") {
		return func(string) {}
	}
	ip := binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(ip))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: testenv.LinkIndex(f.t, linkName+"-end")})
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
			if err != nil { // no packet, or the other end is down
				time.Sleep(5 * time.Millisecond)
			}
		}
		f.t.Errorf("did not happen: %s", what)
	}
	// The first report of group 0 may be sent already or still be pending. It is not later than the report of a group that
	// is joined now.
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
func otherAddress(f *linkRig) {
	if f.addr == "" {
		return // IPv6 has only the kernel's link-local address
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
				busy.Send(out) // Send may fail before Lost is reported
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	port := f.tx.LocalAddr().Port()
	other := strings.Replace(f.addr, "1/", "2/", 1)
	testenv.DelLink(f.t, linkName)
	f.await(f.tx, "sender 0 lost")
	f.await(f.rx, "receiver 0 lost")
	f.addr = other
	f.create(0)
	f.await(f.tx, "sender 0 joined")
	f.await(f.rx, "receiver 0 joined")
	f.checkTraffic("with another address")
	if at := netip.AddrPortFrom(netip.MustParsePrefix(other).Addr(), port); f.tx.LocalAddr() != at {
		f.t.Errorf("the sender's address is %v, want %v", f.tx.LocalAddr(), at)
	}
}

// When the address is removed while the interface stays up, the transport waits for it.
func addressRemoved(f *linkRig) {
	if f.addr == "" {
		return // IPv6 has only the kernel's link-local address
	}
	testenv.DelAddr(f.t, linkName, f.addr)
	if strings.Contains(f.addr, ":") {
		// The link-local address replaces it as soon as the transport notices.
		for _, tr := range []*udp.Transport{f.tx, f.rx} {
			for tries := 0; !tr.LocalAddr().Addr().IsLinkLocalUnicast(); tries++ {
				if tries == 100 {
					f.t.Fatalf("a transport's address is %v", tr.LocalAddr())
				}
				receive(f.t, tr, 0)
			}
		}
		f.checkTraffic("from the link-local address")
		return
	}
	f.expectLost(unix.EADDRNOTAVAIL)
	f.joinWhileDown()
	testenv.AddAddr(f.t, linkName, f.addr)
	f.expectRestored("after the address came back")
}

// Changes of other interfaces are not reported.
func otherInterface(f *linkRig) {
	testenv.AddVeth(f.t, "other", "other-end", 0)
	testenv.AddAddr(f.t, "other", "10.99.0.1/24")
	testenv.LinkUp(f.t, "other")
	f.checkTraffic("with a new interface")
	testenv.LinkDown(f.t, "other")
	testenv.DelLink(f.t, "other")
	f.checkTraffic("after its removal")
	if st := f.rx.Stats(); st.MembershipsLost != 0 || st.Joins != 1 {
		f.t.Errorf("statistics %+v, want no lost membership and 1 join", st)
	}
}

// Groups can be left, and a transport can end, while the interface is down. Nothing stays open.
func closeWhileDown(f *linkRig) {
	testenv.LinkDown(f.t, linkName)
	f.expectLost(unix.ENETDOWN)
	f.joinWhileDown()
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
	// For each transport: its unicast socket, epoll, eventfd, timerfd and the netlink socket.
	if after := files(f.t); before-after != 10 {
		f.t.Errorf("%d open files before, %d after, want 10 fewer", before, after)
	}
	testenv.LinkUp(f.t, linkName)
}

func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// An interface that was replaced by one with the same name and index has lost its memberships.
func sameIndex(f *linkRig) {
	index := testenv.LinkIndex(f.t, linkName)
	testenv.DelLink(f.t, linkName)
	f.create(index)
	f.await(f.tx, "sender 0 lost", "sender 0 joined")
	f.await(f.rx, "receiver 0 lost", "receiver 0 joined")
	f.checkTraffic("on an interface with the same index")
}

// During duplicate address detection the address cannot be used, and nothing is reported as joined.
func addressChecked(f *linkRig) {
	if f.addr != "" {
		return // IPv4 has no duplicate address detection
	}
	testenv.Sysctl(f.t, "net/ipv6/conf/"+linkName+"/accept_dad", "1")
	testenv.LinkDown(f.t, linkName)
	f.expectLost(unix.ENETDOWN)
	testenv.LinkUp(f.t, linkName)
	f.await(f.tx, "sender 0 joined")
	at := f.tx.LocalAddr().Addr().WithZone(fmt.Sprint(testenv.LinkIndex(f.t, linkName)))
	c, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		f.t.Fatalf("joined, but the address cannot be used: %v", err)
	}
	c.Close()
	f.await(f.rx, "receiver 0 joined")
	f.checkTraffic("after the address was checked")
}

// noDescriptors is the time without file descriptors. It is longer than two checks of the interface.
const noDescriptors = 300 * time.Millisecond

// Without a free descriptor the interface cannot be queried. That is not reported as a change, and changes meanwhile
// are found as soon as it can be queried.
func addressUnobservable(f *linkRig) {
	if f.addr == "" {
		return // IPv6 has only the kernel's link-local address
	}
	at := netip.MustParsePrefix(strings.Replace(f.addr, "1/", "2/", 1))
	to := netip.AddrPortFrom(at.Addr(), f.tx.LocalAddr().Port())
	testenv.DelAddr(f.t, linkName, f.addr)
	testenv.AddAddr(f.t, linkName, at.String())
	testenv.AwaitAddrs(f.t, linkName)
	lost := map[*udp.Transport]int{}
	for free := range 2 { // with one the interface can be queried, but no socket opened
		restore := testenv.FewFiles(f.t, free)
		for _, tr := range []*udp.Transport{f.tx, f.rx} {
			for start := time.Now(); time.Since(start) < noDescriptors; {
				lost[tr] += f.poll(tr)
			}
			if free == 0 && lost[tr] != 0 {
				f.t.Error("the interface is reported as lost without a query")
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
		f.t.Fatalf("the sender's address is %v, want %v", f.tx.LocalAddr(), to)
	}
	f.checkTraffic("with an address that could not be queried")
}

// Even then the kernel's notifications that the interface is down or deleted are used. That it is up again is found
// later.
func linkUnobservable(f *linkRig) {
	for _, c := range []struct {
		errno        error
		change, undo func()
	}{
		{unix.ENETDOWN, func() { testenv.LinkDown(f.t, linkName) }, f.again},
		{unix.ENODEV, func() { testenv.DelLink(f.t, linkName) }, func() { f.create(0) }},
	} {
		c.change()
		restore := testenv.FewFiles(f.t, 0)
		f.expectLost(c.errno)
		restore()
		c.undo()
		restore = testenv.FewFiles(f.t, 0)
		for range 50 {
			if f.poll(f.tx)+f.poll(f.rx) != 0 {
				f.t.Fatal("a change that cannot be queried is reported")
			}
		}
		restore()
		f.await(f.tx, "sender 0 joined")
		f.await(f.rx, "receiver 0 joined")
		f.checkTraffic("after a change that could not be queried")
	}
}

// A group that cannot be joined again because no file descriptor is free stays lost, the others do not. It is joined as
// soon as one is free.
func fewDescriptors(f *linkRig) {
	testenv.LinkDown(f.t, linkName)
	f.expectLost(unix.ENETDOWN)
	for group := 1; group <= 2; group++ {
		if err := f.rx.Join(group); err != nil {
			f.t.Fatal(err)
		}
	}
	f.again()
	testenv.AwaitAddrs(f.t, linkName)
	f.await(f.tx, "sender 0 joined")
	restore := testenv.FewFiles(f.t, 1) // for the query of the interface, and then for the first group
	errs := f.await(f.rx, "receiver 2 lost", "receiver 0 joined", "receiver 1 joined")
	if !errors.Is(errs[0], unix.EMFILE) || !strings.Contains(errs[0].Error(), "ulimit -n") {
		f.t.Errorf("loss reported with error %v, want %v with advice on ulimit -n", errs[0], unix.EMFILE)
	}
	for start := time.Now(); time.Since(start) < noDescriptors; {
		if f.poll(f.rx) != 0 {
			f.t.Fatal("the loss is reported again")
		}
	}
	f.checkTraffic("without a descriptor")
	restore()
	f.await(f.rx, "receiver 2 joined")
	if st := f.rx.Stats(); st.JoinsFailed != 0 {
		f.t.Errorf("statistics %+v, want no failed join", st)
	}
}
