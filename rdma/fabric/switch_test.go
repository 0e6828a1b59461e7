package fabric

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// A member receives nothing until the switches are programmed.
func TestProgrammingDelay(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		f := New(Config{Flavor: flavor, ProgrammingDelay: 5 * time.Second})
		from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
		f.AdvanceTo(f.Now() + time.Minute)
		ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
		f.AdvanceTo(f.Now() + time.Minute)
		to.post(4)
		to.join(testGroup(1), rdma.JoinFullMember) // it advances the time by a second
		from.send(ah, "too early")
		to.run()
		if got := to.received(); len(got) != 0 {
			t.Errorf("%v: received %q, want nothing", flavor, got)
		}
		f.AdvanceTo(f.Now() + 5*time.Second)
		from.send(ah, "in time")
		to.run()
		if got := to.received(); !slices.Equal(got, []string{"in time"}) {
			t.Errorf("%v: received %q, want %q", flavor, got, "in time")
		}
		f.Close()
	}
}

// The sender sends a message once, the switches copy it to each port with a member, and each port to each queue pair,
// also across several switches.
func TestOneMessageManyCopies(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		for _, switches := range []int{1, 2, 4} {
			f := New(Config{Flavor: flavor, Switches: switches, Latency: time.Microsecond})
			from := newPeer(t, f.AddHost(HostConfig{}))
			ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
			var members, others []*peer
			for i := range 8 {
				h := f.AddHost(HostConfig{})
				p := newPeer(t, h)
				p.post(2)
				if i%4 == 3 {
					p.join(testGroup(2), rdma.JoinFullMember)
					others = append(others, p)
					continue
				}
				p.join(testGroup(1), rdma.JoinFullMember)
				second := newPeer(t, h)
				second.post(2)
				second.join(testGroup(1), rdma.JoinFullMember)
				members = append(members, p, second)
			}
			from.send(ah, "to all")
			from.run()
			for i, p := range members {
				if got := p.received(); !slices.Equal(got, []string{"to all"}) {
					t.Errorf(`%v, %d switches: member %d received %q, want "to all"`, flavor, switches, i, got)
				}
			}
			for i, p := range others {
				if got := p.received(); len(got) != 0 {
					t.Errorf("%v, %d switches: other %d received %q, want nothing", flavor, switches, i, got)
				}
			}
			if s := f.Stats(); s.Sent != 1 || s.Delivered != uint64(len(members)) {
				t.Errorf("%v, %d switches: statistics %+v, want 1 packet sent and %d delivered", flavor, switches, s, len(members))
			}
			f.Close()
		}
	}
}

// The table of an InfiniBand switch contains the ports of send-only members, as with OpenSM. These ports drop the
// traffic, because no queue pair is attached.
func TestSendOnlyPortIsInTheTree(t *testing.T) {
	for flavor, want := range map[Flavor]uint64{InfiniBand: 1, RoCE: 0} {
		f := New(Config{Flavor: flavor})
		only, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
		only.join(testGroup(1), rdma.JoinSendOnlyFullMember)
		ah := to.join(testGroup(1), rdma.JoinFullMember)
		to.send(ah, "x")
		to.run()
		attr, err := only.dev.Port(1)
		if err != nil || attr.Dropped != want {
			t.Errorf("%v: %d datagrams dropped at the send-only port, want %d", flavor, attr.Dropped, want)
		}
		f.Close()
	}
}

// An Ethernet without IGMP snooping sends everything to all ports. InfiniBand does not.
func TestFlood(t *testing.T) {
	for _, c := range []struct {
		flavor Flavor
		flood  bool
		want   uint64
	}{{RoCE, false, 0}, {RoCE, true, 1}, {InfiniBand, true, 0}} {
		flood, want := c.flood, c.want
		f := New(Config{Flavor: c.flavor, FloodMulticast: flood, Switches: 3})
		from, stranger := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
		ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
		newPeer(t, f.AddHost(HostConfig{})).join(testGroup(1), rdma.JoinFullMember)
		from.send(ah, "x")
		from.run()
		if attr, _ := stranger.dev.Port(1); attr.Dropped != want {
			t.Errorf("%v, flood %v: %d datagrams reached the non-member, want %d", c.flavor, flood, attr.Dropped, want)
		}
		f.Close()
	}
}

// A port that is down sends and receives nothing. When it is up, it has its IP memberships again.
func TestPortDown(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(4)
	var got []string
	for i, up := range []bool{true, false, true} {
		f.hosts[1].Port(0, 1).SetUp(up)
		from.send(ah, fmt.Sprint(i))
		from.run()
		got = append(got, to.received()...)
		if attr, _ := to.dev.Port(1); (attr.State == rdma.PortActive) != up {
			t.Errorf("port is %v, want active: %v", attr.State, up)
		}
	}
	if !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf(`received %q, want "0" and "2"`, got)
	}
}

// Hosts can have several devices and ports. An id is bound to each by its address.
func TestSeveralPorts(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{Devices: 2, Ports: 2})
	names, err := h.Devices()
	if err != nil || !slices.Equal(names, []string{"sim0", "sim1"}) {
		t.Fatalf("devices %q, error %v, want sim0 and sim1", names, err)
	}
	seen := map[string]bool{}
	for d := range 2 {
		for p := 1; p <= 2; p++ {
			ch, _ := h.NewEventChannel()
			id, _ := ch.CreateID(rdma.PortSpaceUDP, nil)
			if err := id.Bind(h.Port(d, p).Addr()); err != nil {
				t.Fatal(err)
			}
			dev, err := id.Device()
			if err != nil || dev.Name() != names[d] || int(id.Port()) != p {
				t.Errorf("bound to %v port %d, error %v, want %s port %d", dev, id.Port(), err, names[d], p)
			}
			gids, _ := dev.GIDs(id.Port())
			attr, _ := dev.Port(id.Port())
			seen[gids[0].GID.String()+attr.LID.String()] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("ports have the addresses %v, want 4 different ones", seen)
	}
}

// An InfiniBand tree contains the switches with members. Messages of a port on another switch are not forwarded,
// although it has an address handle.
func TestSenderOutsideTheTree(t *testing.T) {
	f := New(Config{Switches: 3})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(4)
	from.send(ah, "member")
	from.run()
	from.leave(testGroup(1))
	from.send(ah, "not a member")
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"member"}) || f.Stats().NoPath != 1 {
		t.Errorf("received %q, want %q and 1 packet without path: %+v", got, "member", f.Stats())
	}
}
