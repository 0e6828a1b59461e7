package wire

import "encoding/binary"

// Index run: the begin or the end of an index round, in which a publisher puts topic runs into its stream. Its topic id
// is zero, and its body:
//
//	+-------+-----------------------+
//	| marks |           0           |   0
//	+-------+-----------------------+-------------------------------+
//	|                          receiver id                          |   4
//	+-------------------------------+-------------------------------+
//	|            question           |  12
//	+-------------------------------+
//
// with a receiver id and a question for each answered receiver. The number of the first run is the sequence from which
// on the round covers losses (Status.Since), that of the last one the number of the publisher's topics. If topics were
// forgotten, the last run has one entry: in place of the receiver id one beyond the last sequence with a message of
// them, and question 0. docs/protocol §2.14, §9.6.
const (
	IndexHeaderLen = 4
	IndexEntryLen  = 12
)

// IndexMarks are bits of the first byte of an index run's body.
type IndexMarks uint8

const (
	// IndexBegins and IndexEnds: the first and the last run of a round.
	IndexBegins IndexMarks = 1 << 0
	IndexEnds   IndexMarks = 1 << 1
	// IndexAll, in the first run: the round has the topics that any receiver may want, not only the answered ones.
	IndexAll IndexMarks = 1 << 2
)

// Index is the body of an index run.
type Index struct {
	Marks   IndexMarks
	answers []byte
}

// PutIndexRun writes header and body of an index run into b, which has its size with all answers: see AppendAnswer.
func PutIndexRun(b []byte, marks IndexMarks, number uint64, answers []byte) {
	PutRunHeader(b, RunIndex, IndexHeaderLen+len(answers), 0, number)
	b = b[RunHeaderLen:]
	b[0], b[1], b[2], b[3] = byte(marks), 0, 0, 0
	copy(b[IndexHeaderLen:], answers)
}

// AppendAnswer appends a receiver and its question, which a round answers, to b.
func AppendAnswer(b []byte, receiver uint64, question uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, receiver), question)
}

// ParseIndex parses the body of an index run, which ParseData has checked.
func ParseIndex(body []byte) Index {
	return Index{IndexMarks(body[0]), body[IndexHeaderLen:]}
}

// Forgotten returns one beyond the last sequence with a message of a forgotten topic, in the last run of a round; 0:
// there is none.
func (x Index) Forgotten() uint64 {
	if x.Marks&IndexEnds == 0 || len(x.answers) < IndexEntryLen {
		return 0
	}
	return binary.LittleEndian.Uint64(x.answers)
}

// Closes reports whether the run begins the round that ends a stream, which has all topics and answers no question.
func (x Index) Closes(since uint64) bool {
	return x.Marks == IndexBegins|IndexAll && since == 0 && len(x.answers) == 0
}

// Answers reports whether the round answers a receiver's question.
func (x Index) Answers(receiver uint64, question uint32) bool {
	for b := x.answers; len(b) >= IndexEntryLen; b = b[IndexEntryLen:] {
		if binary.LittleEndian.Uint64(b) == receiver && binary.LittleEndian.Uint32(b[8:]) == question {
			return true
		}
	}
	return false
}
