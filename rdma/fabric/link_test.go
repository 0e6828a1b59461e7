package fabric

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// unicast makes an address handle to another peer's port with its current address.
func (p *peer) unicast(to *peer, like rdma.AH) rdma.AH {
	p.t.Helper()
	attr := like.Attr()
	gids, err := to.dev.GIDs(1)
	if err != nil {
		p.t.Fatal(err)
	}
	port, err := to.dev.Port(1)
	if err != nil {
		p.t.Fatal(err)
	}
	attr.GRH.DGID, attr.DLID = gids[attr.GRH.SGIDIndex].GID, port.LID
	ah, err := p.pd.CreateAH(attr)
	if err != nil {
		p.t.Fatal(err)
	}
	return ah
}

func (p *peer) sendTo(ah rdma.AH, qpn rdma.QPN, data string) {
	p.t.Helper()
	wr := p.sendWR(ah, data)
	wr.QPN = qpn
	if _, err := p.qp.PostSend([]rdma.SendWR{wr}); err != nil {
		p.t.Fatal(err)
	}
}

// A port that is down neither sends nor receives. The subnet manager removes it from the groups, switches remove it
// from their tables, and its host gets one event.
func TestDown(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		from, to, ah := pair(t, Config{Flavor: flavor}, peerAttr(), 64)
		f := from.f
		dev, err := f.hosts[0].OpenDevice("sim0")
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		async := func(want ...rdma.AsyncEventType) {
			t.Helper()
			for name, dev := range map[string]rdma.Device{"the device": dev, "the id's device": from.dev} {
				var got []rdma.AsyncEventType
				for {
					ev, err := dev.TryGetAsyncEvent()
					if err != nil {
						break
					}
					got = append(got, ev.Type)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v: %s reports %v, want %v", flavor, name, got, want)
				}
			}
		}
		to.post(4)
		port := f.hosts[0].Port(0, 1)
		port.SetUp(true) // no change
		async()
		port.SetUp(false)
		port.SetUp(false)
		async(rdma.AsyncPortErr)
		if m := f.Members(ah.Attr().GRH.DGID); flavor == InfiniBand && (len(m) != 1 || m[port] != 0) {
			t.Errorf("members are %v, want only the port, without a state", m)
		}
		from.send(ah, "from a port that is down")
		from.run()
		if s := f.Stats(); s.PortDown != 1 || s.Sent != 1 {
			t.Errorf("%v: statistics %+v, want 1 packet sent and 1 lost at a port that is down", flavor, s)
		}
		port.SetUp(true)
		async(rdma.AsyncPortActive)
		if flavor == RoCE { // on InfiniBand it is no longer a member
			from.send(ah, "after up")
			from.run()
			if got := to.received(); !slices.Equal(got, []string{"after up"}) {
				t.Errorf("%v: received %q, want %q", flavor, got, "after up")
			}
		}
		// A datagram is in flight when the port goes down, or its destination does not exist.
		one := from.unicast(to, ah)
		from.sendTo(one, to.qp.QPN(), "in flight")
		f.hosts[1].Port(0, 1).SetUp(false)
		from.run()
		if s := f.Stats(); s.PortDown != 2 || len(to.received()) != 0 {
			t.Errorf("%v: statistics %+v, want 2 packets lost at a port that is down and none received", flavor, s)
		}
	}
}

// A port of a removed device receives nothing.
func TestRemovedPortReceivesNothing(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	one := from.unicast(to, ah)
	from.f.hosts[1].RemoveDevice(0)
	from.sendTo(one, to.qp.QPN(), "no receiver")
	from.run()
	if s := from.f.Stats(); s.PortDown != 1 || s.Delivered != 0 {
		t.Errorf("statistics %+v, want 1 packet lost at a port that is down and none delivered", s)
	}
	if m := from.f.Members(from.mgid(testGroup(1))); len(m) != 1 {
		t.Errorf("members are %v, want 1", m)
	}
}

// A closed fabric sends nothing.
func TestClosedFabric(t *testing.T) {
	from, _, ah := pair(t, Config{}, peerAttr(), 64)
	from.f.Close()
	from.send(ah, "x")
	if s := from.f.Stats(); s.PortDown != 1 {
		t.Errorf("statistics %+v, want 1 packet lost at a port that is down", s)
	}
	if at, ok := from.f.NextDeadline(); ok {
		t.Errorf("an event is due at %v, want none", at)
	}
}

// A port with a new LID reports the change, sends from it, and can only be reached at it.
func TestLIDChange(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	f := from.f
	old := from.unicast(to, ah)
	before, _ := to.dev.Port(1)
	f.hosts[1].Port(0, 1).ChangeLID()
	after, _ := to.dev.Port(1)
	if after.LID == before.LID || after.LID == 0 {
		t.Errorf("LID %v, was %v", after.LID, before.LID)
	}
	to.post(4)
	from.sendTo(old, to.qp.QPN(), "to the old LID")
	from.run()
	if s := f.Stats(); s.NoPath != 1 {
		t.Errorf("statistics %+v, want 1 packet without path", s)
	}
	from.sendTo(from.unicast(to, ah), to.qp.QPN(), "to the new LID")
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"to the new LID"}) {
		t.Errorf("received %q, want %q", got, "to the new LID")
	}
	from.post(1)
	to.sendTo(to.unicast(from, ah), from.qp.QPN(), "from the new LID")
	to.run()
	for _, wc := range from.poll() {
		if wc.Opcode == rdma.WCRecv && wc.SLID != after.LID {
			t.Errorf("its source is LID %v, want %v", wc.SLID, after.LID)
		}
	}
}

// The latency applies to each link: two links with one switch, four from leaf to leaf across the spine.
func TestLatency(t *testing.T) {
	for switches, want := range map[int]time.Duration{1: 2, 3: 4} {
		from, to, ah := pair(t, Config{Switches: switches, Latency: time.Microsecond}, peerAttr(), 64)
		to.post(1)
		start := from.f.Now()
		from.send(ah, "x")
		for from.f.Stats().Delivered == 0 && from.f.Step() {
		}
		if got := from.f.Now() - start; got != want*time.Microsecond {
			t.Errorf("%d switches: delivery took %v, want %v", switches, got, want*time.Microsecond)
		}
	}
}

// A leaf with all members does not forward to the spine.
func TestTreeEndsAtLastMember(t *testing.T) {
	f := New(Config{Switches: 3})
	defer f.Close()
	a, b := newPeer(t, f.AddHost(HostConfig{Switch: 1})), newPeer(t, f.AddHost(HostConfig{Switch: 1}))
	ah := a.join(testGroup(1), rdma.JoinFullMember)
	b.join(testGroup(1), rdma.JoinFullMember)
	for _, l := range f.switches[1].table[groupKey{mlid: ah.Attr().DLID}] {
		if l.sw != nil {
			t.Errorf("the leaf forwards to switch %d, want to none", l.sw.index)
		}
	}
	c := newPeer(t, f.AddHost(HostConfig{Switch: 2}))
	c.join(testGroup(1), rdma.JoinFullMember)
	if n := len(f.switches[1].table[groupKey{mlid: ah.Attr().DLID}]); n != 3 {
		t.Errorf("with a member on another switch the leaf has %d links, want 3", n)
	}
}

// Reports and leaves are sent while the interface is up. Groups with the same Ethernet address are distinguished.
func TestReports(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	port := f.hosts[0].Port(0, 1)
	var groups []rdma.Addr
	for _, last := range []int{1, 2} {
		groups = append(groups, testGroup(last<<16|0x0203))
	}
	groups = append(groups, testGroup(129<<16|0x0203)) // the MAC of the first
	want := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range f.Trace() {
			got = append(got, fmt.Sprint(r.Kind, " ", r.MGID.IP()))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: trace %q, want %q", what, got, want)
		}
	}
	p.join(groups[0], rdma.JoinFullMember)
	p.join(groups[2], rdma.JoinFullMember)
	want("joins", "IGMP report 239.1.2.3", "IGMP report 239.129.2.3")
	port.SetUp(false)
	p.join(groups[1], rdma.JoinFullMember)
	p.leave(groups[0])
	want("down")
	port.SetUp(true)
	want("up", "IGMP report 239.2.2.3", "IGMP report 239.129.2.3")
	p.leave(groups[2])
	p.leave(groups[1])
	want("leaves", "IGMP leave 239.129.2.3", "IGMP leave 239.2.2.3")
}

// On Ethernet, a queue pair that is attached without a membership, or after a leave, receives nothing, not even its own
// packets.
func TestAttachWithoutJoin(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	mgid := ah.Attr().GRH.DGID
	for _, p := range []*peer{from, to} {
		p.post(8)
		if err := p.qp.AttachMcast(mgid, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, p *peer, want ...string) {
		t.Helper()
		if got := p.received(); !slices.Equal(got, want) {
			t.Errorf("%s: received %q, want %q", what, got, want)
		}
	}
	from.send(ah, "one")
	from.run()
	want("attached", from)
	want("attached", to)
	from.join(testGroup(1), rdma.JoinFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	from.send(ah, "two")
	from.run()
	want("joined", from, "two")
	want("joined", to, "two")
	from.leave(testGroup(1))
	to.leave(testGroup(1))
	for _, p := range []*peer{from, to} { // because the leave has detached it
		if err := p.qp.AttachMcast(mgid, 0); err != nil {
			t.Fatal(err)
		}
	}
	from.send(ah, "three")
	from.run()
	want("left", from)
	want("left", to)
	if attr, _ := to.dev.Port(1); attr.Dropped != 0 {
		t.Errorf("%d datagrams reached a port that has left, want none", attr.Dropped)
	}
}

// With a send delay the device reads messages of one queue pair of a port at a time, each in turn for the delay.
func TestSendsInTurn(t *testing.T) {
	const delay = time.Millisecond
	f := New(Config{SendDelay: delay})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	a, b := newPeer(t, h), newPeer(t, h)
	to := newPeer(t, f.AddHost(HostConfig{}))
	ahA, ahB := a.join(testGroup(1), rdma.JoinSendOnlyFullMember), b.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(8)
	start := f.Now()
	a.send(ahA, "a")
	f.AdvanceTo(start + delay/2)
	b.send(ahB, "b")
	b.send(ahB, "b") // it is already queued
	for _, step := range []struct {
		at   time.Duration
		want []string
	}{{delay - 1, nil}, {delay, []string{"a"}}, {2*delay - 1, nil}, {2 * delay, []string{"b", "b"}}, {5 * delay, nil}} {
		f.AdvanceTo(start + step.at)
		if got := to.received(); !slices.Equal(got, step.want) {
			t.Errorf("after %v: received %q, want %q", step.at, got, step.want)
		}
		if at, ok := f.NextDeadline(); ok && step.at >= 2*delay {
			t.Errorf("after %v all is read, but an event is due at %v", step.at, at)
		}
	}
}

// When a port comes up, its interface is a member of IPoIB's broadcast group again, unless the interface was taken
// down.
func TestIPoIBAfterPortUp(t *testing.T) {
	for _, up := range []bool{true, false} {
		f := New(Config{})
		p := newPeer(t, f.AddHost(HostConfig{}))
		port := f.hosts[0].Port(0, 1)
		port.SetIPoIB(up)
		port.SetUp(false)
		if m := f.Members(p.broadcast()); len(m) != 0 {
			t.Errorf("a port that is down is in the broadcast group: %v", m)
		}
		port.SetUp(true)
		if _, in := f.Members(p.broadcast())[port]; in != up {
			t.Errorf("IPoIB up %v: the port is in the broadcast group: %v, want %v", up, in, up)
		}
		f.Close()
	}
}

// The MTU of a RoCE port follows from that of its interface.
func TestRoCEMTU(t *testing.T) {
	for netdev, want := range map[int]rdma.MTU{9000: 4096, 4176: 4096, 4175: 2048, 1500: 1024, 1103: 512, 300: 256} {
		f := New(Config{Flavor: RoCE, NetDevMTU: netdev})
		p := newPeer(t, f.AddHost(HostConfig{}))
		if attr, err := p.dev.Port(1); err != nil || attr.ActiveMTU != want {
			t.Errorf("interface MTU %d: %v, %v, want %v", netdev, attr.ActiveMTU, err, want)
		}
		f.Close()
	}
}

// Changes of a port are recorded, and its host gets events for them.
func TestPortChanges(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(h *Host)
		event rdma.AsyncEventType
	}{
		"down":          {func(h *Host) { h.Port(0, 1).SetUp(false) }, rdma.AsyncPortErr},
		"LID":           {func(h *Host) { h.Port(0, 1).ChangeLID() }, rdma.AsyncLIDChange},
		"P_Keys":        {func(h *Host) { h.Port(0, 1).SetPKeys(0x8001) }, rdma.AsyncPKeyChange},
		"GIDs":          {func(h *Host) { h.Port(0, 1).RemoveGIDs() }, rdma.AsyncGIDChange},
		"device":        {func(h *Host) { h.RemoveDevice(0) }, rdma.AsyncDeviceFatal},
		"IPoIB":         {func(h *Host) { h.Port(0, 1).SetIPoIB(false) }, -1},
		"interface MTU": {func(h *Host) { h.Port(0, 1).SetNetDevMTU(300) }, -1},
	} {
		f := New(Config{})
		h := f.AddHost(HostConfig{})
		dev, err := h.OpenDevice("sim0")
		if err != nil {
			t.Fatal(err)
		}
		if !h.Port(0, 1).AsNew() {
			t.Errorf("%s: the port counts as changed before", name)
		}
		c.do(h)
		if h.Port(0, 1).AsNew() {
			t.Errorf("%s: the port does not count as changed", name)
		}
		ev, err := dev.TryGetAsyncEvent()
		if got := err == nil; got != (c.event >= 0) || got && ev.Type != c.event {
			t.Errorf("%s: event %v, %v, want %v", name, ev.Type, err, c.event)
		}
		f.Close()
	}
}
