package rdma

import (
	"context"
	"time"
)

// JoinMask has a bit for each valid field of a JoinAttr (enum rdma_cm_join_mc_attr_mask, with its values). Both are
// needed.
type JoinMask uint32

const (
	JoinMaskAddress  JoinMask = 1
	JoinMaskFlags    JoinMask = 2
	JoinMaskReserved JoinMask = 4 // the first unknown value
)

// JoinFlags is the kind of a membership (enum rdma_cm_mc_join_flags). The values are not bits.
type JoinFlags uint32

const (
	// JoinFullMember sends and receives; the group is created if it does not exist.
	JoinFullMember JoinFlags = 0
	// JoinSendOnlyFullMember only sends: the group is created if it does not exist, but the queue pair is not attached. On
	// InfiniBand the subnet manager must support it; on RoCE no IGMP message is sent.
	JoinSendOnlyFullMember JoinFlags = 1
	JoinFlagsReserved      JoinFlags = 2 // the first unknown value
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

// JoinState has the bits of JoinState in an MCMemberRecord (IBTA 15.2.5.17).
type JoinState uint8

const (
	StateFullMember         JoinState = 0x1
	StateNonMember          JoinState = 0x2
	StateSendOnlyNonMember  JoinState = 0x4
	StateSendOnlyFullMember JoinState = 0x8
)

// State returns the JoinState that is requested from the subnet administrator (kernel core/ucma.c, ucma_process_join).
func (f JoinFlags) State() JoinState {
	if f == JoinSendOnlyFullMember {
		return StateSendOnlyFullMember
	}
	return StateFullMember
}

// JoinAttr has the attributes for JoinMulticastEx (struct rdma_cm_join_mc_attr_ex).
type JoinAttr struct {
	CompMask JoinMask
	Flags    JoinFlags
	Addr     Addr
}

// ID is a communication identifier, the socket of the connection manager; rdma_create_id(3).
type ID interface {
	// PortSpace and Context return the values given at creation.
	PortSpace() PortSpace
	Context() any

	// Bind binds the id to the device and port that own the address; rdma_bind_addr(3). The wildcard address binds to
	// none. Errors: EINVAL if the id is already bound, a is no address, or the port space is PortSpaceIPoIB on RoCE;
	// ENODEV if no RDMA device owns the address; EADDRINUSE if the port of a is in use.
	Bind(a Addr) error
	// ResolveAddr finds the device and port with a route to dst, and binds the id to them; rdma_resolve_addr(3). src is
	// optional. It returns immediately; the event ADDR_RESOLVED or ADDR_ERROR reports the result. A multicast dst needs a
	// route or src. Error EINVAL: the id's state does not allow it, or the families differ.
	ResolveAddr(src, dst Addr, timeout time.Duration) error
	// ResolveRoute is rdma_resolve_route(3). The event ROUTE_RESOLVED reports the result; after it no group can be joined.
	// Error EINVAL: the address is not resolved.
	ResolveRoute(timeout time.Duration) error

	// Device returns the device to which the id is bound. It belongs to the id and must not be closed. Error EINVAL: the
	// id is bound to none.
	Device() (Device, error)
	// Port returns the port to which the id is bound, 0 if to none.
	Port() uint8
	// Local returns the port and GID from which the id sends, for ReplyAHAttr. Error EINVAL: the id is bound to no device.
	Local() (Local, error)
	// LocalAddr returns the address to which the id is bound, the zero Addr if to none.
	LocalAddr() Addr

	// CreateQP makes a queue pair of the port space's type and brings a UD one to RTS, with the P_Key and Q_Key of the id;
	// rdma_create_qp(3). Errors: EINVAL if the id is bound to no device or another one than pd, or has a queue pair
	// already; and the errors of PD.CreateQP.
	CreateQP(pd PD, attr QPInitAttr) (QP, error)
	// QP returns the queue pair of CreateQP, nil if there is none.
	QP() QP
	// DestroyQP destroys the queue pair; rdma_destroy_qp(3). Errors: EINVAL if there is none; EBUSY if it is attached to a
	// group: leave or detach first (rdma_destroy_qp ignores this error and leaks the queue pair).
	DestroyQP() error

	// JoinMulticast is JoinMulticastEx as a full member; rdma_join_multicast(3).
	JoinMulticast(group Addr, context any) error
	// JoinMulticastEx begins joining a group; rdma_join_multicast_ex(3). The id must be bound to a device. An event with
	// context, MULTICAST_JOIN or MULTICAST_ERROR, reports the result; the membership lasts until LeaveMulticast, also
	// after an error. A group can be joined twice, with two events.
	//
	// Errors: ENOTSUP if CompMask has unknown bits; EINVAL if CompMask does not have both bits, flags or address are
	// invalid, the id is not bound or not UD, or the address is zero on RoCE; ENOSYS if the port does not support
	// multicast; EADDRNOTAVAIL if the port's IPoIB interface is down; ENOTSUPP for IPv6 or AF_IB on RoCEv2.
	JoinMulticastEx(attr JoinAttr, context any) error
	// LeaveMulticast leaves a group and detaches the id's queue pair from it; rdma_leave_multicast(3). It cancels a
	// pending join. It waits until all retrieved events of the join are acknowledged, and no event of it follows; received
	// messages may still be in the completion queue. If the group was joined several times, it ends the latest join.
	// Errors: EINVAL for no address; EADDRNOTAVAIL if the group is not joined.
	LeaveMulticast(ctx context.Context, group Addr) error
	// BeginLeave is LeaveMulticast without waiting: the Pending is done when the retrieved events are acknowledged.
	BeginLeave(group Addr) (Pending, error)

	// Destroy leaves all groups and destroys the id; rdma_destroy_id(3). It waits until all retrieved events of the id are
	// acknowledged. It neither detaches nor destroys the queue pair, so destroy that first.
	Destroy(ctx context.Context) error
	// BeginDestroy is Destroy without waiting.
	BeginDestroy() (Pending, error)
}
