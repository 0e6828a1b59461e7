//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"slices"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// membership is a join of an id, until it is left. The channel's lock guards it.
type membership struct {
	id       *id
	group    rdma.Addr // rdma.Addr.Group of the address
	handle   uint64    // represents it in C
	context  any
	expected bool // the event of the join is pending

	reported, acked int     // numbers of events
	leaving         pending // not nil: left
}

// JoinMulticast begins joining a group as a full member.
func (o *id) JoinMulticast(group rdma.Addr, context any) error {
	return o.JoinMulticastEx(rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags,
		Flags: rdma.JoinFullMember, Addr: group}, context)
}

// JoinMulticastEx begins joining a group. librdmacm checks everything, except that on RoCE it reports a unicast address
// only by an event, and not at all without a queue pair. It gets the group without port, flow and scope, because it
// finds joins by comparing whole sockaddrs.
func (o *id) JoinMulticastEx(attr rdma.JoinAttr, context any) error {
	const op = "join multicast group"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return err
	}
	if o.removed { // librdmacm returns ENXIO, or EINVAL for an id without a device
		return rdma.Errorf(op, syscall.EINVAL, "the device of the id was removed")
	}
	if attr.Addr.IsUnicast() && !attr.Addr.IsZeroNet() && o.onEthernet() {
		return rdma.Errorf(op, syscall.EINVAL, "%v is a unicast address, not a group", attr.Addr)
	}
	ch := o.ch
	ch.last++
	m := &membership{id: o, group: attr.Addr.Group(), handle: ch.last, context: context}
	ch.joins[m.handle] = m
	if errno := o.c.Join(uint32(attr.CompMask), uint32(attr.Flags), cAddr(m.group), m.handle); errno != 0 {
		delete(ch.joins, m.handle)
		return joinError(op, errno, attr)
	}
	ch.expect(&m.expected)
	o.members = slices.Insert(o.members, 0, m)
	return nil
}

// onEthernet reports whether the id is bound to a RoCE port. The caller holds the lock.
func (o *id) onEthernet() bool {
	d, err := o.device("")
	return err == nil && d.ports[o.c.Info().Port].layer == rdma.LinkLayerEthernet
}

func joinError(op string, errno syscall.Errno, attr rdma.JoinAttr) error {
	switch errno {
	case rdma.ENOTSUPP:
		return rdma.Errorf(op, errno, "%v: on RoCE v2 only IPv4 groups can be joined", attr.Addr)
	case syscall.EADDRNOTAVAIL:
		return rdma.Errorf(op, errno, "%v: the port's IPoIB interface is down or has not joined its broadcast group (ip link set ib0 up)", attr.Addr)
	}
	return rdma.Errorf(op, errno, "%v as %v", attr.Addr, attr.Flags)
}

// BeginLeave leaves a group. The Pending is done when the join's events are acknowledged. librdmacm detaches the queue
// pair, and the kernel drops events that were not retrieved.
func (o *id) BeginLeave(group rdma.Addr) (rdma.Pending, error) {
	const op = "leave multicast group"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if group.Size() == 0 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "invalid address %v", group)
	}
	group = group.Group()
	i := slices.IndexFunc(o.members, func(m *membership) bool { return m.group == group })
	if i < 0 {
		return nil, rdma.Errorf(op, syscall.EADDRNOTAVAIL, "%v was not joined", group)
	}
	m := o.members[i]
	o.members = slices.Delete(o.members, i, i+1)
	m.forget()
	// librdmacm discards the join whatever the result is. After a removal the kernel's membership has already ended.
	if errno := o.c.Leave(cAddr(group)); errno != 0 && !o.removed {
		return nil, rdma.Errorf(op, errno, "%v", group)
	}
	m.leaving = make(pending)
	m.settle()
	return m.leaving, nil
}

// forget ends the events of a membership. The caller holds the lock.
func (m *membership) forget() {
	delete(m.id.ch.joins, m.handle)
	m.id.ch.arrived(&m.expected)
}

// settle completes the leave when all events are acknowledged. The caller holds the lock.
func (m *membership) settle() {
	if m.leaving != nil && !m.leaving.Done() && m.acked == m.reported {
		close(m.leaving)
	}
}

// LeaveMulticast leaves a group and waits until the join's events are acknowledged.
func (o *id) LeaveMulticast(ctx context.Context, group rdma.Addr) error {
	p, err := o.BeginLeave(group)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}
