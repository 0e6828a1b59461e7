package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// naming tracks whether receivers can know a topic's name. They learn it from a topic run, which precedes the topic's
// first message (docs/protocol §10.8).
//
// Writers fill their packets independently, and the order of their packets is known only when these get their
// sequences. So each Writer puts the name before its own first message of the topic, until a packet with the name has
// its sequence.
type naming struct{ by atomic.Pointer[Writer] }

// namedBefore marks a topic with a name in a packet with a sequence.
var namedBefore = new(Writer)

// missing reports whether w must put the name before its next message. If writers alternate it may say so again:
// receivers ignore repeated names.
func (n *naming) missing(w *Writer) bool {
	by := n.by.Load()
	return by != namedBefore && by != w
}

// name adds the name of t to the open packet, or to the next one. It reports false if there is no room.
func (w *Writer) name(t *Topic) bool {
	n := wire.RunHeaderLen + len(t.Name)
	if w.packet == nil || w.off+n > w.s.cfg.PacketSize {
		if !w.nextPacket() {
			return false
		}
	}
	w.endRun()
	wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
	w.runs = append(w.runs, runRef{topic: t, off: w.at(), name: true})
	w.off += n
	w.endTail()
	if by := t.naming.by.Load(); by != namedBefore {
		t.naming.by.CompareAndSwap(by, w)
	}
	return true
}

// nameAssigned records that a packet with the topic's name has its sequence.
func (t *Topic) nameAssigned() { t.naming.by.Store(namedBefore) }
