package topics

import "github.com/fanfaremq/fanfare/internal/wire"

// numberGuard judges numbers of messages beyond the next one of their topic: a packet that is damaged, replayed or
// forged shall not make a reader report more messages lost than were ever sent, or drop the true ones as known.
// docs/protocol §13, §19.
//
//	┌──────┐   a packet has one that is implausible     ┌──────────┐
//	│ sure │ ─────────────────────────────────────────► │ suspects │ ──┐ another one that
//	│      │ ◄───────────────────────────────────────── │          │ ◄─┘ does not follow it
//	└──────┘   a later packet has one that follows it   └──────────┘
type numberGuard struct {
	topic, number uint64
	packet        uint64 // of the reader, that had it; 0: it is sure
}

// mostMessages is how many messages a packet holds at most: empty ones, in the largest.
const mostMessages = (wire.MaxPacket - wire.DataHeaderLen - wire.RunHeaderLen) / wire.MessageHeaderLen

// plausibleHole reports whether a publisher may have left out so many messages of a topic, where so many packets are
// lost: they, and one more, can have held them (docs/protocol §10.7).
func plausibleHole(messages, packets uint64) bool { return (messages-1)/mostMessages <= packets }

// confirmed reports whether an implausible number follows one that an earlier packet had:
// then the publisher numbers so.
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
