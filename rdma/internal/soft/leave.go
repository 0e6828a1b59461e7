package soft

import (
	"context"
	"slices"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// BeginLeave leaves a group (librdmacm cma.c, rdma_leave_multicast; kernel core/ucma.c, ucma_leave_multicast).
func (id *ID) BeginLeave(group rdma.Addr) (rdma.Pending, error) {
	const op = "leave multicast group"
	err := id.lock(op)
	defer id.host.cm.Unlock()
	if err != nil {
		return nil, err
	}
	if group.Size() == 0 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "invalid address %v", group)
	}
	group = group.Group()
	i := slices.IndexFunc(id.members, func(m *membership) bool { return m.addr == group })
	if i < 0 {
		return nil, rdma.Errorf(op, syscall.EADDRNOTAVAIL, "%v was not joined", group)
	}
	m := id.members[i]
	id.members = slices.Delete(id.members, i, i+1)
	if id.qp != nil && m.flags == rdma.JoinFullMember {
		id.qp.dev.backend.Drain()
		// This fails if the event was not retrieved, or the queue pair was already detached.
		_ = id.qp.DetachMcast(m.mgid, m.mlid)
	}
	m.leaving = newPending()
	m.giveUp()
	id.ch.box.remove(func(ev *cmEvent) bool { return ev.m == m })
	m.settle()
	return m.leaving, nil
}

// LeaveMulticast leaves a group and waits until its events are acknowledged.
func (id *ID) LeaveMulticast(ctx context.Context, group rdma.Addr) error {
	p, err := id.BeginLeave(group)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// giveUp ends the membership's share of the port's membership.
func (m *membership) giveUp() {
	if m.share != nil {
		m.share.release()
		m.share = nil
	}
}

// settle ends the leave when all retrieved events are acknowledged.
func (m *membership) settle() {
	if m.leaving != nil && m.acked == m.reported {
		m.leaving.finish(nil)
	}
}

// BeginDestroy leaves all groups and destroys the id. The queue pair stays unchanged, attached or not (librdmacm cma.c,
// rdma_destroy_id; kernel core/cma.c, cma_leave_mc_groups).
func (id *ID) BeginDestroy() (rdma.Pending, error) {
	err := id.lock("destroy id")
	defer id.host.cm.Unlock()
	if err != nil {
		return nil, err
	}
	id.destroying = newPending()
	for _, m := range id.members {
		m.giveUp()
	}
	id.members = nil
	id.ch.box.remove(func(ev *cmEvent) bool { return ev.id == id })
	id.settle()
	return id.destroying, nil
}

// Destroy destroys the id and waits until its events are acknowledged.
func (id *ID) Destroy(ctx context.Context) error {
	p, err := id.BeginDestroy()
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// settle ends the destruction when all retrieved events are acknowledged.
func (id *ID) settle() {
	if id.destroying == nil || id.acked != id.reported || id.destroying.Done() {
		return
	}
	id.host.ids = slices.DeleteFunc(id.host.ids, func(o *ID) bool { return o == id })
	id.ch.ids--
	id.destroying.finish(nil)
}
