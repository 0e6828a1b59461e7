package engine

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// counters are those of a bus, besides those of its transport, groups and publications.
type counters struct {
	foreignReplies atomic.Uint64
	repliesFailed  atomic.Uint64
	slowLost       atomic.Uint64
	replaced       atomic.Uint64
	refused        atomic.Uint64 // messages of untrusted publishers
	losses         losses
	times          distributions
	network        networkLosses
	sampling       sampling
	events         [events.Kinds]atomic.Uint64 // by kind
}

// Stats returns a snapshot. It lacks Groups and Legs if the loop has ended, and in OnEvent of HandlerSlow.
func (l *Loop) Stats() (stats.Bus, error) {
	st := l.sharedStats()
	if l.onLoop() { // in a handler
		st.Groups, st.Legs = l.groupStats(), l.legStats()
		return st, nil
	}
	err := l.do(func() { st.Groups, st.Legs = l.groupStats(), l.legStats() })
	return st, err
}

// sharedStats returns what does not need the loop.
func (l *Loop) sharedStats() stats.Bus {
	ts := l.t.Stats()
	st := stats.Bus{
		Time: l.wall(), Transport: ts.Transport, Seal: ts.Seal,
		ForeignReplies:      l.counters.foreignReplies.Load(),
		RepliesFailed:       l.counters.repliesFailed.Load(),
		SlowConsumerPackets: l.counters.slowLost.Load(),
		ReplacedMessages:    l.counters.replaced.Load(),
		Distributions:       l.counters.times.snapshot(),
		Lost:                l.counters.losses.snapshot(),
		LostOnWay:           l.counters.network.fabric.Load(),
		LostToQueue:         l.counters.network.queue.Load(),
		Sign:                l.inbox.proofs.stats(),
		RefusedMessages:     l.counters.refused.Load(),
	}
	st.Repair, st.Delivery = st.Distributions.Repair.Latency(), st.Distributions.Delivery.Latency()
	for kind := range events.Kinds {
		st.Events = append(st.Events, events.Count{Kind: kind, Count: l.counters.events[kind].Load()})
	}
	sendCost := l.departure.sendCost()
	for _, p := range l.publications() {
		p.mu.Lock()
		sender := stats.Sender{SenderPackets: p.s.Stats(), SenderMessages: p.m.Stats()}
		st.Publications = append(st.Publications, stats.Publication{
			Address: l.t.GroupAddress(p.group), Receivers: p.m.Receivers(0), RTT: p.s.RTT(), Lead: p.s.Lead(),
			Blocked: p.s.Blocked(), Stuck: p.out.stuck.lasts(p.s.Ran(l.now())), SendCost: sendCost,
			MemoryBytes: p.memory.bytes(), Subscribers: p.m.Members(l.now(), 0), Sender: sender,
		})
		p.mu.Unlock()
	}
	return st
}

func (l *Loop) groupStats() []stats.Group {
	var all []stats.Group
	for index, g := range l.groups {
		st, ended := l.endedOwned[index]
		left := l.left[index]
		if left != nil {
			addGroup(&st, left)
		} else if g == nil && !ended {
			continue
		}
		for ; g != nil; g = g.next {
			st.Joined, st.Streams, st.Topics = g.joined, max(st.Streams, len(g.r.Streams())), max(st.Topics, len(g.topics))
			st.Windows += g.r.MemoryUsed()
			st.Publishers = append(st.Publishers, g.publishers()...)
			addGroup(&st, g)
		}
		all = append(all, st)
	}
	return all
}

// publishers returns the publishers that the group follows.
func (g *group) publishers() []stats.Publisher {
	now, all := g.l.now(), make([]stats.Publisher, 0, len(g.r.Streams()))
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			all = append(all, st.Stats(now))
		}
	}
	return all
}

// addGroup adds the counters of g to st.
func addGroup(st *stats.Group, g *group) {
	st.Address = g.address
	st.DroppedRuns += g.dropped.Load()
	st.UnwantedRuns += g.unwanted.runs
	st.UnwantedBytes += g.unwanted.bytes
	r, in, replies := g.r.Stats(), g.in.Stats(), g.replies.Stats()
	stats.Add(&st.ReceiverPackets, &r)
	stats.Add(&st.ReceiverMessages, &in)
	stats.Add(&st.ReceiverMessages, &replies)
}
