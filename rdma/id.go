package rdma

import (
	"context"
	"time"
)

// JoinMask says which fields of a JoinAttr are meant (enum
// rdma_cm_join_mc_attr_mask, with its values). Both are needed.
type JoinMask uint32

const (
	JoinMaskAddress  JoinMask = 1
	JoinMaskFlags    JoinMask = 2
	JoinMaskReserved JoinMask = 4 // the first that is not known
)

// JoinFlags is the kind of a membership (enum rdma_cm_mc_join_flags): values, not bits.
type JoinFlags uint32

const (
	// JoinFullMember sends and receives; the group is created if need be.
	JoinFullMember JoinFlags = 0
	// JoinSendOnlyFullMember sends only: the group is created if need be, the queue pair is never attached. On InfiniBand
	// the subnet manager must support it; on RoCE no IGMP message is sent.
	JoinSendOnlyFullMember JoinFlags = 1
	JoinFlagsReserved      JoinFlags = 2 // the first that is not known
)

func (f JoinFlags) String() string {
	switch f {
	case JoinFullMember:
		return "full member"
	case JoinSendOnlyFullMember:
		return "send-only full member"
	}
	return "unknown join flags"
}

// JoinState are the bits of an MCMemberRecord's JoinState (IBTA 15.2.5.17).
type JoinState uint8

const (
	StateFullMember         JoinState = 0x1
	StateNonMember          JoinState = 0x2
	StateSendOnlyNonMember  JoinState = 0x4
	StateSendOnlyFullMember JoinState = 0x8
)

// State is the JoinState that the flag asks the subnet administrator for (kernel core/ucma.c, ucma_process_join).
func (f JoinFlags) State() JoinState {
	if f == JoinSendOnlyFullMember {
		return StateSendOnlyFullMember
	}
	return StateFullMember
}

// JoinAttr is what JoinMulticastEx takes (struct rdma_cm_join_mc_attr_ex).
type JoinAttr struct {
	CompMask JoinMask
	Flags    JoinFlags
	Addr     Addr
}

// ID is a communication identifier, the socket of the connection manager; rdma_create_id(3).
type ID interface {
	// PortSpace and Context are the values given at creation.
	PortSpace() PortSpace
	Context() any

	// Bind binds the id to the device and port that own the address; rdma_bind_addr(3). The wildcard address binds to
	// none. EINVAL: bound before, no address, or PortSpaceIPoIB on RoCE; ENODEV: no RDMA device owns the address;
	// EADDRINUSE: the port of a is taken.
	Bind(a Addr) error
	// ResolveAddr finds device and port from which dst is reached, src being optional, and binds the id to them;
	// rdma_resolve_addr(3). It returns at once: the end is ADDR_RESOLVED or ADDR_ERROR. A multicast dst needs a route, or
	// src. EINVAL: the state, or families that differ.
	ResolveAddr(src, dst Addr, timeout time.Duration) error
	// ResolveRoute is rdma_resolve_route(3); after it no group can be joined.
	// EINVAL: the address is not resolved. The end is ROUTE_RESOLVED.
	ResolveRoute(timeout time.Duration) error

	// Device is the device that the id is bound to. It belongs to the id: do
	// not close it. EINVAL: the id is bound to none.
	Device() (Device, error)
	// Port is the port that the id is bound to; 0 if to none.
	Port() uint8
	// Local says from where the id sends, for ReplyAHAttr. EINVAL: the id is bound to no device.
	Local() (Local, error)
	// LocalAddr is the address the id is bound to; the zero Addr if to none.
	LocalAddr() Addr

	// CreateQP makes a queue pair of the port space's type and brings a UD one to RTS, with P_Key and Q_Key of the id;
	// rdma_create_qp(3). EINVAL: bound to no device, another device than pd's, there is one already, or as PD.CreateQP.
	CreateQP(pd PD, attr QPInitAttr) (QP, error)
	// QP is the queue pair of CreateQP; nil if there is none.
	QP() QP
	// DestroyQP destroys it; rdma_destroy_qp(3). EINVAL: there is none; EBUSY: it is attached: leave or detach first.
	// (rdma_destroy_qp ignores that, and leaks it.)
	DestroyQP() error

	// JoinMulticast is JoinMulticastEx as full member; rdma_join_multicast(3).
	JoinMulticast(group Addr, context any) error
	// JoinMulticastEx begins joining a group; rdma_join_multicast_ex(3). The id must be bound to a device. The end is an
	// event with context, MULTICAST_JOIN or MULTICAST_ERROR; the membership lasts until LeaveMulticast, also after an
	// error. Joining a group twice is no error and gives two events.
	//
	// ENOTSUP: CompMask has unknown bits; EINVAL: CompMask has not both bits, the flags or the address are none, the id is
	// not bound or resolved or not UD, a zero address on RoCE; ENOSYS: the port has no multicast; EADDRNOTAVAIL: the
	// port's IPoIB interface is down; ENOTSUPP: IPv6 or AF_IB on RoCEv2.
	JoinMulticastEx(attr JoinAttr, context any) error
	// LeaveMulticast leaves a group and detaches the id's queue pair from it; rdma_leave_multicast(3). A join that is
	// under way is cancelled. It waits until all retrieved events of the join are acknowledged, and no event of it comes
	// afterwards; messages that were received may still be in the completion queue. Of several joins of the group it ends
	// the latest. EINVAL: no address; EADDRNOTAVAIL: not joined.
	LeaveMulticast(ctx context.Context, group Addr) error
	// BeginLeave is LeaveMulticast without the wait: when it returns, only events remain to be
	// acknowledged, which ends the Pending.
	BeginLeave(group Addr) (Pending, error)

	// Destroy leaves all groups and destroys the id; rdma_destroy_id(3). It waits until all retrieved events of the id are
	// acknowledged. It does not detach the queue pair, nor destroy it; destroy it before.
	Destroy(ctx context.Context) error
	// BeginDestroy is Destroy without the waiting.
	BeginDestroy() (Pending, error)
}
