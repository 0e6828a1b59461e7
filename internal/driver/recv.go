package driver

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// What the loop does with a batch of received trains.

// place is how far the loop has come in its batch: that packet of that train is
// next. A turn may end in between.
type place struct{ train, packet int }

// unread reports whether some of the batch is still to be handled.
func (l *Loop) unread() bool { return l.place.train < len(l.batch.Trains) }

// behind reports whether some of what was polled has still to be handled, or delivered.
func (l *Loop) behind() bool { return l.unread() || l.budget.behind() }

// trains handles what is unread of the batch. It reports false when handlers took
// so long that other things come first.
func (l *Loop) trains(now reliable.Instant) bool {
	for l.unread() {
		if !l.train(now, &l.batch.Trains[l.place.train]) {
			return false
		}
		l.place = place{train: l.place.train + 1}
	}
	return true
}

// train sorts one received train: replies to our publications, or packets of
// a group. It gives the train back, if nothing of it has to wait. It reports false
// when it has stopped before a packet for lack of time.
func (l *Loop) train(now reliable.Instant, tr *transport.Train) bool {
	if l.place.packet == 0 {
		l.loans.begin(tr)
	}
	for n := tr.Count(); l.place.packet < n; l.place.packet++ {
		if l.budget.used {
			return false
		}
		p := l.loans.packet(l.place.packet)
		if tr.Group == transport.Unicast {
			l.replyFrom = tr.From
			if !l.hellos.reply(now, tr.From, p) {
				l.reply(now, p, l.address)
			}
		} else if g := l.groups[tr.Group]; g != nil {
			g.r.Handle(now, uint64(tr.From), p)
		} else if tr.Group == 0 {
			l.hellos.packet(now, tr.From, p)
		}
	}
	l.loans.end()
	return true
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

// replyAddress is where the reply came from that is being handled.
func (l *Loop) replyAddress() string {
	if l.addresser == nil {
		return ""
	}
	return l.addresser.SourceAddress(l.replyFrom)
}
