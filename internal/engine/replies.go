package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// unreplied are the peers to which NAKs, statuses and other replies cannot be sent. Loop only.
type unreplied struct {
	peers map[transport.Peer]*unrepliedPeer
}

type unrepliedPeer struct {
	since, last reliable.Instant // first and last failure without a success in between
	failed      uint64           // packets
	when        backoffReporter
}

const (
	// maxUnreplied bounds the peers in unreplied, because source addresses may be forged.
	maxUnreplied = 256
	// unrepliedFor is how long after its last failure a peer is kept. Hellos are answered once a minute or more often.
	unrepliedFor = 2 * time.Minute
)

// refused records a failure at now. It returns the peer, and whether to report it.
func (x *unreplied) refused(now reliable.Instant, peer transport.Peer) (p *unrepliedPeer, due bool) {
	if p = x.peers[peer]; p == nil {
		if len(x.peers) >= maxUnreplied {
			x.expire(now)
		}
		if len(x.peers) >= maxUnreplied {
			return nil, false
		}
		if x.peers == nil {
			x.peers = make(map[transport.Peer]*unrepliedPeer)
		}
		p = &unrepliedPeer{since: now, last: now}
		x.peers[peer] = p
	}
	if now.Sub(p.last) > unrepliedFor {
		*p = unrepliedPeer{since: now, last: now}
	}
	p.failed++
	p.last = now
	return p, p.when.due(now.Sub(p.since))
}

// expire drops peers without a recent failure.
func (x *unreplied) expire(now reliable.Instant) {
	for peer, p := range x.peers {
		if now.Sub(p.last) > unrepliedFor {
			delete(x.peers, peer)
		}
	}
}

// sent ends the failures of a peer at now. It returns how long they lasted, and whether they were reported.
func (x *unreplied) sent(now reliable.Instant, peer transport.Peer) (lasted time.Duration, reported bool) {
	p := x.peers[peer]
	if p == nil {
		return 0, false
	}
	delete(x.peers, peer)
	return now.Sub(p.since), p.when.over()
}

// replyTo sends a control packet to a peer, and reports failures that last a second or longer. All replies of the loop
// are sent here.
func (l *Loop) replyTo(to uint32, packet []byte) {
	peer := transport.Peer(to)
	err := l.t.Reply(peer, packet)
	switch {
	case err == nil && len(l.unreplied.peers) == 0:
	case err == nil:
		if d, reported := l.unreplied.sent(l.ran(l.now()), peer); reported {
			address := l.t.PeerAddress(peer)
			l.say(&report.RepliesAgain, "address", address, "after", d)
			l.event(events.Event{Kind: events.RepliesAgain, Address: address, For: d})
		}
	default:
		l.counters.repliesFailed.Add(1)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, transport.ErrNotReady) || errors.Is(err, transport.ErrNoPeer) {
			return // the bus ends, or its interface is down, which is reported separately
		}
		now := l.ran(l.now())
		if p, due := l.unreplied.refused(now, peer); due {
			address, d := l.t.PeerAddress(peer), now.Sub(p.since)
			do := replyRemedy(err, address)
			l.say(&report.CannotReply, "address", address, "for", d, "packets", p.failed, "err", err, "do", do)
			l.event(events.Event{Kind: events.CannotReply, Address: address, For: d, Behind: p.failed, Err: fmt.Errorf("%w: %s", err, do)})
		}
	}
}

// replyRemedy returns the advice for an error of Reply.
func replyRemedy(err error, address string) string {
	host := cmp.Or(address, "that peer")
	if h, _, splitErr := net.SplitHostPort(address); splitErr == nil {
		if ip, parseErr := netip.ParseAddr(h); parseErr == nil {
			host = ip.Unmap().String()
		}
	}
	is := func(list ...syscall.Errno) bool {
		for _, errno := range list {
			if errors.Is(err, errno) {
				return true
			}
		}
		return false
	}
	switch {
	case is(syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.ETIMEDOUT):
		return "add a route to " + host + " on this host, or see whether that address answers (ip route get, ip neigh)"
	case is(syscall.EPERM, syscall.EACCES, syscall.ECONNREFUSED):
		return "let the firewall of this host pass UDP to " + host
	case is(syscall.EMSGSIZE):
		return "raise the MTU of the route to " + host + " to that of the interface"
	}
	return "mend what keeps this host from sending to " + host
}
