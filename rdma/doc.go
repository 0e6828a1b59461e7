// Package rdma is the multicast part of the RDMA connection manager and of verbs, in Go: join and leave multicast
// groups, Unreliable Datagram queue pairs, attach and detach, completion queues, address handles.
//
// The package has the types, constants, errors and pure functions, and the interfaces that providers implement:
//
//   - rdma/fabric simulates an InfiniBand or RoCE subnet within the process;
//   - rdma/roce speaks RoCEv2 over UDP sockets;
//   - rdma/verbs is rdma-core.
//
// Names follow rdma-core where a name there is known (JoinMulticastEx, AttachMcast), so that its manual pages serve
// here too; each comment says which call, specification or kernel file a rule comes from. "kernel" is Linux 6.1,
// drivers/infiniband; "IBTA" is the InfiniBand architecture specification, volume 1.
//
// # The way to a first message
//
//	ch, _ := provider.NewEventChannel()
//	id, _ := ch.CreateID(rdma.PortSpaceUDP, nil)
//	id.Bind(rdma.IPAddr(local))                     // names device and port
//	dev, _ := id.Device()
//	pd, _ := dev.AllocPD()
//	cq, _ := dev.CreateCQ(256, nil, 0)
//	id.CreateQP(pd, rdma.QPInitAttr{...})           // in state RTS
//	id.JoinMulticast(rdma.IPAddr(group), "mine")    // returns at once
//	ev, _ := ch.GetEvent(ctx)                       // attaches the QP
//	ah, _ := pd.CreateAH(ev.UD.AHAttr)
//	ev.Ack()
//	qp.PostRecv(...); qp.PostSend(...); cq.Poll(...)
//
// Teardown goes the other way, and the order matters: leave (its events acknowledged), address handles, queue pair,
// completion queues, memory regions, protection domain, id, event channel.
//
// # Waiting
//
// Calls that wait take a context. What the C library does by blocking (leave and destroy wait until events are
// acknowledged) also has a form that begins and reports its end when polled (BeginLeave, BeginDestroy), for programs
// that run everything from one loop.
//
// # Concurrency
//
// As with verbs, all objects may be used from several goroutines at once. An object must not be closed while another
// goroutine still uses it: later calls report an error that matches net.ErrClosed.
package rdma
