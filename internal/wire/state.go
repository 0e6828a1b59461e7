package wire

import "encoding/binary"

// State run: a part of the state that a subscriber that joins late needs before the next messages of a topic. Its body:
//
//	+-------+-----------------------+-------------------------------+
//	| marks |           0           |             round             |   0
//	+-------+-----------------------+-------------------------------+
//	| bytes ...                                                     |   8
//
// A round is all state that the publisher sends at once, from StateBegins to StateEnds; these two runs have topic and
// number zero. The bytes of the first are the ids of the receivers that wait, 8 each; the second has none. Between them
// are the states of the topics, one after the other, each from StateFirst to StateLast. The run's number is the number
// of the topic's first message that is not in the state. The bytes of all its runs together are records, each with its
// length in 4 bytes before it. docs/protocol §25.
const (
	StateHeaderLen = 8
	RecordLen      = 4 // the length before each record
)

// StateMarks are bits of the first byte of a state run's body.
type StateMarks uint8

const (
	// StateBegins and StateEnds: the first and the last run of a round.
	StateBegins StateMarks = 1 << 0
	StateEnds   StateMarks = 1 << 1
	// StateFirst and StateLast: the first and the last run of a topic's state.
	StateFirst StateMarks = 1 << 2
	StateLast  StateMarks = 1 << 3
	// StateFailed, in the last run: the publisher could not create the state. The part that was sent is not valid.
	StateFailed StateMarks = 1 << 4
)

// State is the body of a state run.
type State struct {
	Marks StateMarks
	Round uint32 // counts the rounds of the stream
	Bytes []byte
}

// PutStateRun writes header and body of a state run into b, which has exactly its size.
func PutStateRun(b []byte, topic, number uint64, s *State) {
	PutRunHeader(b, RunState, StateHeaderLen+len(s.Bytes), topic, number)
	b = b[RunHeaderLen:]
	b[0], b[1], b[2], b[3] = byte(s.Marks), 0, 0, 0
	binary.LittleEndian.PutUint32(b[4:], s.Round)
	copy(b[StateHeaderLen:], s.Bytes)
}

// ParseState parses the body of a state run, which ParseData has checked.
func ParseState(body []byte) State {
	return State{Marks: StateMarks(body[0]), Round: binary.LittleEndian.Uint32(body[4:]), Bytes: body[StateHeaderLen:]}
}

// Names reports whether the first run of a round lists receiver.
func (s *State) Names(receiver uint64) bool {
	for b := s.Bytes; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) == receiver {
			return true
		}
	}
	return false
}

// AppendRecord appends a record of a topic's state to b.
func AppendRecord(b, record []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(record))), record...)
}

// NextRecord splits the first record off b. It reports false if b does not hold all of it; n is then the number of
// bytes that it needs, or 0 if that is not known yet.
func NextRecord(b []byte) (record, rest []byte, n int, ok bool) {
	if len(b) < RecordLen {
		return nil, b, 0, false
	}
	if n = RecordLen + int(binary.LittleEndian.Uint32(b)); n > len(b) {
		return nil, b, n, false
	}
	return b[RecordLen:n:n], b[n:], n, true
}
