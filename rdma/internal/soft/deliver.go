package soft

import (
	"math/bits"

	"github.com/fanfaremq/fanfare/rdma"
)

// Arrival has the fields of a received datagram that can differ within a train.
type Arrival struct {
	Payload   []byte
	HasImm    bool
	Solicited bool
	Imm       [4]byte
	// ID is the IPv4 identification for the GRH area, where Datagram.GRH has 0. It is 0 with IPv6 and without
	// Datagram.GRH.
	ID uint16
}

// MaxArrivals is the number of datagrams that DeliverTrain accepts.
const MaxArrivals = 64

// Deliver delivers a datagram that reached a port to the queue pairs attached to its group, or to its destination queue
// pair. It returns the number of queue pairs that received it. The Backend calls it without a lock. Deliver does not
// keep payload and d.
func (dev *Device) Deliver(num uint8, d *Datagram, payload []byte) int {
	one := [1]Arrival{{Payload: payload, HasImm: d.HasImm, Solicited: d.Solicited, Imm: d.Imm}}
	return dev.DeliverTrain(num, d, one[:])
}

// DeliverTrain is Deliver for consecutive datagrams with the same d, except HasImm, Solicited, Imm and PSN: it locks
// and compares keys once for all of them. It returns the total number of deliveries to queue pairs. It ignores
// datagrams beyond the first MaxArrivals.
func (dev *Device) DeliverTrain(num uint8, d *Datagram, train []Arrival) int {
	p := dev.port(num)
	if p == nil {
		return 0
	}
	train = train[:min(len(train), MaxArrivals)]
	count, accepted := 0, uint64(0)
	var failed []*QP
	give := func(q *QP) {
		mask, fatal := q.receive(p, d, train)
		accepted |= mask
		count += bits.OnesCount64(mask)
		if fatal {
			failed = append(failed, q)
		}
	}
	if d.DestQPN == rdma.MulticastQPN {
		dev.mcast.RLock()
		if g := dev.mcast.groups[d.Net.Dst]; g != nil {
			for _, q := range g.qps {
				give(q)
			}
		}
		dev.mcast.RUnlock()
	} else if v, ok := dev.unicast.Load(d.DestQPN); ok {
		give(v.(*QP))
	}
	for _, q := range failed {
		q.fail()
	}
	if n := len(train) - bits.OnesCount64(accepted); n > 0 {
		p.dropped.Add(uint64(n))
	}
	return count
}

// receive copies datagrams to the next receive buffers if state and keys are right; otherwise it drops them, which the
// queue pair does not notice (IBTA 9.8.3; rxe rxe_recv.c, check_keys and check_type_state). It returns a bit for each
// accepted datagram of the train, and whether the queue pair must go into state ERR, in which it drops the rest.
func (q *QP) receive(p *port, d *Datagram, train []Arrival) (accepted uint64, fatal bool) {
	if q.port.Load() != p { // queue pairs that are not UD have no port (Modify)
		return 0, false
	}
	if q.blockSelf && d.SrcQPN == q.qpn && d.DestQPN == rdma.MulticastQPN && p.owns(d.Net.Src) {
		return 0, false
	}
	if !p.state.Load().pkey(uint16(q.pkeyIndex.Load())).Matches(d.PKey) {
		p.badPKeys.Add(uint64(len(train)))
		return 0, false
	}
	if rdma.QKey(q.qkey.Load()) != d.QKey {
		p.qkeyViolations.Add(uint64(len(train)))
		return 0, false
	}
	r := &q.rq
	q.pd.mem.RLock()
	defer q.pd.mem.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := q.current(); st < rdma.QPRTR || st == rdma.QPErr {
		return 0, false
	}
	var list [16]completion // completions not pushed yet
	n := 0
	for i := range train {
		a := &train[i]
		if r.count == 0 || r.slots[r.head].room < rdma.GRHBytes+len(a.Payload) {
			q.dropped.Add(1)
			continue // the buffer stays posted, as in rxe of kernel 6.18
		}
		slot := r.pop()
		c := &list[n]
		n++
		*c = completion{solicited: a.Solicited, wc: rdma.WorkCompletion{WRID: slot.wrid, Opcode: rdma.WCRecv, QPN: q.qpn}}
		wc := &c.wc
		if !q.pd.covers(slot.sg, rdma.AccessLocalWrite) {
			wc.Status = rdma.WCLocProtErr
			q.recvCQ.push(list[:n])
			return accepted, true
		}
		scatter(slot.sg, p, d, a)
		wc.Flags = rdma.WCGRH
		wc.ByteLen = uint32(rdma.GRHBytes + len(a.Payload))
		wc.SrcQPN, wc.SLID, wc.SL = d.SrcQPN, d.SLID, d.SL
		if a.HasImm {
			wc.Flags |= rdma.WCWithImm
			wc.Imm = a.Imm
		}
		accepted |= 1 << i
		if n == len(list) {
			if lost := n - q.recvCQ.push(list[:n]); lost > 0 {
				return without(accepted, lost), true
			}
			n = 0
		}
	}
	if lost := n - q.recvCQ.push(list[:n]); lost > 0 {
		return without(accepted, lost), true
	}
	return accepted, false
}

// without clears the n highest set bits.
func without(mask uint64, n int) uint64 {
	for range n {
		mask &^= 1 << (bits.Len64(mask) - 1)
	}
	return mask
}

// scatter writes GRH area and payload to the elements of a buffer, which is large enough.
func scatter(sg []rdma.SGE, p *port, d *Datagram, a *Arrival) {
	if len(sg) == 1 { // the usual case, without an extra copy of the header
		putGRH(sg[0].Buf[:rdma.GRHBytes], p, d, a)
		copy(sg[0].Buf[rdma.GRHBytes:], a.Payload)
		return
	}
	var area [rdma.GRHBytes]byte
	putGRH(area[:], p, d, a)
	parts := [2][]byte{area[:], a.Payload}
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

func putGRH(area []byte, p *port, d *Datagram, a *Arrival) {
	if d.GRH != nil {
		copy(area, d.GRH)
		if a.ID != 0 {
			rdma.SetIPv4ID(area, a.ID)
		}
		return
	}
	h := d.Net
	h.PayloadLength = uint16(headerBytes(a.HasImm) + len(a.Payload) + (-len(a.Payload) & 3))
	if p.isRoCE() {
		h.PayloadLength += 8 // UDP
	}
	rdma.PutGRH(area, p.state.Load().LinkLayer, &h, 0)
}
