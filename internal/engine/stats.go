package engine

import (
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// counters are what a bus counts beside what its transport, groups and publications do.
type counters struct {
	foreignReplies atomic.Uint64
	repliesFailed  atomic.Uint64
	slowLost       atomic.Uint64
	replaced       atomic.Uint64
	refused        atomic.Uint64 // messages, by trust
	losses         losses
	times          distributions
	way            wayLosses
	sampling       sampling
	events         [events.Kinds]atomic.Uint64 // by kind
}

// Stats is a snapshot of everything that is counted.
type Stats struct {
	Transport    transport.Stats
	Capabilities transport.Capabilities
	Groups       []GroupStats
	Publications []PublicationStats
	// ForeignReplies counts unicast packets that were for no stream of ours;
	// RepliesFailed NAKs and statuses that could not be sent.
	ForeignReplies uint64
	RepliesFailed  uint64
	// SlowConsumerPackets counts packets that subscriptions were overtaken by.
	SlowConsumerPackets uint64
	// ReplacedMessages counts messages that were replaced by newer ones of their keys.
	ReplacedMessages uint64
	Lost             []Losses // by cause, without CauseNone
	Distributions    Distributions
	Legs             []LegStats
	// LostOnWay counts packets that were missing and that this host did not drop.
	LostOnWay uint64
	// LostToQueue counts those for which there was most likely no receive posted, where the
	// adapter does not count them.
	LostToQueue uint64
	Events      []events.Count
	Seal        transport.SealStats // zero where the transport does not seal
	Sign        signed.Stats        // zero where all are trusted
	// RefusedMessages counts those of topics that their publishers may not publish, once for each
	// subscription that would have them.
	RefusedMessages uint64
}

// GroupStats is the receive side of one group.
type GroupStats struct {
	Address string
	Joined  bool
	Streams int
	Topics  int
	Windows int // bytes of all receive windows
	// DroppedRuns counts runs of messages, or rests of them, that were dropped because
	// they do not parse or their numbers came before: by each subscription that is
	// read, and once for all handlers.
	DroppedRuns uint64
	// UnwantedRuns counts runs of messages of topics that are not subscribed to, and
	// UnwantedBytes their bytes.
	UnwantedRuns, UnwantedBytes uint64
	Publishers                  []PublisherStats
	reliable.ReceiverStats
}

// PublisherStats is the stream of one publisher in one group.
type PublisherStats struct {
	ID    uint64
	Name  string
	Epoch uint64
	// As reliable.StreamCounts has them:
	Packets, Repaired, Lost uint64
	Missing                 int
	Address                 string // where it was heard from last; may be empty
	LostFor                 time.Duration
}

// PublicationStats is a publication.
type PublicationStats struct {
	Address   string
	Receivers int
	RTT       time.Duration
	Lead      uint64
	Blocked   events.Reason
	Stuck     time.Duration // the transport has taken nothing for so long; 0: it does
	SendCost  time.Duration // smoothed, of one send call
	// MemoryBytes is all packet memory: the repair window, and what publishers
	// write into.
	MemoryBytes int
	Subscribers []reliable.MemberState
	reliable.SenderStats
}

// Stats takes the snapshot. In a handler of another loop it is without Groups and Legs: that loop
// may wait for the handler.
func (l *Loop) Stats() (Stats, error) {
	st := l.sharedStats()
	if l.watchdog.within() { // in a handler, which runs on the loop
		st.Groups, st.Legs = l.groupStats(), l.legStats()
		return st, nil
	}
	err := l.do(func() { st.Groups, st.Legs = l.groupStats(), l.legStats() })
	return st, err
}

// sharedStats is what need not be asked of the loop.
func (l *Loop) sharedStats() Stats {
	st := Stats{
		Transport: l.t.Stats(), Capabilities: l.Capabilities(),
		ForeignReplies:      l.counters.foreignReplies.Load(),
		RepliesFailed:       l.counters.repliesFailed.Load(),
		SlowConsumerPackets: l.counters.slowLost.Load(),
		ReplacedMessages:    l.counters.replaced.Load(),
		Distributions:       l.counters.times.snapshot(),
		Lost:                l.counters.losses.snapshot(),
		LostOnWay:           l.counters.way.fabric.Load(),
		LostToQueue:         l.counters.way.queue.Load(),
		Seal:                l.sealStats(),
		Sign:                l.inbox.proofs.stats(),
		RefusedMessages:     l.counters.refused.Load(),
	}
	for kind := range events.Kinds {
		st.Events = append(st.Events, events.Count{Kind: kind, Count: l.counters.events[kind].Load()})
	}
	sendCost := l.batcher.measuredCost()
	for _, p := range l.publications() {
		p.mu.Lock()
		st.Publications = append(st.Publications, PublicationStats{
			Address: l.t.GroupAddress(p.group), Receivers: p.s.Receivers(0), RTT: p.s.RTT(), Lead: p.s.Lead(),
			Blocked: p.s.Blocked(), Stuck: p.out.stuck.lasts(p.s.Ran(l.now())), SendCost: sendCost, MemoryBytes: p.memory.bytes(), Subscribers: p.s.Members(l.now(), 0), SenderStats: p.s.Stats(),
		})
		p.mu.Unlock()
	}
	return st
}

func (l *Loop) groupStats() []GroupStats {
	var all []GroupStats
	for index, g := range l.groups {
		st, ended := l.former[index]
		left := l.left[index]
		if left != nil {
			st.count(left)
		} else if g == nil && !ended {
			continue
		}
		for ; g != nil; g = g.next {
			st.Joined, st.Streams, st.Topics = g.joined, max(st.Streams, len(g.r.Streams())), max(st.Topics, len(g.topics))
			st.Windows += g.r.MemoryUsed()
			st.Publishers = append(st.Publishers, g.publishers()...)
			st.count(g)
		}
		all = append(all, st)
	}
	return all
}

// publishers are those that the group follows.
func (g *group) publishers() []PublisherStats {
	now, all := g.l.now(), make([]PublisherStats, 0, len(g.r.Streams()))
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			c := st.Counts()
			from := st.Origin()
			all = append(all, PublisherStats{st.Publisher, from.Name, st.Epoch, c.Packets, c.Repaired, c.Lost, c.Missing, from.Address, st.LostFor(now)})
		}
	}
	return all
}

// count adds what a group has counted.
func (st *GroupStats) count(g *group) {
	st.Address = g.address
	st.DroppedRuns += g.dropped.Load()
	st.UnwantedRuns += g.unwanted.runs
	st.UnwantedBytes += g.unwanted.bytes
	r := g.r.Stats()
	sum, more := reflect.ValueOf(&st.ReceiverStats).Elem(), reflect.ValueOf(r)
	for i := range sum.NumField() {
		sum.Field(i).SetUint(sum.Field(i).Uint() + more.Field(i).Uint())
	}
}

func id(v uint64) string { return fmt.Sprintf("%016x", v) }

func yield() { runtime.Gosched() }
