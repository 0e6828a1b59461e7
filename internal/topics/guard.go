package topics

import "github.com/fanfaremq/fanfare/internal/wire"

// numberGuard checks numbers beyond the next one of their topic. A damaged, replayed or forged packet must not make a
// reader report more lost messages than were sent, or drop true ones as repeated. docs/protocol §13, §19.
//
//	┌──────┐   a packet has an implausible number       ┌──────────┐
//	│ sure │ ─────────────────────────────────────────► │ suspects │ ──┐ another one that
//	│      │ ◄───────────────────────────────────────── │          │ ◄─┘ does not follow it
//	└──────┘   a later packet has one that follows it   └──────────┘
type numberGuard struct {
	topic, number uint64
	packet        uint64 // number of the reader's packet that had it; 0: sure
}

// maxMessages is the largest number of messages in a packet: empty ones, in the largest packet.
const maxMessages = (wire.MaxPacket - wire.DataHeaderLen - wire.RunHeaderLen) / wire.MessageHeaderLen

// plausibleHole reports whether the missing messages of a topic fit in the lost packets and one more
// (docs/protocol §10.7).
func plausibleHole(messages, packets uint64) bool { return (messages-1)/maxMessages <= packets }

// confirmed reports whether an implausible number follows that of an earlier packet. Then the publisher does use such
// numbers.
func (g *numberGuard) confirmed(topic, number, packet uint64) bool {
	follows := g.packet != 0 && g.topic == topic && packet > g.packet &&
		number > g.number && plausibleHole(number-g.number, packet-g.packet-1)
	if follows {
		*g = numberGuard{}
	} else if packet != g.packet {
		*g = numberGuard{topic, number, packet}
	}
	return follows
}
