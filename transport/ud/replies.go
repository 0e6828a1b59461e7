package ud

import (
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.ReplyReader = (*Sender)(nil)

// ReadReplies implements transport.ReplyReader. It reads only if the transport has never joined a group as receiver, so
// that only replies arrive. Otherwise it leaves all packets to the loop.
func (s *Sender) ReadReplies(handle func(packet []byte)) {
	t := s.t
	if s.closed.Load() || t.closing.Load() || t.joined.Load() {
		return
	}
	if s.reply == nil {
		s.reply = make([]byte, t.verbs.mtu)
	}
	packets, bytes := 0, 0
	for range batch {
		n := s.readReply(s.reply)
		if n == 0 {
			break
		}
		handle(s.reply[:n:n])
		packets++
		bytes += n
	}
	if packets > 0 {
		t.counts.received.Packets.Add(uint64(packets))
		t.counts.received.Bytes.Add(uint64(bytes))
		t.counts.received.Calls.Add(1)
	}
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string { return addressText(s.from, s.qpn) }

// readReply copies the next reply to b, posts its slot again, and returns its size; 0 if there is none, if the loop
// must handle a completion, or if the loop is reading. Because of the copy the slot is free before the reply is
// handled, which must happen without a lock.
func (s *Sender) readReply(b []byte) int {
	t := s.t
	q := &t.rq
	if !q.mu.TryLock() {
		return 0
	}
	defer q.mu.Unlock()
	if q.dead {
		return 0
	}
	if q.from == q.to {
		n, err := t.verbs.recv.Poll(q.wcs[:])
		if q.from, q.to = 0, n; n == 0 || err != nil {
			return 0 // Poll reports errors of the queue
		}
	}
	wc := &q.wcs[q.from]
	mem := q.sges[uint32(wc.WRID)].Buf
	n := int(wc.ByteLen) - rdma.GRHBytes
	h, ok := rdma.ParseGRH(t.verbs.local.LinkLayer, mem)
	if wc.Status != rdma.WCSuccess || !ok || h.Dst.IsMulticast() || n < 1 || n > min(len(b), len(mem)-rdma.GRHBytes) {
		t.Wake()
		return 0
	}
	copy(b, mem[rdma.GRHBytes:][:n])
	s.from, s.qpn = h.Src, wc.SrcQPN
	q.from++
	i := uint32(wc.WRID)
	q.one[0] = rdma.RecvWR{WRID: wc.WRID, SG: q.sges[i : i+1 : i+1]}
	if posted, _ := t.verbs.qp.PostRecv(q.one[:]); posted == 0 {
		// The queue pair is in state RESET: the loop restarts it, and posts all slots again.
		q.posted--
	}
	return n
}
