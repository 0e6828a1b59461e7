// Package soft implements the semantics of librdmacm, the kernel's RDMA core and UD verbs in software, for providers
// without an RDMA adapter: the order of checks, memberships and their events, automatic attachment, the states of queue
// pairs, limits and keys. A provider implements a small Backend, for the subnet administrator or IGMP, the transmission
// of datagrams and timers, and calls Device.Deliver for received datagrams.
//
// # The path of a datagram
//
//  1. QP.PostSend checks a work request and puts it in the ring of the send
//     queue (send.go).
//  2. The doorbell passes runs of the ring to Backend.Transmit, which reads the
//     bytes from the caller's memory, and adds the requested completions.
//  3. Device.Deliver, or DeliverTrain for many, finds the queue pairs that are
//     attached to the group (mcast.go), checks state, P_Key and Q_Key of each,
//     and copies the bytes to its next receive buffer, after the GRH area
//     (deliver.go).
//  4. CQ.Poll returns the completion (cq.go). A completion of a send frees
//     the places of all sends up to it.
//
// # The states of a membership
//
//  1. ID.JoinMulticastEx checks (join.go) and joins the group of its port
//     (member_ib.go, member_ip.go), which all ids share.
//  2. The answer is reported by an event on the id's channel (event.go).
//  3. EventChannel.GetEvent retrieves it and attaches the queue pair.
//  4. ID.BeginLeave detaches, drops events that were not retrieved, and is
//     complete when the retrieved ones are acknowledged (leave.go).
//
// # Locks
//
// Locks are taken in this order: Host.cm (for the whole connection manager), QP.mod, Device.mcast, sendQueue.mu,
// PD.mem, recvQueue.mu, CQ.mu, then the locks of the Backend. The Backend must not call this package with a lock held
// that its own methods take. This package starts no goroutines.
package soft

import "github.com/fanfaremq/fanfare/rdma"

var (
	_ rdma.Provider     = (*Host)(nil)
	_ rdma.Device       = (*handle)(nil)
	_ rdma.PD           = (*PD)(nil)
	_ rdma.MR           = (*MR)(nil)
	_ rdma.AH           = (*AH)(nil)
	_ rdma.CQ           = (*CQ)(nil)
	_ rdma.CompChannel  = (*CompChannel)(nil)
	_ rdma.QP           = (*QP)(nil)
	_ rdma.DropCounter  = (*QP)(nil)
	_ rdma.EventChannel = (*EventChannel)(nil)
	_ rdma.ID           = (*ID)(nil)
	_ rdma.Pending      = (*pending)(nil)
)
