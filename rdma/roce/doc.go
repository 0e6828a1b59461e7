// Package roce is RoCEv2 in user space: UD queue pairs on UDP port 4791 of a network interface, wire-compatible with
// NICs and with the kernel's rxe. It needs Linux, and neither hardware nor cgo nor privilege.
//
//	p, err := roce.Open(roce.Config{Interfaces: []string{"eth0"}})
//	defer p.Close()
//	ch, err := p.NewEventChannel()          // and so on, as package rdma says
//
// Semantics are those of package rdma/internal/soft, which all providers in software share; the bytes
// are package rdma/internal/rocev2's.
//
// # The path of a sent datagram
//
//  1. QP.PostSend; soft hands runs of the send queue to Transmit.
//  2. Datagrams of equal size to one destination are written one after the other
//     into staging memory, each with header, payload, pad and ICRC, and go as one
//     UDP GSO train; others by sendmmsg (send_linux.go). The IPv4 identification,
//     which the ICRC covers, is known beforehand, because Linux sends 0 with DF,
//     and 0, 1, 2, … in a train.
//
// # The path of a received datagram
//
//  1. CQ.Poll receives when the queue is empty; or a Waiter's owner or, for an
//     armed queue, the device's goroutine does (wait_linux.go).
//  2. One recvmmsg takes trains from a socket: there is one for each address of
//     the interface and one for each group, and with CheckFull a raw one beside
//     (socket_linux.go, recv_linux.go).
//  3. Header and ICRC are checked (input_linux.go), see Check.
//  4. soft checks P_Key, Q_Key and state of the queue pairs, and copies the
//     payload behind the GRH area: 20 zero bytes and the IPv4 header, or the
//     IPv6 header.
//
// # Several processes on one host
//
// The kernel gives a multicast datagram to every socket that joined the group, but a unicast one to a
// single socket of the host. So queue pair numbers are leased for the whole host, and the process that
// gets a datagram for another's queue pair passes it on to the holder of the lease (lease_linux.go,
// relay_linux.go). When a process ends, the kernel turns to the next socket by itself. A goroutine of
// each open device sees to it that this happens also if the process does not poll (keeper_linux.go).
//
// # Memberships
//
// A full member joins the IP group (IGMP), a send-only member does not. An IPv6 group, which the
// connection manager cannot join on RoCEv2, is joined by attaching to it.
//
// # An interface that changes
//
// From the first queue pair of a device on its interface is followed (follow_linux.go): the GID table
// has an entry for each address, existing entries keep their index, and asynchronous events report
// changes. When the interface is removed, so is the device. Config.Addrs limits the addresses.
//
// # What it does not do
//
// VLANs are interfaces of their own. Where rdma_rxe is loaded, or the NIC has RoCE switched on, the
// datagrams go there: see PortInUseError, and devlink-port(8).
package roce
