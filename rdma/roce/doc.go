// Package roce implements RoCEv2 in user space: UD queue pairs on UDP port 4791 of a network interface, wire-compatible
// with RDMA adapters and with the kernel's rxe. It needs Linux, but no RDMA hardware, cgo or privileges.
//
//	p, err := roce.Open(roce.Config{Interfaces: []string{"eth0"}})
//	defer p.Close()
//	ch, err := p.NewEventChannel()          // continue as in package rdma
//
// Package rdma/internal/soft has the semantics of software providers, package rdma/internal/rocev2 the packet format.
//
// # The path of a sent datagram
//
//  1. QP.PostSend; soft passes runs of the send queue to Transmit.
//  2. Datagrams of equal size to one destination are written one after another
//     into staging memory, each with header, payload, pad and ICRC, and sent as one
//     UDP GSO train; others with sendmmsg (send_linux.go). The IPv4 identification,
//     which the ICRC covers, is known in advance, because Linux sends 0 with DF,
//     and 0, 1, 2, … in a train.
//
// # The path of a received datagram
//
//  1. CQ.Poll receives when the queue is empty; or a Waiter's owner; or, for an
//     armed queue, the device's goroutine (wait_linux.go).
//  2. One recvmmsg reads trains from a socket. There is one for each address of
//     the interface and each group, and with CheckFull also a raw one
//     (socket_linux.go, recv_linux.go).
//  3. Header and ICRC are checked (input_linux.go), see Check.
//  4. soft checks P_Key, Q_Key and state of the queue pairs, and copies the
//     payload after the GRH area: 20 zero bytes and the IPv4 header, or the
//     IPv6 header.
//
// # Several processes on one host
//
// The kernel delivers a multicast datagram to every socket that joined the group, but a unicast one to a single socket
// of the host. So queue pair numbers are leased for the whole host, and a process that receives a datagram for another
// process's queue pair relays it to the holder of the lease (lease_linux.go, relay_linux.go). When a process ends, the
// kernel delivers to the next socket. A goroutine of each open device relays while the process does not poll
// (keeper_linux.go).
//
// # Memberships
//
// A full member joins the IP group (IGMP), a send-only member does not. An IPv6 group, which the
// connection manager cannot join on RoCEv2, is joined by attaching to it.
//
// # An interface that changes
//
// From its first queue pair on, a device observes its interface (follow_linux.go): the GID table has an entry for each
// address, existing entries keep their index, and asynchronous events report changes. When the interface is removed,
// the device is removed. Config.Addrs limits the addresses.
//
// # Limitations
//
// VLANs are separate interfaces. If rdma_rxe is loaded, or RoCE is enabled on the network card, these receive the
// datagrams: see PortInUseError, and devlink-port(8).
package roce
