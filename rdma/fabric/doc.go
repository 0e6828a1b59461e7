// Package fabric simulates an RDMA subnet in the process: an InfiniBand subnet with a subnet manager and administrator,
// or an Ethernet with RoCEv2 and IGMP. It has switches with multicast tables, and hosts with devices and ports. Each
// host is an rdma.Provider.
//
//	f := fabric.New(fabric.Config{Flavor: fabric.InfiniBand})
//	defer f.Close()
//	a, b := f.AddHost(fabric.HostConfig{}), f.AddHost(fabric.HostConfig{})
//	ch, err := a.NewEventChannel()
//
// The calls of the providers behave like librdmacm and the kernel (see package rdma). The methods of Fabric and Port
// control the simulation: a Fabric can lose, duplicate, reorder and delay datagrams, take ports down, restart the
// subnet manager and run out of MLIDs. Trace returns the requests to the subnet administrator and the switches.
//
// # Time
//
// A stepped fabric (the default) has a virtual time, which advances only in Step and AdvanceTo. All events occur within
// these two calls, in the calling goroutine and in the same order for the same seed. A live fabric has a goroutine that
// runs due events in real time, from New to Close.
//
// # The path of a datagram
//
//  1. QP.PostSend passes it to the port (hca.go), which copies it.
//  2. On InfiniBand a datagram to a group always returns to its own port;
//     on RoCE if the port's interface is a member of the group. The attachments
//     determine the queue pairs that receive it there.
//  3. The switch (switch.go) forwards it as its multicast table says: by
//     MLID on InfiniBand, by MAC on Ethernet. Send-only members are in the
//     InfiniBand table, too, as with OpenSM.
//  4. Faults are injected on the last link (Faults in config.go).
//  5. The port delivers it to the queue pairs.
package fabric
