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
		run := make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen)
		if name, number, ok := strings.Cut(text, "="); ok {
			run = make([]byte, wire.RunHeaderLen+len(name))
			wire.PutTopicRun(run, wire.TopicID(name), name)
			wire.SetRunNumber(run, uint64(number[0]-'0'))
		} else {
			name, number, _ := strings.Cut(text, ":")
			wire.PutRunHeader(run, wire.RunMessages, wire.MessageHeaderLen, wire.TopicID(name), uint64(number[0]-'0'))
		}
		all = append(all, run...)
	}
	return Data(seq, all)
}

// Announce returns an announce of topics.
func Announce(asOf uint64, first, total uint32, names ...string) []byte {
	b := wire.AppendAnnounceHeader(nil, header, asOf, first, total)
	for _, n := range names {
		b = wire.AppendTopicState(b, wire.TopicID(n), 0, n)
	}
	wire.FinishAnnounce(b, len(names))
	return b
}

// Heartbeat returns a heartbeat of a publisher with a given epoch.
func Heartbeat(pub, epoch events.ID, flags wire.Flags, hb wire.Heartbeat) []byte {
	hb.PacketSize = 512
	return wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: pub, Epoch: epoch, Flags: flags}, &hb)
}
