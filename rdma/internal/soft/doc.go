// Package soft implements the semantics of librdmacm, the kernel's RDMA core and UD verbs once, in software, for
// providers that have no NIC to do it: the order of checks, memberships and their events, automatic attachment, the
// states of queue pairs, limits, keys. What is left to a provider is a small Backend: the subnet administrator or IGMP,
// the transmission of datagrams, timers; and to call Device.Deliver for what arrives.
//
// # The life of a datagram
//
//  1. QP.PostSend checks a work request and puts it in the ring of the send
//     queue (send.go).
//  2. The doorbell hands runs of the ring to Backend.Transmit, which takes the
//     bytes from the caller's memory, and completes what was asked for.
//  3. Device.Deliver, or DeliverTrain for many, finds the queue pairs that are
//     attached to the group (mcast.go), checks state, P_Key and Q_Key of each,
//     and copies the bytes to its next receive buffer behind the GRH area
//     (deliver.go).
//  4. CQ.Poll hands out the completion (cq.go). A completion of a send frees
//     the room of all sends up to it.
//
// # The life of a membership
//
//  1. ID.JoinMulticastEx checks (join.go) and asks the group of its port
//     (member_ib.go, member_ip.go), which are shared by all ids.
//  2. The answer becomes an event on the id's channel (event.go).
//  3. EventChannel.GetEvent retrieves it and attaches the queue pair.
//  4. ID.BeginLeave detaches, drops events that were not retrieved, and is
//     complete when the retrieved ones are acknowledged (leave.go).
//
// # Locks
//
// In this order: Host.cm (all of the connection manager), QP.mod, Device.mcast, sendQueue.mu, PD.mem,
// recvQueue.mu, CQ.mu, then the locks of the Backend. The Backend calls into this package without
// holding any lock that its own methods take. No goroutine is started here.
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
