package fabric

import (
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// An id cannot be bound to an address whose GID the port has lost.
func TestBindWithoutGID(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		f := New(Config{Flavor: flavor})
		h := f.AddHost(HostConfig{})
		h.Port(0, 1).RemoveGIDs()
		ch, _ := h.NewEventChannel()
		id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantErrno(t, flavor.String(), id.Bind(h.Addr()), syscall.ENODEV)
		f.Close()
	}
}

// ResolveAddr of a group needs a route or a source. Its event has the id's context.
func TestResolveAddrRoute(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	for _, c := range []struct {
		noRoute, source bool
		want            rdma.EventType
	}{{false, false, rdma.EventAddrResolved}, {true, false, rdma.EventAddrError}, {true, true, rdma.EventAddrResolved}} {
		h := f.AddHost(HostConfig{NoMulticastRoute: c.noRoute})
		ch, err := h.NewEventChannel()
		if err != nil {
			t.Fatal(err)
		}
		id, err := ch.CreateID(rdma.PortSpaceUDP, "the id's")
		if err != nil {
			t.Fatal(err)
		}
		var src rdma.Addr
		if c.source {
			src = h.Addr()
		}
		if err := id.ResolveAddr(src, testGroup(1), rdma.ResolveTimeout); err != nil {
			t.Fatal(err)
		}
		f.AdvanceTo(f.Now() + time.Second)
		ev, err := ch.TryGetEvent()
		if err != nil || ev.Type != c.want || c.want == rdma.EventAddrError && ev.Status != -int(syscall.ENETUNREACH) {
			t.Fatalf("%+v: event %+v, error %v, want %v", c, ev, err, c.want)
		}
		if ev.Context != "the id's" || ev.ID != id {
			t.Errorf(`%+v: the event has context %v, want "the id's"`, c, ev.Context)
		}
		resolved := id.Port() == 1 && id.LocalAddr().IP == h.Addr().IP
		if resolved != (c.want == rdma.EventAddrResolved) {
			t.Errorf("%+v: bound to port %d, address %v, want it bound: %v", c, id.Port(), id.LocalAddr(), c.want == rdma.EventAddrResolved)
		}
		if resolved {
			wantErrno(t, "a second resolution", id.ResolveAddr(rdma.Addr{}, testGroup(1), 0), syscall.EINVAL)
		}
		wantErrno(t, "families that differ", id.ResolveAddr(h.Addr(), rdma.IBAddr(rdma.GID{15: 1}), 0), syscall.EINVAL)
	}
}
