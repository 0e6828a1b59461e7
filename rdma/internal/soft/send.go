package soft

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// sendQueue is a ring of datagrams. Numbers count from 0 and never wrap: retired <= next <= tail <= retired + size; the
// slot of number n is n mod size.
type sendQueue struct {
	mu      sync.Mutex
	grams   []Datagram
	records []sendRecord
	sges    []rdma.SGE // MaxSendSGE for each slot
	inline  []byte     // MaxInlineData for each slot
	maxSGE  int
	maxText int
	next    uint64 // the first that was not passed to the backend
	tail    uint64 // the number of the next request
	psn     uint32 // of the next request
	stalled bool   // the backend did not accept all

	// retired is the first request that still occupies the ring. Polling a completion frees all requests up to its own, as
	// in hardware.
	retired atomic.Uint64
}

type sendRecord struct {
	wrid     uint64
	signaled bool
	inline   bool
}

func (s *sendQueue) init(c rdma.QPCap) {
	s.grams = make([]Datagram, c.MaxSendWR)
	s.records = make([]sendRecord, c.MaxSendWR)
	s.sges = make([]rdma.SGE, c.MaxSendWR*c.MaxSendSGE)
	s.inline = make([]byte, c.MaxSendWR*c.MaxInlineData)
	s.maxSGE, s.maxText = c.MaxSendSGE, c.MaxInlineData
}

// reset discards all requests. The caller holds mu.
func (s *sendQueue) reset() {
	s.next = s.tail
	s.retired.Store(s.tail)
	clear(s.sges)
}

// retire frees the places of all requests before number upTo.
func (s *sendQueue) retire(upTo uint64) {
	for {
		old := s.retired.Load()
		if upTo <= old || s.retired.CompareAndSwap(old, upTo) {
			return
		}
	}
}

func (s *sendQueue) nextPSN() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.psn
}

func (s *sendQueue) setPSN(psn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.psn = psn
}

// PostSend posts sends.
func (q *QP) PostSend(wrs []rdma.SendWR) (int, error) {
	var refused *rdma.Error
	n := 0
	q.sq.mu.Lock()
	for ; n < len(wrs); n++ {
		if refused = q.postSend(&wrs[n]); refused != nil {
			break
		}
	}
	failed := q.doorbell()
	q.sq.mu.Unlock()
	if failed {
		q.fail()
	}
	if refused != nil {
		return n, &rdma.PostError{Index: n, WRID: wrs[n].WRID, Err: refused}
	}
	return n, nil
}

// postSend checks a request and puts it in the ring. The caller holds sq.mu.
func (q *QP) postSend(wr *rdma.SendWR) *rdma.Error {
	const op = "post send"
	s := &q.sq
	if q.closed.Load() {
		return rdma.ClosedError(op, "queue pair")
	}
	if st := q.current(); st < rdma.QPRTS {
		return rdma.Errorf(op, syscall.EINVAL, "the queue pair is in %v", st)
	}
	p := q.port.Load()
	ah, _ := wr.AH.(*AH)
	switch {
	case wr.Opcode != rdma.OpSend && wr.Opcode != rdma.OpSendWithImm:
		return rdma.Errorf(op, syscall.EINVAL, "opcode %d is not one of UD", wr.Opcode)
	case ah == nil || ah.pd.on.dev != q.dev || p != nil && ah.attr.Port != p.num:
		return rdma.Errorf(op, syscall.EINVAL, "the address handle is nil or of another port")
	case ah.closed.Load():
		return rdma.ClosedError(op, "address handle")
	case len(wr.SG) > s.maxSGE:
		return rdma.Errorf(op, syscall.EINVAL, "%d elements exceed the queue pair's limit of %d", len(wr.SG), s.maxSGE)
	}
	if p == nil { // in ERR, directly after RESET: the request will be flushed
		p = q.dev.port(ah.attr.Port)
	}
	size := 0
	for i := range wr.SG {
		size += len(wr.SG[i].Buf)
	}
	state := p.state.Load()
	switch {
	case size > int(state.MTU):
		return rdma.Errorf(op, syscall.EMSGSIZE, "the message of %d bytes exceeds the MTU of %d", size, state.MTU)
	case wr.Flags&rdma.SendInline != 0 && size > s.maxText:
		return rdma.Errorf(op, syscall.EINVAL, "%d inline bytes exceed the queue pair's limit of %d", size, s.maxText)
	case s.tail-s.retired.Load() >= uint64(len(s.grams)):
		return rdma.Errorf(op, syscall.ENOMEM, "the send queue of %d is full", len(s.grams))
	}

	slot := int(s.tail % uint64(len(s.grams)))
	s.records[slot] = sendRecord{
		wrid:     wr.WRID,
		signaled: q.signalAll || wr.Flags&rdma.SendSignaled != 0,
		inline:   wr.Flags&rdma.SendInline != 0,
	}
	d := &s.grams[slot]
	*d = Datagram{
		Port: p.num, SrcQPN: q.qpn, DestQPN: wr.QPN, QKey: wr.QKey, PKey: state.pkey(uint16(q.pkeyIndex.Load())), PSN: s.psn,
		SLID: state.LID | rdma.LID(ah.attr.SrcPathBits), DLID: ah.attr.DLID, SL: ah.attr.SL,
		HasImm: wr.Opcode == rdma.OpSendWithImm, Imm: wr.Imm, Solicited: wr.Flags&rdma.SendSolicited != 0,
		Net: rdma.Header{
			Src: ah.sgid, Dst: ah.attr.GRH.DGID, TrafficClass: ah.attr.GRH.TrafficClass,
			FlowLabel: ah.attr.GRH.FlowLabel, HopLimit: ah.attr.GRH.HopLimit,
		},
		Len: size,
	}
	if ah.multicast {
		d.DestQPN = rdma.MulticastQPN
	}
	if wr.QKey&privilegedQKey != 0 {
		d.QKey = rdma.QKey(q.qkey.Load())
	}
	if s.records[slot].inline {
		d.SG = s.keepInline(slot, wr.SG)
	} else {
		d.SG = s.sges[slot*s.maxSGE:][:copy(s.sges[slot*s.maxSGE:(slot+1)*s.maxSGE], wr.SG)]
	}
	s.tail++
	s.psn = (s.psn + 1) & 0xffffff
	return nil
}

// keepInline copies a message to the memory of the slot.
func (s *sendQueue) keepInline(slot int, sg []rdma.SGE) []rdma.SGE {
	text := s.inline[slot*s.maxText:][:0:s.maxText]
	for i := range sg {
		text = append(text, sg[i].Buf...)
	}
	one := s.sges[slot*s.maxSGE:][:1:1]
	one[0] = rdma.SGE{Buf: text}
	return one
}

// Resume continues transmission: a Backend that did not accept all datagrams calls it when it can accept more.
func (q *QP) Resume() {
	q.sq.mu.Lock()
	failed := q.doorbell()
	q.sq.mu.Unlock()
	if failed {
		q.fail()
	}
}

// doorbell passes posted requests to the backend and completes those that it accepted. It reports whether the queue
// pair must go into state ERR. The caller holds sq.mu.
func (q *QP) doorbell() (failed bool) {
	s := &q.sq
	q.setStalled(false)
	if s.next == s.tail {
		return false
	}
	if st := q.current(); st == rdma.QPErr || st == rdma.QPSQE {
		q.flushSends()
		return false
	} else if st != rdma.QPRTS {
		return false
	}
	q.pd.mem.RLock()
	defer q.pd.mem.RUnlock()
	for s.next < s.tail {
		lo := int(s.next % uint64(len(s.grams)))
		end := min(len(s.grams), lo+int(s.tail-s.next))
		hi := lo
		for hi < end && (s.records[hi].inline || q.pd.covers(s.grams[hi].SG, 0)) {
			hi++
		}
		n := 0
		if hi > lo {
			n = q.dev.backend.Transmit(q, s.grams[lo:hi])
		}
		for i := lo; i < lo+n; i++ {
			if !s.records[i].signaled {
				s.next++
			} else if !q.sendDone(rdma.WCSuccess) {
				failed = true
			}
		}
		if failed {
			return true
		}
		if lo+n < hi {
			q.setStalled(true)
			return false // the backend will call Resume
		}
		if hi < end {
			q.sendDone(rdma.WCLocProtErr)
			return true
		}
	}
	return false
}

// setStalled sets stalled and updates the device's number of stalled queue pairs. The caller holds sq.mu.
func (q *QP) setStalled(stalled bool) {
	switch {
	case stalled && !q.sq.stalled:
		q.dev.stalled.Add(1)
		defer q.dev.backend.Arm()
	case !stalled && q.sq.stalled:
		q.dev.stalled.Add(-1)
	}
	q.sq.stalled = stalled
}

// sendDone completes the next request. It returns false if the completion queue is full. The caller holds sq.mu.
func (q *QP) sendDone(status rdma.WCStatus) bool {
	s := &q.sq
	record := &s.records[s.next%uint64(len(s.grams))]
	s.next++
	if status == rdma.WCSuccess && !record.signaled {
		return true
	}
	return q.sendCQ.push([]completion{{
		wc:   rdma.WorkCompletion{WRID: record.wrid, Status: status, Opcode: rdma.WCSend, QPN: q.qpn},
		sent: s, upTo: s.next,
	}}) == 1
}

// flushSends completes all requests that were not sent with an error. The caller holds sq.mu.
func (q *QP) flushSends() {
	for q.sq.next < q.sq.tail {
		q.sendDone(rdma.WCWRFlushErr)
	}
}
