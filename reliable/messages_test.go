package reliable

import (
	"encoding/binary"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A simple message layer: messages of one packet, of topics that are named before their first message.

// Topic is a topic of a Writer.
type Topic struct {
	ID    uint64
	Name  string
	next  uint64 // number of the next message
	named bool
}

func newTopic(name string) *Topic { return &Topic{ID: wire.TopicID(name), Name: name} }

// Writer writes messages into Packets.
type Writer struct {
	*Packets
	packet []byte // the open packet; nil: none
	off    int    // bytes in it
	topic  *Topic // of the run at its end; nil: no message may continue it
	run    int    // where this run begins
	runs   []writerRun
}

// writerRun is a run without a number.
type writerRun struct {
	topic    *Topic
	off      uint32 // in the block
	messages uint64
}

func (s *Sender) NewWriter() *Writer { return &Writer{Packets: s.NewPackets()} }

func (w *Writer) Pending() bool { return w.open > w.assigned || w.packet != nil }

// Append adds msg to topic t. It returns false if the block has no room.
func (w *Writer) Append(t *Topic, msg []byte) bool {
	if n := wire.RunHeaderLen + len(t.Name); !t.named {
		if !w.room(n) {
			return false
		}
		wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
		w.began(t, n, 0)
		w.topic, t.named = nil, true
	}
	if n := wire.MessageHeaderLen + len(msg); w.topic == t && w.off+n <= len(w.packet) {
		binary.LittleEndian.PutUint16(w.packet[w.off:], uint16(len(msg)))
		copy(w.packet[w.off+wire.MessageHeaderLen:], msg)
		w.off += n
		w.runs[len(w.runs)-1].messages++
		wire.SetRunLength(w.packet[w.run:], w.off-w.run-wire.RunHeaderLen)
		return true
	}
	n := wire.RunHeaderLen + wire.MessageHeaderLen + len(msg)
	if !w.room(n) {
		return false
	}
	wire.PutRun(w.packet[w.off:w.off+n], t.ID, msg)
	w.began(t, n, 1)
	return true
}

// room makes room for a run of n bytes.
func (w *Writer) room(n int) bool {
	if w.packet != nil && w.off+n > len(w.packet) {
		w.Close(w.off)
		w.packet, w.topic = nil, nil
	}
	if w.packet == nil {
		if w.Full() {
			return false
		}
		w.packet, w.off = w.Begin(false), wire.DataHeaderLen
	}
	return true
}

func (w *Writer) began(t *Topic, n int, messages uint64) {
	w.runs = append(w.runs, writerRun{t, uint32(w.next + w.off), messages})
	w.topic, w.run = t, w.off
	w.off += n
}

// Assign gives the closed packets of w, and with all the open one, their sequences, and messages their numbers.
func (s *Sender) Assign(now Instant, w *Writer, all bool) events.Reason {
	if !w.Pending() {
		w.retire(s)
		return events.ReasonNone
	}
	for w.open > w.assigned || all && w.packet != nil {
		n, why := s.Admit(now, w.Packets, w.off)
		if n == 0 {
			return why
		}
		if w.open == w.assigned {
			w.CloseShort(w.off)
			w.packet, w.topic = nil, nil
		}
		_, offs, lens := w.Waiting()
		numbered, end := 0, offs[n-1]+uint32(lens[n-1])
		for ; numbered < len(w.runs) && w.runs[numbered].off < end; numbered++ {
			r := &w.runs[numbered]
			wire.SetRunNumber(w.b.mem[r.off:], r.topic.next)
			r.topic.next += r.messages
		}
		w.runs = slices.Delete(w.runs, 0, numbered)
		s.Sequence(w.Packets, n)
	}
	s.SetBlocked(events.ReasonNone)
	w.retire(s)
	return events.ReasonNone
}

func (w *Writer) retire(s *Sender) {
	if w.b != nil && !w.Pending() {
		s.Retire(w.Packets, true)
	}
}
