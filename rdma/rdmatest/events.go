package rdmatest

import (
	"errors"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

var eventStatements = []Statement{
	{39, "JOIN event has status 0 and the join's context, no private data", both, 0, "librdmacm cma.c ucma_process_join", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		context := new(int)
		n.begin(group(3, 39), rdma.JoinFullMember, context)
		ev := n.wantType(rdma.EventMulticastJoin)
		if ev.Type != 12 || ev.Status != 0 || ev.Context != context || ev.UD.PrivateDataLen != 0 ||
			ev.ID != n.id || ev.Err() != nil {
			t.Errorf("event %+v, want type 12, status 0, context %v, no private data and no error", ev, context)
		}
	}},
	{40, "event's qp_num is 0xFFFFFF", both, 0, "kernel cma.c cma_make_mc_event", func(t *T) {
		t.open(Options{Hosts: 1})
		if ev := t.node(0).join(group(3, 40)); ev.UD.QPN != 0xFFFFFF {
			t.Errorf("qp_num %v, want 0xFFFFFF", ev.UD.QPN)
		}
	}},
	{41, "event's Q_Key is 0x01234567 on PS_UDP", both, 0, "kernel cma.c cma_set_qkey", func(t *T) {
		t.open(Options{Hosts: 1})
		if ev := t.node(0).join(group(3, 41)); ev.UD.QKey != 0x01234567 {
			t.Errorf("event has Q_Key %v, want 0x01234567", ev.UD.QKey)
		}
	}},
	{42, "event's Q_Key is the broadcast group's on PS_IPOIB", IB, 0, "kernel cma.c cma_set_qkey", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{ps: rdma.PortSpaceIPoIB})
		ev := n.join(group(3, 42))
		attr, err := n.qp.Query()
		t.must("Query", err)
		if ev.UD.QKey == rdma.UDPQKey || ev.UD.QKey == 0 || attr.QKey != ev.UD.QKey {
			t.Errorf("event has Q_Key %v, queue pair %v, want the same, neither 0 nor %v", ev.UD.QKey, attr.QKey, rdma.UDPQKey)
		}
	}},
	{43, "address handle attributes of a RoCE group", RoCE, 0, "kernel cma.c cma_make_mc_event", func(t *T) {
		net := t.open(Options{Hosts: 1})
		n := t.node(0)
		got := n.join(addr("239.1.2.3")).UD.AHAttr
		gids, err := n.dev.GIDs(n.id.Port())
		t.must("GIDs", err)
		index := -1
		for _, e := range gids {
			if e.GID == rdma.GIDFromIP(net.Hosts[0].Addr.IP) && e.Type == rdma.GIDTypeRoCEv2 {
				index = e.Index
			}
		}
		want := rdma.AHAttr{IsGlobal: true, Port: n.id.Port(), GRH: rdma.GRH{DGID: rdma.GIDFromIP(addr("239.1.2.3").IP), SGIDIndex: index, HopLimit: 64}}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}},
	{44, "address handle attributes of an IB group are the SA's", IB, 0, "kernel verbs.c ib_init_ah_from_mcmember", func(t *T) {
		net := t.open(Options{Hosts: 1, OddRecord: true})
		t.can(net.Group != nil, "see the SA's records")
		n := t.node(0)
		got := n.join(group(3, 44)).UD.AHAttr
		want, ok := net.Group(got.GRH.DGID)
		if !ok || !got.DLID.IsMulticast() {
			t.Fatalf("the SA has %v: %v; MLID %v, want a multicast LID", got.GRH.DGID, ok, got.DLID)
		}
		want.IsGlobal, want.Port = true, n.id.Port()
		if got != want || got.SL == 0 || got.GRH.FlowLabel == 0 || got.GRH.HopLimit == 0 || got.GRH.TrafficClass == 0 {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}},
	{45, "the join returns without waiting, the event follows later", both, 0, "kernel cma.c work queue", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		// Several joins begin before any event is retrieved.
		for i := range byte(3) {
			n.begin(group(45, i), rdma.JoinFullMember, nil)
		}
		for range 3 {
			n.wantType(rdma.EventMulticastJoin)
		}
		n.noEvent()
	}},
	{46, "each join has its own context", both, 0, "kernel ucma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		want := map[any]rdma.Addr{}
		for i := range byte(5) {
			n.begin(group(46, i), rdma.JoinFullMember, i)
			want[i] = group(46, i)
		}
		for range 5 {
			ev := n.wantType(rdma.EventMulticastJoin)
			a, ok := want[ev.Context]
			delete(want, ev.Context)
			dgid := ev.UD.AHAttr.GRH.DGID
			if !ok || dgid[15] != a.IP.As4()[3] || dgid[14] != 46 {
				t.Errorf("context %v with group %v, want the group of the context", ev.Context, dgid)
			}
		}
	}},
	{47, "MULTICAST_ERROR has the context, and no address if the fabric caused it", both, 0, "librdmacm cma.c; kernel cma.c", func(t *T) {
		if t.is(RoCE) {
			// On RoCE the only error is that of the attachment, which has the address: S055 checks it. The context is the same.
			t.open(Options{Hosts: 1, MaxMcastQPAttach: 1})
			t.node(0).join(group(3, 47))
			n := t.node(0)
			n.begin(group(3, 47), rdma.JoinFullMember, "mine")
			if ev := n.wantType(rdma.EventMulticastError); ev.Context != "mine" {
				t.Errorf(`event has context %v, want "mine"`, ev.Context)
			}
			return
		}
		t.open(Options{Hosts: 1, NoSendOnly: true})
		n := t.node(0)
		n.begin(group(3, 47), rdma.JoinSendOnlyFullMember, "mine")
		if ev := n.wantType(rdma.EventMulticastError); ev.Context != "mine" || ev.UD.AHAttr != (rdma.AHAttr{}) {
			t.Errorf(`event %+v, want context "mine" and no address`, ev)
		}
	}},
	{48, "refusal by the SA is MULTICAST_ERROR -22", IB, 0, "kernel sa_query.c recv_handler", func(t *T) {
		t.open(Options{Hosts: 1, NoSendOnly: true})
		n := t.node(0)
		n.begin(group(3, 48), rdma.JoinSendOnlyFullMember, nil)
		if ev := n.wantType(rdma.EventMulticastError); ev.Status != -22 || !errors.Is(ev.Err(), syscall.EINVAL) {
			t.Errorf("status %d, error %v, want -22, EINVAL", ev.Status, ev.Err())
		}
	}},
	{49, "silence of the SA is MULTICAST_ERROR -110", IB, 0, "kernel multicast.c send_join", func(t *T) {
		net := t.open(Options{Hosts: 1, Silent: true})
		n := t.node(0)
		n.begin(group(3, 49), rdma.JoinFullMember, nil)
		n.noEvent()
		net.Advance(4 * time.Second)
		if ev := n.wantType(rdma.EventMulticastError); ev.Status != -110 || !errors.Is(ev.Err(), syscall.ETIMEDOUT) {
			t.Errorf("status %d, error %v, want -110, ETIMEDOUT", ev.Status, ev.Err())
		}
	}},
	{50, "MULTICAST_ERROR with status 0 is an error", both, 0, "kernel cma.c cma_make_mc_event", func(t *T) {
		ev := rdma.NewEvent(rdma.EventMulticastError, nil, nil)
		if ev.Err() == nil {
			t.Error("the event counts as success")
		}
		net := t.open(Options{Hosts: 1})
		if net.RemoveGIDs == nil || t.is(RoCE) {
			return // this target cannot cause such an event
		}
		n := t.node(0)
		n.begin(group(3, 50), rdma.JoinFullMember, nil)
		net.RemoveGIDs(0)
		// The answer may have arrived before the removal.
		if ev := n.event(); ev.Type != rdma.EventMulticastJoin && (ev.Status != 0 || ev.Err() == nil) {
			t.Errorf("event %v, status %d, error %v, want a join, or status 0 with an error", ev.Type, ev.Status, ev.Err())
		}
	}},
}
