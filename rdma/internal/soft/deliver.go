package soft

import "github.com/fanfaremq/fanfare/rdma"

// verdict is what became of a datagram at a queue pair.
type verdict uint8

const (
	delivered verdict = iota
	dropped
	fatal // dropped, and the queue pair must go into error
)

// Deliver gives a datagram that reached a port to the queue pairs it is for:
// those attached to its group, or the one it names. It returns how many took
// it. The Backend calls it with no lock held; payload and d are not kept.
func (dev *Device) Deliver(num uint8, d *Datagram, payload []byte) int {
	p := dev.port(num)
	if p == nil || dev.removed.Load() {
		return 0
	}
	taken := 0
	var failed []*QP
	if d.DestQPN == rdma.MulticastQPN {
		dev.mcast.RLock()
		if g := dev.mcast.groups[d.Net.Dst]; g != nil {
			for _, q := range g.qps {
				switch q.receive(p, d, payload) {
				case delivered:
					taken++
				case fatal:
					failed = append(failed, q)
				}
			}
		}
		dev.mcast.RUnlock()
	} else if v, ok := dev.unicast.Load(d.DestQPN); ok {
		q := v.(*QP)
		switch q.receive(p, d, payload) {
		case delivered:
			taken++
		case fatal:
			failed = append(failed, q)
		}
	}
	for _, q := range failed {
		q.fail()
	}
	if taken == 0 {
		p.dropped.Add(1)
	}
	return taken
}

// receive copies a datagram to the next receive buffer, if all is as it must
// be; else it drops it without a trace for the queue pair (IBTA 9.8.3; rxe
// rxe_recv.c, check_keys and check_type_state).
func (q *QP) receive(p *port, d *Datagram, payload []byte) verdict {
	if q.typ != rdma.QPTypeUD || q.port.Load() != p {
		return dropped
	}
	if q.blockSelf && d.SrcQPN == q.qpn && d.DestQPN == rdma.MulticastQPN && p.owns(d.Net.Src) {
		return dropped
	}
	if !p.state.Load().pkey(uint16(q.pkeyIndex.Load())).Matches(d.PKey) {
		p.badPKeys.Add(1)
		return dropped
	}
	if rdma.QKey(q.qkey.Load()) != d.QKey {
		p.qkeyViolations.Add(1)
		return dropped
	}
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := q.current(); st < rdma.QPRTR || st == rdma.QPErr {
		return dropped
	}
	if r.count == 0 || r.slots[r.head].room < rdma.GRHBytes+len(payload) {
		q.dropped.Add(1)
		return dropped // the buffer stays, as in rxe of kernel 6.18
	}
	slot := &r.slots[r.head]
	q.pd.mem.RLock()
	ok := q.pd.covers(slot.sg, rdma.AccessLocalWrite)
	if ok {
		scatter(slot.sg, p, d, payload)
	}
	q.pd.mem.RUnlock()
	r.pop()
	wc := rdma.WorkCompletion{WRID: slot.wrid, Opcode: rdma.WCRecv, QPN: q.qpn}
	if !ok {
		wc.Status = rdma.WCLocProtErr
		q.recvCQ.push(completion{wc: wc})
		return fatal
	}
	wc.Flags = rdma.WCGRH
	wc.ByteLen = uint32(rdma.GRHBytes + len(payload))
	wc.SrcQPN, wc.SLID, wc.SL = d.SrcQPN, d.SLID, d.SL
	if d.HasImm {
		wc.Flags |= rdma.WCWithImm
		wc.Imm = d.Imm
	}
	if !q.recvCQ.push(completion{wc: wc, solicited: d.Solicited}) {
		return fatal
	}
	return delivered
}

// scatter writes GRH area and payload over the elements of a buffer that is
// large enough.
func scatter(sg []rdma.SGE, p *port, d *Datagram, payload []byte) {
	if len(sg) == 1 { // nearly always: no copy of the header in between
		putGRH(sg[0].Buf[:rdma.GRHBytes], p, d, len(payload))
		copy(sg[0].Buf[rdma.GRHBytes:], payload)
		return
	}
	var area [rdma.GRHBytes]byte
	putGRH(area[:], p, d, len(payload))
	parts := [2][]byte{area[:], payload}
	i, off := 0, 0
	for _, part := range parts {
		for len(part) > 0 {
			n := copy(sg[i].Buf[off:], part)
			part, off = part[n:], off+n
			if off == len(sg[i].Buf) {
				i, off = i+1, 0
			}
		}
	}
}

func putGRH(area []byte, p *port, d *Datagram, size int) {
	if d.GRH != nil {
		copy(area, d.GRH)
		return
	}
	h := d.Net
	h.PayloadLength = uint16(d.headerBytes() + size + (-size & 3))
	if p.isRoCE() {
		h.PayloadLength += 8 // UDP
	}
	rdma.PutGRH(area, p.state.Load().LinkLayer, &h, 0)
}
