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

// unicastSockets returns the number of sockets of IPv4 addresses. The kernel adds and removes IPv6 addresses at any
// time.
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
				t.Errorf("descriptor %d of a socket in use is closed: %v", s.fd, err)
			}
			open++
			if s.ipv4 {
				ipv4++
			}
		}
	}
	if open != len(d.sockets.unicast) || len(d.sockets.retired) != 0 {
		t.Errorf("%d sockets of addresses are watched, %d are known, %d are to be closed, want the same and none", open, len(d.sockets.unicast), len(d.sockets.retired))
	}
	return ipv4
}

// veth makes an interface with an address, and a provider for it that is in use.
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

// Removed addresses have no socket, and the table stays within its limit: entries are reused for new addresses when no
// id is bound to the old ones.
func TestRemovedAddressesHaveNoSocket(t *testing.T) {
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
			t.Fatalf("%s has index %d, want one below %d other than %d and %d, which are in use", addr, at, limit, first, held)
		}
		if port, err := dev.Port(1); err != nil || port.GIDTableLen > limit || port.GIDTableLen <= gidIndex(t, dev, addr) {
			t.Fatalf("the table has %d entries, error %v, want at most %d", port.GIDTableLen, err, limit)
		}
		if got := unicastSockets(t, d); got != before+1 {
			t.Fatalf("with an additional address there are %d sockets, before %d", got, before)
		}
		testenv.DelAddr(t, "table0", addr+"/16")
		awaitGID(t, dev, addr, false)
		if got := unicastSockets(t, d); got != before {
			t.Fatalf("after %[2]d addresses %[1]d sockets remain, before %[3]d", got, i+1, before)
		}
	}
	testenv.AddAddr(t, "table0", "10.67.1.1/16")
	if at := awaitGID(t, dev, "10.67.1.1", true); at != held {
		t.Errorf("an address with a bound id was added again at %d, before at %d", at, held)
	}
	n.send(n.wrs(n.unicast(netip.MustParseAddr("10.67.1.1")), n.qp.QPN(), "to an address added again"))
	if got := n.wait(1); got[0].data != "to an address added again" {
		t.Errorf("received %q, want %q", got[0].data, "to an address added again")
	}
}

// A failed check of the interface counts as no change, and is repeated soon.
func TestFailedCheckIsNotRemoval(t *testing.T) {
	var failing atomic.Bool
	checks := make(chan struct{}, 1)
	_, n, dev := veth(t, "look0", func(d *device) {
		d.findLink = func(index int, cfg *Config) (link, error) {
			if failing.Load() {
				select {
				case checks <- struct{}{}:
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
	<-checks
	<-checks
	<-checks
	for {
		ev, err := dev.TryGetAsyncEvent()
		if err != nil {
			break
		}
		if ev.Type != rdma.AsyncGIDChange { // an earlier event for the kernel's link-local address
			t.Errorf("event %v, want a GID change", ev.Type)
		}
	}
	if ev, err := n.ch.TryGetEvent(); !errors.Is(err, rdma.ErrNoEvent) {
		t.Fatalf("event %v, error %v, want none", ev, err)
	}
	if gidIndex(t, dev, "10.67.0.1") < 0 {
		t.Error("the address is not in the GID table")
	}
	failing.Store(false)
	awaitGID(t, dev, "10.67.0.2", true)
	n.send(n.wrs(n.unicast(netip.MustParseAddr("10.67.0.2")), n.qp.QPN(), "hello"))
	if got := n.wait(1); got[0].data != "hello" {
		t.Errorf("received %q, want %q", got[0].data, "hello")
	}
	failing.Store(true)
	testenv.DelLink(t, "look0")
	awaitEvent(t, dev, rdma.AsyncDeviceFatal)
}

// Without a free descriptor the addresses are unknown, which does not count as none. That an interface does not exist
// is known even then.
func TestCheckWithoutDescriptors(t *testing.T) {
	var watch, none sys.LinkWatch
	must(t, "watch", watch.Open())
	defer watch.Close()
	lo, err := net.InterfaceByName("lo")
	must(t, "interface", err)
	var limit unix.Rlimit
	must(t, "limit", unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, "limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	l, currentErr := currentLink(lo.Index, &Config{})
	_, linkErr := linkOf(lo, &Config{})
	_, findErr := findLinks(&Config{})
	there, absent, unknown := watch.IsGone(lo.Index), watch.IsGone(1<<30), none.IsGone(lo.Index)
	must(t, "limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if !errors.Is(currentErr, unix.EMFILE) {
		t.Errorf("currentLink returns %+v, error %v, want EMFILE", l, currentErr)
	}
	if !errors.Is(linkErr, unix.EMFILE) {
		t.Errorf("linkOf fails with %v, want EMFILE", linkErr)
	}
	if findErr == nil {
		t.Error("findLinks found interfaces")
	}
	if there || !absent || unknown {
		t.Errorf("removed: lo %v, a missing interface %v, an unknown one %v, want only the second removed", there, absent, unknown)
	}
}

// If an address's socket cannot be watched, the socket is closed, and the address is tried again.
func TestAddressThatCannotBeWatched(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.77")}, Check: CheckUDP})
	d := p.devices[0]
	var err error
	d.sockets.watched, err = sys.NewPoller() // as after a start without addresses
	must(t, "poller", err)
	none, err := sys.NewPoller()
	must(t, "poller", err)
	none.Close()
	k := &keeper{poll: none}
	for range 3 {
		if d.follow(k) {
			t.Fatal("succeeded without a poller")
		}
	}
	if got := unicastSockets(t, d); got != 0 || len(k.sockets) != 0 {
		t.Errorf("%d sockets remain, the keeper has %d, want none", got, len(k.sockets))
	}
	k.poll, err = sys.NewPoller()
	must(t, "poller", err)
	defer k.poll.Close()
	if !d.follow(k) || unicastSockets(t, d) != 1 || len(k.sockets) != 1 {
		t.Errorf("with a poller there are %d sockets, the keeper has %d, want 1 each", unicastSockets(t, d), len(k.sockets))
	}
}

// Changes between Open and the first queue pair, for which there are no notifications, are applied.
func TestChangesBeforeStart(t *testing.T) {
	testenv.AddVeth(t, "early0", "early1", 0)
	testenv.LinkUp(t, "early1")
	testenv.LinkUp(t, "early0")
	testenv.AddAddr(t, "early0", "10.68.0.1/24")
	testenv.AddAddr(t, "early0", "10.68.0.2/24")
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		testenv.AwaitAddrs(t, "early0") // otherwise a notification would follow
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
		t.Errorf("an address removed before the start is among %v", list)
	}
}

// The keeper repeats a failed check without a notification.
func TestFailedCheckIsRepeated(t *testing.T) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.77")}, Check: CheckUDP})
	d := p.devices[0]
	checks := make(chan struct{})
	d.findLink = func(int, *Config) (link, error) {
		checks <- struct{}{}
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
		<-checks
	}
	close(k.quit)
	k.sig.Raise()
	go func() {
		for range checks { // one may be in progress
		}
	}()
	k.done.Wait()
	close(checks)
	k.close()
}

// The keeper checks the interface when it starts, without a notification.
func TestKeeperChecksAtStart(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.77")
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{addr}, Check: CheckUDP})
	checked := make(chan struct{}, 1)
	p.devices[0].findLink = func(index int, cfg *Config) (link, error) {
		select {
		case checked <- struct{}{}:
		default:
		}
		return currentLink(index, cfg)
	}
	newPeerAt(t, p, addr)
	select {
	case <-checked:
	case <-time.After(20 * time.Second):
		t.Fatal("the keeper has not checked the interface")
	}
}
