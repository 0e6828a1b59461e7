package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that are not heard: subscriptions of the group are told once a publisher,
// whether it has a topic of theirs or not, for nobody can know.

// refusals remembers who was told of, so that it is told once. Loop only.
type refusals struct {
	told  map[uint64]*refusal // by publisher
	order []uint64            // the publishers of told, the oldest first
}

type refusal struct {
	err  *events.PublisherRefusedError
	last reliable.Instant // a packet of it came
}

const (
	// maxRefusals bounds the publishers remembered in a group, and what waits to be read
	// in a subscription: identities may be forged.
	maxRefusals = 256
	// refusalFresh is how long after its last packet a publisher counts as there: longer
	// than heartbeats are apart.
	refusalFresh = 5 * time.Second
)

// seen notes a packet of a publisher that is not heard. It reports whether that
// publisher was told of.
func (r *refusals) seen(now reliable.Instant, publisher uint64) bool {
	x := r.told[publisher]
	if x != nil {
		x.last = now
	}
	return x != nil
}

// remember notes that a publisher is being told of.
func (r *refusals) remember(now reliable.Instant, err *events.PublisherRefusedError) {
	if r.told == nil {
		r.told = make(map[uint64]*refusal)
	}
	if len(r.order) == maxRefusals {
		delete(r.told, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	publisher := uint64(err.Publisher)
	r.told[publisher] = &refusal{err, now}
	r.order = append(r.order, publisher)
}

// heard forgets a publisher that is followed now.
func (r *refusals) heard(publisher uint64) {
	if r.told[publisher] == nil {
		return
	}
	delete(r.told, publisher)
	for i, p := range r.order {
		if p == publisher {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// Refused implements reliable.Sink.
func (g *group) Refused(now reliable.Instant, publisher, epoch uint64, why events.Refusal) {
	if g.suppressed || !g.wanting() || g.refused.seen(now, publisher) {
		return
	}
	left, ok := g.l.journal.refused.allow(now)
	if !ok {
		return // with another packet of it, later
	}
	err := &events.PublisherRefusedError{Publisher: events.PublisherID(publisher), Epoch: epoch, Group: g.address, Reason: why}
	g.refused.remember(now, err)
	logline.PublisherRefused.Log(g.l.log, withLeftOut([]any{"publisher", id(publisher), "group", g.address, "reason", why}, left)...)
	g.l.event(events.Event{Kind: events.PublisherRefused, Group: g.address, Publisher: events.PublisherID(publisher), Epoch: epoch, Err: err})
	for _, s := range g.subs.List() {
		s.refused(err)
	}
	for s := range g.handlers() {
		s.refused(err)
	}
}

// recallRefused tells a new subscription of the publishers that are not heard.
func (g *group) recallRefused(s *Subscription) {
	now := g.l.now()
	for _, p := range g.refused.order {
		if x := g.refused.told[p]; now.Sub(x.last) < refusalFresh {
			s.refused(x.err)
		}
	}
}

// refused tells the subscription of a publisher that is not heard. Loop only.
func (s *Subscription) refused(err *events.PublisherRefusedError) {
	if s.handler != nil {
		s.other(&Delivery{Err: err})
		return
	}
	s.mu.Lock()
	if s.up.len() < maxRefusals {
		s.up.push(Delivery{Err: err})
		s.upSet.Store(true)
	}
	s.mu.Unlock()
	s.wakeReader()
}
