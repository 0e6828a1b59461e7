package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
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
	// missing: Distributions.Repair in short.
	Repair Latency
	// Delivery is how long deliveries took, from publishers whose clock is this bus's:
	// Distributions.Delivery in short.
	Delivery Latency
	// Distributions are how long the stages of losses, statuses and deliveries took, and how large
	// batches were.
	Distributions Distributions
	// LostOnWay counts packets of publishers that are followed which were lost on their
	// way: found missing, repaired or given up later, and not dropped by this host. Where
	// the kernel merges packets into trains, a loss on the way at the time of an overflow
	// may count as that.
	LostOnWay uint64
	// LostToQueue counts those for which most likely no receive was posted, where the RDMA
	// adapter does not count them: they were missing after the receive queue was used up.
	LostToQueue uint64
	// Events says how often each kind of event happened, each once, also where no
	// Config.OnEvent is told.
	Events []events.Count
	// Seal counts packets that were refused because they do not open; zero where groups are
	// open (Config.Keys).
	Seal SealStats
	// Sign counts packets of publishers that were refused because they do not prove who sent
	// them; zero where all are heard (Config.Trust).
	Sign SignStats
	// RefusedMessages counts messages on topics for which their publishers are not trusted, once for
	// each subscription that wants them.
	RefusedMessages uint64
	// Legs are the legs of a bus that was opened by several URLs, in their order.
	Legs []LegStats
}

// LegStats is what is counted of one leg of a bus. Packets here are data packets sent
// for the first time, of all publishers that are heard.
type LegStats struct {
	// URL is what the leg was opened by, without a password.
	URL string
	// Up reports whether the fabric has all its groups joined, and takes what is sent.
	Up bool
	// Silent is how many streams, each one publisher in one group, are not heard by it
	// at present, while another leg brings them.
	Silent int
	// Falls counts how often a stream fell silent on it while another leg brought it.
	Falls uint64
	// Packets is how many it brought, and Copies how many of them another leg had brought
	// before.
	Packets, Copies uint64
	// Lost is how many it did not bring though it brought newer ones, and Filled how many of
	// them another leg brought. The others were repaired, or are lost for good.
	Lost, Filled uint64
	// Late is how many it brought after newer ones, and Duplicates how many it brought
	// once more.
	Late, Duplicates uint64
	// Repairs is how many packets it brought that were sent again.
	Repairs uint64
	// Skew is how far it is behind the leg that is first, smoothed; zero where it is first.
	Skew time.Duration
	// Unsent is how many packets went out on other legs while this one took none.
	Unsent uint64
	// Transport counts what the leg's own transport did.
	Transport transport.Stats
}

// LossStats is what subscriptions lost for one cause.
type LossStats struct {
	Cause events.Cause
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
	// Publishers are those that are followed.
	Publishers []PublisherStats
	ReceiverStats
}

// PublisherStats is what is counted of one publisher in one group that is subscribed to.
type PublisherStats struct {
	ID       PublisherID
	Name     string // its Config.Name; empty if it has none
	Epoch    uint64
	Packets  uint64 // delivered to subscriptions, or given up
	Repaired uint64 // packets that had been missing and came as repairs
	Lost     uint64 // packets given up for good
	Missing  int    // packets that are missing just now
	Address  string // where it was heard from last, as the fabric writes it; may be empty
	// LostFor is for how long it has been given up as lost (events.PublisherLost), in case it was only
	// cut off; 0: it is heard.
	LostFor time.Duration
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
	Blocked events.Reason
	// Stuck is for how long the network, or what is below, has taken nothing of what is to be sent;
	// zero: it does. See events.CannotSend.
	Stuck time.Duration
	// SendCost is the smoothed time that a call which sends a train takes.
	SendCost time.Duration
	// MemoryBytes is all packet memory: the repair window, and what publishers
	// write into.
	MemoryBytes int
	// Subscribers are the buses known to receive the group, in no order.
	Subscribers []Receiver
	SenderStats
}

// Stats takes a snapshot. On a closed bus it holds what is left.
func (b *Bus) Stats() Stats {
	st, _ := b.loop.Stats()
	return publicStats(time.Now(), &st)
}

// publicStats is where the engine's statistics become the user's. A
// counter that is new in reliable does not convert before it is documented here.
func publicStats(now time.Time, st *engine.Stats) Stats {
	s := Stats{
		Time: now, Transport: st.Transport, Capabilities: st.Capabilities,
		ForeignReplies: st.ForeignReplies, RepliesFailed: st.RepliesFailed, SlowConsumerPackets: st.SlowConsumerPackets, ReplacedMessages: st.ReplacedMessages,
		Lost: publicLosses(st.Lost), Distributions: publicDistributions(&st.Distributions),
		LostOnWay: st.LostOnWay, LostToQueue: st.LostToQueue,
	}
	s.Repair, s.Delivery = s.Distributions.Repair.latency(), s.Distributions.Delivery.latency()
	s.Seal, s.Sign, s.RefusedMessages, s.Events = st.Seal, st.Sign, st.RefusedMessages, st.Events
	for i := range st.Legs {
		x := &st.Legs[i]
		s.Legs = append(s.Legs, LegStats{
			URL: x.Name, Up: x.Up, Unsent: x.Unsent, Transport: x.Stats, Silent: x.Silent, Falls: x.Falls, Packets: x.Packets, Copies: x.Copies,
			Lost: x.Lost, Filled: x.Filled, Late: x.Late, Duplicates: x.Duplicates, Repairs: x.Repairs, Skew: x.Skew,
		})
	}
	for i := range st.Groups {
		g := &st.Groups[i]
		var publishers []PublisherStats
		for _, p := range g.Publishers {
			publishers = append(publishers, PublisherStats{PublisherID(p.ID), p.Name, p.Epoch, p.Packets, p.Repaired, p.Lost, p.Missing, p.Address, p.LostFor})
		}
		s.Groups = append(s.Groups, GroupStats{
			Address: g.Address, Joined: g.Joined, Streams: g.Streams, Topics: g.Topics, Windows: g.Windows,
			DroppedRuns: g.DroppedRuns, UnwantedRuns: g.UnwantedRuns, UnwantedBytes: g.UnwantedBytes,
			Publishers: publishers, ReceiverStats: ReceiverStats(g.ReceiverStats),
		})
	}
	for i := range st.Publications {
		p := &st.Publications[i]
		var subscribers []Receiver
		for _, m := range p.Subscribers {
			subscribers = append(subscribers, Receiver(m))
		}
		s.Publications = append(s.Publications, PublicationStats{
			Address: p.Address, Receivers: p.Receivers, RTT: p.RTT, Lead: p.Lead, Blocked: p.Blocked, Stuck: p.Stuck,
			SendCost: p.SendCost, MemoryBytes: p.MemoryBytes, Subscribers: subscribers, SenderStats: SenderStats(p.SenderStats),
		})
	}
	return s
}

func publicLosses(losses []engine.Losses) []LossStats {
	all := make([]LossStats, len(losses))
	for i, x := range losses {
		all[i] = LossStats{Cause: x.Cause, Gaps: x.Gaps, Messages: x.Messages}
	}
	return all
}
