package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// naming is the state of a topic's name in a stream: receivers learn it from a topic run, which comes before the
// topic's first message (docs/protocol §10.8).
//
// Writers fill their packets apart from each other, and which packet gets the lower sequence is known only then. So
// each of them puts the name before its own first message, until one that holds it has its sequence.
type naming struct{ by atomic.Pointer[Writer] }

// namedBefore says of a topic that a packet with its name has a sequence.
var namedBefore = new(Writer)

// missing reports whether w has to put the name in front of its next message. It may say so
// once more where writers take turns: receivers know a name that comes again.
func (n *naming) missing(w *Writer) bool {
	by := n.by.Load()
	return by != namedBefore && by != w
}

// name adds the name of t to the open packet, or to the next one. It reports false when there is no room.
func (w *Writer) name(t *Topic) bool {
	n := wire.RunHeaderLen + len(t.Name)
	if w.packet == nil || w.off+n > w.s.cfg.PacketSize {
		if !w.further() {
			return false
		}
	}
	w.endRun()
	wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
	w.runs = append(w.runs, runRef{topic: t, off: w.at(), name: true})
	w.off += n
	w.seal()
	if by := t.naming.by.Load(); by != namedBefore {
		t.naming.by.CompareAndSwap(by, w)
	}
	return true
}

// nameAssigned notes that a packet with the topic's name has its sequence.
func (t *Topic) nameAssigned() { t.naming.by.Store(namedBefore) }
