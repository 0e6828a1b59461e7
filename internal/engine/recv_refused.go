package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Refused publishers. Each subscription of the group gets a report once per publisher, even if it may not want any of
// the publisher's topics: these are unknown.

// refusals are the publishers that were reported. Loop only.
type refusals struct {
	reported map[events.ID]*refusal // by publisher
	order    []events.ID            // keys of reported, the oldest first
}

type refusal struct {
	err  *events.PublisherRefusedError
	last reliable.Instant // last packet of it
}

const (
	// maxRefusals bounds the publishers remembered in a group, and the reports queued in a subscription: identities may
	// be forged.
	maxRefusals = 256
	// refusalFresh is how long after its last packet a publisher counts as present. It exceeds the interval of
	// heartbeats.
	refusalFresh = 5 * time.Second
)

// seen records a packet of a refused publisher. It reports whether that publisher was reported.
func (r *refusals) seen(now reliable.Instant, publisher events.ID) bool {
	x := r.reported[publisher]
	if x != nil {
		x.last = now
	}
	return x != nil
}

// remember records that a publisher is being reported.
func (r *refusals) remember(now reliable.Instant, err *events.PublisherRefusedError) {
	if r.reported == nil {
		r.reported = make(map[events.ID]*refusal)
	}
	if len(r.order) == maxRefusals {
		delete(r.reported, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	r.reported[err.Publisher] = &refusal{err, now}
	r.order = append(r.order, err.Publisher)
}

// heard removes a publisher that is now followed.
func (r *refusals) heard(publisher events.ID) {
	if r.reported[publisher] == nil {
		return
	}
	delete(r.reported, publisher)
	for i, p := range r.order {
		if p == publisher {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// Refused implements reliable.Sink.
func (g *group) Refused(now reliable.Instant, of events.Instance, why events.Refusal) {
	if g.suppressed || !g.wanting() || g.refused.seen(now, of.Publisher) {
		return
	}
	if _, ok := g.l.journal.refused.allow(now); !ok {
		return // reported with a later packet
	}
	err := &events.PublisherRefusedError{Publisher: of.Publisher, Epoch: of.Epoch,
		Group: g.address, Reason: why}
	g.refused.remember(now, err)
	g.l.sayOf(of.Publisher, &report.PublisherRefused, "publisher", of.Publisher, "group", g.address, "reason", why)
	g.l.event(events.Event{Kind: events.PublisherRefused, Group: g.address, Publisher: of.Publisher,
		Epoch: of.Epoch, Err: err})
	for _, s := range g.subs.List() {
		s.refused(err)
	}
	for s := range g.handlers() {
		s.refused(err)
	}
}

// recallRefused reports the present refused publishers to a new subscription.
func (g *group) recallRefused(s *Subscription) {
	now := g.l.now()
	for _, p := range g.refused.order {
		if x := g.refused.reported[p]; now.Sub(x.last) < refusalFresh {
			s.refused(x.err)
		}
	}
}

// refused reports a refused publisher to the subscription. Loop only.
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
