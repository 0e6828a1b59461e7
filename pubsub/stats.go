package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/driver"
	"github.com/fanfaremq/fanfare/transport"
)

// Stats is a snapshot of everything a bus counts. Counters begin at Open and never
// fall. Sizes are in bytes.
type Stats struct {
	// Time is when the snapshot was taken.
	Time time.Time
	// Transport counts what the fabric's transport did; Capabilities say what it can.
	Transport    transport.Stats
	Capabilities transport.Capabilities
	// Groups are the groups that are subscribed to, or were.
	Groups []GroupStats
	// Publications are the groups that are published to.
	Publications []PublicationStats
	// ForeignReplies counts unicast packets that were for no stream of this bus.
	ForeignReplies uint64
	// RepliesFailed counts NAKs and statuses that could not be sent.
	RepliesFailed uint64
	// SlowConsumerPackets counts packets that subscriptions were overtaken by because
	// they read too slowly.
	SlowConsumerPackets uint64
	// ReplacedMessages counts messages that were replaced by newer ones of their keys
	// before subscriptions with Conflate read them.
	ReplacedMessages uint64
	// Lost says what was lost for good: every GapError that a subscription delivered,
	// by cause, each cause once. Two subscriptions of a topic count their gaps both.
	Lost []LossStats
	// Repair is how long lost packets took to be repaired, from when they were found
	// missing.
	Repair Latency
}

// LossStats is what subscriptions lost for one cause.
type LossStats struct {
	Cause Cause
	// Gaps is how many GapErrors were delivered, to readers and handlers.
	Gaps uint64
	// Messages is how many messages were lost in them. A gap whose size cannot be known
	// adds nothing.
	Messages uint64
}

// GroupStats is what is counted of a group that is subscribed to.
type GroupStats struct {
	// Address is the group's on the fabric.
	Address string
	// Joined reports whether the fabric delivers the group's packets here.
	Joined bool
	// Streams is how many publishers are followed at present.
	Streams int
	// Topics is how many topics are subscribed to at present.
	Topics int
	// Windows is the memory of all receive windows, in bytes.
	Windows int
	// DroppedRuns counts runs of messages, or rests of them, that were dropped because
	// they do not parse or their numbers came before: by each subscription that is
	// read, and once for all handlers.
	DroppedRuns uint64
	// UnwantedRuns counts runs of messages of topics that are not subscribed to here: a
	// packet has one for each topic that it holds messages of. UnwantedBytes is their
	// size in Bytes. What is wanted by nobody costs a bus what comes in its groups: the
	// option map of the URL says which topics share one.
	UnwantedRuns, UnwantedBytes uint64
	ReceiverStats
}

// PublicationStats is what is counted of a group that is published to.
type PublicationStats struct {
	// Address is the group's on the fabric.
	Address string
	// Receivers is how many buses are known to receive the group.
	Receivers int
	// RTT is the smoothed round trip to them; zero before it was measured.
	RTT time.Duration
	// Lead is the sequence that the next packet will have.
	Lead uint64
	// Blocked is what holds publishers up just now.
	Blocked Reason
	// SendCost is the smoothed time that a call which sends a train takes.
	SendCost time.Duration
	// MemoryBytes is all packet memory: the repair window, and what publishers
	// write into.
	MemoryBytes int
	SenderStats
}

// Latency summarises a distribution of times.
type Latency struct {
	Count              int64         // times measured
	P50, P90, P99, Max time.Duration // percentiles since the start
}

// Stats takes a snapshot. On a closed bus it holds what is left.
func (b *Bus) Stats() Stats {
	st, _ := b.loop.Stats()
	return publicStats(time.Now(), &st)
}

// publicStats is where the driver's statistics become the user's. A
// counter that is new in reliable does not convert before it is documented here.
func publicStats(now time.Time, st *driver.Stats) Stats {
	s := Stats{
		Time: now, Transport: st.Transport, Capabilities: st.Capabilities,
		ForeignReplies: st.ForeignReplies, RepliesFailed: st.RepliesFailed, SlowConsumerPackets: st.SlowConsumerPackets, ReplacedMessages: st.ReplacedMessages,
		Lost: publicLosses(st.Lost), Repair: Latency(st.Repair),
	}
	for i := range st.Groups {
		g := &st.Groups[i]
		s.Groups = append(s.Groups, GroupStats{
			Address: g.Address, Joined: g.Joined, Streams: g.Streams, Topics: g.Topics, Windows: g.Windows,
			DroppedRuns: g.DroppedRuns, UnwantedRuns: g.UnwantedRuns, UnwantedBytes: g.UnwantedBytes, ReceiverStats: ReceiverStats(g.ReceiverStats),
		})
	}
	for i := range st.Publications {
		p := &st.Publications[i]
		s.Publications = append(s.Publications, PublicationStats{
			Address: p.Address, Receivers: p.Receivers, RTT: p.RTT, Lead: p.Lead, Blocked: Reason(p.Blocked),
			SendCost: p.SendCost, MemoryBytes: p.MemoryBytes, SenderStats: SenderStats(p.SenderStats),
		})
	}
	return s
}

func publicLosses(losses []driver.Losses) []LossStats {
	all := make([]LossStats, len(losses))
	for i, x := range losses {
		all[i] = LossStats{Cause: Cause(x.Cause), Gaps: x.Gaps, Messages: x.Messages}
	}
	return all
}
