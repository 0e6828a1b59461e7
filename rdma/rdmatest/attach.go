package rdmatest

import (
	"errors"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

var attachStatements = []Statement{
	{51, "no datagram before the JOIN event is retrieved, then all", both, 0, "librdmacm cma.c ucma_process_join", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		ah := from.ah(from.joinAs(group(5, 51), rdma.JoinSendOnlyFullMember))
		to.begin(group(5, 51), rdma.JoinFullMember, nil)
		t.quiet() // the join is complete, its event not retrieved
		from.send(ah, "early")
		to.receive(0)
		to.wantType(rdma.EventMulticastJoin)
		from.send(ah, "in time")
		to.expect("in time")
	}},
	{52, "without a QP nothing is attached; AttachMcast makes it receive", both, 0, "man rdma_join_multicast", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0, nodeConfig{noQP: true}), t.node(1)
		ev := to.join(group(5, 52))
		ah := from.ah(from.join(group(5, 52)))
		to.addQP(nodeConfig{})
		from.send(ah, "early")
		from.expect("early")
		to.receive(0)
		t.must("AttachMcast", to.qp.AttachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
		from.send(ah, "attached")
		to.expect("attached")
	}},
	{53, "a QP made after retrieval is not attached", both, 0, "librdmacm cma.c ucma_process_join", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0, nodeConfig{noQP: true}), t.node(1)
		ev := to.join(group(5, 53))
		to.addQP(nodeConfig{})
		from.send(from.ah(from.join(group(5, 53))), "to no member")
		from.expect("to no member")
		to.receive(0)
		t.wantErrno("DetachMcast", to.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID), syscall.EINVAL)
	}},
	{54, "a send-only member's QP is never attached, and sends", both, 0, "man rdma_join_multicast_ex", func(t *T) {
		t.open(Options{Hosts: 2})
		from, to := t.node(0), t.node(1)
		to.join(group(5, 54))
		ev := from.joinAs(group(5, 54), rdma.JoinSendOnlyFullMember)
		from.send(from.ah(ev), "one way")
		to.expect("one way")
		from.receive(0)
		t.wantErrno("DetachMcast", from.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID), syscall.EINVAL)
		to.send(to.ahOf(ev.UD.AHAttr), "the other way")
		to.expect("the other way")
		from.receive(0)
	}},
	{55, "failure to attach is MULTICAST_ERROR -1; the membership stays until left", both, 0, "librdmacm cma.c rdma_get_cm_event", func(t *T) {
		t.open(Options{Hosts: 1, MaxMcastQPAttach: 1})
		first, second := t.node(0), t.node(0)
		first.join(group(5, 55))
		second.begin(group(5, 55), rdma.JoinFullMember, nil)
		ev := second.wantType(rdma.EventMulticastError)
		if ev.Status != -1 || ev.Errno != syscall.ENOMEM || !errors.Is(ev.Err(), syscall.ENOMEM) ||
			!ev.UD.AHAttr.GRH.DGID.IsMulticast() || ev.UD.QPN != rdma.MulticastQPN || ev.UD.QKey != rdma.UDPQKey {
			t.Errorf("event %+v, want status -1, ENOMEM, a multicast address, the multicast QPN and the usual Q_Key", ev)
		}
		second.ack()
		t.must("leave", second.leave(group(5, 55)))
		t.wantErrno("second leave", second.leave(group(5, 55)), syscall.EADDRNOTAVAIL)
	}},
	{56, "send-only asks for JoinState 0x8, full member for 0x1", IB, 0, "kernel ucma.c ucma_process_join", func(t *T) {
		net := t.open(Options{Hosts: 2})
		t.can(net.Trace != nil, "see SA requests")
		net.Trace()
		t.node(0).joinAs(group(5, 56), rdma.JoinSendOnlyFullMember)
		t.node(1).join(group(5, 56))
		wantRecords(t, net.Trace(), SASet, Record{Host: 0, State: 0x8}, Record{Host: 1, State: 0x1})
	}},
	{57, "a full member sends an IGMP report, a send-only member does not", RoCE, 0, "man rdma_join_multicast_ex; kernel cma.c cma_igmp_send", func(t *T) {
		net := t.open(Options{Hosts: 2})
		t.can(net.Trace != nil, "see IGMP")
		net.Trace()
		t.node(0).joinAs(group(5, 57), rdma.JoinSendOnlyFullMember)
		t.node(1).join(group(5, 57))
		wantRecords(t, net.Trace(), IGMPReport, Record{Host: 1})
	}},
	{58, "without support by the subnet manager a send-only join fails", IB, 0, "man rdma_join_multicast_ex", func(t *T) {
		t.open(Options{Hosts: 1, NoSendOnly: true})
		n := t.node(0)
		err := n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Flags: rdma.JoinSendOnlyFullMember, Addr: group(5, 58)}, nil)
		if errors.Is(err, syscall.EOPNOTSUPP) {
			return // kernels up to 4.19 check this before the join
		}
		t.must("join", err)
		if ev := n.wantType(rdma.EventMulticastError); ev.Status != -22 {
			t.Errorf("event has status %d, want -22", ev.Status)
		}
		n.ack()
		t.must("leave", n.leave(group(5, 58)))
		n.join(group(5, 58)) // as a full member it succeeds
	}},
	{59, "a send-only join creates the group", IB, 0, "man rdma_join_multicast_ex; OpenSM", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.Group != nil, "see the SA's records")
		ev := t.node(0).joinAs(group(5, 59), rdma.JoinSendOnlyFullMember)
		if r, ok := net.Group(ev.UD.AHAttr.GRH.DGID); !ok || r.DLID != ev.UD.AHAttr.DLID {
			t.Errorf("the SA has the group: %v, record %+v, want MLID %v", ok, r, ev.UD.AHAttr.DLID)
		}
	}},
}

// wantRecords checks the records of a kind in a trace: their hosts and, if not zero, states.
func wantRecords(t *T, trace []Record, kind RecordKind, want ...Record) {
	t.Helper()
	var got []Record
	for _, r := range trace {
		if r.Kind == kind {
			got = append(got, r)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages of the kind, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i].Host != want[i].Host || want[i].State != 0 && got[i].State != want[i].State {
			t.Errorf("message %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
