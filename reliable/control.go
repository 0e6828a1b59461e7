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

// SenderControl is the message layer of a stream at its publisher: it handles and sends control packets, and takes and
// gives its part of statuses and heartbeats. The sender calls it. It must not call methods of the sender that change
// anything.
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
	// Status takes the message layer's part of a status of m that is not old; the first one when m joins. Nil: the
	// receiver left, or listens only, and was no member.
	Status(now Instant, m *Member, flags wire.Flags, st *wire.Status)
	// MemberLeft: a member left or was removed.
	MemberLeft(m *Member)
	// Wants reports whether m is known to want messages of the stream, and whether it wants, or may want, them.
	Wants(m *Member) (known, may bool)
	// Asks reports whether m has a question that was not answered in the stream.
	Asks(m *Member) bool
	// Heartbeat returns the message layer's part of the next heartbeat.
	Heartbeat(now Instant) Asking
}

// Asking is the message layer's part of a heartbeat.
type Asking struct {
	Flags  wire.Flags
	Topic  uint64        // for which it asks members; 0: none
	Open   bool          // a member has not answered
	Within time.Duration // the next heartbeat is due after it at the latest; 0: there is no hurry
}

// SetControl sets the message layer. Call it before there are members. By default there is none.
func (s *Sender) SetControl(c SenderControl) { s.control = c }

// MaxMembers is the maximum number of members.
func (s *Sender) MaxMembers() int { return s.members.max }

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
func (noSenderControl) Append(Instant, wire.Header, []byte) []byte        { return nil }
func (noSenderControl) Sent(Instant, int)                                 {}
func (noSenderControl) Deadline() Instant                                 { return Never }
func (noSenderControl) Status(Instant, *Member, wire.Flags, *wire.Status) {}
func (noSenderControl) MemberLeft(*Member)                                {}
func (noSenderControl) Wants(*Member) (known, may bool)                   { return true, true }
func (noSenderControl) Asks(*Member) bool                                 { return false }
func (noSenderControl) Heartbeat(Instant) (x Asking)                      { return }
