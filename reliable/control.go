package reliable

import (
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ReceiverControl handles and sends the control packets of the message layer, which the packet layer passes unparsed. A
// Receiver calls it, and it may call Receiver.Recipient.
type ReceiverControl interface {
	// Handle processes such a packet of a publisher. It returns why the packet is malformed, if it is.
	Handle(now Instant, from events.Instance, b []byte) error
	// Append appends the next packet for a publisher to buf, which it may fill up to the stream's packet size; nil: there
	// is none. The receiver adds padding and the checksum. again: the packet was sent before, and takes another leg.
	Append(now Instant, to events.Instance, buf []byte) (p []byte, again bool)
	// Deadline is when Append is due next.
	Deadline() Instant
	// Removed: the stream of an instance was removed. Append is not called for it until it has a new stream.
	Removed(of events.Instance)
}

// ErrUnreadable: a valid packet cannot be decoded here, which the message layer has reported.
var ErrUnreadable = errors.New("packet cannot be decoded")

// SetControl sets the control packets of the message layer. Call it before there are streams. By default they are
// malformed.
func (r *Receiver) SetControl(c ReceiverControl) { r.control = c }

// Recipient is a publisher to which control packets are sent.
type Recipient struct {
	Header     wire.Header // of packets to it
	PacketSize int         // bytes
	RTT        time.Duration
	Down       bool // the publisher has ended or is lost: nothing is sent to it
}

// Recipient returns a publisher, if the receiver knows the stream.
func (r *Receiver) Recipient(of events.Instance) (x Recipient, ok bool) {
	st := r.instances.streams[of]
	if st == nil {
		return Recipient{}, false
	}
	return Recipient{Header: st.header(), PacketSize: st.packetSize, RTT: st.nak.rtt.value(), Down: st.life.down}, true
}

// appendControl appends the next control packet of the message layer to buf, or returns nil.
func (st *Stream) appendControl(now Instant, buf []byte) (p []byte, again bool) {
	p, again = st.r.control.Append(now, st.Instance, buf)
	if p == nil {
		return nil, false
	}
	n := len(p) - len(buf)
	p = append(p, make([]byte, padded(n, st.r.cfg.Pad, st.packetSize)-n)...)
	return st.withChecksum(p), again
}

// SenderControl handles and sends the control packets of the message layer at a publisher. It must not call methods of
// the sender; it may use the sender's Roster.
type SenderControl interface {
	// Handle processes a unicast packet of a type that the packet layer does not know. known: the message layer knows
	// the type; err is why the packet is malformed, if it is. address is that of Sender.Handle.
	Handle(now Instant, h wire.Header, b []byte, address func() string) (known bool, err error)
	// Append appends the next packet for the group, with header h, to buf, which has the capacity of a packet; nil: there
	// is none. It is also called before its deadline.
	Append(now Instant, h wire.Header, buf []byte) []byte
	// Sent: the transport took the first n packets that Append returned for the last train, which may have had none.
	Sent(now Instant, n int)
	// Deadline is when Append is due next.
	Deadline() Instant
	// MemberLeft: a member left or was removed.
	MemberLeft()
}

// SetControl sets the control packets of the message layer. By default there are none.
func (s *Sender) SetControl(c SenderControl) { s.control = c }

// Tracked is a message of which the message layer needs the number and the sequence.
type Tracked interface {
	// Assigned: the message has this number, and the packet in which it ends this sequence.
	Assigned(now Instant, number, seq uint64)
}

// AppendAlone is Append for a message in a run of its own, with flags.
func (w *Writer) AppendAlone(t *Topic, msg []byte, flags wire.RunFlags) bool {
	w.endRun()
	if !w.appendRun(t, msg, flags) {
		return false
	}
	w.endRun()
	w.endTail()
	return true
}

// Track tracks the message that was appended last, with its last fragment.
func (w *Writer) Track(x Tracked) {
	w.runs[len(w.runs)-1].tracked = true
	w.tracked = append(w.tracked, x)
}

// Encoder rewrites the closed packets of one sender before they get their sequences. It may combine several: the result
// is stored at or before the memory of the first, so that packets stay in the order of their sequences in their block.
type Encoder interface {
	// Share is how many of the next packets, of lens bytes each, to try to combine; 0: the first is sent as it is.
	Share(lens []uint16) int
	// Encode combines packets at offs of mem, of lens bytes each, with numbered runs. It returns a packet with a codec,
	// valid until the next call, and how many of the packets it holds; 0: the first is sent as it is.
	Encode(mem []byte, offs []uint32, lens []uint16) (packet []byte, n int)
	// Readable returns, without a codec, a packet of Encode that has its sequence now. It is valid until the next call.
	Readable(packet []byte) []byte
}

// Roster is a view of a sender's members, valid as long as the sender.
type Roster struct {
	Max int // maximum number of members
	m   *members
}

// Roster returns the members.
func (s *Sender) Roster() Roster { return Roster{s.members.max, &s.members} }

// All returns the members. The slice belongs to the sender.
func (x Roster) All() []*Member { return x.m.list }

// Member returns the member with an id, or nil, whether it is known to want a topic, and whether it wants, or may want,
// the topic.
func (x Roster) Member(id, topic uint64) (m *Member, known, may bool) {
	if m = x.m.byID[id]; m == nil {
		return nil, false, false
	}
	known = m.knownToWant(&x.m.questions, topic)
	return m, known, known || m.owes(&x.m.questions, topic)
}

// Defaults: no message layer.
type noSenderControl struct{}
type noReceiverControl struct{}

func (noReceiverControl) Handle(Instant, events.Instance, []byte) error          { return wire.ErrType }
func (noReceiverControl) Append(Instant, events.Instance, []byte) ([]byte, bool) { return nil, false }
func (noReceiverControl) Deadline() Instant                                      { return Never }
func (noReceiverControl) Removed(events.Instance)                                {}

func (noSenderControl) Handle(Instant, wire.Header, []byte, func() string) (known bool, err error) {
	return
}
func (noSenderControl) Append(Instant, wire.Header, []byte) []byte { return nil }
func (noSenderControl) Sent(Instant, int)                          {}
func (noSenderControl) Deadline() Instant                          { return Never }
func (noSenderControl) MemberLeft()                                {}
