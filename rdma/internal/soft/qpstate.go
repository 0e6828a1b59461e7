package soft

import (
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// transition has the attributes that a change of state requires and allows, in addition to the state itself.
type transition struct{ required, optional rdma.QPAttrMask }

// Masks that several transitions share.
const (
	mState   = rdma.QPMaskState
	mCur     = rdma.QPMaskCurState
	mPKeyIdx = rdma.QPMaskPKeyIndex
	mPort    = rdma.QPMaskPort
	mQKey    = rdma.QPMaskQKey
	mPSN     = rdma.QPMaskSQPSN
)

// udTransitions is the part of qp_state_table for UD (kernel core/verbs.c). Every state can also change to RESET and
// ERR without attributes.
var udTransitions = map[[2]rdma.QPState]transition{
	{rdma.QPReset, rdma.QPInit}: {required: mPKeyIdx | mPort | mQKey},
	{rdma.QPInit, rdma.QPInit}:  {optional: mPKeyIdx | mPort | mQKey},
	{rdma.QPInit, rdma.QPRTR}:   {optional: mPKeyIdx | mQKey},
	{rdma.QPRTR, rdma.QPRTS}:    {required: mPSN, optional: mCur | mQKey},
	{rdma.QPRTS, rdma.QPRTS}:    {optional: mCur | mQKey},
	{rdma.QPRTS, rdma.QPSQD}:    {},
	{rdma.QPSQD, rdma.QPSQD}:    {optional: mPKeyIdx | mQKey},
	{rdma.QPSQD, rdma.QPRTS}:    {optional: mCur | mQKey},
	{rdma.QPSQE, rdma.QPRTS}:    {optional: mCur | mQKey},
}

func transitionOf(from, to rdma.QPState) (transition, bool) {
	if to == rdma.QPReset || to == rdma.QPErr {
		return transition{}, from <= rdma.QPErr
	}
	t, ok := udTransitions[[2]rdma.QPState{from, to}]
	return t, ok
}

// privilegedQKey is the bit of a Q_Key that only privileged programs may set (IBTA 10.2.5).
const privilegedQKey rdma.QKey = 1 << 31

// Modify changes attributes and state.
func (q *QP) Modify(attr rdma.QPAttr, mask rdma.QPAttrMask) error {
	const op = "modify QP"
	q.mod.Lock()
	defer q.mod.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	if err := q.dev.cmHandle.usable(op); err != nil {
		return err
	}
	if q.typ != rdma.QPTypeUD {
		return rdma.Errorf(op, syscall.EOPNOTSUPP, "only UD queue pairs are supported")
	}
	from, to := q.current(), q.current()
	if mask&mCur != 0 && attr.CurState != from {
		return rdma.Errorf(op, syscall.EINVAL, "the current state is %v, not %v", from, attr.CurState)
	}
	if mask&mState != 0 {
		to = attr.State
	}
	t, ok := transitionOf(from, to)
	attrs := mask &^ mState
	switch {
	case !ok:
		return rdma.Errorf(op, syscall.EINVAL, "there is no transition from %v to %v", from, to)
	case attrs&t.required != t.required:
		return rdma.Errorf(op, syscall.EINVAL, "%v to %v requires attributes %#x, but only %#x are set", from, to, t.required, attrs)
	case attrs&^(t.required|t.optional) != 0:
		return rdma.Errorf(op, syscall.EINVAL, "%v to %v does not allow attributes %#x", from, to, attrs&^(t.required|t.optional))
	}
	port := q.port.Load()
	if mask&mPort != 0 {
		if port = q.dev.port(attr.Port); port == nil {
			return rdma.Errorf(op, syscall.EINVAL, "no port %d", attr.Port)
		}
	}
	if mask&mPKeyIdx != 0 && (port == nil || int(attr.PKeyIndex) >= len(port.state.Load().PKeys)) {
		return rdma.Errorf(op, syscall.EINVAL, "no P_Key index %d", attr.PKeyIndex)
	}
	if mask&mQKey != 0 && attr.QKey&privilegedQKey != 0 && !q.dev.host.cfg.Privileged {
		return rdma.Errorf(op, syscall.EPERM, "Q_Key %v requires privileges", attr.QKey)
	}
	if mask&mPSN != 0 && attr.SQPSN > 0xffffff {
		return rdma.Errorf(op, syscall.EINVAL, "SQ_PSN %#x has more than 24 bits", attr.SQPSN)
	}
	q.port.Store(port)
	if mask&mPKeyIdx != 0 {
		q.pkeyIndex.Store(uint32(attr.PKeyIndex))
	}
	if mask&mQKey != 0 {
		q.qkey.Store(uint32(attr.QKey))
	}
	if mask&mPSN != 0 {
		q.sq.setPSN(attr.SQPSN)
	}
	q.enter(to)
	return nil
}

// enter does what a new state requires. The caller holds mod.
func (q *QP) enter(to rdma.QPState) {
	switch to {
	case rdma.QPErr:
		q.toError()
	case rdma.QPReset:
		q.state.Store(uint32(to))
		q.forget()
		q.port.Store(nil)
	default:
		q.state.Store(uint32(to))
		q.sq.mu.Lock()
		failed := q.doorbell() // for requests posted in SQD
		q.sq.mu.Unlock()
		if failed {
			q.toError()
		}
	}
}
