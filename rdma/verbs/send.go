//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// sendQueue has the work requests of one call, in C memory.
type sendQueue struct {
	mu     sync.Mutex
	closed bool         // under mu
	wrs    cverbs.Sends // under mu
	inline []byte       // outside the Go heap: a part for each request, under mu
}

// privileged is the bit of a Q_Key in a work request that means the queue pair's own Q_Key (IBTA 10.2.5). rxe sends
// such a Q_Key unchanged, so PostSend replaces it.
const privileged = 1 << 31

// init allocates the requests, and reports whether there was memory.
func (s *sendQueue) init(c rdma.QPCap) bool {
	n := max(min(batch, c.MaxSendWR), 1)
	var ok bool
	if s.wrs, ok = cverbs.NewSends(n, c.MaxSendSGE); !ok {
		return false
	}
	if c.MaxInlineData > 0 {
		var err error
		if s.inline, err = sys.Alloc(n * c.MaxInlineData); err != nil {
			return false
		}
	}
	return true
}

func (s *sendQueue) free() {
	s.wrs.Free()
	s.wrs = cverbs.Sends{}
	sys.Free(s.inline)
	s.inline = nil
}

// PostSend posts sends, up to batch of them in one call of C.
func (q *qp) PostSend(wrs []rdma.SendWR) (int, error) {
	const op = "post send"
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for done < len(wrs) {
		n := min(len(wrs)-done, max(len(s.wrs.WRs), 1))
		var refused *rdma.Error
		k := 0
		for ; k < n; k++ {
			if refused = q.fillSend(k, &wrs[done+k]); refused != nil {
				break
			}
		}
		if k > 0 {
			posted, errno := q.c.PostSend(s.wrs, k)
			done += posted
			if errno != 0 {
				refused = rdma.Errorf(op, errno, "the device refused it")
				if errno == syscall.ENOMEM {
					refused.Detail = "the send queue is full"
				}
			}
		}
		if refused != nil {
			return done, &rdma.PostError{Index: done, WRID: wrs[done].WRID, Err: refused}
		}
	}
	return done, nil
}

// fillSend writes request number i of those that are posted together. The caller holds sq.mu. It rejects messages above
// the MTU: rxe would complete them with success but send nothing, and other devices go into state ERR.
func (q *qp) fillSend(i int, wr *rdma.SendWR) *rdma.Error {
	const op = "post send"
	s := &q.sq
	if s.closed {
		return rdma.ClosedError(op, "queue pair")
	}
	// librxe would queue it, but the kernel would not complete it.
	if st := rdma.QPState(q.state.Load()); st < rdma.QPRTS {
		return rdma.Errorf(op, syscall.EINVAL, "the queue pair is in %v", st)
	}
	port := q.port.Load()
	h, _ := wr.AH.(*ah)
	switch {
	case wr.Opcode != rdma.OpSend && wr.Opcode != rdma.OpSendWithImm:
		return rdma.Errorf(op, syscall.EINVAL, "opcode %d is not one of UD", wr.Opcode)
	case h == nil || h.pd.dev.ctx != q.pd.dev.ctx || uint32(h.attr.Port) != port:
		return rdma.Errorf(op, syscall.EINVAL, "the address handle is nil or of another port")
	case h.closed.Load():
		return rdma.ClosedError(op, "address handle")
	case len(wr.SG) > s.wrs.MaxSGE:
		return rdma.Errorf(op, syscall.EINVAL, "%d elements exceed the queue pair's limit of %d", len(wr.SG), s.wrs.MaxSGE)
	}
	size := 0
	for j := range wr.SG {
		size += len(wr.SG[j].Buf)
	}
	inline := wr.Flags&rdma.SendInline != 0
	switch mtu := int(q.pd.dev.ports[port].mtu.Load()); {
	case size > mtu:
		return rdma.Errorf(op, syscall.EMSGSIZE, "the message of %d bytes exceeds the MTU of %d", size, mtu)
	case inline && size > q.cap.MaxInlineData:
		return rdma.Errorf(op, syscall.EINVAL, "%d inline bytes exceed the queue pair's limit of %d", size, q.cap.MaxInlineData)
	}
	c := &s.wrs.WRs[i]
	c.WRID, c.Opcode, c.Flags, c.Imm = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags), wr.Imm
	c.SetAH(h.c)
	c.QPN, c.QKey = uint32(wr.QPN), uint32(wr.QKey)
	if h.multicast {
		c.QPN = uint32(rdma.MulticastQPN) // rxe would send any other QPN
	}
	if wr.QKey&privileged != 0 {
		c.QKey = q.qkey.Load()
	}
	if inline {
		c.NumSGE = s.keepInline(i, q.cap.MaxInlineData, wr.SG)
	} else {
		c.NumSGE = int32(fillSG(s.wrs.SG(i), wr.SG))
	}
	return nil
}

// keepInline copies a message, which may be in the Go heap, to memory that C may read. It returns the number of
// elements.
func (s *sendQueue) keepInline(i, room int, sg []rdma.SGE) int32 {
	if room == 0 {
		return 0
	}
	text := s.inline[i*room : i*room : (i+1)*room]
	for j := range sg {
		text = append(text, sg[j].Buf...)
	}
	s.wrs.SG(i)[0] = cverbs.SGE{Addr: uint64(address(text)), Length: uint32(len(text))}
	return 1
}

// fillSG writes elements, and returns their number.
func fillSG(to []cverbs.SGE, from []rdma.SGE) int {
	for j := range from {
		to[j] = cverbs.SGE{Addr: uint64(address(from[j].Buf)), Length: uint32(len(from[j].Buf)), LKey: from[j].LKey}
	}
	return len(from)
}
