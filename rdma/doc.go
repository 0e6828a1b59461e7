// Package rdma is the multicast part of the RDMA connection manager and of verbs in Go: joining and leaving multicast
// groups, Unreliable Datagram (UD) queue pairs, attaching them to groups, completion queues and address handles.
//
// The package has types, constants, errors, pure functions, and interfaces. These providers implement the interfaces:
//
//   - rdma/fabric simulates an InfiniBand or RoCE subnet in the process;
//   - rdma/roce implements RoCEv2 over UDP sockets;
//   - rdma/verbs calls rdma-core.
//
// Names follow rdma-core (JoinMulticastEx, AttachMcast), so that its manual pages apply. Comments name the call,
// specification or kernel file from which a rule comes. "kernel" is Linux 6.1, drivers/infiniband; "IBTA" is the
// InfiniBand architecture specification, volume 1.
//
// # Steps to a first message
//
//	ch, _ := provider.NewEventChannel()
//	id, _ := ch.CreateID(rdma.PortSpaceUDP, nil)
//	id.Bind(rdma.IPAddr(local))                     // selects device and port
//	dev, _ := id.Device()
//	pd, _ := dev.AllocPD()
//	cq, _ := dev.CreateCQ(256, nil, 0)
//	id.CreateQP(pd, rdma.QPInitAttr{...})           // in state RTS
//	id.JoinMulticast(rdma.IPAddr(group), "mine")    // returns immediately
//	ev, _ := ch.GetEvent(ctx)                       // attaches the QP
//	ah, _ := pd.CreateAH(ev.UD.AHAttr)
//	ev.Ack()
//	qp.PostRecv(...); qp.PostSend(...); cq.Poll(...)
//
// Close objects in this order: leave groups and acknowledge their events, then address handles, queue pair, completion
// queues, memory regions, protection domain, id, event channel.
//
// # Waiting
//
// Calls that wait take a context. For calls that block in the C library (leave and destroy wait until events are
// acknowledged) there are variants that return immediately and can be polled (BeginLeave, BeginDestroy), for programs
// with a single loop.
//
// # Concurrency
//
// As with verbs, several goroutines may use an object concurrently. An object must not be closed while another
// goroutine uses it. Calls after Close return an error that matches net.ErrClosed.
package rdma
