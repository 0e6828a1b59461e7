package soft

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// QP is a queue pair.
type QP struct {
	pd        *PD
	dev       *Device
	qpn       rdma.QPN
	typ       rdma.QPType
	cap       rdma.QPCap
	signalAll bool
	blockSelf bool
	sendCQ    *CQ
	recvCQ    *CQ

	// mod guards changes of the attributes and attached. The data path reads the attributes without it.
	mod       sync.Mutex
	attached  []attachment
	closed    atomic.Bool
	state     atomic.Uint32 // rdma.QPState
	port      atomic.Pointer[port]
	pkeyIndex atomic.Uint32
	qkey      atomic.Uint32
	dropped   atomic.Uint64 // messages without a receive buffer
	refused   refusals

	sq sendQueue
	rq recvQueue
}

// attachment is the pair of an AttachMcast by which uverbs recognizes a repeated one (kernel core/uverbs_cmd.c).
type attachment struct {
	gid rdma.GID
	lid rdma.LID
}

// CreateQP makes a queue pair.
func (pd *PD) CreateQP(init rdma.QPInitAttr) (rdma.QP, error) {
	const op = "create QP"
	if err := pd.usable(op); err != nil {
		return nil, err
	}
	dev := pd.on.dev
	limits := &dev.cfg.Attr
	if init.Type == 0 {
		init.Type = rdma.QPTypeUD
	}
	c := init.Cap
	c.MaxSendSGE, c.MaxRecvSGE = max(c.MaxSendSGE, 1), max(c.MaxRecvSGE, 1)
	sendCQ, ok1 := init.SendCQ.(*CQ)
	recvCQ, ok2 := init.RecvCQ.(*CQ)
	switch {
	case init.Type != rdma.QPTypeUD && init.Type != rdma.QPTypeUC && init.Type != rdma.QPTypeRC:
		return nil, rdma.Errorf(op, syscall.EINVAL, "no QP type %d", init.Type)
	case !ok1 || !ok2 || sendCQ == nil || recvCQ == nil || sendCQ.on.dev != dev || recvCQ.on.dev != dev:
		return nil, rdma.Errorf(op, syscall.EINVAL, "a queue pair needs two completion queues of the PD's device")
	case c.MaxSendWR < 0 || c.MaxSendWR > limits.MaxQPWR || c.MaxRecvWR < 0 || c.MaxRecvWR > limits.MaxQPWR:
		return nil, rdma.Errorf(op, syscall.EINVAL, "queues of %d and %d exceed the device's limit of %d", c.MaxSendWR, c.MaxRecvWR, limits.MaxQPWR)
	case c.MaxSendSGE > limits.MaxSGE || c.MaxRecvSGE > limits.MaxSGE:
		return nil, rdma.Errorf(op, syscall.EINVAL, "%d and %d elements exceed the device's limit of %d", c.MaxSendSGE, c.MaxRecvSGE, limits.MaxSGE)
	case c.MaxInlineData < 0 || c.MaxInlineData > limits.MaxInlineData:
		return nil, rdma.Errorf(op, syscall.EINVAL, "%d inline bytes exceed the device's limit of %d", c.MaxInlineData, limits.MaxInlineData)
	case init.Flags&^rdma.QPBlockSelfMulticast != 0 || init.Flags != 0 && !dev.cfg.BlockSelf:
		return nil, rdma.Errorf(op, syscall.EOPNOTSUPP, "unsupported creation flags %#x", init.Flags)
	}
	if !sendCQ.acquire() {
		return nil, rdma.ClosedError(op, "completion queue")
	}
	if !recvCQ.acquire() {
		sendCQ.used.Add(-1)
		return nil, rdma.ClosedError(op, "completion queue")
	}
	if !acquire(&dev.qps, limits.MaxQP) {
		sendCQ.used.Add(-1)
		recvCQ.used.Add(-1)
		return nil, rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d queue pairs is reached", limits.MaxQP)
	}
	qpn, err := dev.backend.NewQP()
	if err != nil {
		sendCQ.used.Add(-1)
		recvCQ.used.Add(-1)
		dev.qps.Add(-1)
		return nil, err
	}
	q := &QP{
		pd: pd, dev: dev, qpn: qpn, typ: init.Type, cap: c, signalAll: init.SignalAll,
		blockSelf: init.Flags&rdma.QPBlockSelfMulticast != 0, sendCQ: sendCQ, recvCQ: recvCQ,
	}
	q.sq.init(c)
	q.rq.init(c)
	pd.objects.Add(1)
	recvCQ.receives.Add(1)
	dev.unicast.Store(q.qpn, q)
	return q, nil
}

// NextQPN returns the next number of 24 bits that is not in use.
func (d *Device) NextQPN() rdma.QPN {
	for {
		n := rdma.QPN(d.nextQPN.Add(1)-1) & 0xffffff
		if n < firstQPN || n == rdma.MulticastQPN {
			continue
		}
		if _, used := d.unicast.Load(n); !used {
			return n
		}
	}
}

// acquire counts a queue pair that uses the queue. It returns false if the queue is closed.
func (cq *CQ) acquire() bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.isClosed {
		return false
	}
	cq.used.Add(1)
	return true
}

// QPN returns the number.
func (q *QP) QPN() rdma.QPN { return q.qpn }

// Type returns the type of the queue pair.
func (q *QP) Type() rdma.QPType { return q.typ }

// Cap returns the sizes of the queue pair.
func (q *QP) Cap() rdma.QPCap { return q.cap }

// Dropped implements rdma.DropCounter.
func (q *QP) Dropped() uint64 { return q.dropped.Load() }

func (q *QP) usable(op string) error {
	if q.closed.Load() {
		return rdma.ClosedError(op, "queue pair")
	}
	return nil
}

// Query returns the attributes.
func (q *QP) Query() (rdma.QPAttr, error) {
	if err := q.usable("query QP"); err != nil {
		return rdma.QPAttr{}, err
	}
	q.mod.Lock()
	defer q.mod.Unlock()
	a := rdma.QPAttr{
		State: q.current(), CurState: q.current(),
		PKeyIndex: uint16(q.pkeyIndex.Load()), QKey: rdma.QKey(q.qkey.Load()), SQPSN: q.sq.nextPSN(),
	}
	if p := q.port.Load(); p != nil {
		a.Port = p.num
	}
	return a, nil
}

func (q *QP) current() rdma.QPState { return rdma.QPState(q.state.Load()) }

// fail puts the queue pair into state ERR and flushes it, and also all others of its overflowed completion queues. The
// caller holds none of its locks.
func (q *QP) fail() {
	q.err()
	q.sendCQ.failQPs()
	q.recvCQ.failQPs()
}

// err puts the queue pair into state ERR and flushes it. It returns false if the queue pair is closed or in RESET.
func (q *QP) err() bool {
	q.mod.Lock()
	defer q.mod.Unlock()
	if q.closed.Load() || q.current() == rdma.QPReset {
		return false
	}
	q.toError()
	return true
}

// toError sets state ERR and flushes the queues. The caller holds mod.
func (q *QP) toError() {
	q.state.Store(uint32(rdma.QPErr))
	q.sq.mu.Lock()
	q.flushSends()
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	q.flushRecvs()
	q.rq.mu.Unlock()
}

// Close destroys the queue pair.
func (q *QP) Close() error {
	const op = "destroy QP"
	q.mod.Lock()
	defer q.mod.Unlock()
	if n := len(q.attached); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "it is attached to %d groups", n)
	}
	if q.closed.Swap(true) {
		return rdma.ClosedError(op, "queue pair")
	}
	q.dev.unicast.Delete(q.qpn)
	q.state.Store(uint32(rdma.QPReset))
	q.forget()
	q.sendCQ.used.Add(-1)
	q.recvCQ.used.Add(-1)
	q.recvCQ.receives.Add(-1)
	q.dev.qps.Add(-1)
	q.pd.objects.Add(-1)
	q.dev.backend.CloseQP(q.qpn)
	return nil
}

// forget empties both queues. Afterwards the data path has seen the new state and does not use memory of the queue
// pair.
func (q *QP) forget() {
	q.sq.mu.Lock()
	q.setStalled(false)
	q.sq.reset()
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	q.rq.reset()
	q.rq.mu.Unlock()
}
