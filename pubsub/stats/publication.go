package stats

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Publication is a group that is published to.
type Publication struct {
	Address     string        // on the fabric
	Receivers   int           // buses known to receive the group
	RTT         time.Duration // round trip to them, smoothed; 0: not measured yet
	Lead        uint64        // sequence of the next packet; no count
	Blocked     events.Reason // what blocks publishers now
	Stuck       time.Duration // for which the network has taken nothing (events.CannotSend); 0: it takes packets
	SendCost    time.Duration // of a call that sends a train, smoothed
	MemoryBytes int           // bytes of packet memory: the repair window, and what publishers write into
	Subscribers []Subscriber  // the buses known to receive the group, in no order
	Sender
}

// Subscriber is what a publisher knows of a bus that subscribes to its group, or to its topic.
type Subscriber struct {
	ID        events.ID     // random, the same as long as that bus lives; no count
	Name      string        // its Config.Name, or host and process
	Address   string        // source of its packets, as the fabric writes it; empty: not known
	Tag       string        // its Config.Tag; empty: it has none, or did not send it yet
	Behind    uint64        // packets that it misses or has not read, now
	Room      uint64        // packets that it has room for, now
	LastHeard time.Duration // since its latest status
	// Unanswered is for how long it has been asked for a sign of life and gave none; 0: it was not asked, or has
	// answered. After Config.Silence the publisher no longer waits for it.
	Unanswered time.Duration
	Holds      bool          // it blocks the publisher
	Released   bool          // it did for longer than Config.StallLimit, has not caught up, and is not waited for
	HeldFor    time.Duration // that it blocks the publisher, or did until it was released
	Unreached  bool          // it answers, and misses more packets than it has not read: they do not reach it
	Joining    bool          // it fetches what it begins with (From), and is not waited for before it has that
}

// Sender is what a bus sent to one group as a publisher, and what its receivers answered: the buses that subscribe
// to something in the group.
type Sender struct {
	SenderPackets
	SenderMessages
}

// SenderPackets are the counters of packets and receivers.
type SenderPackets struct {
	PacketsSent       uint64 // data packets sent for the first time
	BytesSent         uint64 // of PacketsSent, on the wire
	RepairsSent       uint64 // packets sent as repairs
	HeartbeatsSent    uint64 // heartbeats sent
	NCFSent           uint64 // NAK confirmations sent
	GoneSent          uint64 // answers that packets can no longer be repaired
	ControlSent       uint64 // control packets, all in all
	ControlUnsent     uint64 // control packets that the transport did not take
	NAKs              uint64 // NAK packets received
	NAKPackets        uint64 // packets asked for in them
	NAKDuplicate      uint64 // of NAKPackets: asked for again within a round trip
	NAKGone           uint64 // of NAKPackets: no longer in the window
	NAKRefused        uint64 // of NAKPackets: beyond the limit for receivers that the publisher does not know
	NAKInvalid        uint64 // NAKs for packets that were never sent
	Statuses          uint64 // status packets received
	StatusesStale     uint64 // of Statuses: older than another of that receiver, or too old to count
	ReceiversJoined   uint64 // receivers that joined
	ReceiversLeft     uint64 // receivers that announced that they leave
	ReceiversBehind   uint64 // of ReceiversLeft: that missed packets when they left, and may want a topic of the bus
	ReceiversSilent   uint64 // receivers given up because they sent nothing
	ReceiversReleased uint64 // receivers released because they blocked publishers for too long
	ReceiversRefused  uint64 // statuses of receivers beyond the limit on them
	ReceiversLost     uint64 // packets that receivers report as given up, where they may want a topic of the bus
	PacketsPacked     uint64 // of PacketsSent: that are compressed
	BytesUnpacked     uint64 // bytes that BytesSent would be without compression; 0 where nothing is compressed
	FlowBlocked       uint64 // times that flow control stopped the publisher
	RateBlocked       uint64 // times that the rate limit stopped the publisher
	Malformed         uint64 // packets received that do not parse
	Foreign           uint64 // packets received of another stream, or of no use to a publisher
}

// SenderMessages are the counters of messages: topics, state and requests.
type SenderMessages struct {
	MessagesSent     uint64 // messages published
	IndexRounds      uint64 // index rounds sent: answers to receivers that lost packets or joined late
	StateRounds      uint64 // times that state was sent, each for all that waited for it (Publisher.State)
	StateBytes       uint64 // bytes of state, without headers
	Requests         uint64 // messages that were requests
	Replies          uint64 // whole replies to them
	ReplyPackets     uint64 // packets with replies
	RepliesDuplicate uint64 // of ReplyPackets: with what had arrived before
	RepliesLate      uint64 // of ReplyPackets: to requests that are no longer open
	RepliesRefused   uint64 // of ReplyPackets: beyond the bounds on receivers and memory, or that contradict others
	Recalled         uint64 // replies that were asked for again
}
