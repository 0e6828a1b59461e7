package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// What the loop does with a batch of received trains.

// inbox is what was polled, how much of it was handled, and since when the receive queue may hold more. Loop only.
type inbox struct {
	batch  *transport.Batch
	at     batchIndex
	legs   legs             // by which it came
	proofs proofs           // that publishers sent it
	lain   transport.Unread // for how long what is handled may have lain there
	began  reliable.Instant // when the transport began to read what it is reading (transport.Batch.More)
	read   reliable.Instant // all that came before has been handled
	// repliesLost is how many Polls have said that replies were dropped.
	repliesLost uint64
	drainedAt   reliable.Instant // last time the receive queue was known to be empty
}

// batchIndex is how far the loop has come in its batch: that packet of that train is next. A turn may end in between.
type batchIndex struct{ train, packet int }

// fresh reports whether nothing of the batch was handled yet.
func (x *inbox) fresh() bool { return x.at == batchIndex{} }

// unread reports whether some of the batch is still to be handled.
func (x *inbox) unread() bool { return x.at.train < len(x.batch.Trains) }

// usualPacket is what a packet of Ethernet holds, in bytes.
const usualPacket = 1472

// arrived records the packets of a poll at now, and returns how many. A large one counts as several of the usual
// size, as it shows as much of how busy publishers are.
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

// stallAfter is how long packets may lie unread before groups judge them as late: on a busy host, or behind a slow
// handler.
const stallAfter = 100 * time.Millisecond

// stalled reports whether what has come may have been waiting for that long.
func (x *inbox) stalled(now reliable.Instant) bool { return now.Sub(x.drainedAt) >= stallAfter }

// replySource is where the reply came from that is being handled. Loop only.
type replySource struct {
	t       transport.Transport
	from    transport.Source
	address func() string // the text of from, made when it is asked for
}

func (x *replySource) init(t transport.Transport) {
	x.t, x.address = t, x.text
}

func (x *replySource) text() string { return x.t.SourceAddress(x.from) }

// behind reports whether some of what was polled has still to be handled, or delivered.
func (l *Loop) behind() bool { return l.inbox.unread() || l.budget.behind() }

// trains handles what is unread of the batch. It reports false when handlers took so long that other things come first.
func (l *Loop) trains(now reliable.Instant) bool {
	l.inbox.proofs.begin(l.inbox.lain.For(time.Duration(now)))
	for l.inbox.unread() {
		if !l.train(now, &l.inbox.batch.Trains[l.inbox.at.train]) {
			return false
		}
		l.inbox.at = batchIndex{train: l.inbox.at.train + 1}
	}
	return true
}

// train sorts one received train: replies to our publications, or packets of a group. It gives the train back, if
// nothing of it has to wait. It reports false when it has stopped before a packet for lack of time.
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

// packet hands a packet of a group to all its receivers.
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

// reply hands a NAK or status to the publication that it is for.
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
