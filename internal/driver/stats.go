package driver

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// counters are what a bus counts beside what its transport, groups and publications do.
type counters struct {
	foreignReplies atomic.Uint64
	repliesFailed  atomic.Uint64
	slowLost       atomic.Uint64
	replaced       atomic.Uint64
	losses         losses
	repair         latencies
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
	Repair           Latency  // from a gap becoming visible to its repair
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
	reliable.ReceiverStats
}

// PublicationStats is a publication.
type PublicationStats struct {
	Address   string
	Receivers int
	RTT       time.Duration
	Lead      uint64
	Blocked   reliable.Reason
	SendCost  time.Duration // smoothed, of one send call
	// MemoryBytes is all packet memory: the repair window, and what publishers
	// write into.
	MemoryBytes int
	reliable.SenderStats
}

// Latency summarises a distribution of times.
type Latency struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// Stats takes the snapshot.
func (l *Loop) Stats() (Stats, error) {
	st := Stats{
		Transport: l.t.Stats(), Capabilities: l.t.Capabilities(),
		ForeignReplies:      l.counters.foreignReplies.Load(),
		RepliesFailed:       l.counters.repliesFailed.Load(),
		SlowConsumerPackets: l.counters.slowLost.Load(),
		ReplacedMessages:    l.counters.replaced.Load(),
		Repair:              l.counters.repair.summary(),
		Lost:                l.counters.losses.snapshot(),
	}
	sendCost := l.batcher.measuredCost()
	for _, p := range l.publications() {
		p.mu.Lock()
		st.Publications = append(st.Publications, PublicationStats{
			Address: l.t.GroupAddress(p.group), Receivers: p.s.Receivers(0), RTT: p.s.RTT(), Lead: p.s.Lead(),
			Blocked: p.s.Blocked(), SendCost: sendCost, MemoryBytes: p.memory.bytes(), SenderStats: p.s.Stats(),
		})
		p.mu.Unlock()
	}
	if l.inHandler() { // which runs on the loop
		st.Groups = l.groupStats()
		return st, nil
	}
	err := l.do(func() { st.Groups = l.groupStats() })
	return st, err
}

func (l *Loop) groupStats() []GroupStats {
	var all []GroupStats
	for _, g := range l.groups {
		if g != nil {
			all = append(all, GroupStats{Address: g.address, Joined: g.joined, Streams: len(g.r.Streams()), Topics: len(g.topics), Windows: g.r.MemoryUsed(), DroppedRuns: g.dropped.Load(), UnwantedRuns: g.unwanted.runs, UnwantedBytes: g.unwanted.bytes, ReceiverStats: g.r.Stats()})
		}
	}
	return all
}

// latencies is a histogram that the loop writes and Stats reads.
type latencies struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // under mu
}

func (x *latencies) init() {
	x.h = hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 2)
}

func (x *latencies) record(ns int64) {
	x.mu.Lock()
	x.h.RecordValue(min(max(ns, int64(time.Microsecond)), int64(time.Minute)))
	x.mu.Unlock()
}

func (x *latencies) summary() Latency {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) time.Duration { return time.Duration(x.h.ValueAtQuantile(q)) }
	return Latency{Count: x.h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), Max: time.Duration(x.h.Max())}
}

func id(v uint64) string { return fmt.Sprintf("%016x", v) }

func yield() { runtime.Gosched() }
