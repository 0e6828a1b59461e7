package stats

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Group is a group that is subscribed to, or was.
type Group struct {
	Address string // on the fabric
	Joined  bool   // the fabric delivers the group's packets here
	Streams int    // publishers that are followed now
	Topics  int    // topics and patterns that are subscribed to now
	Windows int    // bytes of all receive windows
	// DroppedRuns counts runs of messages, or rests of them, that were dropped because they do not parse or their
	// numbers came before: by each subscription that is read, and once for all handlers.
	DroppedRuns uint64
	// UnwantedRuns counts runs of messages of topics that are not subscribed to here: a packet has one run for
	// each of its topics. UnwantedBytes is their size in Bytes. Such messages cost the bus what all packets of its
	// groups cost: the option map of the URL says which topics share a group.
	UnwantedRuns  uint64
	UnwantedBytes uint64
	Publishers    []Publisher // that are followed
	Receiver
}

// Publisher is one publisher in one group that is subscribed to.
type Publisher struct {
	ID       events.ID
	Name     string        // its Config.Name; empty: it has none
	Epoch    events.ID     // of this instance; no count
	Packets  uint64        // delivered to subscriptions, or given up
	Repaired uint64        // packets that had been missing and arrived as repairs
	Lost     uint64        // packets given up permanently
	Missing  int           // packets that are missing now
	Address  string        // source of its latest packet, as the fabric writes it; may be empty
	LostFor  time.Duration // since events.PublisherLost, in case it is only cut off; 0: it is received
}

// Receiver is what a bus received from all publishers of one group, and sent to them as a subscriber.
type Receiver struct {
	ReceiverPackets
	ReceiverMessages
}

// ReceiverPackets are the counters of packets and streams. Packets are datagrams.
type ReceiverPackets struct {
	Packets        uint64 // data packets, first arrivals
	Bytes          uint64 // of Packets, on the wire
	Repaired       uint64 // of Packets: that had been missing and arrived as repairs
	Late           uint64 // of Packets: that had been missing and arrived late by themselves
	History        uint64 // of Packets: that were sent before this subscriber came, and fetched
	Duplicates     uint64 // data packets that had arrived before
	Overrun        uint64 // data packets dropped, because the receive window had no room for them
	Unstarted      uint64 // repairs, in packets, of streams not started, or from before their start
	Lost           uint64 // packets given up permanently
	LostGone       uint64 // of Lost: the publisher no longer has them
	LostDeadline   uint64 // of Lost: not repaired within the recovery deadline
	LostOverrun    uint64 // of Lost: this bus fell behind by more than its window
	LostReleased   uint64 // of Lost: the publisher no longer waited for this bus
	LostUnreadable uint64 // of Lost: in packets that cannot be read here
	LostEnd        uint64 // of Lost: the publisher went away first
	Packed         uint64 // of Packets: that were compressed
	PackedBytes    uint64 // of Packed, on the wire
	UnpackedBytes  uint64 // of Packed, as they would have been without compression
	Unreadable     uint64 // packets that cannot be read here: see events.CauseUnreadable
	Missing        uint64 // packets that were found missing, whether they arrived later or not
	NAKs           uint64 // NAK packets sent
	NAKPackets     uint64 // packets asked for in them
	NCFs           uint64 // NAK confirmations received
	Statuses       uint64 // status packets sent
	Heartbeats     uint64 // heartbeats received

	Streams        uint64 // streams started, one for each publisher and each start of it
	StreamsEnded   uint64 // streams that ended in order
	StreamsLost    uint64 // streams lost because their publisher fell silent
	StreamsRefused uint64 // packets of publishers beyond MaxPublishers, or without memory for a window
	Restarts       uint64 // streams of publishers that fell silent while another instance of their name was received

	Own         uint64 // packets of this bus itself
	Namesakes   uint64 // of Streams: of other buses with the name of this one
	Stale       uint64 // packets of streams that have ended, and control packets of unknown ones
	Sealed      uint64 // packets that are sealed, where this bus has no keys
	Foreign     uint64 // packets that are not Fanfare's, another group's, or of no use to a subscriber
	Version     uint64 // packets of other versions of the protocol, or with unsupported features
	Malformed   uint64 // packets that do not parse
	Damaged     uint64 // packets with a wrong checksum, or without one
	Implausible uint64 // packets with sequences that cannot be, or that no other packet confirms yet
	FarAhead    uint64 // of Implausible: the first heartbeat that names a sequence far ahead, as one after an outage does

	// ClocksApart counts deliveries in a time below zero, or above an hour, by clocks that should agree (Config.Clock).
	ClocksApart uint64
}

// ReceiverMessages are the counters of topics, state and replies.
type ReceiverMessages struct {
	StateJoins      uint64 // streams that began with state (From)
	StateFailed     uint64 // streams that were to begin with state, and began without
	Collisions      uint64 // topics that a publisher has by another name of the same id
	Replies         uint64 // replies to requests sent
	ReplyPackets    uint64 // packets of them, repeated ones included
	RepliesRecalled uint64 // replies, or pieces of them, that a publisher asked for again
	RepliesUnknown  uint64 // replies that a publisher asked for and that were not made yet, or are forgotten
	RepliesDropped  uint64 // replies forgotten before their time, for lack of memory
	NamesRefused    uint64 // names that are no topic's, or not its own, or beyond what is kept
}
