package rdmatest

import "github.com/fanfaremq/fanfare/rdma"

// post posts receives of whole slots in turn.
func (n *node) post(count int) {
	n.t.Helper()
	n.postOn(n.qp, count)
}

func (n *node) postOn(qp rdma.QP, count int) {
	n.t.Helper()
	for range count {
		_, err := qp.PostRecv([]rdma.RecvWR{n.recvWR(slotSize)})
		n.t.must("PostRecv", err)
	}
}

// recvWR returns a receive into the first bytes of the next slot.
func (n *node) recvWR(bytes int) rdma.RecvWR {
	slot := n.next % (slots / 2)
	n.next++
	return rdma.RecvWR{WRID: uint64(slot), SG: []rdma.SGE{{Buf: n.mem[slot*slotSize:][:bytes], LKey: n.mr.LKey()}}}
}

// ah makes an address handle from a join's event.
func (n *node) ah(ev *rdma.Event) rdma.AH { n.t.Helper(); return n.ahOf(ev.UD.AHAttr) }

func (n *node) ahOf(attr rdma.AHAttr) rdma.AH {
	n.t.Helper()
	n.resources()
	ah, err := n.pd.CreateAH(attr)
	n.t.must("CreateAH", err)
	n.ahs = append(n.ahs, ah)
	return ah
}

// sendWR returns a signaled send of data from the second half of the slots.
func (n *node) sendWR(ah rdma.AH, data string) rdma.SendWR {
	slot := slots/2 + n.next%(slots/2)
	n.next++
	buf := n.mem[slot*slotSize:][:copy(n.mem[slot*slotSize:(slot+1)*slotSize], data)]
	return rdma.SendWR{SG: []rdma.SGE{{Buf: buf, LKey: n.mr.LKey()}}, Opcode: rdma.OpSend, Flags: rdma.SendSignaled,
		AH: ah, QPN: rdma.MulticastQPN, QKey: rdma.UDPQKey}
}

// send sends data and waits for the completion.
func (n *node) send(ah rdma.AH, data string) { n.t.Helper(); n.sendOn(n.qp, n.sendWR(ah, data)) }

func (n *node) sendOn(qp rdma.QP, wr rdma.SendWR) {
	n.t.Helper()
	before := n.sends
	_, err := qp.PostSend([]rdma.SendWR{wr})
	n.t.must("PostSend", err)
	n.t.eventually("completion of a send", func() bool { n.poll(); return n.sends > before })
}

// poll processes completions.
func (n *node) poll() {
	n.t.Helper()
	var wcs [8]rdma.WorkCompletion
	for {
		k, err := n.cq.Poll(wcs[:])
		n.t.must("Poll", err)
		for _, wc := range wcs[:k] {
			n.completed(wc)
		}
		if k == 0 {
			return
		}
	}
}

func (n *node) completed(wc rdma.WorkCompletion) {
	switch {
	case wc.Status != rdma.WCSuccess:
		n.bad = append(n.bad, wc)
	case wc.Opcode == rdma.WCSend:
		n.sends++
	default:
		slot := n.mem[wc.WRID*slotSize:]
		n.msgs = append(n.msgs, message{wc, append([]byte(nil), slot[:rdma.GRHBytes]...),
			string(slot[rdma.GRHBytes:wc.ByteLen])})
	}
}

// receive returns the received messages, which must be exactly want.
func (n *node) receive(want int) []message {
	n.t.Helper()
	if want > 0 {
		n.t.eventually("message", func() bool { n.poll(); return len(n.msgs) >= want })
	}
	n.t.quiet()
	n.poll()
	if len(n.msgs) != want {
		n.t.Fatalf("host %d received %d messages, want %d: %q", n.host, len(n.msgs), want, n.msgs)
	}
	msgs := n.msgs
	n.msgs = nil
	return msgs
}

// expect receives one message and checks its contents.
func (n *node) expect(data string) message {
	n.t.Helper()
	m := n.receive(1)[0]
	if m.data != data {
		n.t.Fatalf("received %q, want %q", m.data, data)
	}
	return m
}
