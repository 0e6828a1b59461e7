// Package fabric simulates an RDMA subnet within the process: an InfiniBand subnet with a subnet manager and
// administrator, or an Ethernet with RoCEv2 and IGMP; switches with multicast tables; hosts with devices that have
// ports on them. Each host is an rdma.Provider.
//
//	f := fabric.New(fabric.Config{Flavor: fabric.InfiniBand})
//	defer f.Close()
//	a, b := f.AddHost(fabric.HostConfig{}), f.AddHost(fabric.HostConfig{})
//	ch, err := a.NewEventChannel()
//
// The calls on the providers behave as librdmacm and the kernel do (see package rdma). What only a simulation can do is
// on the Fabric: it loses, duplicates, reorders and delays datagrams, takes ports down, restarts the subnet manager,
// runs out of MLIDs, and writes down what subnet administrator and switches were asked for (Trace).
//
// # Time
//
// A stepped fabric (the default) has a time of its own, which advances only in Step and AdvanceTo. Everything happens
// within these two calls, in the calling goroutine and in the same order each time: one seed, one run. A live fabric
// has a goroutine that runs due events by the clock, from New to Close.
//
// # The path of a datagram
//
//  1. QP.PostSend hands it to the port (hca.go), which copies it.
//  2. On InfiniBand a datagram to a group always comes back to its own port;
//     on RoCE if the port's interface is a member of the group. What queue pair
//     gets it there is for the attachments to say.
//  3. The switch (switch.go) sends it on to where its multicast table says: by
//     MLID on InfiniBand, by MAC on Ethernet. Members that only send are in the
//     InfiniBand table too, as OpenSM has it.
//  4. On the last link the faults strike (Faults in config.go).
//  5. The port delivers it to the queue pairs.
package fabric
