package wire

import "encoding/binary"

// Data packet, after the common header:
//
//	+---------------------------------------------------------------+
//	|                           sequence                            |  32
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|  packet size  |       0       |               0               |  40
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| runs ...                                                      |  48
//
// Packet size is the stream's fixed datagram size in bytes, from which a subscriber derives the size of its slots. A
// run holds consecutive messages of one topic, one fragment of a message, the name of a topic, a part of its state, or
// the begin or end of an index round:
//
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| kind  | flags |    length     |         topic id (low)        |   0
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|         topic id (high)       |       number (low)            |   8
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|         number (high)         | body: length bytes            |  16
//
// Number counts the messages of the topic in this stream from 0; it is the number of the run's first message. The body
// of a message run has, for each message, its length in 2 bytes and then the message. The body of a fragment run has
// the message's total length (4 bytes), the fragment's offset (4 bytes) and its bytes; the fragments of one message are
// consecutive packets of the stream, with nothing else in them. The body of a topic run is the topic's name; its number
// is the number of the topic's next message. State runs: state.go; index runs: index.go. A zero kind ends the packet:
// the rest is padding. Flags describe the run's messages.
const (
	DataHeaderLen     = 48
	RunHeaderLen      = 20
	MessageHeaderLen  = 2
	FragmentHeaderLen = 8
	// MaxTopicName is the longest topic name, in bytes.
	MaxTopicName = 255
)

// RunKind is the kind of a run's content.
type RunKind uint8

const (
	RunPadding  RunKind = 0
	RunMessages RunKind = 1
	RunFragment RunKind = 2
	RunTopic    RunKind = 3
	RunState    RunKind = 4
	RunIndex    RunKind = 5
)

// A topic that its publisher has forgotten, and that returns, begins with a number that is a multiple of Returning. The
// numbers between its messages before and those after were not used. docs/protocol §10.9.
const Returning = 1 << 40

// Returns reports whether a topic with messages of both numbers was forgotten between them.
func Returns(a, b uint64) bool { return a/Returning != b/Returning }

// TopicRuns bounds the topics that a receiver remembers: it forgets a topic after so many topic runs of others in the
// stream. Publishers repeat a topic's run, or forget the topic, after seven eighths of them. docs/protocol §10.8.
const TopicRuns = 1 << 17

// RunFlags describe the messages of a run, or the message of a fragment.
type RunFlags uint8

// RunFlagRequest: each message is a request, to which receivers may reply.
const RunFlagRequest RunFlags = 1 << 0

// MaxInPacket returns the size of the longest message that fits one packet of packetSize bytes.
func MaxInPacket(packetSize int) int {
	return packetSize - DataHeaderLen - RunHeaderLen - MessageHeaderLen
}

// MaxFragment returns the size of the longest fragment that fits one packet of packetSize bytes.
func MaxFragment(packetSize int) int {
	return packetSize - DataHeaderLen - RunHeaderLen - FragmentHeaderLen
}

// PutDataHeader writes the common header and the data header into b. The sequence is zero until SetSeq.
func PutDataHeader(b []byte, h Header, packetSize int) {
	_ = b[DataHeaderLen-1]
	h.Type = TypeData
	h.Put(b)
	binary.LittleEndian.PutUint64(b[32:], 0)
	binary.LittleEndian.PutUint16(b[40:], uint16(packetSize))
	binary.LittleEndian.PutUint16(b[42:], 0)
	binary.LittleEndian.PutUint32(b[44:], 0)
}

// Begins reports whether b, which has HeaderLen bytes or more, begins with head. It compares words, which is faster
// than a call of bytes.Equal.
func Begins(b []byte, head *[HeaderLen]byte) bool {
	const w = HeaderLen / 4
	_ = b[HeaderLen-1]
	return binary.LittleEndian.Uint64(b) == binary.LittleEndian.Uint64(head[:]) &&
		binary.LittleEndian.Uint64(b[w:]) == binary.LittleEndian.Uint64(head[w:]) &&
		binary.LittleEndian.Uint64(b[2*w:]) == binary.LittleEndian.Uint64(head[2*w:]) &&
		binary.LittleEndian.Uint64(b[3*w:]) == binary.LittleEndian.Uint64(head[3*w:])
}

// SetSeq writes the sequence of the data packet b.
func SetSeq(b []byte, seq uint64) { binary.LittleEndian.PutUint64(b[32:], seq) }

// PutRunHeader writes a run header into b. length is the length of the body.
func PutRunHeader(b []byte, kind RunKind, length int, topic, number uint64) {
	_ = b[RunHeaderLen-1]
	b[0], b[1] = byte(kind), 0
	binary.LittleEndian.PutUint16(b[2:], uint16(length))
	binary.LittleEndian.PutUint64(b[4:], topic)
	binary.LittleEndian.PutUint64(b[12:], number)
}

// PutRun writes a run of one message into b, which has exactly its size. Its number is zero until SetRunNumber.
func PutRun(b []byte, topic uint64, msg []byte) {
	_ = b[RunHeaderLen+MessageHeaderLen-1]
	binary.LittleEndian.PutUint32(b, uint32(RunMessages)|uint32(MessageHeaderLen+len(msg))<<16)
	binary.LittleEndian.PutUint64(b[4:], topic)
	binary.LittleEndian.PutUint64(b[12:], 0)
	binary.LittleEndian.PutUint16(b[RunHeaderLen:], uint16(len(msg)))
	copy(b[RunHeaderLen+MessageHeaderLen:], msg)
}

// PutTopicRun writes a run with the name of a topic into b, which has exactly its size. Its number is zero until
// SetRunNumber.
func PutTopicRun(b []byte, topic uint64, name string) {
	PutRunHeader(b, RunTopic, len(name), topic, 0)
	copy(b[RunHeaderLen:], name)
}

// SetRunFlags sets the flags of the run with its header at b.
func SetRunFlags(b []byte, f RunFlags) { b[1] = byte(f) }

// SetRunLength writes the body length of the run with its header at b.
func SetRunLength(b []byte, length int) { binary.LittleEndian.PutUint16(b[2:], uint16(length)) }

// SetRunNumber writes the first message number of the run with its header at b.
func SetRunNumber(b []byte, number uint64) { binary.LittleEndian.PutUint64(b[12:], number) }

// RunNumber returns the first message number of the run with its header at b.
func RunNumber(b []byte) uint64 { return binary.LittleEndian.Uint64(b[12:]) }

// PutFragmentHeader writes the fragment header into b.
func PutFragmentHeader(b []byte, total, offset int) {
	binary.LittleEndian.PutUint32(b[0:], uint32(total))
	binary.LittleEndian.PutUint32(b[4:], uint32(offset))
}

// Data is a parsed data packet.
type Data struct {
	Seq        uint64
	PacketSize int // bytes
	Runs       []byte
	Topics     bool  // there are topic or index runs in Runs
	Step       int   // Step of its only run; 0 if it is not known, or there are several runs
	Codec      Codec // with which the runs are compressed; if not CodecNone, Runs is nil: see Unpack
}

// DataSeq returns the sequence of the data packet b, which has DataHeaderLen bytes or more and may be unchecked.
func DataSeq(b []byte) uint64 { return binary.LittleEndian.Uint64(b[32:]) }

// ParseData parses the data packet b after ParseHeader. It checks all of it, to the last message, so that nothing is
// delivered of a packet that is malformed somewhere; of compressed runs it checks only the length. docs/protocol §13.3,
// §26.3. With ErrUnsupported, for an unknown codec or kind of run, the rest of the packet is well-formed, and Seq and
// PacketSize are set. docs/protocol §13.6.
func ParseData(b []byte) (d Data, err error) {
	if err = d.Parse(b); err != nil && err != ErrUnsupported {
		return Data{}, err
	}
	return d, err
}

// Parse is ParseData into d, without a copy. After an error d is undefined, except for Seq and PacketSize with
// ErrUnsupported.
func (d *Data) Parse(b []byte) error {
	if len(b) < DataHeaderLen {
		return ErrShort
	}
	seq, size := binary.LittleEndian.Uint64(b[32:]), int(binary.LittleEndian.Uint16(b[40:]))
	if seq >= MaxSeq || size < MinPacket || size < len(b) || size > MaxPacket {
		return ErrMalformed
	}
	d.Seq, d.PacketSize, d.Topics, d.Step = seq, size, false, 0
	if d.Codec = CodecOf(b); d.Codec != CodecNone {
		d.Runs = nil
		_, err := ParsePacked(b)
		if err == nil && d.Codec > LastCodec {
			err = ErrUnsupported
		}
		return err
	}
	d.Runs = b[DataHeaderLen:]
	var err error
	d.Topics, d.Step, err = checkRuns(d.Runs)
	return err
}

// checkRuns reports whether there are topic or index runs in b, returns Data.Step, and checks all runs. ErrUnsupported:
// they are well-formed, but some have an unknown kind.
func checkRuns(b []byte) (topics bool, step int, err error) {
	for runs := 0; len(b) > 0 && RunKind(b[0]) != RunPadding; runs++ {
		if len(b) < RunHeaderLen {
			return false, 0, ErrMalformed
		}
		n := RunHeaderLen + int(binary.LittleEndian.Uint16(b[2:]))
		if n > len(b) || binary.LittleEndian.Uint64(b[12:]) >= MaxSeq {
			return false, 0, ErrMalformed
		}
		ok := true
		step = 0
		switch RunKind(b[0]) {
		case RunMessages:
			step, ok = checkMessages(b[RunHeaderLen:n])
			if runs > 0 {
				step = 0
			}
		case RunFragment:
			_, bad := ParseFragment(b[RunHeaderLen:n])
			ok = bad == nil
		case RunTopic:
			ok = n > RunHeaderLen && n <= RunHeaderLen+MaxTopicName
			topics = true
		case RunIndex:
			ok = n >= RunHeaderLen+IndexHeaderLen && (n-RunHeaderLen-IndexHeaderLen)%IndexEntryLen == 0
			topics = true
		case RunState:
			ok = n >= RunHeaderLen+StateHeaderLen
		default:
			err = ErrUnsupported
		}
		if !ok {
			return false, 0, ErrMalformed
		}
		b = b[n:]
	}
	return topics, step, err
}

// checkMessages reports whether body consists of whole messages, and returns its Step.
func checkMessages(body []byte) (step int, ok bool) {
	step = Step(body)
	return step, step > 0 || walkMessages(body)
}

// Step returns the distance in bytes from one message of a message run's body to the next, if all have the same length,
// as in most runs: then each is found without reading its length, and body holds nothing else. Otherwise it returns 0.
func Step(body []byte) int {
	if len(body) < MessageHeaderLen {
		return 0
	}
	first := binary.LittleEndian.Uint16(body)
	step := MessageHeaderLen + int(first)
	at := step
	for ; at < len(body)-1; at += step {
		if binary.LittleEndian.Uint16(body[at:]) != first {
			return 0
		}
	}
	if at != len(body) {
		return 0
	}
	return step
}

// walkMessages reports whether body consists of whole messages of any lengths.
func walkMessages(body []byte) bool {
	for len(body) >= MessageHeaderLen {
		n := MessageHeaderLen + int(binary.LittleEndian.Uint16(body))
		if n > len(body) {
			return false
		}
		body = body[n:]
	}
	return len(body) == 0
}

// Run is one run of a data packet.
type Run struct {
	Kind   RunKind
	Flags  RunFlags
	Topic  uint64
	Number uint64 // of the first message
	Body   []byte
}

// Continues reports whether the run continues a message that began in an earlier packet.
func (r *Run) Continues() bool {
	if r.Kind != RunFragment {
		return false
	}
	f, err := ParseFragment(r.Body)
	return err == nil && f.Offset > 0
}

// Messages returns the number of messages that end in the run.
func (r *Run) Messages() (n uint64) {
	if r.Kind == RunFragment {
		f, err := ParseFragment(r.Body)
		if err == nil && f.Offset+len(f.Bytes) == f.Total {
			return 1
		}
		return 0
	}
	for body := r.Body; len(body) > 0; n++ {
		_, rest, ok := NextMessage(body)
		if !ok {
			break
		}
		body = rest
	}
	return n
}

// NextRun splits the first run off runs, which ParseData has checked. It reports false at the end of the packet.
func NextRun(runs []byte) (r Run, rest []byte, ok bool) {
	if len(runs) < RunHeaderLen || RunKind(runs[0]) == RunPadding {
		return Run{}, nil, false
	}
	n := RunHeaderLen + int(binary.LittleEndian.Uint16(runs[2:]))
	if n > len(runs) {
		return Run{}, nil, false
	}
	return Run{
		Kind:   RunKind(runs[0]),
		Flags:  RunFlags(runs[1]),
		Topic:  binary.LittleEndian.Uint64(runs[4:]),
		Number: binary.LittleEndian.Uint64(runs[12:]),
		Body:   runs[RunHeaderLen:n:n],
	}, runs[n:], true
}

// PeekMessages reads the first run of runs, which ParseData has checked. If it holds messages, without any flag, it
// returns topic, first number and the run's size with its header. It is a faster NextRun for callers that need nothing
// else.
func PeekMessages(runs []byte) (topic, number uint64, size int, ok bool) {
	if len(runs) < RunHeaderLen || binary.LittleEndian.Uint16(runs) != uint16(RunMessages) {
		return 0, 0, 0, false
	}
	size = RunHeaderLen + int(binary.LittleEndian.Uint16(runs[2:]))
	return binary.LittleEndian.Uint64(runs[4:]), binary.LittleEndian.Uint64(runs[12:]), size, size <= len(runs)
}

// PeekMessage is PeekMessages for a run that holds one message, which it returns.
func PeekMessage(runs []byte) (topic, number uint64, msg []byte, ok bool) {
	const head = RunHeaderLen + MessageHeaderLen
	if len(runs) < head || binary.LittleEndian.Uint16(runs) != uint16(RunMessages) {
		return 0, 0, nil, false
	}
	end := head + int(binary.LittleEndian.Uint16(runs[RunHeaderLen:]))
	if RunHeaderLen+int(binary.LittleEndian.Uint16(runs[2:])) != end || end > len(runs) {
		return 0, 0, nil, false
	}
	return binary.LittleEndian.Uint64(runs[4:]), binary.LittleEndian.Uint64(runs[12:]), runs[head:end:end], true
}

// NextMessage splits the first message off the body of a message run. It reports false at the end of the run, and if
// the run is malformed, which ParseData excludes: then rest is not empty.
func NextMessage(body []byte) (msg, rest []byte, ok bool) {
	if len(body) < MessageHeaderLen {
		return nil, body, false
	}
	n := MessageHeaderLen + int(binary.LittleEndian.Uint16(body))
	if n > len(body) {
		return nil, body, false
	}
	return body[MessageHeaderLen:n:n], body[n:], true
}

// Fragment is the body of a fragment run.
type Fragment struct {
	Total  int // bytes of the whole message
	Offset int // bytes
	Bytes  []byte
}

// ParseFragment parses the body of a fragment run.
func ParseFragment(body []byte) (Fragment, error) {
	if len(body) < FragmentHeaderLen {
		return Fragment{}, ErrShort
	}
	total, offset := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:])
	f := Fragment{Total: int(total), Offset: int(offset), Bytes: body[FragmentHeaderLen:]}
	if len(f.Bytes) == 0 || uint64(offset)+uint64(len(f.Bytes)) > uint64(total) || total > MaxMessage {
		return Fragment{}, ErrMalformed
	}
	return f, nil
}

// MaxMessage is the longest message, in bytes.
const MaxMessage = 16 << 20
