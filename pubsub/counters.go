package pubsub

// ReceiverStats counts what a bus did as a subscriber of one group. Packets are
// datagrams of all publishers of the group.
type ReceiverStats struct {
	Packets        uint64 // data packets, first arrivals
	Bytes          uint64 // of Packets, on the wire
	Repaired       uint64 // of Packets: that had been missing and came as repairs
	Late           uint64 // of Packets: that had been missing and came late by themselves
	History        uint64 // of Packets: that were sent before this subscriber came, and fetched
	StateJoins     uint64 // streams that began with state (From)
	StateFailed    uint64 // streams that were to, and began without
	Duplicates     uint64 // data packets that were here already
	Overrun        uint64 // data packets beyond the receive window, dropped
	Unstarted      uint64 // repairs of streams not started, or from before their start
	Lost           uint64 // packets given up for good
	LostGone       uint64 // of Lost: the publisher has them no more
	LostDeadline   uint64 // of Lost: not repaired within the recovery deadline
	LostOverrun    uint64 // of Lost: this bus fell behind by more than its window
	LostReleased   uint64 // of Lost: the publisher did not wait for this bus any more
	LostUnreadable uint64 // of Lost: in packets that cannot be read here
	LostEnd        uint64 // of Lost: the publisher went away first
	Packed         uint64 // of Packets: that were compressed
	PackedBytes    uint64 // of them, on the wire
	UnpackedBytes  uint64 // and as they would have been without compression
	Unreadable     uint64 // packets that cannot be read here: see CauseUnreadable
	Missing        uint64 // packets that were found missing, whatever became of them
	NAKs           uint64 // NAK packets sent
	NAKPackets     uint64 // packets asked for in them
	NCFs           uint64 // NAK confirmations received
	Statuses       uint64 // status packets sent
	Heartbeats     uint64 // heartbeats received

	Streams        uint64 // streams started, one a publisher and start of it
	StreamsEnded   uint64 // streams that ended in order
	StreamsLost    uint64 // streams whose publisher fell silent
	StreamsRefused uint64 // packets of publishers beyond MaxPublishers, or without memory for a window
	Restarts       uint64 // that fell silent while another instance of their name was heard

	Own         uint64 // packets of this bus itself
	Namesakes   uint64 // of Streams: of other buses with the name of this one
	Stale       uint64 // packets of streams that have ended, and control packets of unknown ones
	Sealed      uint64 // sealed, and this bus has no keys
	Foreign     uint64 // packets that are not Fanfare's, another group's, or of no use to a subscriber
	Version     uint64 // packets of other versions of the protocol, or with unsupported features
	Malformed   uint64 // packets that do not parse
	Damaged     uint64 // packets whose checksum is missing or wrong
	Implausible uint64 // packets with sequences that cannot be, or that nothing else confirms yet
	Collisions  uint64 // topics that a publisher has by another name of the same id

	Replies         uint64 // replies to requests sent
	ReplyPackets    uint64 // packets of them, those that were sent again too
	RepliesRecalled uint64 // replies, or pieces of them, that a publisher asked for again
	RepliesUnknown  uint64 // that it asked for, and that were not made yet, or are forgotten
	RepliesDropped  uint64 // forgotten before their time, for lack of memory

	// ClocksApart counts deliveries whose time by clocks that were to agree (Config.Clock) was below zero,
	// or above an hour.
	ClocksApart uint64

	Unnamed      uint64 // topics of which messages were lost to patterns, since their name did not come
	NamesRefused uint64 // names that are no topic's, or not its own, or beyond what is kept
}

// SenderStats counts what a bus did as a publisher to one group. Receivers are buses
// that subscribe to something in the group. Like ReceiverStats it is one long list of
// figures, and has each field of the core's: publicStats converts it as it is.
type SenderStats struct {
	MessagesSent      uint64 // messages published
	PacketsSent       uint64 // data packets sent for the first time
	BytesSent         uint64 // of PacketsSent, on the wire
	RepairsSent       uint64 // packets sent as repairs
	HeartbeatsSent    uint64 // heartbeats sent
	AnnouncesSent     uint64 // announces of topics sent
	NCFSent           uint64 // NAK confirmations sent
	GoneSent          uint64 // answers that packets cannot be repaired any more
	StateRounds       uint64 // times that state was sent, for all who waited (Publisher.State)
	StateBytes        uint64 // of state, without headers
	ControlSent       uint64 // control packets, all in all
	ControlUnsent     uint64 // control packets that the transport did not take
	NAKs              uint64 // NAK packets received
	NAKPackets        uint64 // packets asked for in them
	NAKDuplicate      uint64 // of NAKPackets: asked for again within a round trip
	NAKGone           uint64 // of NAKPackets: not in the window any more
	NAKRefused        uint64 // of NAKPackets: beyond what receivers may draw that the publisher does not know
	NAKInvalid        uint64 // NAKs for packets that were never sent
	Statuses          uint64 // status packets received
	StatusesStale     uint64 // of Statuses: older than another of that receiver, or too old to count
	ReceiversJoined   uint64 // receivers that came
	ReceiversLeft     uint64 // receivers that took their leave
	ReceiversBehind   uint64 // of ReceiversLeft: that missed packets when they left, and may want a topic of the bus
	ReceiversSilent   uint64 // receivers given up because they said nothing
	ReceiversReleased uint64 // receivers not waited for any more because they held publishers up for too long
	ReceiversRefused  uint64 // statuses of receivers beyond the limit on them
	ReceiversLost     uint64 // packets that receivers which may want a topic of the bus say they have given up, all together
	Requests          uint64 // messages that were requests
	Replies           uint64 // whole replies to them
	ReplyPackets      uint64 // packets with replies
	RepliesDuplicate  uint64 // of ReplyPackets: what had come before
	RepliesLate       uint64 // of ReplyPackets: to requests that are not waited for
	RepliesRefused    uint64 // of ReplyPackets: beyond the bounds on receivers and memory, or that contradict others
	Recalled          uint64 // replies that were asked for again
	PacketsPacked     uint64 // of PacketsSent: that are compressed
	BytesUnpacked     uint64 // what BytesSent would be without compression; 0 where nothing is compressed
	FlowBlocked       uint64 // times that flow control stopped the publisher
	RateBlocked       uint64 // times that the rate limit stopped the publisher
	Malformed         uint64 // packets received that do not parse
	Foreign           uint64 // packets received of another stream, or of no use to a publisher
}
