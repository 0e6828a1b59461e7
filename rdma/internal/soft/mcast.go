package soft

import (
	"errors"
	"slices"
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// mcastTable is the device's table of groups and attached queue pairs. Its keys are only MGIDs, because devices ignore
// the MLID (rxe rxe_mcast.c; mlx5).
type mcastTable struct {
	sync.RWMutex
	groups map[rdma.GID]*mcastGroup
	total  int // number of attachments
}

type mcastGroup struct{ qps []*QP }

// AttachMcast attaches the queue pair to a group (kernel core/uverbs_cmd.c,
// ib_uverbs_attach_mcast; core/verbs.c, ib_attach_mcast).
func (q *QP) AttachMcast(gid rdma.GID, lid rdma.LID) error {
	const op = "attach to multicast group"
	q.mod.Lock()
	defer q.mod.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	a := attachment{gid, lid}
	if slices.Contains(q.attached, a) {
		return nil
	}
	if err := q.canAttach(op, a); err != nil {
		return err
	}
	limits := &q.dev.cfg.Attr
	t := &q.dev.mcast
	t.Lock()
	defer t.Unlock()
	g := t.groups[gid]
	switch {
	case g != nil && slices.Contains(g.qps, q): // attached with another LID, which the device ignores
		q.attached = append(q.attached, a)
		return nil
	case g == nil && len(t.groups) >= limits.MaxMcastGrp:
		return rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d groups is reached", limits.MaxMcastGrp)
	case g != nil && len(g.qps) >= limits.MaxMcastQPAttach:
		return rdma.Errorf(op, syscall.ENOMEM, "group %v has the maximum of %d queue pairs", gid, limits.MaxMcastQPAttach)
	case t.total >= limits.MaxTotalMcastQPAttach:
		return rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d attachments is reached", limits.MaxTotalMcastQPAttach)
	}
	if g == nil {
		if err := q.dev.backend.Attached(gid); err != nil {
			errno := syscall.EIO
			errors.As(err, &errno)
			return rdma.Errorf(op, errno, "%v", err)
		}
		g = &mcastGroup{}
		t.groups[gid] = g
	}
	g.qps = append(g.qps, q)
	t.total++
	q.attached = append(q.attached, a)
	return nil
}

// canAttach does the checks that do not need the table. The caller holds mod.
func (q *QP) canAttach(op string, a attachment) error {
	switch {
	case q.dev.cfg.Attr.MaxMcastGrp == 0:
		return rdma.Errorf(op, syscall.EOPNOTSUPP, "the device %s does not support multicast", q.dev.Name())
	case !a.gid.IsMulticast():
		return rdma.Errorf(op, syscall.EINVAL, "%v is not a multicast GID", a.gid)
	case q.typ != rdma.QPTypeUD:
		return rdma.Errorf(op, syscall.EINVAL, "the queue pair is not UD")
	case !a.lid.IsMulticast() && !q.anyLID():
		return rdma.Errorf(op, syscall.EINVAL, "%v is not a multicast LID", a.lid)
	}
	return nil
}

// anyLID reports whether the LID is ignored: the port is Ethernet, or, if the queue pair has no port yet, any port of
// the device is (kernel core/verbs.c, is_valid_mcast_lid).
func (q *QP) anyLID() bool {
	if p := q.port.Load(); p != nil {
		return p.isRoCE()
	}
	return slices.ContainsFunc(q.dev.ports, (*port).isRoCE)
}

// DetachMcast reverses AttachMcast.
func (q *QP) DetachMcast(gid rdma.GID, lid rdma.LID) error {
	const op = "detach from multicast group"
	q.mod.Lock()
	defer q.mod.Unlock()
	if err := q.usable(op); err != nil {
		return err
	}
	i := slices.Index(q.attached, attachment{gid, lid})
	if i < 0 {
		return rdma.Errorf(op, syscall.EINVAL, "not attached to %v, %v", gid, lid)
	}
	// The entry is removed even if the device has none, which happens after attaching with two LIDs (kernel
	// core/uverbs_cmd.c).
	q.attached = slices.Delete(q.attached, i, i+1)
	t := &q.dev.mcast
	t.Lock()
	defer t.Unlock()
	g := t.groups[gid]
	if g == nil || !slices.Contains(g.qps, q) {
		return rdma.Errorf(op, syscall.EINVAL, "the device has no attachment to %v", gid)
	}
	g.qps = slices.DeleteFunc(g.qps, func(o *QP) bool { return o == q })
	t.total--
	if len(g.qps) == 0 {
		delete(t.groups, gid)
		q.dev.backend.Detached(gid)
	}
	return nil
}
