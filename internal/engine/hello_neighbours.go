package engine

import (
	"strings"

	"github.com/fanfaremq/fanfare/internal/discovery"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// hellos implements discovery.Bus. Loop only.

// Retain implements reliable.Peers.
func (h *hellos) Retain(from uint64) (uint32, bool) { return peers{h.l.t}.Retain(from) }

// Forget implements reliable.Peers.
func (h *hellos) Forget(peer uint32) { peers{h.l.t}.Forget(peer) }

func (h *hellos) Published() (int, wire.TopicFilter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.published), h.filter
}

func (h *hellos) Subscribed() (int, wire.TopicFilter) {
	if h.wantedStale {
		h.wantedStale, h.topics, h.wanted = false, 0, wire.TopicFilter{}
		for _, g := range h.l.receiving {
			for id := range g.topics {
				h.topics++
				h.wanted.Add(id)
			}
			if n := g.patterns.set.Len(); n > 0 {
				h.topics += n
				h.wanted = wire.AnyTopic()
			}
		}
	}
	return h.topics, h.wanted
}

func (h *hellos) Relevant(filter *wire.TopicFilter, published bool) bool {
	if published {
		h.mu.Lock()
		defer h.mu.Unlock()
		for id := range h.published {
			if filter.May(id) {
				return true
			}
		}
		return false
	}
	for _, g := range h.l.receiving {
		if g.patterns.set.Len() > 0 {
			return true // a topic in filter may match
		}
		for id := range g.topics {
			if filter.May(id) {
				return true
			}
		}
	}
	return false
}

func (h *hellos) Waits() bool { return h.waiting.Load() > 0 }

func (h *hellos) PublisherMissing() (missing bool) {
	wild, matched := false, false
	for _, g := range h.l.receiving {
		if g.in.PublisherMissing() {
			missing = true
		}
		if g.patterns.set.Len() > 0 {
			wild, matched = true, matched || len(g.topics) > 0
		}
	}
	return missing || wild && !matched
}

func (h *hellos) Mismatch(err *events.ConfigMismatchError, from uint64, relevant bool) {
	l := h.l
	if err.Address = h.from; err.Address == "" && from != discovery.NoSource {
		err.Address = h.l.t.SourceAddress(transport.Source(from))
	}
	e := events.Event{
		Kind: events.ConfigMismatch, Publisher: err.Publisher, Name: err.Name,
		Address: err.Address, Epoch: err.Epoch, Relevant: relevant, Err: err,
	}
	if err.Harmless() {
		e.Kind = events.ConfigDiffers
	}
	l.reportMismatch(err, e)
	notified := make(map[*Subscription]bool)
	for _, g := range l.receiving {
		if g.suppressed {
			continue
		}
		for s := range g.handlers() {
			if s.events && !notified[s] {
				notified[s] = true
				s.other(&Delivery{Event: &e})
			}
		}
		for _, s := range g.subs.List() {
			if !notified[s] {
				notified[s] = true
				s.notify(e)
			}
		}
	}
}

// reportMismatch logs a mismatch and emits its event.
func (l *Loop) reportMismatch(err *events.ConfigMismatchError, e events.Event) {
	args := []any{"name", err.Name, "publisher", err.Publisher.String(), "address", err.Address}
	for _, d := range err.Differences {
		args = append(args, strings.ReplaceAll(string(d.Field), " ", "_"), d.Theirs+" there, "+d.Ours+" here")
	}
	if err.Harmless() {
		l.say(&report.MismatchHarmless, args...)
	} else {
		args = append(args, "do", err.Differences[0].Advice)
		l.say(&report.Mismatch, args...)
	}
	l.event(e)
}

// Unreachable implements discovery.Bus. It wakes goroutines that wait for subscribers: the unreachable bus may be the
// one that they wait for.
func (h *hellos) Unreachable(err *events.ConfigMismatchError, filter *wire.TopicFilter) {
	err.Address = h.from
	h.mu.Lock()
	h.unreachable[h.unreachableCount%uint64(len(h.unreachable))] = unreachableBus{err, *filter}
	h.unreachableCount++
	h.mu.Unlock()
	if h.waiting.Load() == 0 {
		return
	}
	for _, p := range h.l.publications() {
		p.mu.Lock()
		p.waiters.signal()
		p.mu.Unlock()
	}
}
