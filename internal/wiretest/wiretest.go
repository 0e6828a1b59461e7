// Package wiretest makes packets for tests of the layers that read them: with group tag 9, and publisher 7 with epoch 3
// by default.
package wiretest

import (
	"strings"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

var header = wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}

// Data returns a data packet with sequence seq that holds runs.
func Data(seq uint64, runs []byte) []byte {
	b := make([]byte, wire.DataHeaderLen, wire.DataHeaderLen+len(runs))
	wire.PutDataHeader(b, header, 512)
	wire.SetSeq(b, seq)
	return append(b, runs...)
}

// Run returns a run with that body.
func Run(kind wire.RunKind, topic string, number uint64, body string) []byte {
	b := make([]byte, wire.RunHeaderLen, wire.RunHeaderLen+len(body))
	wire.PutRunHeader(b, kind, len(body), wire.TopicID(topic), number)
	return append(b, body...)
}

// Named returns a data packet; runs are "name=3" for a topic run with that number, "topic:3" for an empty message.
func Named(seq uint64, runs ...string) []byte {
	var all []byte
	for _, text := range runs {
		all = append(all, run(text)...)
	}
	return Data(seq, all)
}

func run(text string) []byte {
	if name, number, ok := strings.Cut(text, "="); ok {
		run := make([]byte, wire.RunHeaderLen+len(name))
		wire.PutTopicRun(run, wire.TopicID(name), name)
		wire.SetRunNumber(run, uint64(number[0]-'0'))
		return run
	}
	run := make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen)
	name, number, _ := strings.Cut(text, ":")
	wire.PutRunHeader(run, wire.RunMessages, wire.MessageHeaderLen, wire.TopicID(name), uint64(number[0]-'0'))
	return run
}

// Round returns a data packet with an index round of all topics that have messages from sequence since on. runs are as
// in Named.
func Round(seq, since uint64, runs ...string) []byte {
	all := Index(wire.IndexBegins|wire.IndexAll, since)
	for _, text := range runs {
		all = append(all, run(text)...)
	}
	return Data(seq, append(all, Index(wire.IndexEnds, uint64(len(runs)))...))
}

// Index returns an index run. answers are pairs of a receiver id and a question.
func Index(marks wire.IndexMarks, number uint64, answers ...uint64) []byte {
	var b []byte
	for i := 0; i < len(answers); i += 2 {
		b = wire.AppendAnswer(b, answers[i], uint32(answers[i+1]))
	}
	run := make([]byte, wire.RunHeaderLen+wire.IndexHeaderLen+len(b))
	wire.PutIndexRun(run, marks, number, b)
	return run
}

// Heartbeat returns a heartbeat of a publisher with a given epoch.
func Heartbeat(pub, epoch events.ID, flags wire.Flags, hb wire.Heartbeat) []byte {
	hb.PacketSize = 512
	return wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: pub, Epoch: epoch, Flags: flags}, &hb)
}
