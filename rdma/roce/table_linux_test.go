package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// unicastSockets counts the sockets of IPv4 addresses; those of IPv6 come and go
// as the kernel likes.
func unicastSockets(t *testing.T, d *device) (ipv4 int) {
	t.Helper()
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	open := 0
	for _, s := range d.sockets.byID {
		if s.kind == unicastSocket {
			if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFD, 0); err != nil {
				t.Errorf("descriptor %d of a socket in use: %v", s.fd, err)
			}
			open++
			if s.ipv4 {
				ipv4++
			}
		}
	}
	if open != len(d.sockets.unicast) || len(d.sockets.retired) != 0 {
		t.Errorf("%d sockets of addresses are watched, %d known, %d to be closed", open, len(d.sockets.unicast), len(d.sockets.retired))
	}
	return ipv4
}

// veth makes an interface with an address, and a provider over it that is in use.
func veth(t *testing.T, name string, set func(*device)) (*Provider, *peer, rdma.Device) {
	t.Helper()
	testenv.AddVeth(t, name, name+"p", 0)
	testenv.AddAddr(t, name, "10.67.0.1/16")
	testenv.LinkUp(t, name+"p")
	testenv.LinkUp(t, name)
	p := openProvider(t, Config{Interfaces: []string{name}, Check: CheckUDP})
	if set != nil {
		set(p.devices[0])
	}
	dev, err := p.OpenDevice(name)
	must(t, "open device", err)
	t.Cleanup(func() { dev.Close() })
	return p, newPeerAt(t, p, netip.MustParseAddr("10.67.0.1")), dev
}

// Removed addresses leave no socket, and the table stays within its limit: entries go to new addresses
// when the old ones have no bound user any more.
func TestAddressesThatGoLeaveNoSocket(t *testing.T) {
	const limit = 4
	p, n, dev := veth(t, "table0", func(d *device) { d.maxGIDs = limit })
	d := p.devices[0]
	first := gidIndex(t, dev, "10.67.0.1")
	before := unicastSockets(t, d)

	testenv.AddAddr(t, "table0", "10.67.1.1/16")
	held := awaitGID(t, dev, "10.67.1.1", true)
	newPeerAt(t, p, netip.MustParseAddr("10.67.1.1"))
	testenv.DelAddr(t, "table0", "10.67.1.1/16")
	awaitGID(t, dev, "10.67.1.1", false)
	for i := range 3 * limit {
		addr := fmt.Sprintf("10.67.2.%d", i+1)
		testenv.AddAddr(t, "table0", addr+"/16")
		if at := awaitGID(t, dev, addr, true); at == first || at == held || at >= limit {
			t.Fatalf("%s has index %d of %d; %d and %d are in use", addr, at, limit, first, held)
		}
		if port, err := dev.Port(1); err != nil || port.GIDTableLen > limit || port.GIDTableLen <= gidIndex(t, dev, addr) {
			t.Fatalf("the table has %d entries, %v", port.GIDTableLen, err)
		}
		if got := unicastSockets(t, d); got != before+1 {
			t.Fatalf("with one address more there are %d sockets, and were %d", got, before)
		}
		testenv.DelAddr(t, "table0", addr+"/16")
		awaitGID(t, dev, addr, false)
		if got := unicastSockets(t, d); got != before {
			t.Fatalf("%d sockets are left of %d addresses, and were %d before", got, i+1, before)
		}
	}
	testenv.AddAddr(t, "table0", "10.67.1.1/16")
	if at := awaitGID(t, dev, "10.67.1.1", true); at != held {
		t.Errorf("an address with a bound user has returned at %d, and was at %d", at, held)
	}
	n.send(n.wrs(n.unicast(netip.MustParseAddr("10.67.1.1")), n.qp.QPN(), "to a returned address"))
	if got := n.wait(1); got[0].data != "to a returned address" {
		t.Errorf("received %q", got[0].data)
	}
}

// A look that fails says nothing about the interface: it is there as it was, and
// looked at again soon.
func TestFailedLookIsNoRemoval(t *testing.T) {
	var failing atomic.Bool
	looks := make(chan struct{}, 1)
	_, n, dev := veth(t, "look0", func(d *device) {
		d.findLink = func(index int, cfg *Config) (link, error) {
			if failing.Load() {
				select {
				case looks <- struct{}{}:
				default:
				}
				return link{}, &net.OpError{Op: "route", Err: unix.EMFILE}
			}
			return currentLink(index, cfg)
		}
	})
	failing.Store(true)
	testenv.AddVeth(t, "other0", "other1", 0)
	testenv.AddAddr(t, "look0", "10.67.0.2/16")
	<-looks
	<-looks
	<-looks
	for {
		ev, err := dev.TryGetAsyncEvent()
		if err != nil {
			break
		}
		if ev.Type != rdma.AsyncGIDChange { // by the kernel's own address, before
			t.Errorf("event %v", ev.Type)
		}
	}
	if ev, err := n.ch.TryGetEvent(); !errors.Is(err, rdma.ErrNoEvent) {
		t.Fatalf("event %v, %v", ev, err)
	}
	if gidIndex(t, dev, "10.67.0.1") < 0 {
		t.Error("the address is no GID any more")
	}
	failing.Store(false)
	awaitGID(t, dev, "10.67.0.2", true)
	n.send(n.wrs(n.unicast(netip.MustParseAddr("10.67.0.2")), n.qp.QPN(), "hello"))
	if got := n.wait(1); got[0].data != "hello" {
		t.Errorf("received %q", got[0].data)
	}
	failing.Store(true)
	testenv.DelLink(t, "look0")
	awaitEvent(t, dev, rdma.AsyncDeviceFatal)
}

// A process without a descriptor left learns nothing, which is not that there are
// no addresses; and that there is no interface is known without a descriptor.
func TestLookWithoutDescriptors(t *testing.T) {
	var watch, none sys.LinkWatch
	must(t, "watch", watch.Open())
	defer watch.Close()
	lo, err := net.InterfaceByName("lo")
	must(t, "interface", err)
	var limit unix.Rlimit
	must(t, "limit", unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, "limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	l, lookErr := currentLink(lo.Index, &Config{})
	_, linkErr := linkOf(lo, &Config{})
	_, findErr := findLinks(&Config{})
	there, absent, unknown := watch.IsGone(lo.Index), watch.IsGone(1<<30), none.IsGone(lo.Index)
	must(t, "limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if !errors.Is(lookErr, unix.EMFILE) {
		t.Errorf("currentLink: %+v, %v", l, linkErr)
	}
	if !errors.Is(linkErr, unix.EMFILE) {
		t.Errorf("linkOf: %v", linkErr)
	}
	if findErr == nil {
		t.Error("findLinks has found interfaces")
	}
	if there || !absent || unknown {
		t.Errorf("removed: lo %v, an interface that is not there %v, one that nothing is known of %v", there, absent, unknown)
	}
}

// What cannot be watched is undone, and tried again.
func TestAddressThatCannotBeWatched(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.77")}, Check: CheckUDP})
	d := p.devices[0]
	var err error
	d.sockets.watched, err = sys.NewPoller() // as after a start that found no address
	must(t, "poller", err)
	none, err := sys.NewPoller()
	must(t, "poller", err)
	none.Close()
	k := &keeper{poll: none}
	for range 3 {
		if d.follow(k) {
			t.Fatal("all is well without a poller")
		}
	}
	if got := unicastSockets(t, d); got != 0 || len(k.sockets) != 0 {
		t.Errorf("%d sockets are left, the keeper has %d", got, len(k.sockets))
	}
	k.poll, err = sys.NewPoller()
	must(t, "poller", err)
	defer k.poll.Close()
	if !d.follow(k) || unicastSockets(t, d) != 1 || len(k.sockets) != 1 {
		t.Errorf("with a poller there are %d sockets, the keeper has %d", unicastSockets(t, d), len(k.sockets))
	}
}

// What happens between Open and the first queue pair, of which no news comes, is
// taken in all the same.
func TestChangesBeforeTheStartAreTakenIn(t *testing.T) {
	testenv.AddVeth(t, "early0", "early1", 0)
	testenv.LinkUp(t, "early1")
	testenv.LinkUp(t, "early0")
	testenv.AddAddr(t, "early0", "10.68.0.1/24")
	testenv.AddAddr(t, "early0", "10.68.0.2/24")
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		testenv.AwaitAddrs(t, "early0") // which would be news
	}
	p := openProvider(t, Config{Interfaces: []string{"early0"}, Check: CheckUDP})
	dev, err := p.OpenDevice("early0")
	must(t, "open device", err)
	defer dev.Close()
	testenv.DelAddr(t, "early0", "10.68.0.2/24")
	testenv.AddAddr(t, "early0", "10.68.0.3/24")
	newPeerAt(t, p, netip.MustParseAddr("10.68.0.1"))
	awaitGID(t, dev, "10.68.0.3", true)
	list, err := dev.GIDs(1)
	must(t, "GIDs", err)
	if slices.ContainsFunc(list, func(e rdma.GIDEntry) bool { return e.GID.IP() == netip.MustParseAddr("10.68.0.2") }) {
		t.Errorf("an address that went before the start is among %v", list)
	}
}

// A look that failed is repeated by the keeper itself, without news.
func TestFailedLookIsRepeated(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.77")}, Check: CheckUDP})
	d := p.devices[0]
	looks := make(chan struct{})
	d.findLink = func(int, *Config) (link, error) {
		looks <- struct{}{}
		return link{}, unix.EMFILE
	}
	k := &keeper{quit: make(chan struct{}), checkAt: time.Now()}
	var err error
	k.poll, err = sys.NewPoller()
	must(t, "poller", err)
	k.sig, err = sys.NewSignal(k.poll, 0)
	must(t, "signal", err)
	k.done.Add(1)
	go k.run(d)
	for range 3 {
		<-looks
	}
	close(k.quit)
	k.sig.Raise()
	go func() {
		for range looks { // one may be under way
		}
	}()
	k.done.Wait()
	close(looks)
	k.close()
}

// The keeper looks at the interface when it starts, without news.
func TestKeeperLooksAtTheStart(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.77")
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{addr}, Check: CheckUDP})
	looked := make(chan struct{}, 1)
	p.devices[0].findLink = func(index int, cfg *Config) (link, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		return currentLink(index, cfg)
	}
	newPeerAt(t, p, addr)
	select {
	case <-looked:
	case <-time.After(20 * time.Second):
		t.Fatal("the keeper has not looked")
	}
}
