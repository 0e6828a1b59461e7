package rdmatest

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// mgid returns a group's GID for tests of verbs without a join.
func (t *T) mgid(x uint16) rdma.GID {
	if t.is(RoCE) {
		return rdma.GIDFromIP(group(byte(x>>8), byte(x)).IP)
	}
	g := rdma.GID{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x01, 4: 0xff, 5: 0xff, 12: 0x0f}
	binary.BigEndian.PutUint16(g[14:], x)
	return g
}

const aLID = rdma.LID(0xC123)

var verbsStatements = []Statement{
	{78, "AttachMcast on an RC or UC queue pair is EINVAL", both, 0, "man ibv_attach_mcast; kernel verbs.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, typ := range []rdma.QPType{rdma.QPTypeRC, rdma.QPTypeUC} {
			attr := n.initAttr()
			attr.Type = typ
			qp, err := n.pd.CreateQP(attr)
			t.must("CreateQP", err)
			t.wantErrno("AttachMcast", qp.AttachMcast(t.mgid(78), aLID), syscall.EINVAL)
			t.must("Close", qp.Close())
		}
	}},
	{79, "AttachMcast with a GID that is not multicast is EINVAL", both, 0, "man ibv_attach_mcast; kernel ib_addr.h", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, s := range []string{"fe80::1", "::ffff:10.0.0.1", "::"} {
			gid, err := rdma.ParseGID(s)
			t.must("ParseGID", err)
			t.wantErrno(s, n.qp.AttachMcast(gid, aLID), syscall.EINVAL)
		}
	}},
	{80, "AttachMcast accepts only LIDs from 0xC000 to 0xFFFE", IB, 0, "kernel verbs.c is_valid_mcast_lid", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, lid := range []rdma.LID{0, 0xBFFF, 0xFFFF} {
			t.wantErrno(lid.String(), n.qp.AttachMcast(t.mgid(80), lid), syscall.EINVAL)
		}
		for i, lid := range []rdma.LID{0xC000, 0xFFFE} {
			gid := t.mgid(0x8000 + uint16(i))
			t.must(lid.String(), n.qp.AttachMcast(gid, lid))
			t.must("detach", n.qp.DetachMcast(gid, lid))
		}
	}},
	{81, "AttachMcast accepts any LID", RoCE, 0, "kernel verbs.c is_valid_mcast_lid", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for i, lid := range []rdma.LID{0, 1, 0xBFFF, 0xC000, 0xFFFF} {
			gid := t.mgid(0x8100 + uint16(i))
			t.must(lid.String(), n.qp.AttachMcast(gid, lid))
			t.must("detach", n.qp.DetachMcast(gid, lid))
		}
	}},
	{82, "attaching twice succeeds, with one copy of messages, and one detach is enough", both, 0, "man ibv_attach_mcast; kernel uverbs_cmd.c", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		ev := to.join(group(8, 82)) // attaches once
		gid, lid := ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID
		t.must("second attach", to.qp.AttachMcast(gid, lid))
		t.must("third attach", to.qp.AttachMcast(gid, lid))
		ah := from.ah(from.join(group(8, 82)))
		from.send(ah, "one copy")
		to.expect("one copy")
		t.must("detach", to.qp.DetachMcast(gid, lid))
		t.wantErrno("second detach", to.qp.DetachMcast(gid, lid), syscall.EINVAL)
		from.receive(1)
		from.send(ah, "none")
		from.expect("none")
		to.receive(0)
		// The second attachment leaves nothing: the queue pair can be closed.
		qp := to.rawQP(rdma.QPRTS, 0)
		t.must("attach", qp.AttachMcast(gid, lid))
		t.must("second attach", qp.AttachMcast(gid, lid))
		t.must("detach", qp.DetachMcast(gid, lid))
		t.must("Close", qp.Close())
	}},
	{83, "DetachMcast of a group that is not attached is EINVAL", both, 0, "kernel uverbs_cmd.c", func(t *T) {
		t.open(Options{Hosts: 1})
		t.wantErrno("detach", t.node(0).qp.DetachMcast(t.mgid(83), aLID), syscall.EINVAL)
	}},
	{84, "DetachMcast with another LID is EINVAL", both, 0, "kernel uverbs_cmd.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		t.must("attach", n.qp.AttachMcast(t.mgid(84), aLID))
		t.wantErrno("detach", n.qp.DetachMcast(t.mgid(84), aLID+1), syscall.EINVAL)
		t.must("detach", n.qp.DetachMcast(t.mgid(84), aLID))
	}},
	{85, "attach succeeds in RESET, INIT, RTR and RTS", both, 0, "manual of ibv_attach_mcast at rdmamojo; kernel verbs.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, state := range []rdma.QPState{rdma.QPReset, rdma.QPInit, rdma.QPRTR, rdma.QPRTS} {
			qp := n.rawQP(state, 0)
			t.must(state.String(), qp.AttachMcast(t.mgid(85), aLID))
			t.must("detach", qp.DetachMcast(t.mgid(85), aLID))
		}
	}},
	{86, "one QP on many groups, many QPs on one group", both, 0, "manual of ibv_attach_mcast at rdmamojo", func(t *T) {
		t.open(Options{Hosts: 2})
		from := t.node(0)
		to := []*node{t.node(1), t.node(1), t.node(1)}
		for i, n := range to {
			for g := range byte(3 - i) {
				n.join(group(86, g))
			}
		}
		for g := range byte(3) {
			from.send(from.ah(from.joinAs(group(86, g), rdma.JoinSendOnlyFullMember)), string('a'+rune(g)))
		}
		for i, n := range to {
			got := map[string]int{}
			for _, m := range n.receive(3 - i) {
				got[m.data]++
			}
			for g := range byte(3 - i) {
				if got[string('a'+rune(g))] != 1 {
					t.Errorf("QP %d received %v, want one message of group %d", i, got, g)
				}
			}
		}
	}},
	{87, "device without multicast: attach is EOPNOTSUPP (ENOSYS in the manual page, and in old kernels)", both, 0, "man ibv_attach_mcast; kernel verbs.c", func(t *T) {
		t.open(Options{Hosts: 1, NoMulticast: true})
		n := t.node(0)
		attr, err := n.dev.Attr()
		t.must("Attr", err)
		err = n.qp.AttachMcast(t.mgid(87), aLID)
		if attr.MaxMcastGrp != 0 || !errors.Is(err, rdma.ErrNotSupported) || !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("limit %d, error %v, want 0 and EOPNOTSUPP", attr.MaxMcastGrp, err)
		}
	}},
	{88, "the 57th QP on a group and the 8193rd group are ENOMEM (rxe's limits)", RoCE, 0, "manual of ibv_attach_mcast at rdmamojo; rxe rxe_mcast.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		attr, err := n.dev.Attr()
		t.must("Attr", err)
		if attr.MaxMcastQPAttach != 56 || attr.MaxMcastGrp != 8192 {
			t.notApplicable("the device has other limits: %d and %d", attr.MaxMcastQPAttach, attr.MaxMcastGrp)
		}
		if t.is(Kernel) && testing.Short() {
			t.notApplicable("its time is quadratic in the number of groups: skipped with -short")
		}
		qps := make([]rdma.QP, attr.MaxMcastQPAttach)
		for i := range qps {
			qps[i] = n.rawQP(rdma.QPReset, 0)
			t.must("attach", qps[i].AttachMcast(t.mgid(0), 0))
		}
		t.wantErrno("one QP more", n.qp.AttachMcast(t.mgid(0), 0), syscall.ENOMEM)
		for i := 1; i < attr.MaxMcastGrp; i++ {
			t.must("attach", n.qp.AttachMcast(t.mgid(uint16(i)), 0))
		}
		t.wantErrno("one group more", n.qp.AttachMcast(t.mgid(uint16(attr.MaxMcastGrp)), 0), syscall.ENOMEM)
		for i := 1; i < attr.MaxMcastGrp; i++ {
			t.must("detach", n.qp.DetachMcast(t.mgid(uint16(i)), 0))
		}
		for _, qp := range qps {
			t.must("detach", qp.DetachMcast(t.mgid(0), 0))
		}
	}},
	{89, "closing a QP while attached is EBUSY", both, 0, "kernel uverbs uverbs_free_qp", func(t *T) {
		t.open(Options{Hosts: 1})
		qp := t.node(0).rawQP(rdma.QPRTS, 0)
		t.must("attach", qp.AttachMcast(t.mgid(89), aLID))
		t.wantErrno("Close", qp.Close(), syscall.EBUSY)
		t.must("detach", qp.DetachMcast(t.mgid(89), aLID))
		t.must("Close", qp.Close())
	}},
	{90, "after an attach without a join only messages that reach the port are received", both, 0, "man ibv_attach_mcast", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		ev := from.join(group(9, 90))
		ah := from.ah(ev)
		t.must("attach", to.qp.AttachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
		defer func() { _ = to.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID) }()
		if t.is(IB) { // on Ethernet a switch may flood
			from.send(ah, "not notified")
			from.receive(1)
			to.receive(0)
		}
		member := t.node(0, nodeConfig{noQP: true}) // another id of the host
		member.join(group(9, 90))
		from.send(ah, "asked for by another")
		to.expect("asked for by another")
	}},
	{91, "closing the device detaches everything", both, Kernel, "kernel uverbs ib_uverbs_detach_umcast", func(t *T) {
		t.notApplicable("it needs the end of a process")
	}},
}
