//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// qp is a queue pair.
type qp struct {
	pd             *pd
	c              cverbs.QP
	qpn            rdma.QPN
	typ            rdma.QPType
	cap            rdma.QPCap
	sendCQ, recvCQ *cq
	handle         uint64

	// owner is the id on which it was made; nil if there is none, or it was destroyed. The lock of the id's channel guards
	// its state in C, see eventChannel.
	owner atomic.Pointer[id]

	// The last state set by Modify; the queue pair may have gone into state ERR since.
	state atomic.Uint32
	port  atomic.Uint32
	qkey  atomic.Uint32

	control sync.Mutex // modify, query, attach, detach, close; taken before sq and rq
	closed  bool       // under control; sq and rq have their own fields and locks
	sq      sendQueue
	rq      recvQueue
}

// prepare converts an rdma.QPInitAttr to C, and holds the objects that the queue pair uses.
func (p *pd) prepare(op string, attr *rdma.QPInitAttr) (*qp, cverbs.QPInit, error) {
	var none cverbs.QPInit
	if attr.Type == 0 {
		attr.Type = rdma.QPTypeUD
	}
	send, ok1 := attr.SendCQ.(*cq)
	recv, ok2 := attr.RecvCQ.(*cq)
	if !ok1 || !ok2 || send == nil || recv == nil || send.dev.ctx != p.dev.ctx || recv.dev.ctx != p.dev.ctx {
		return nil, none, rdma.Errorf(op, syscall.EINVAL, "a queue pair needs two completion queues of the device")
	}
	c := attr.Cap
	if min(c.MaxSendWR, c.MaxRecvWR, c.MaxSendSGE, c.MaxRecvSGE, c.MaxInlineData) < 0 ||
		max(c.MaxSendWR, c.MaxRecvWR, c.MaxSendSGE, c.MaxRecvSGE, c.MaxInlineData) > 1<<30 {
		return nil, none, rdma.Errorf(op, syscall.EINVAL, "capabilities %+v", c)
	}
	q := &qp{pd: p, typ: attr.Type, sendCQ: send, recvCQ: recv}
	if err := q.hold(op); err != nil {
		return nil, none, err
	}
	q.handle = allQPs.add(q)
	return q, cverbs.QPInit{
		Context: q.handle, SendCQ: send.c, RecvCQ: recv.c, Type: int(attr.Type),
		SignalAll: attr.SignalAll, Flags: uint32(attr.Flags),
		Cap: cverbs.QPCap{SendWR: uint32(c.MaxSendWR), RecvWR: uint32(c.MaxRecvWR), SendSGE: uint32(max(c.MaxSendSGE, 1)),
			RecvSGE: uint32(max(c.MaxRecvSGE, 1)), Inline: uint32(c.MaxInlineData)},
	}, nil
}

// hold holds the objects that the queue pair uses, until discard.
func (q *qp) hold(op string) error {
	if err := q.pd.hold(op); err != nil {
		return err
	}
	if err := q.sendCQ.hold(op); err != nil {
		q.pd.release()
		return err
	}
	if err := q.recvCQ.hold(op); err != nil {
		q.sendCQ.release()
		q.pd.release()
		return err
	}
	return nil
}

// discard reverses prepare. In C there is no queue pair.
func (q *qp) discard() {
	allQPs.remove(q.handle)
	q.sq.free()
	q.rq.free()
	q.recvCQ.release()
	q.sendCQ.release()
	q.pd.release()
}

// finish completes the queue pair with the one that C has made.
func (q *qp) finish(c cverbs.QP, got cverbs.QPCap) error {
	q.c, q.qpn = c, rdma.QPN(c.QPN())
	q.cap = rdma.QPCap{MaxSendWR: int(got.SendWR), MaxRecvWR: int(got.RecvWR), MaxSendSGE: int(got.SendSGE),
		MaxRecvSGE: int(got.RecvSGE), MaxInlineData: int(got.Inline)}
	if !q.sq.init(q.cap) || !q.rq.init(q.cap) {
		return syscall.ENOMEM
	}
	return nil
}

// CreateQP makes a queue pair in state RESET.
func (p *pd) CreateQP(attr rdma.QPInitAttr) (rdma.QP, error) {
	const op = "create QP"
	q, init, err := p.prepare(op, &attr)
	if err != nil {
		return nil, err
	}
	c, got, errno := p.c.CreateQP(init)
	if errno == 0 && q.finish(c, got) != nil {
		c.Destroy()
		errno = syscall.ENOMEM
	}
	if errno != 0 {
		q.discard()
		return nil, rdma.Errorf(op, errno, "capabilities %+v, flags %d", attr.Cap, attr.Flags)
	}
	return q, nil
}

func (q *qp) QPN() rdma.QPN     { return q.qpn }
func (q *qp) Type() rdma.QPType { return q.typ }
func (q *qp) Cap() rdma.QPCap   { return q.cap }

// usable returns an error if the queue pair is closed. The caller holds control.
func (q *qp) usable(op string) error {
	if q.closed {
		return rdma.ClosedError(op, "queue pair")
	}
	return nil
}

// Query returns the current attributes.
func (q *qp) Query() (rdma.QPAttr, error) {
	const op = "query QP"
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.usable(op); err != nil {
		return rdma.QPAttr{}, err
	}
	a, errno := q.c.Query()
	if errno != 0 {
		return rdma.QPAttr{}, check(op, errno)
	}
	return rdma.QPAttr{
		State: rdma.QPState(a.State), CurState: rdma.QPState(a.CurState), PKeyIndex: a.PKeyIndex,
		Port: a.Port, QKey: rdma.QKey(a.QKey), SQPSN: a.SQPSN,
	}, nil
}

// Modify changes the attributes in mask.
func (q *qp) Modify(attr rdma.QPAttr, mask rdma.QPAttrMask) error {
	const op = "modify QP"
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	errno := q.c.Modify(cverbs.QPAttr{
		State: uint32(attr.State), CurState: uint32(attr.CurState), PKeyIndex: attr.PKeyIndex,
		Port: attr.Port, QKey: uint32(attr.QKey), SQPSN: attr.SQPSN,
	}, uint32(mask))
	if errno != 0 {
		return rdma.Errorf(op, errno, "to %v with mask %#x", attr.State, uint32(mask))
	}
	q.storeAttr(attr, mask)
	return nil
}

// storeAttr stores the attributes that posting needs.
func (q *qp) storeAttr(attr rdma.QPAttr, mask rdma.QPAttrMask) {
	if mask&rdma.QPMaskPort != 0 {
		q.port.Store(uint32(attr.Port))
	}
	if mask&rdma.QPMaskQKey != 0 {
		q.qkey.Store(uint32(attr.QKey))
	}
	if mask&rdma.QPMaskState != 0 {
		q.state.Store(uint32(attr.State))
	}
}

// AttachMcast attaches the queue pair to a group.
func (q *qp) AttachMcast(gid rdma.GID, lid rdma.LID) error {
	const op = "attach to multicast group"
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	if errno := q.c.Attach(gid, uint16(lid)); errno != 0 {
		return rdma.Errorf(op, errno, "%v, LID %v", gid, lid)
	}
	return nil
}

// DetachMcast detaches the queue pair from a group.
func (q *qp) DetachMcast(gid rdma.GID, lid rdma.LID) error {
	const op = "detach from multicast group"
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	if errno := q.c.Detach(gid, uint16(lid)); errno != 0 {
		return rdma.Errorf(op, errno, "%v, LID %v", gid, lid)
	}
	return nil
}

// Close destroys the queue pair. If it was made on an id, the id then has none.
func (q *qp) Close() error {
	if o := q.owner.Load(); o != nil {
		o.ch.mu.Lock()
		defer o.ch.mu.Unlock()
	}
	return q.close("destroy QP")
}

// close destroys the queue pair with ibv_destroy_qp, even that of an id, because rdma_destroy_qp ignores EBUSY and
// leaks a queue pair that it could not destroy. The caller holds the lock of the owner's channel, if there is an owner.
func (q *qp) close(op string) error {
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if errno := q.c.Destroy(); errno != 0 && !q.pd.dev.gone(errno) {
		if errno == syscall.EBUSY {
			return rdma.Errorf(op, errno, "it is attached to a group: leave or detach first")
		}
		return check(op, errno)
	}
	q.closed, q.sq.closed, q.rq.closed = true, true, true
	if o := q.owner.Load(); o != nil && o.qp == q {
		o.c.ForgetQP()
		o.qp = nil
	}
	q.discard()
	return nil
}
