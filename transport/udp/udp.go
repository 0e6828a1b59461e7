// Package udp is the fabric of IP multicast: IPv4 and IPv6 over UDP sockets.
//
// On Linux it calls sendmsg, sendmmsg and recvmmsg directly with prepared headers, with generic segmentation offload
// (GSO) and generic receive offload (GRO): 44 packets of Ethernet size pass the kernel as one. Elsewhere, and on Linux
// with the build tag fanfare_plainudp, it is built on package net.
//
// Sockets of a transport:
//
//   - one for unicast, bound to the interface's address: everything is sent
//     from here, and replies come here;
//   - one for each joined group, bound to the group's address and port. The
//     kernel then sorts packets by group (Train.Group costs nothing and cannot
//     be wrong), a group without members here wakes no process, each group has
//     a receive buffer of its own, and the limit of 20 memberships for a socket
//     (net.ipv4.igmp_max_memberships) is never met. The price is one recvmmsg
//     for each group that has something, as epoll reports.
//
// On Linux a transport follows its interface (rtnetlink(7)): when it goes down, loses its carrier or its address, or is
// deleted, it reports Lost, and Joined when it is back, even with another index or another address. The portable
// implementation does not notice, nor does a transport in a sandbox without rtnetlink.
//
// Several processes of a host each get every packet (SO_REUSEADDR), and each only of the groups that it
// has joined itself (IP_MULTICAST_ALL off, ip(7)).
package udp

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.Transport = (*Transport)(nil)

// Sizes that all variants share.
const (
	// bufferBytes holds any UDP payload, and any train that the kernel merges: at most 64 KiB (udp_gro_receive_segment,
	// net/ipv4/udp_offload.c).
	bufferBytes = 64 << 10
	// batch is the maximum number of trains that one Poll returns.
	batch = 64
)

var (
	errClosed = fmt.Errorf("udp: %w", net.ErrClosed)
	errNoPeer = fmt.Errorf("udp: %w", transport.ErrNoPeer)
)

// GroupAddress implements transport.Transport: "239.20.0.3:7400". docs/protocol §16.3.
func (t *Transport) GroupAddress(group int) string {
	if group < 0 || group >= t.cfg.Groups {
		return ""
	}
	return t.groupAddr(group).String()
}

func (t *Transport) groupAddr(group int) netip.AddrPort {
	return netip.AddrPortFrom(groupAddr(t.cfg.Range.Addr(), group), uint16(t.cfg.Port))
}

// Interface is the name of the interface in use, or of the last one.
func (t *Transport) Interface() string { return t.link().name }

// LocalAddr is the source address of packets, where replies arrive. It changes when the interface gets another address.
func (t *Transport) LocalAddr() netip.AddrPort { return t.at.Load().local }

// SocketLimits has the buffer sizes that the system granted when the transport was opened.
func (t *Transport) SocketLimits() SocketLimits { return t.limits }

// check returns an error if the transport is closed or has no such group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if group < 0 || group >= t.cfg.Groups {
		return fmt.Errorf("udp: %w: %d of %d", transport.ErrNoSuchGroup, group, t.cfg.Groups)
	}
	return nil
}

// joined reports that a group is joined.
func (t *Transport) joined(group int) {
	t.received.Joins.Add(1)
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Joined})
}

// joinFailed reports a group that the system refused.
func (t *Transport) joinFailed(group int, err error) {
	t.received.JoinsFailed.Add(1)
	t.events.Post(t.notJoined(group, transport.Failed, err))
}

// notJoined is the event of a group that could not be joined.
func (t *Transport) notJoined(group int, state transport.Membership, err error) transport.Event {
	err = fmt.Errorf("udp: join %v on %s: %w", t.groupAddr(group), t.link().name, err)
	return transport.Event{Group: group, Role: transport.RoleReceiver, State: state, Err: err}
}

// Alloc implements transport.Transport.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	mem, err := t.arena.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	return mem, nil
}

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) { t.arena.Free(mem) }

// Stats implements transport.Transport. On Linux, ReceiveOverflow is the kernel's count (SO_RXQ_OVFL, socket(7)): it is
// updated by the next packet of the group, or else a second later (SO_MEMINFO), and a train that is dropped as a whole
// counts once. On other systems it counts packets for which the readers had no room; the kernel's own drops are
// unknown.
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.received.AddTo(&s.Transport)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent.AddTo(&s.Transport)
	for snd := range t.senders {
		snd.sent.AddTo(&s.Transport)
	}
	return s
}
