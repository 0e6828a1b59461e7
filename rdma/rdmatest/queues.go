package rdmatest

import (
	"errors"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// queueStatements are about states and limits of queue pairs.
var queueStatements = []Statement{
	{104, "BLOCK_SELF_MCAST_LB is EOPNOTSUPP (rxe)", RoCE, 0, "rxe rxe_verbs.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		attr := n.initAttr()
		attr.Flags = rdma.QPBlockSelfMulticast
		qp, err := n.pd.CreateQP(attr)
		if err == nil {
			_ = qp.Close()
			t.notApplicable("the device supports the flag")
		}
		t.wantErrno("CreateQP", err, syscall.EOPNOTSUPP)
	}},
	{105, "a QP in INIT does not receive, in RTR it does but does not send, in RTS both", both, 0, "rxe rxe_recv.c check_type_state", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		ev := to.join(group(105, 1))
		to.receive(0)
		ah := from.ah(from.joinAs(group(105, 1), rdma.JoinSendOnlyFullMember))
		t.must("detach", to.qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
		for state, receives := range map[rdma.QPState]bool{rdma.QPInit: false, rdma.QPRTR: true, rdma.QPRTS: true} {
			qp := to.rawQP(state, 0)
			t.must("attach", qp.AttachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
			to.postOn(qp, 1)
			from.send(ah, state.String())
			if receives {
				to.expect(state.String())
			} else {
				to.receive(0)
			}
			wr := to.sendWR(to.ahOf(ev.UD.AHAttr), "out")
			if state == rdma.QPRTS {
				to.sendOn(qp, wr)
			} else {
				_, err := qp.PostSend([]rdma.SendWR{wr})
				t.wantErrno("PostSend in "+state.String(), err, syscall.EINVAL)
			}
			t.quiet()
			t.must("detach", qp.DetachMcast(ev.UD.AHAttr.GRH.DGID, ev.UD.AHAttr.DLID))
			t.must("Close", qp.Close())
			to.poll()
			to.msgs = nil
		}
	}},
	{106, "RESET to INIT without Q_Key, RTR to RTS without SQ_PSN are EINVAL", both, 0, "kernel verbs.c qp_state_table", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		qp := n.rawQP(rdma.QPReset, 0)
		init := rdma.QPAttr{State: rdma.QPInit, Port: n.id.Port(), QKey: rdma.UDPQKey}
		const all = rdma.QPMaskState | rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey
		for _, less := range []rdma.QPAttrMask{rdma.QPMaskQKey, rdma.QPMaskPort, rdma.QPMaskPKeyIndex} {
			t.wantErrno("to INIT with too little", qp.Modify(init, all&^less), syscall.EINVAL)
		}
		t.wantErrno("to INIT with too much", qp.Modify(init, all|rdma.QPMaskSQPSN), syscall.EINVAL)
		t.wantErrno("to RTS", qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState|rdma.QPMaskSQPSN), syscall.EINVAL)
		t.must("to INIT", qp.Modify(init, all))
		t.must("to RTR", qp.Modify(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState))
		t.wantErrno("to RTS without PSN", qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState), syscall.EINVAL)
		t.must("to RTS", qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState|rdma.QPMaskSQPSN))
		got, err := qp.Query()
		t.must("Query", err)
		if got.State != rdma.QPRTS || got.Port != n.id.Port() || got.QKey != rdma.UDPQKey {
			t.Errorf("queue pair is %+v, want %v on port %d with the usual Q_Key", got, rdma.QPRTS, n.id.Port())
		}
	}},
	{107, "a Q_Key with bit 31 without privileges is EPERM", both, 0, "kernel uverbs_cmd.c", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(!net.Privileged, "run without privileges")
		n := t.node(0)
		qp := n.rawQP(rdma.QPReset, 0)
		err := qp.Modify(rdma.QPAttr{State: rdma.QPInit, Port: n.id.Port(), QKey: 0x80000000},
			rdma.QPMaskState|rdma.QPMaskPKeyIndex|rdma.QPMaskPort|rdma.QPMaskQKey)
		t.wantErrno("Modify", err, syscall.EPERM)
	}},
	{108, "CreateQP on a UD id leaves the QP in RTS with Q_Key 0x01234567", both, 0, "librdmacm cma.c ucma_init_ud_qp", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		got, err := n.qp.Query()
		t.must("Query", err)
		if got.State != rdma.QPRTS || got.QKey != 0x01234567 || got.SQPSN != 0 || got.Port != n.id.Port() ||
			n.id.QP() != n.qp {
			t.Errorf("queue pair is %+v, want the id's own", got)
		}
	}},
	{109, "an AH from a multicast completion is EINVAL; ReplyAHAttr works", both, 0, "libibverbs verbs.c ibv_init_ah_from_wc", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		to.join(group(109, 1))
		from.send(from.ah(from.joinAs(group(109, 1), rdma.JoinSendOnlyFullMember)), "ask")
		m := to.expect("ask")
		_, err := rdma.AHAttrFromWC(to.dev, to.id.Port(), &m.wc, m.area)
		t.wantErrno("AHAttrFromWC", err, syscall.EINVAL)
		local, err := to.id.Local()
		t.must("Local", err)
		attr, err := rdma.ReplyAHAttr(local, &m.wc, m.area)
		t.must("ReplyAHAttr", err)
		wr := to.sendWR(to.ahOf(attr), "answer")
		wr.QPN = m.wc.SrcQPN
		to.sendOn(to.qp, wr)
		answer := from.expect("answer")
		if answer.wc.SrcQPN != to.qp.QPN() {
			t.Errorf("answer from %v, want %v", answer.wc.SrcQPN, to.qp.QPN())
		}
		// From a unicast datagram an AH can be made.
		_, err = rdma.AHAttrFromWC(from.dev, from.id.Port(), &answer.wc, answer.area)
		t.must("AHAttrFromWC of the answer", err)
	}},
	{110, "full queues are ENOMEM, and the refused work request is reported", both, 0, "rxe rxe_verbs.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noRecv: true})
		wrs := make([]rdma.RecvWR, depth+2)
		for i := range wrs {
			wrs[i] = n.recvWR(slotSize)
			wrs[i].WRID = uint64(100 + i)
		}
		capacity := n.qp.Cap().MaxRecvWR
		if capacity >= len(wrs) {
			t.notApplicable("the device makes queues larger than requested: %d", capacity)
		}
		k, err := n.qp.PostRecv(wrs)
		t.wantErrno("PostRecv", err, syscall.ENOMEM)
		var pe *rdma.PostError
		if k != capacity || !errors.As(err, &pe) || pe.Index != k || pe.WRID != uint64(100+k) {
			t.Errorf("posted %d sends, want %d, error %v, want one of request %d", k, capacity, err, capacity)
		}
		// No completions are requested, so that no place becomes free.
		ah := n.ah(n.joinAs(group(110, 1), rdma.JoinSendOnlyFullMember))
		sends := make([]rdma.SendWR, n.qp.Cap().MaxSendWR+1)
		for i := range sends {
			sends[i] = n.sendWR(ah, "x")
			sends[i].Flags = 0
		}
		k, err = n.qp.PostSend(sends)
		if err == nil {
			t.notApplicable("the device frees unsignaled sends by itself (rxe)")
		}
		t.wantErrno("PostSend", err, syscall.ENOMEM)
		if k != len(sends)-1 {
			t.Errorf("posted %d sends, want %d", k, len(sends)-1)
		}
	}},
	{100, "a message of the MTU is delivered, one byte more is EMSGSIZE", both, 0, "IBTA C10-93.1.1; rxe rxe_req.c", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0), t.node(1)
		to.join(group(100, 1))
		ah := from.ah(from.joinAs(group(100, 1), rdma.JoinSendOnlyFullMember))
		p, err := from.dev.Port(from.id.Port())
		t.must("Port", err)
		full := strings.Repeat("m", int(p.ActiveMTU))
		from.send(ah, full)
		to.expect(full)
		// The slot may be the last one of the memory, so the additional byte is a second element.
		wr := from.sendWR(ah, full)
		wr.SG = append(wr.SG, rdma.SGE{Buf: from.mem[:1], LKey: from.mr.LKey()})
		k, err := from.qp.PostSend([]rdma.SendWR{wr})
		t.wantErrno("PostSend", err, syscall.EMSGSIZE)
		if k != 0 {
			t.Errorf("posted %d sends, want none", k)
		}
		to.receive(0)
	}},
}
