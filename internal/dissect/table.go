// Package dissect writes packets as text and JSON: every field with its name in docs/protocol §2 and docs/vectors, in
// the order of the packet.
//
// The table of fields (table.go) is the single source of those names, of the order and of the meaning of each field.
// Read parses a packet with it, Text and JSON write the result. Package wire decides whether a packet is well-formed.
package dissect

import "github.com/fanfaremq/fanfare/internal/wire"

// Kind is the encoding of a field.
type Kind uint8

// Kinds of fields. All except Uint and Flag may be as long as the packet.
const (
	Uint   Kind = iota // little-endian, Size bytes
	Flag               // the bits Mask of a byte: true or false
	Text               // UTF-8; the field Count has its length in bytes
	Bytes              // Size bytes, or the rest
	Uints              // Count numbers of Size bytes
	Chunks             // each after its length in Size bytes, up to the end of the part
	Parts              // Part repeatedly: Count times, or up to the end; those with a Body also up to a zero byte
	One                // Part once
	Ranges             // Count pairs of varints: docs/protocol §2.15
)

// Behind is the offset of fields that follow the preceding field.
const Behind = -1

// Code names a value of a field, or a bit of it.
type Code struct {
	Value uint64
	Name  string
	In    wire.Type // the only type of packet with the bit; 0: the same in all types
}

// Field is one row of the table.
type Field struct {
	Name  string // as in docs/vectors
	Drawn string // as in the drawing of docs/protocol; empty if it is in another field's box
	Means string
	Kind  Kind
	At    int // offset in the part in bytes, or Behind
	Size  int // bytes
	Mask  uint64
	Hex   bool       // written in hexadecimal, because it identifies something
	Codes []Code     // of a Uint: the names of its values
	Bits  []Code     // of a Uint: the names of its bits
	Count string     // the field of the part with its length or count
	When  uint64     // the value of the part's first field with which it exists; 0: any
	With  wire.Flags // the flag of the header with which it exists; 0: always
	Part  *Part
	// Implied marks lengths, counts and constants: docs/vectors omits them, because they follow from other values.
	Implied bool
}

// Part is a run of fields: first Len bytes at fixed offsets, then those that follow each other.
type Part struct {
	Name   string
	Len    int
	Fields []Field
	Body   string // the field with the number of following bytes; empty: up to the end
}

// Header is the header of all packets. docs/protocol §2.6.
var Header = &Part{Name: "header", Len: wire.HeaderLen, Fields: []Field{
	{Name: "magic", Drawn: `magic "Ff"`, Means: `"Ff"`, At: 0, Size: 2, Hex: true, Implied: true},
	{Name: "version", Drawn: "version", Means: "version of the protocol", At: 2, Size: 1},
	{Name: "type", Drawn: "type", Means: "what the packet is for", At: 3, Size: 1, Codes: types()},
	{Name: "flags", Drawn: "flags", Means: "bits that may differ between transmissions", At: 4, Size: 1, Hex: true, Bits: []Code{
		{uint64(wire.FlagRepair), "repair", wire.TypeData}, {uint64(wire.FlagJoining), "joining", wire.TypeStatus}, {uint64(wire.FlagSigned), "signed", wire.TypeReply}, {uint64(wire.FlagEnd), "end", wire.TypeHeartbeat},
		{uint64(wire.FlagTagged), "tagged", wire.TypeStatus}, {uint64(wire.FlagSolicit), "solicit", wire.TypeHeartbeat}, {uint64(wire.FlagWantState), "want_state", wire.TypeStatus}, {Value: uint64(wire.FlagChecksum), Name: "checksum"},
		{uint64(wire.FlagLeaving), "leaving", wire.TypeStatus}, {uint64(wire.FlagState), "state", wire.TypeHeartbeat}, {Value: uint64(wire.FlagWantTopics), Name: "want_topics"}, {Value: uint64(wire.FlagMoreTopics), Name: "more_topics"},
		{Value: uint64(wire.FlagFree), Name: "free"},
	}},
	{Name: "codec", Drawn: "codec", Means: "how the runs of a data packet are compressed", At: 5, Size: 1, Codes: codecs(), Implied: true},
	{Name: "key_epoch", Drawn: "keyepch", Means: "reserved for authentication: 0", At: 6, Size: 1, Implied: true},
	{Name: "group_tag", Drawn: "group tag", Means: "hash of the group's address", At: 8, Size: 4, Hex: true},
	{Name: "checksum", Drawn: "checksum (CRC-32C)", Means: "CRC-32C of the packet, if the flag checksum is set", At: 12, Size: 4, Hex: true},
	{Name: "publisher", Drawn: "publisher id", Means: "id of the publisher of the stream; in a hello the id of its bus", At: 16, Size: 8, Hex: true},
	{Name: "epoch", Drawn: "epoch", Means: "instance of the publisher", At: 24, Size: 8, Hex: true},
}}

func codecs() (codes []Code) {
	for c := wire.CodecNone; c <= wire.LastCodec; c++ {
		codes = append(codes, Code{Value: uint64(c), Name: c.String()})
	}
	return codes
}

func types() (codes []Code) {
	for t := wire.TypeData; t <= wire.LastType; t++ {
		if t.Known() {
			codes = append(codes, Code{Value: uint64(t), Name: t.String()})
		}
	}
	return codes
}

// BodyOf returns the Body of packet b, which must have a header.
func BodyOf(b []byte) *Part {
	if t := wire.Type(b[3]); t != wire.TypeData || wire.CodecOf(b) == wire.CodecNone {
		return Body(t)
	}
	return Packed
}

// Body returns the part after the header in packets of a type, or nil if the type is unknown.
func Body(t wire.Type) *Part {
	switch t {
	case wire.TypeData:
		return data
	case wire.TypeHeartbeat:
		return heartbeat
	case wire.TypeNAK, wire.TypeNCF, wire.TypeGone:
		return ranges
	case wire.TypeStatus:
		return status
	case wire.TypeHello:
		return hello
	case wire.TypeReply:
		return reply
	case wire.TypeRecall:
		return recall
	}
	return nil
}

// Offsets of fields in the parts below are those of the drawings, from the beginning of the packet, and Len includes
// the header.

// docs/protocol §2.9
var data = &Part{Name: "data", Len: wire.DataHeaderLen, Fields: []Field{
	{Name: "sequence", Drawn: "sequence", Means: "number of the packet in its stream", At: 32, Size: 8},
	{Name: "packet_size", Drawn: "packet size", Means: "bytes of the stream's longest packets", At: 40, Size: 2},
	{Name: "runs", Drawn: "runs ...", Means: "messages of one topic each, a fragment, a topic's name, state, or the begin or end of an index round", Kind: Parts, At: Behind, Part: run},
	{Name: "padding", Means: "bytes after the runs", Kind: Bytes, At: Behind},
}}

// Packed follows the header of a data packet with compressed runs: its codec is not 0. docs/protocol §26.1.
var Packed = &Part{Name: "packed", Len: wire.DataHeaderLen, Fields: []Field{
	{Name: "sequence", Drawn: "sequence", Means: "number of the packet in its stream", At: 32, Size: 8},
	{Name: "packet_size", Drawn: "packet size", Means: "bytes of the stream's longest packets", At: 40, Size: 2},
	{Name: "runs_length", Drawn: "runs' length", Means: "bytes of the decompressed runs", At: 42, Size: 2},
	{Name: "dictionary", Drawn: "dictionary", Means: "hash of the dictionary for the runs, 0 for none", At: 44, Size: 4, Hex: true},
	{Name: "compressed", Drawn: "compressed runs ...", Means: "the runs, compressed", Kind: Bytes, At: Behind},
}}

// docs/protocol §2.10
var run = &Part{Name: "run", Len: wire.RunHeaderLen, Body: "length", Fields: []Field{
	{Name: "kind", Drawn: "kind", Means: "what the run contains", At: 0, Size: 1, Codes: []Code{
		{Value: uint64(wire.RunPadding), Name: "padding"}, {Value: uint64(wire.RunMessages), Name: "messages"}, {Value: uint64(wire.RunFragment), Name: "fragment"}, {Value: uint64(wire.RunTopic), Name: "topic"},
		{Value: uint64(wire.RunState), Name: "state"}, {Value: uint64(wire.RunIndex), Name: "index"},
	}},
	{Name: "run_flags", Drawn: "flags", Means: "properties of the messages", At: 1, Size: 1, Hex: true, Bits: []Code{{Value: uint64(wire.RunFlagRequest), Name: "request"}}},
	{Name: "length", Drawn: "length", Means: "bytes of the run's body", At: 2, Size: 2, Implied: true},
	{Name: "topic_id", Drawn: "topic id (low)", Means: "hash of the topic's name", At: 4, Size: 8, Hex: true},
	{Name: "number", Drawn: "number (low)", Means: "number of the first message here, in its topic and stream; of a round: its first sequence, or its topics", At: 12, Size: 8},
	{Name: "messages", Means: "the messages", Kind: Chunks, At: Behind, Size: wire.MessageHeaderLen, When: uint64(wire.RunMessages)},
	{Name: "fragment", Means: "part of a message", Kind: One, At: Behind, When: uint64(wire.RunFragment), Part: fragment},
	{Name: "name", Means: "name of the topic", Kind: Text, At: Behind, When: uint64(wire.RunTopic)},
	{Name: "state", Means: "part of the state of the topic, for late joiners", Kind: One, At: Behind, When: uint64(wire.RunState), Part: state},
	{Name: "index", Means: "the begin or end of an index round", Kind: One, At: Behind, When: uint64(wire.RunIndex), Part: index},
}}

// docs/protocol §2.12
var fragment = &Part{Name: "fragment", Len: wire.FragmentHeaderLen, Fields: []Field{
	{Name: "total", Means: "bytes of the whole message", At: 0, Size: 4},
	{Name: "offset", Means: "offset of the fragment in the message", At: 4, Size: 4},
	{Name: "bytes", Means: "the fragment", Kind: Bytes, At: Behind},
}}

// docs/protocol §2.23
var state = &Part{Name: "state", Len: wire.StateHeaderLen, Fields: []Field{
	{Name: "marks", Drawn: "marks", Means: "position of the run in its round", At: 0, Size: 1, Hex: true, Bits: []Code{
		{Value: uint64(wire.StateBegins), Name: "begins"}, {Value: uint64(wire.StateEnds), Name: "ends"}, {Value: uint64(wire.StateFirst), Name: "first"},
		{Value: uint64(wire.StateLast), Name: "last"}, {Value: uint64(wire.StateFailed), Name: "failed"},
	}},
	{Name: "round", Drawn: "round", Means: "number of the round", At: 4, Size: 4},
	{Name: "bytes", Drawn: "bytes ...", Means: "of the state's records, or the ids of waiting receivers", Kind: Bytes, At: Behind},
}}

// docs/protocol §2.14
var index = &Part{Name: "index", Len: wire.IndexHeaderLen, Fields: []Field{
	{Name: "marks", Drawn: "marks", Means: "position of the run in its round, and whether the round has all topics", At: 0, Size: 1, Hex: true, Bits: []Code{
		{Value: uint64(wire.IndexBegins), Name: "begins"}, {Value: uint64(wire.IndexEnds), Name: "ends"}, {Value: uint64(wire.IndexAll), Name: "all"},
	}},
	{Name: "answers", Means: "the answered questions", Kind: Parts, At: Behind, Part: answer},
}}

var answer = &Part{Name: "answer", Len: wire.IndexEntryLen, Fields: []Field{
	{Name: "receiver_id", Drawn: "receiver id", Means: "the receiver that asked", At: 0, Size: 8, Hex: true},
	{Name: "question", Drawn: "question", Means: "number of its question", At: 8, Size: 4},
}}

var (
	mappings  = []Code{{Value: uint64(wire.MappingHash), Name: "hash"}, {Value: uint64(wire.MappingPrefix), Name: "prefix"}, {Value: uint64(wire.MappingTable), Name: "table"}}
	checksums = []Code{{Value: uint64(wire.ChecksumNone), Name: "none"}, {Value: uint64(wire.ChecksumCRC32C), Name: "CRC-32C"}}
)

// docs/protocol §2.13
var heartbeat = &Part{Name: "heartbeat", Len: wire.HeartbeatLen, Fields: []Field{
	{Name: "lead", Drawn: "lead", Means: "sequence of the next new packet", At: 32, Size: 8},
	{Name: "trail", Drawn: "trail", Means: "oldest sequence that can be sent again", At: 40, Size: 8},
	{Name: "sent_at", Drawn: "sent at", Means: "the publisher's clock in nanoseconds", At: 48, Size: 8},
	{Name: "backoff_window_ns", Drawn: "back-off window, ns", Means: "time over which receivers spread their NAKs", At: 56, Size: 4},
	{Name: "receivers", Drawn: "receivers", Means: "members that the publisher has", At: 60, Size: 4},
	{Name: "status_interval_us", Drawn: "status interval, us", Means: "interval of statuses", At: 64, Size: 4},
	{Name: "heartbeat_interval_us", Drawn: "heartbeat interval, us", Means: "longest time to the next heartbeat", At: 68, Size: 4},
	{Name: "packet_size", Drawn: "packet size", Means: "bytes of the stream's longest packets", At: 72, Size: 2},
	{Name: "asked_count", Drawn: "asked", Means: "1 if a topic is asked for", At: 74, Size: 1, Implied: true},
	{Name: "round_trip_ns", Drawn: "round trip, ns", Means: "smoothed, as the publisher measured it", At: 76, Size: 4},
	{Name: "groups", Drawn: "groups", Means: "groups of the publisher's bus", At: 80, Size: 4},
	{Name: "mapping", Drawn: "mapping", Means: "how topics map to groups", At: 84, Size: 1, Codes: mappings},
	{Name: "map_parameter", Drawn: "map parameter", Means: "parameter of the mapping", At: 86, Size: 2},
	{Name: "checksum_kind", Drawn: "checks.", Means: "checksum of the stream's packets", At: 85, Size: 1, Codes: checksums},
	{Name: "holder", Drawn: "holder", Means: "receiver that blocks the publisher, or was released", At: 88, Size: 8, Hex: true},
	{Name: "held_ms", Drawn: "held, ms", Means: "time for which it has blocked the publisher", At: 96, Size: 4},
	{Name: "released", Drawn: "hold", Means: "the holder was released", Kind: Flag, At: 100, Size: 1, Mask: 1},
	{Name: "name_length", Drawn: "nameln", Means: "bytes of the name", At: 101, Size: 1, Implied: true},
	{Name: "legs", Drawn: "legs", Means: "number of leg tags", At: 102, Size: 1, Implied: true},
	{Name: "timing_count", Drawn: "timings", Means: "1 if there is a timing", At: 103, Size: 1, Implied: true},
	{Name: "name", Drawn: "the publisher's name", Means: "the publisher's name", Kind: Text, At: Behind, Count: "name_length"},
	{Name: "leg_tags", Drawn: "leg tags, 4 bytes each ...", Means: "the group's tags on each leg of the publisher's bus, if it has several", Kind: Uints, At: Behind, Size: 4, Hex: true, Count: "legs"},
	{Name: "asked_topics", Drawn: "topic asked for", Means: "topic that receivers list first if they subscribe to it", Kind: Uints, At: Behind, Size: 8, Hex: true, Count: "asked_count"},
	{Name: "timings", Drawn: "timing, 32 bytes (§2.24)", Means: "when a packet was sent", Kind: Parts, At: Behind, Count: "timing_count", Part: timing},
}}

// docs/protocol §2.24
var timing = &Part{Name: "timing", Len: wire.TimingLen, Fields: []Field{
	{Name: "clock", Drawn: "clock", Means: "id of the clock; clocks with equal ids agree", At: 0, Size: 8, Hex: true},
	{Name: "timed_packet", Drawn: "timed packet", Means: "sequence of the packet", At: 8, Size: 8},
	{Name: "timed_at_ns", Drawn: "when it was sent", Means: "when it was first sent, in nanoseconds since 1970; 0: no packet was timed yet", At: 16, Size: 8},
	{Name: "next", Drawn: "next", Means: "sequence of the next packet to be timed", At: 24, Size: 8},
}}

// docs/protocol §2.15
var ranges = &Part{Name: "ranges", Len: wire.RangesHeaderLen, Fields: []Field{
	{Name: "receiver_id", Drawn: "receiver id (NAK), zero (NCF and Gone)", Means: "the requesting receiver; 0 in NCF and gone", At: 32, Size: 8, Hex: true},
	{Name: "base", Drawn: "base", Means: "sequence to which the first range is relative", At: 40, Size: 8},
	{Name: "ranges", Drawn: "ranges", Means: "number of ranges", At: 48, Size: 2, Implied: true},
	{Name: "reason", Drawn: "reason", Means: "why it was sent", At: 50, Size: 1, Codes: []Code{
		{Value: uint64(wire.ReasonNone), Name: "none"}, {Value: uint64(wire.ReasonQueued), Name: "queued"}, {Value: uint64(wire.ReasonOverwritten), Name: "overwritten"},
	}},
	{Name: "wait_us", Drawn: "wait, us", Means: "time to wait before asking again", At: 52, Size: 4},
	{Name: "first_and_count", Drawn: "ranges ...", Means: "first sequence and number of sequences of each range", Kind: Ranges, At: Behind, Count: "ranges"},
}}

// docs/protocol §2.16
var status = &Part{Name: "status", Len: wire.StatusHeaderLen, Fields: []Field{
	{Name: "receiver_id", Drawn: "receiver id", Means: "the sending receiver", At: 32, Size: 8, Hex: true},
	{Name: "next", Drawn: "next", Means: "lowest sequence that is neither received nor given up", At: 40, Size: 8},
	{Name: "limit", Drawn: "limit", Means: "first sequence for which the receiver has no room", At: 48, Size: 8},
	{Name: "echo", Drawn: "echo", Means: "sent_at of the newest heartbeat", At: 56, Size: 8},
	{Name: "echo_delay_ns", Drawn: "echo delay, ns", Means: "time since that heartbeat arrived", At: 64, Size: 4},
	{Name: "topics", Drawn: "topics", Means: "number of topic ids", At: 68, Size: 2, Implied: true},
	{Name: "name_length", Drawn: "name length", Means: "bytes of the name", At: 70, Size: 2, Implied: true},
	{Name: "lost", Drawn: "lost", Means: "packets permanently lost, modulo 2^32", At: 72, Size: 4},
	{Name: "unread", Drawn: "unread", Means: "packets waiting to be read", At: 76, Size: 4},
	{Name: "since", Drawn: "since", Means: "with want_topics: first sequence that the receiver lacks", At: 80, Size: 8},
	{Name: "question", Drawn: "question", Means: "with want_topics: number of the question", At: 88, Size: 4},
	{Name: "topic_ids", Drawn: "topic ids, 8 bytes each ...", Means: "topics to which the receiver subscribes", Kind: Uints, At: Behind, Size: 8, Hex: true, Count: "topics"},
	{Name: "name", Drawn: "name, UTF-8 ...", Means: "the receiver's name", Kind: Text, At: Behind, Count: "name_length"},
	{Name: "tag_length", Means: "bytes of the tag", At: Behind, Size: 1, Implied: true, With: wire.FlagTagged},
	{Name: "tag", Means: "the receiver's tag", Kind: Text, At: Behind, Count: "tag_length", With: wire.FlagTagged},
}}

// docs/protocol §2.17
var hello = &Part{Name: "hello", Len: wire.HelloLen, Fields: []Field{
	{Name: "groups", Drawn: "groups", Means: "groups of the bus", At: 32, Size: 4},
	{Name: "mapping", Drawn: "mapping", Means: "how topics map to groups", At: 36, Size: 1, Codes: mappings},
	{Name: "map_parameter", Drawn: "map parameter", Means: "parameter of the mapping", At: 46, Size: 2},
	{Name: "checksum_kind", Drawn: "checks.", Means: "checksum of the bus's packets", At: 37, Size: 1, Codes: checksums},
	{Name: "packet_size", Drawn: "packet size", Means: "bytes of the longest packets of the bus's streams", At: 38, Size: 2},
	{Name: "topics", Drawn: "topics", Means: "topics that the bus publishes; in an answer, subscribes to", At: 40, Size: 4},
	{Name: "answer", Drawn: "bits", Means: "the packet answers a hello", Kind: Flag, At: 44, Size: 1, Mask: 1},
	{Name: "waits", Means: "the bus waits for subscribers", Kind: Flag, At: 44, Size: 1, Mask: 2},
	{Name: "name_length", Drawn: "namelen", Means: "bytes of the name", At: 45, Size: 1, Implied: true},
	{Name: "name", Drawn: "name, filled up with zeros ...", Means: "the bus's name", Kind: Text, At: 48, Size: wire.MaxName, Count: "name_length"},
	{Name: "topic_filter", Drawn: "topic filter ...", Means: "Bloom filter of those topics", Kind: Bytes, At: 112, Size: 64},
}}

// docs/protocol §2.21
var reply = &Part{Name: "reply", Len: wire.ReplyHeaderLen, Body: "length", Fields: []Field{
	{Name: "receiver_id", Drawn: "receiver id", Means: "the replying receiver", At: 32, Size: 8, Hex: true},
	{Name: "topic_id", Drawn: "topic id", Means: "hash of the topic of the request", At: 40, Size: 8, Hex: true},
	{Name: "number", Drawn: "number", Means: "number of the request, in its topic and stream", At: 48, Size: 8},
	{Name: "total", Drawn: "total", Means: "bytes of the whole reply", At: 56, Size: 4},
	{Name: "offset", Drawn: "offset", Means: "offset of the bytes in the reply", At: 60, Size: 4},
	{Name: "length", Drawn: "length", Means: "bytes of the reply in this packet", At: 64, Size: 2, Implied: true},
	{Name: "bytes", Drawn: "bytes ...", Means: "the reply, or a part of it", Kind: Bytes, At: Behind},
}}

// docs/protocol §2.22
var recall = &Part{Name: "recall", Len: wire.RecallHeaderLen, Fields: []Field{
	{Name: "count", Drawn: "count", Means: "requested replies", At: 32, Size: 2, Implied: true},
	{Name: "replies", Drawn: "replies ...", Means: "the replies", Kind: Parts, At: Behind, Count: "count", Part: recalled},
}}

var recalled = &Part{Name: "recalled", Len: wire.RecallEntryLen, Fields: []Field{
	{Name: "receiver_id", Drawn: "receiver id", Means: "the replying receiver", At: 0, Size: 8, Hex: true},
	{Name: "topic_id", Drawn: "topic id", Means: "hash of the topic of the request", At: 8, Size: 8, Hex: true},
	{Name: "number", Drawn: "number", Means: "number of the request, in its topic and stream", At: 16, Size: 8},
	{Name: "offset", Drawn: "offset", Means: "bytes of the reply already received", At: 24, Size: 4},
}}
