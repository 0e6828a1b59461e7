package rdmatest

import (
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

var leaveStatements = []Statement{
	{60, "leave of a group that was not joined is EADDRNOTAVAIL", both, 0, "librdmacm cma.c rdma_leave_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		t.wantErrno("leave", t.node(0).leave(group(6, 60)), syscall.EADDRNOTAVAIL)
	}},
	{61, "leave with another port than that of the join succeeds", both, 0, "librdmacm cma.c compares sockaddrs; rdma.Addr.Group does not", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		a := group(6, 61)
		a.Port = 7000
		n.join(a)
		a.Port = 7001
		t.must("leave", n.leave(a))
		t.wantErrno("second leave", n.leave(group(6, 61)), syscall.EADDRNOTAVAIL)
	}},
	{62, "second leave is EADDRNOTAVAIL", both, 0, "librdmacm cma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		n.join(group(6, 62))
		t.must("leave", n.leave(group(6, 62)))
		t.wantErrno("second leave", n.leave(group(6, 62)), syscall.EADDRNOTAVAIL)
	}},
	{63, "leave before the event is retrieved cancels the join, without any event", both, 0, "man rdma_leave_multicast; kernel ucma.c ucma_cleanup_mc_events", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		n.begin(group(6, 63), rdma.JoinFullMember, nil) // not complete
		t.must("leave immediately", n.leave(group(6, 63)))
		n.noEvent()
		n.begin(group(6, 63), rdma.JoinFullMember, nil) // complete, not retrieved
		t.quiet()
		t.must("leave later", n.leave(group(6, 63)))
		n.noEvent()
	}},
	{64, "leave waits until the join's events are acknowledged", both, 0, "librdmacm cma.c rdma_leave_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		n.begin(group(6, 64), rdma.JoinFullMember, nil)
		n.wantType(rdma.EventMulticastJoin)
		p, err := n.id.BeginLeave(group(6, 64))
		t.must("BeginLeave", err)
		t.quiet()
		if p.Done() {
			t.Error("leave ended before the acknowledgement")
		}
		n.ack()
		t.eventually("leave to end", p.Done)
	}},
	{65, "after leave no new messages are delivered; queued ones are", both, 0, "man rdma_leave_multicast", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		to.join(group(6, 65))
		ah := from.ah(from.join(group(6, 65)))
		from.send(ah, "before")
		from.expect("before")
		t.quiet() // it is in the completion queue, but not polled yet
		t.must("leave", to.leave(group(6, 65)))
		from.send(ah, "after")
		from.expect("after")
		to.expect("before")
	}},
	{66, "leave detaches the QP", both, 0, "man rdma_leave_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		ev := n.join(group(6, 66))
		t.must("leave", n.leave(group(6, 66)))
		t.wantErrno("DetachMcast", n.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID), syscall.EINVAL)
		t.must("DestroyQP", n.id.DestroyQP())
	}},
	{67, "leave also detaches the id's QP if attached by AttachMcast, and no other QP", both, 0, "librdmacm cma.c rdma_leave_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noQP: true})
		ev := n.join(group(6, 67))
		gid, lid := ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID
		n.addQP(nodeConfig{})
		other := n.rawQP(rdma.QPRTS, 0)
		t.must("AttachMcast", n.qp.AttachMcast(gid, lid))
		t.must("AttachMcast of another", other.AttachMcast(gid, lid))
		t.must("leave", n.leave(group(6, 67)))
		t.wantErrno("DetachMcast", n.qp.DetachMcast(gid, lid), syscall.EINVAL)
		t.must("DetachMcast of the other", other.DetachMcast(gid, lid))
	}},
	{68, "the last full member's leave sends an IGMP leave, a send-only member's does not", RoCE, 0, "kernel cma.c destroy_mc", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.Trace != nil, "see IGMP")
		a, b, s := t.node(0), t.node(0), t.node(0)
		a.join(group(6, 68))
		b.join(group(6, 68))
		s.joinAs(group(6, 68), rdma.JoinSendOnlyFullMember)
		wantRecords(t, net.Trace(), IGMPReport, Record{})
		t.must("leave", a.leave(group(6, 68)))
		t.must("leave", s.leave(group(6, 68)))
		t.quiet()
		wantRecords(t, net.Trace(), IGMPLeave)
		t.must("leave", b.leave(group(6, 68)))
		t.quiet()
		wantRecords(t, net.Trace(), IGMPLeave, Record{})
	}},
	{69, "SA Delete is sent with the last leave of a JoinState", IB, 0, "kernel multicast.c", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.Trace != nil, "see SA requests")
		a, b, s := t.node(0), t.node(0), t.node(0)
		net.Trace()
		a.join(group(6, 69))
		b.join(group(6, 69))
		s.joinAs(group(6, 69), rdma.JoinSendOnlyFullMember)
		wantRecords(t, net.Trace(), SASet, Record{State: 1}, Record{State: 8})
		t.must("leave", a.leave(group(6, 69)))
		t.quiet()
		wantRecords(t, net.Trace(), SADelete)
		t.must("leave", b.leave(group(6, 69)))
		t.quiet()
		wantRecords(t, net.Trace(), SADelete, Record{State: 1})
		t.must("leave", s.leave(group(6, 69)))
		t.quiet()
		wantRecords(t, net.Trace(), SADelete, Record{State: 8})
	}},
	{70, "destroying the id leaves all groups", both, 0, "man rdma_leave_multicast; kernel cma.c cma_leave_mc_groups", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.Trace != nil, "see SA requests or IGMP")
		n := t.node(0, nodeConfig{noQP: true})
		n.join(group(70, 1))
		n.join(group(70, 2))
		n.begin(group(70, 3), rdma.JoinFullMember, nil)
		net.Trace()
		p, err := n.id.BeginDestroy()
		t.must("BeginDestroy", err)
		t.eventually("destruction to end", p.Done)
		t.quiet()
		trace := net.Trace()
		kind := SADelete
		if t.is(RoCE) {
			kind = IGMPLeave
		}
		left := map[byte]bool{}
		for _, r := range trace {
			if r.Kind == kind {
				left[r.MGID[15]] = true
			}
		}
		joined := map[byte]bool{1: true, 2: true}
		for _, r := range trace {
			if r.Kind == SASet { // the third join was pending
				joined[r.MGID[15]] = true
			}
		}
		for g := range joined {
			if !left[g] {
				t.Errorf("group %d was not left: %+v", g, trace)
			}
		}
	}},
	{71, "destroying the id waits until its events are acknowledged", both, 0, "librdmacm cma.c rdma_destroy_id", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noQP: true})
		n.begin(group(6, 71), rdma.JoinFullMember, nil)
		n.wantType(rdma.EventMulticastJoin)
		p, err := n.id.BeginDestroy()
		t.must("BeginDestroy", err)
		t.quiet()
		if p.Done() {
			t.Error("destruction ended before the acknowledgement")
		}
		n.ack()
		t.eventually("destruction to end", p.Done)
	}},
	{72, "destroying the id does not detach the QP, which stays busy until detached", both, 0, "librdmacm cma.c; kernel uverbs uverbs_free_qp", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		ev := n.join(group(6, 72))
		p, err := n.id.BeginDestroy()
		t.must("BeginDestroy", err)
		t.eventually("destruction to end", p.Done)
		t.wantErrno("QP.Close", n.qp.Close(), syscall.EBUSY)
		t.must("DetachMcast", n.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
		t.must("QP.Close", n.qp.Close())
	}},
	{73, "two joins of a group on one id: two events, and the first leave detaches", both, 0, "librdmacm cma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		a := n.join(group(6, 73))
		b := n.join(group(6, 73))
		if a.UD.AHAttr.GRH.DGID != b.UD.AHAttr.GRH.DGID {
			t.Errorf("groups %v and %v, want the same", a.UD.AHAttr.GRH.DGID, b.UD.AHAttr.GRH.DGID)
		}
		t.must("leave", n.leave(group(6, 73)))
		t.wantErrno("DetachMcast", n.qp.DetachMcast(a.UD.AHAttr.GRH.DGID, a.UD.AHAttr.DLID), syscall.EINVAL)
		t.must("second leave", n.leave(group(6, 73)))
		t.wantErrno("third leave", n.leave(group(6, 73)), syscall.EADDRNOTAVAIL)
	}},
	{74, "two ids in a group both receive, and one can leave", both, 0, "kernel multicast.c; IGMP counts", func(t *T) {
		t.open(Options{Hosts: 2})
		a, b, from := t.node(0), t.node(0), t.node(1)
		a.join(group(6, 74))
		b.join(group(6, 74))
		ah := from.ah(from.joinAs(group(6, 74), rdma.JoinSendOnlyFullMember))
		from.send(ah, "to both")
		a.expect("to both")
		b.expect("to both")
		t.must("leave", a.leave(group(6, 74)))
		t.quiet()
		from.send(ah, "to one")
		b.expect("to one")
		a.receive(0)
	}},
}

var lossStatements = []Statement{
	{75, "port down, LID change and re-register cause MULTICAST_ERROR -102 for each join; leaving and joining again works", IB, 0, "kernel multicast.c mcast_event_handler", func(t *T) {
		net := t.open(Options{Hosts: 2})
		t.can(net.SetPort != nil && net.ChangeLID != nil && net.Reregister != nil, "make port events")
		to, from := t.node(0), t.node(1)
		ah := from.ah(from.joinAs(group(75, 0), rdma.JoinSendOnlyFullMember))
		for name, upset := range map[string]func(){
			"port down":   func() { net.SetPort(0, false); net.SetPort(0, true) },
			"LID change":  func() { net.ChangeLID(0) },
			"re-register": func() { net.Reregister(0) },
		} {
			to.join(group(75, 0))
			to.join(group(75, 1))
			upset()
			for range 2 {
				if ev := to.wantType(rdma.EventMulticastError); ev.Status != -102 {
					t.Errorf("%s: event has status %d, want -102", name, ev.Status)
				}
			}
			to.noEvent()
			to.ack()
			t.must("leave", to.leave(group(75, 0)))
			t.must("leave", to.leave(group(75, 1)))
			to.join(group(75, 0))
			from.send(ah, name)
			to.expect(name)
			t.must("leave", to.leave(group(75, 0)))
			t.quiet()
		}
	}},
	{76, "a P_Key that moves in the table ends memberships, an unmoved one does not", IB, 0, "kernel multicast.c process_group_error", func(t *T) {
		net := t.open(Options{Hosts: 1, PKey: 0x8001})
		t.can(net.SetPKeys != nil, "change the P_Key table")
		n := t.node(0)
		net.SetPKeys(0, 0xffff, 0x8001)
		n.join(group(6, 76))
		net.SetPKeys(0, 0xffff, 0x8001, 0x8002)
		n.noEvent()
		net.SetPKeys(0, 0xffff, 0x8002, 0x8001)
		if ev := n.wantType(rdma.EventMulticastError); ev.Status != -102 {
			t.Errorf("event has status %d, want -102", ev.Status)
		}
		n.ack()
		t.must("leave", n.leave(group(6, 76)))
		n.join(group(6, 76))
	}},
	{77, "DEVICE_REMOVAL is reported by an event; a later join fails", both, 0, "kernel cma.c cma_remove_one", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.RemoveDevice != nil, "remove a device")
		n := t.node(0)
		n.join(group(6, 77))
		net.RemoveDevice(0)
		n.wantType(rdma.EventDeviceRemoval)
		t.wantErrno("join", n.id.JoinMulticast(group(7, 77), nil), syscall.EINVAL)
		n.ack()
		t.must("leave", n.leave(group(6, 77)))
	}},
}
