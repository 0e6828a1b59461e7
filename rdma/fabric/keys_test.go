package fabric

import (
	"slices"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

const initMask = rdma.QPMaskState | rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey

// A send with bit 31 of the Q_Key set uses the queue pair's own Q_Key. Only privileged programs can set that to such a
// value (IBTA 10.2.5).
func TestPrivilegedQKey(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{Privileged: true})), newPeer(t, f.AddHost(HostConfig{Privileged: true}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	const secret = rdma.QKey(0x80001234)
	for _, p := range []*peer{from, to} {
		if err := p.qp.Modify(rdma.QPAttr{QKey: secret}, rdma.QPMaskQKey); err != nil {
			t.Fatal(err)
		}
	}
	to.post(2)
	wr := from.sendWR(ah, "own key")
	wr.QKey = 0x80000000 // this value is not sent
	if _, err := from.qp.PostSend([]rdma.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	from.send(ah, "usual key")
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"own key"}) {
		t.Errorf("received %q, want %q", got, "own key")
	}
	if attr, _ := to.dev.Port(1); attr.QKeyViolations != 1 {
		t.Errorf("%d violations counted, want 1", attr.QKeyViolations)
	}
}

// If the device supports the flag, a queue pair with it does not receive its own messages, but all others.
func TestBlockSelf(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	attr := peerAttr()
	attr.Flags = rdma.QPBlockSelfMulticast
	h := f.AddHost(HostConfig{})
	from, neighbour := newPeerWith(t, h, attr, 64, nil), newPeer(t, h)
	ah := from.join(testGroup(1), rdma.JoinFullMember)
	neighbour.join(testGroup(1), rdma.JoinFullMember)
	from.post(2)
	neighbour.post(2)
	from.send(ah, "not to me")
	neighbour.send(neighbour.ahTo(ah), "to both")
	from.run()
	if got := from.received(); !slices.Equal(got, []string{"to both"}) {
		t.Errorf("received %q, want %q", got, "to both")
	}
	if got := neighbour.received(); len(got) != 2 {
		t.Errorf("neighbour received %q, want 2 messages", got)
	}
}

func (p *peer) ahTo(ah rdma.AH) rdma.AH {
	own, err := p.pd.CreateAH(ah.Attr())
	if err != nil {
		p.t.Fatal(err)
	}
	return own
}

// The PSN counts the datagrams of a queue pair from SQ_PSN.
func TestPSN(t *testing.T) {
	from, _, ah := pair(t, Config{}, peerAttr(), 64)
	qp, err := from.pd.CreateQP(rdma.QPInitAttr{SendCQ: from.cq, RecvCQ: from.cq, Cap: peerAttr().Cap})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		attr rdma.QPAttr
		mask rdma.QPAttrMask
	}{
		{rdma.QPAttr{State: rdma.QPInit, Port: 1, QKey: rdma.UDPQKey}, initMask},
		{rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState},
		{rdma.QPAttr{State: rdma.QPRTS, SQPSN: 0xfffffe}, rdma.QPMaskState | rdma.QPMaskSQPSN},
	} {
		if err := qp.Modify(step.attr, step.mask); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []uint32{0xffffff, 0, 1} {
		if _, err := qp.PostSend([]rdma.SendWR{from.sendWR(ah, "x")}); err != nil {
			t.Fatal(err)
		}
		if attr, _ := qp.Query(); attr.SQPSN != want {
			t.Errorf("next PSN is %#x, want %#x", attr.SQPSN, want)
		}
	}
}

// The limit on the total number of attachments, which the conformance suite does not test.
func TestTotalAttachments(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{Limits: func(a *rdma.DeviceAttr) {
		a.MaxMcastGrp, a.MaxMcastQPAttach, a.MaxTotalMcastQPAttach = 2, 2, 3
	}})
	a, b := newPeer(t, h), newPeer(t, h)
	gid := func(n byte) rdma.GID { return rdma.GID{0: 0xff, 15: n} }
	for _, c := range []struct {
		p    *peer
		n    byte
		fits bool
	}{{a, 1, true}, {a, 2, true}, {a, 3, false}, {b, 1, true}, {b, 2, false}, {b, 1, true}} {
		if err := c.p.qp.AttachMcast(gid(c.n), 0xC000); (err == nil) != c.fits {
			t.Errorf("group %d: %v, want success %v", c.n, err, c.fits)
		}
	}
	if err := a.qp.DetachMcast(gid(2), 0xC000); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.AttachMcast(gid(3), 0xC000); err != nil {
		t.Errorf("after a detach: %v", err)
	}
}

// Attaching to a group with two LIDs makes two entries, but one attachment of the device. The first detach ends it, and
// the second returns an error (kernel core/uverbs_cmd.c).
func TestAttachWithTwoLIDs(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	gid := ah.Attr().GRH.DGID
	if err := to.qp.AttachMcast(gid, 0xC777); err != nil {
		t.Fatal(err)
	}
	to.post(4)
	from.send(ah, "one copy")
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"one copy"}) {
		t.Errorf("received %q, want %q", got, "one copy")
	}
	if err := to.qp.DetachMcast(gid, 0xC777); err != nil {
		t.Error(err)
	}
	from.send(ah, "none")
	from.run()
	if got := to.received(); len(got) != 0 {
		t.Errorf("received %q, want nothing", got)
	}
	if err := to.qp.DetachMcast(gid, ah.Attr().DLID); err == nil {
		t.Error("the device still had the attachment")
	}
	if err := to.id.DestroyQP(); err != nil {
		t.Errorf("the entry still exists: %v", err)
	}
}

// Of two joins of a group the latest one is left first: here the send-only one, so that the queue pair stays attached.
func TestLeaveEndsLatestJoin(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	ah := p.join(testGroup(1), rdma.JoinFullMember)
	p.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	p.post(2)
	p.leave(testGroup(1))
	p.send(ah, "after the leave")
	p.run()
	if got := p.received(); !slices.Equal(got, []string{"after the leave"}) {
		t.Errorf("received %q, want %q", got, "after the leave")
	}
	p.leave(testGroup(1))
	p.send(ah, "gone")
	p.run()
	if got := p.received(); len(got) != 0 {
		t.Errorf("received %q, want nothing", got)
	}
}

// A queue pair receives only from its own port, and not from the other port of the device.
func TestQPBelongsToAPort(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{Ports: 2})
	from, first := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, h)
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	ch, _ := h.NewEventChannel()
	id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Bind(h.Port(0, 2).Addr()); err != nil {
		t.Fatal(err)
	}
	if err := id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := first.qp.AttachMcast(ah.Attr().GRH.DGID, ah.Attr().DLID); err != nil {
		t.Fatal(err)
	}
	first.post(1)
	first.run()
	from.send(ah, "on the other port")
	first.run()
	if got := first.received(); len(got) != 0 {
		t.Errorf("received %q, want nothing", got)
	}
}

func TestAHOnRoCE(t *testing.T) {
	f := New(Config{Flavor: RoCE})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	good := p.join(testGroup(1), rdma.JoinFullMember).Attr()
	local, family := good, good
	local.IsGlobal = false
	family.GRH.SGIDIndex = 0 // a link-local IPv6 GID
	for name, attr := range map[string]rdma.AHAttr{"not global": local, "other family": family} {
		_, err := p.pd.CreateAH(attr)
		wantErrno(t, name, err, syscall.EINVAL)
	}
}

// An address handle belongs to one port. When the device's limit is reached, closing one handle permits another.
func TestAHOfPort(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{Ports: 2, Limits: func(a *rdma.DeviceAttr) { a.MaxAH = 2 }}))
	ah := p.join(testGroup(1), rdma.JoinFullMember)
	attr := ah.Attr()
	attr.Port = 2
	other, err := p.pd.CreateAH(attr)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.qp.PostSend([]rdma.SendWR{p.sendWR(other, "on the other port")})
	wantErrno(t, "a handle of another port than the queue pair's", err, syscall.EINVAL)
	_, err = p.pd.CreateAH(attr)
	wantErrno(t, "a handle above the limit of two", err, syscall.ENOMEM)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.pd.CreateAH(attr); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}

// Receiving needs write access.
func TestReceiveIntoReadOnlyRegion(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	mr, err := to.pd.RegisterMemory(to.mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.qp.PostRecv([]rdma.RecvWR{{SG: []rdma.SGE{{Buf: to.mem[:peerSlot], LKey: mr.LKey()}}}}); err != nil {
		t.Fatal(err)
	}
	from.send(ah, "x")
	from.run()
	if wcs := to.poll(); len(wcs) != 1 || wcs[0].Status != rdma.WCLocProtErr {
		t.Errorf("completions %+v, want one with a local protection error", wcs)
	}
}

// A datagram to the sender's own port does not use the network, where it could be lost.
func TestUnicastToOwnPort(t *testing.T) {
	f := New(Config{Flavor: RoCE, Faults: Faults{Loss: 1}})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	attr := p.join(testGroup(1), rdma.JoinSendOnlyFullMember).Attr()
	attr.GRH.DGID = rdma.GIDFromIP(f.hosts[0].Addr().IP)
	ah, err := p.pd.CreateAH(attr)
	if err != nil {
		t.Fatal(err)
	}
	p.post(1)
	wr := p.sendWR(ah, "to myself")
	wr.QPN = p.qp.QPN()
	if _, err := p.qp.PostSend([]rdma.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	p.run()
	if got := p.received(); !slices.Equal(got, []string{"to myself"}) {
		t.Errorf("received %q, want %q", got, "to myself")
	}
}

// A datagram of another partition, or between two limited members of the same one, is dropped and counted, whichever
// table entry a queue pair uses.
func TestPKeys(t *testing.T) {
	for _, c := range []struct {
		from, to rdma.PKey
		taken    bool
	}{
		{0x8001, 0x8001, true}, {0x8001, 0x0001, true}, {0x0001, 0x8001, true},
		{0x0001, 0x0001, false}, {0x8001, 0x8002, false}, {0x8001, 0xffff, false}, {0xffff, 0x7fff, true},
	} {
		from, to, ah := pair(t, Config{}, peerAttr(), 64)
		for i, p := range []*peer{from, to} {
			from.f.hosts[i].Port(0, 1).SetPKeys(rdma.DefaultPKey, []rdma.PKey{c.from, c.to}[i])
			for _, step := range []struct {
				attr rdma.QPAttr
				mask rdma.QPAttrMask
			}{
				{rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState},
				{rdma.QPAttr{State: rdma.QPInit, Port: 1, PKeyIndex: 1, QKey: rdma.UDPQKey}, initMask},
				{rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState},
				{rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState | rdma.QPMaskSQPSN},
			} {
				if err := p.qp.Modify(step.attr, step.mask); err != nil {
					t.Fatal(err)
				}
			}
		}
		to.post(1)
		from.send(ah, "x")
		from.run()
		bad := uint64(1)
		if c.taken {
			bad = 0
		}
		if got := to.received(); (len(got) == 1) != c.taken {
			t.Errorf("from %v to %v: received %q, want a message: %v", c.from, c.to, got, c.taken)
		}
		if attr, _ := to.dev.Port(1); attr.BadPKeys != bad {
			t.Errorf("from %v to %v: %d counted, want %d", c.from, c.to, attr.BadPKeys, bad)
		}
	}
}

// The completion and the GRH area of a datagram have the values of its sender's port and address handle.
func TestCompletionOfDatagram(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		from, to, ah := pair(t, Config{Flavor: flavor}, peerAttr(), 64)
		attr := ah.Attr()
		attr.SL, attr.GRH.TrafficClass, attr.GRH.HopLimit = 5, 0x2a, 9
		own, err := from.pd.CreateAH(attr)
		if err != nil {
			t.Fatal(err)
		}
		port, err := from.dev.Port(1)
		if err != nil {
			t.Fatal(err)
		}
		to.post(1)
		from.send(own, "hello") // 5 bytes, 3 of padding
		from.run()
		wcs := to.poll()
		if len(wcs) != 1 || wcs[0].SL != 5 || wcs[0].SLID != port.LID || wcs[0].SrcQPN != from.qp.QPN() {
			t.Fatalf("%v: completions %+v, want one with SL 5, LID %v and QPN %v", flavor, wcs, port.LID, from.qp.QPN())
		}
		h, ok := rdma.ParseGRH(port.LinkLayer, to.mem)
		bytes := uint16(12 + 8 + 8 + 4) // BTH, DETH, payload, ICRC
		if flavor == RoCE {
			bytes += 8 // UDP
		}
		gids, _ := from.dev.GIDs(1)
		if !ok || h.PayloadLength != bytes || h.TrafficClass != 0x2a || h.HopLimit != 9 ||
			h.Src != gids[attr.GRH.SGIDIndex].GID || h.Dst != attr.GRH.DGID {
			t.Errorf("%v: header %+v, %v, want %d bytes", flavor, h, ok, bytes)
		}
	}
}
