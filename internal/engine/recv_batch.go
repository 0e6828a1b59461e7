package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// How the loop handles a batch of received trains.

// inbox has what was polled, how much of it was handled, and since when the receive queue may hold more. Loop only.
type inbox struct {
	batch  *transport.Batch
	at     batchIndex
	legs   legs             // of the transport
	proofs proofs           // signatures and trust of publishers
	lain   transport.Unread // how long packets may have waited unread
	began  reliable.Instant // when the transport began the read that it has not finished (transport.Batch.More)
	read   reliable.Instant // all that arrived before has been handled
	// repliesLost is how many polls have reported dropped replies.
	repliesLost uint64
	drainedAt   reliable.Instant // last time the receive queue was known to be empty
}

// batchIndex is the next packet of the batch. A turn may end between two packets.
type batchIndex struct{ train, packet int }

// fresh reports whether nothing of the batch was handled yet.
func (x *inbox) fresh() bool { return x.at == batchIndex{} }

// unread reports whether some of the batch has still to be handled.
func (x *inbox) unread() bool { return x.at.train < len(x.batch.Trains) }

// usualPacket is the size of a full packet on Ethernet, in bytes.
const usualPacket = 1472

// arrived records the packets of a poll at now, and returns their number. A large packet counts as several of the usual
// size, since it shows as much of how busy publishers are.
func (x *inbox) arrived(now reliable.Instant) (packets int) {
	if x.drainedAt = min(x.drainedAt, now); len(x.batch.Trains) == 0 {
		x.drainedAt = now
	}
	for i := range x.batch.Trains {
		tr := &x.batch.Trains[i]
		packets += max(tr.Count(), len(tr.Data)/usualPacket)
	}
	return packets
}

// stallAfter is how long packets may wait unread, on a busy host or behind a slow handler, before groups treat them as
// late.
const stallAfter = 100 * time.Millisecond

// stalled reports whether received packets may have waited for stallAfter.
func (x *inbox) stalled(now reliable.Instant) bool { return now.Sub(x.drainedAt) >= stallAfter }

// replySource is the source of the reply that is being handled. Loop only.
type replySource struct {
	t       transport.Transport
	from    transport.Source
	address func() string // returns from as text, on demand
}

func (x *replySource) init(t transport.Transport) { x.t, x.address = t, x.text }

func (x *replySource) text() string { return x.t.SourceAddress(x.from) }

// behind reports whether polled packets have still to be handled, or delivered.
func (l *Loop) behind() bool { return l.inbox.unread() || l.budget.behind() }

// trains handles the unread part of the batch. It returns false when slow handlers have used up the turn's time.
func (l *Loop) trains(now reliable.Instant) bool {
	l.inbox.proofs.begin(&l.clock, l.inbox.lain.For(time.Duration(now)))
	for l.inbox.unread() {
		if !l.train(now, &l.inbox.batch.Trains[l.inbox.at.train]) {
			return false
		}
		l.inbox.at = batchIndex{train: l.inbox.at.train + 1}
	}
	return true
}

// train handles one train: replies to our publications, or packets of a group. It gives the train back to the
// transport, unless a packet has to wait. It returns false if it stopped before a packet because the turn's time is
// used up.
func (l *Loop) train(now reliable.Instant, tr *transport.Train) bool {
	at := &l.inbox.at
	if at.packet == 0 {
		l.loans.begin(tr)
	}
	for n := tr.Count(); at.packet < n; at.packet++ {
		if l.budget.used {
			return false
		}
		p := l.loans.packet(at.packet)
		switch {
		case tr.Group == transport.Unicast:
			l.replies.from = tr.From
			if !l.hellos.reply(now, tr.From, p) {
				l.reply(now, p, l.replies.address)
			}
		case !l.inbox.proofs.wanted() || l.proven(tr, at.packet, p):
			l.packet(now, tr, p)
		}
	}
	l.loans.end()
	return true
}

// packet passes a packet of a group to all receivers of that group.
func (l *Loop) packet(now reliable.Instant, tr *transport.Train, p []byte) {
	if len(l.surveys) > 0 {
		l.surveyPacket(now, tr, p)
	}
	g := l.groups[tr.Group]
	if g == nil && tr.Group == 0 {
		l.hellos.packet(now, tr.From, p)
	}
	for ; g != nil; g = g.next {
		if l.inbox.legs.n > 0 {
			g.r.SetLeg(int(tr.Leg))
		}
		g.r.Handle(now, uint64(tr.From), p)
	}
}

// reply passes a NAK or status to its publication.
func (l *Loop) reply(now reliable.Instant, p []byte, address func() string) {
	h, err := wire.ParseHeader(p)
	if err != nil || h.Publisher != l.cfg.Publisher {
		l.counters.foreignReplies.Add(1)
		return
	}
	for _, pub := range l.publications() {
		if pub.tag == h.GroupTag {
			pub.handle(now, p, address)
			return
		}
	}
	l.counters.foreignReplies.Add(1)
}
