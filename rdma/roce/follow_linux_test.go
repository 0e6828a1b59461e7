package roce

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// awaitEvent retrieves a device's events up to one of the type.
func awaitEvent(t *testing.T, dev rdma.Device, typ rdma.AsyncEventType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		ev, err := dev.GetAsyncEvent(ctx)
		must(t, "event", err)
		if ev.Type == typ {
			return
		}
	}
}

// gidIndex returns the index of an address in the GID table, or -1.
func gidIndex(t *testing.T, dev rdma.Device, addr string) int {
	t.Helper()
	list, err := dev.GIDs(1)
	must(t, "GIDs", err)
	i := slices.IndexFunc(list, func(e rdma.GIDEntry) bool { return e.GID == rdma.GIDFromIP(netip.MustParseAddr(addr)) })
	if i < 0 {
		return -1
	}
	return list[i].Index
}

// awaitGID waits until an address is in the GID table, or no longer is, and returns its index. An event reports each
// change.
func awaitGID(t *testing.T, dev rdma.Device, addr string, there bool) int {
	t.Helper()
	for { // the event may have been read before, but the table is current
		if i := gidIndex(t, dev, addr); i >= 0 == there {
			return i
		}
		awaitEvent(t, dev, rdma.AsyncGIDChange)
	}
}

// New addresses can be used, with either check, and addresses that are added again get their old index. Events report
// them, the link's state and its removal.
func TestInterfaceChanges(t *testing.T) {
	for _, check := range []Check{CheckUDP, CheckFull} {
		t.Run(check.String(), func(t *testing.T) {
			if check == CheckFull && !rawAllowed() {
				testenv.Skip(t, "CAP_NET_RAW is missing")
			}
			testenv.AddVeth(t, "follow0", "follow1", 0)
			testenv.AddAddr(t, "follow0", "10.66.0.1/24")
			testenv.LinkUp(t, "follow1")
			testenv.LinkUp(t, "follow0")
			p := openProvider(t, Config{Interfaces: []string{"follow0"}, Check: check})
			n := newPeerAt(t, p, netip.MustParseAddr("10.66.0.1"))
			send := func(addr, text string) {
				t.Helper()
				n.send(n.wrs(n.unicast(netip.MustParseAddr(addr)), n.qp.QPN(), text))
				if got := n.wait(1); got[0].data != text {
					t.Errorf("received %q, want %q", got[0].data, text)
				}
			}
			dev, err := p.OpenDevice("follow0")
			must(t, "open device", err)
			defer dev.Close()
			first := gidIndex(t, dev, "10.66.0.1")
			send("10.66.0.1", "to the first address")

			testenv.AddAddr(t, "follow0", "10.66.0.2/24")
			second := awaitGID(t, dev, "10.66.0.2", true)
			if second == first {
				t.Fatalf("the new address has index %d, the old one %d", second, first)
			}
			send("10.66.0.2", "to a new address")
			m := newPeerAt(t, p, netip.MustParseAddr("10.66.0.2"))
			m.send(m.wrs(m.unicast(netip.MustParseAddr("10.66.0.1")), n.qp.QPN(), "from a new address"))
			if got := n.wait(1); got[0].data != "from a new address" {
				t.Errorf("received %q, want %q", got[0].data, "from a new address")
			}

			testenv.DelAddr(t, "follow0", "10.66.0.2/24")
			awaitGID(t, dev, "10.66.0.2", false)
			send("10.66.0.1", "to the remaining address")
			testenv.AddAddr(t, "follow0", "10.66.0.3/24")
			third := awaitGID(t, dev, "10.66.0.3", true)
			testenv.AddAddr(t, "follow0", "10.66.0.2/24")
			if i := awaitGID(t, dev, "10.66.0.2", true); i != second || third == second {
				t.Errorf("an address added again has index %d, before %d; another has %d", i, second, third)
			}
			send("10.66.0.2", "to an address added again")

			testenv.LinkDown(t, "follow0")
			awaitEvent(t, dev, rdma.AsyncPortErr)
			testenv.LinkUp(t, "follow0")
			awaitEvent(t, dev, rdma.AsyncPortActive)
			send("10.66.0.1", "after it was down")

			testenv.DelLink(t, "follow0")
			awaitEvent(t, dev, rdma.AsyncDeviceFatal)
			for _, typ := range []rdma.AsyncEventType{rdma.AsyncGIDChange, rdma.AsyncPortErr, rdma.AsyncPortActive, rdma.AsyncDeviceFatal} {
				awaitEvent(t, n.dev, typ) // the id's device also has them
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			ev, err := n.ch.GetEvent(ctx)
			must(t, "event", err)
			if ev.Type != rdma.EventDeviceRemoval {
				t.Errorf("event %v, want a device removal", ev.Type)
			}
			must(t, "ack", ev.Ack())
		})
	}
}
