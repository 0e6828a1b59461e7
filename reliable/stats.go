package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// SenderStats counts what a Sender did since it was made. It is one long list, and so is
// ReceiverStats: each field is a figure of its own, which metrics export under its name.
type SenderStats struct {
	MessagesSent      uint64
	PacketsSent       uint64 // new data
	BytesSent         uint64 // new data, on the wire
	RepairsSent       uint64 // packets
	HeartbeatsSent    uint64
	AnnouncesSent     uint64
	NCFSent           uint64
	GoneSent          uint64
	StateRounds       uint64 // of state, for those who join
	StateBytes        uint64 // of state, without headers
	ControlSent       uint64 // control packets, all in all
	ControlUnsent     uint64 // control packets the transport did not take
	NAKs              uint64 // NAK packets
	NAKPackets        uint64 // packets asked for
	NAKDuplicate      uint64 // of them, asked for again within a round trip
	NAKGone           uint64 // of them, not in the window any more
	NAKRefused        uint64 // of them, beyond what receivers may draw that are no members
	NAKInvalid        uint64 // NAKs for packets never sent
	Statuses          uint64
	StatusesStale     uint64 // of them, older than another of that subscriber, or too old to count
	ReceiversJoined   uint64
	ReceiversLeft     uint64
	ReceiversBehind   uint64 // of ReceiversLeft: that missed packets when they left, and may want a topic of the stream
	ReceiversSilent   uint64 // given up because they said nothing
	ReceiversReleased uint64 // not waited for any more because they held the publisher up for too long
	ReceiversRefused  uint64 // statuses beyond MaxReceivers
	ReceiversLost     uint64 // packets that receivers which may want a topic of the stream say they have given up, all together
	Requests          uint64 // messages that were requests
	Replies           uint64 // whole replies to them
	ReplyPackets      uint64 // packets with replies
	RepliesDuplicate  uint64 // of ReplyPackets: what had come before
	RepliesLate       uint64 // of ReplyPackets: to requests that are not open
	RepliesRefused    uint64 // of ReplyPackets: beyond the bounds on receivers and memory, or that contradict others
	Recalled          uint64 // replies that were asked for again
	PacketsPacked     uint64 // of PacketsSent: that are compressed
	BytesUnpacked     uint64 // new data, as it would have been on the wire without compression; 0 without
	FlowBlocked       uint64 // times that flow control stopped the publisher
	RateBlocked       uint64 // times that the rate limit did
	Malformed         uint64 // packets that do not parse
	Foreign           uint64 // packets of another stream, or of no use to a publisher
}

// Stats returns the counters.
func (s *Sender) Stats() SenderStats { return s.stats }

// ReceiverStats counts what a Receiver did since it was made.
type ReceiverStats struct {
	Packets        uint64 // data packets of our streams, first arrivals
	Bytes          uint64
	Repaired       uint64 // of Packets: that had been missing and came as repairs
	Late           uint64 // of Packets: that had been missing and came late by themselves
	History        uint64 // of Packets: that were sent before this receiver came, and fetched
	StateJoins     uint64 // streams that began with state
	StateFailed    uint64 // streams that were to, and began without
	Duplicates     uint64 // data packets already had
	Overrun        uint64 // data packets beyond the window, dropped
	Unstarted      uint64 // repairs of streams not started, or from before the start
	Lost           uint64 // packets given up for good
	LostGone       uint64 // of Lost: the publisher has them no more
	LostDeadline   uint64 // of Lost: not repaired within the deadline
	LostOverrun    uint64 // of Lost: this receiver fell behind by more than its window
	LostReleased   uint64 // of Lost: the publisher did not wait for this receiver any more
	LostUnreadable uint64 // of Lost: in packets that cannot be read here
	LostEnd        uint64 // of Lost: the publisher went away first
	Packed         uint64 // packets that were compressed and unpacked
	PackedBytes    uint64 // of them, as they came
	UnpackedBytes  uint64 // and unpacked
	Unreadable     uint64 // packets that cannot be read here: see CauseUnreadable
	Missing        uint64 // packets that were found missing, whatever became of them
	NAKs           uint64 // NAK packets sent
	NAKPackets     uint64 // packets asked for in them
	NCFs           uint64
	Statuses       uint64
	Heartbeats     uint64

	Streams        uint64 // streams started
	StreamsEnded   uint64 // that ended in order
	StreamsLost    uint64 // whose publisher fell silent
	StreamsRefused uint64 // packets of streams beyond MaxStreams or without memory
	Restarts       uint64 // whose publisher fell silent while another instance of its id was heard

	Own         uint64 // our own packets
	Namesakes   uint64 // of Streams: of other buses with our publisher id
	Stale       uint64 // packets of streams that have ended, and control packets of unknown ones
	Sealed      uint64 // sealed, and the transport has no keys
	Foreign     uint64 // not Fanfare's, another group's or of no use to a subscriber
	Version     uint64 // other versions or unsupported features
	Malformed   uint64 // packets that do not parse
	Damaged     uint64 // checksum missing or wrong
	Implausible uint64 // sequences that cannot be, or that nothing else bears out yet
	Collisions  uint64 // topics that a publisher has by another name of the same id

	Replies         uint64 // replies that were sent
	ReplyPackets    uint64 // packets of them, those that were sent again too
	RepliesRecalled uint64 // replies, or pieces of them, that a publisher asked for again
	RepliesUnknown  uint64 // that it asked for, and that are not there
	RepliesDropped  uint64 // forgotten before their time, for lack of memory

	// ClocksApart counts deliveries whose time by clocks that were to agree was below zero, or
	// above an hour.
	ClocksApart uint64

	Unnamed      uint64 // topics whose messages were let past because their name, which was asked for, did not come
	NamesRefused uint64 // names that are none, or not their topic's, or beyond what is kept
}

// StreamCounts is what became of one stream's packets.
type StreamCounts struct {
	Packets  uint64 // delivered or given up
	Repaired uint64 // that had been missing and came as repairs
	Lost     uint64 // given up for good
	Missing  int    // just now
}

// Counts are the stream's.
func (st *Stream) Counts() StreamCounts {
	c := st.win.counts
	c.Packets, c.Missing = st.next-st.start, st.win.missing
	return c
}

// Settled is how many packets that were missing were repaired, or given up for good. Those
// that were sent before the receiver came do not count.
func (r *Receiver) Settled() uint64 { return r.stats.Repaired + r.stats.Lost - r.historyLost }

// Dropped is how many packets that arrived were dropped, so that they have to come again.
func (r *Receiver) Dropped() uint64 {
	return r.stats.Overrun + r.stats.Malformed + r.stats.Damaged + r.stats.Implausible + r.stats.Unreadable
}

// AnyMissing reports whether packets are missing just now.
func (r *Receiver) AnyMissing() bool {
	for _, st := range r.list {
		if st.win.missing > 0 {
			return true
		}
	}
	return false
}

func (s *ReceiverStats) lose(n uint64, cause events.Cause) {
	s.Lost += n
	switch cause {
	case events.CauseGone:
		s.LostGone += n
	case events.CauseDeadline:
		s.LostDeadline += n
	case events.CauseOverrun:
		s.LostOverrun += n
	case events.CauseReleased:
		s.LostReleased += n
	case events.CauseUnreadable:
		s.LostUnreadable += n
	case events.CausePublisherLost, events.CauseRestart:
		s.LostEnd += n
	}
}
