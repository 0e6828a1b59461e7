package reliable

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// recvControl is a message layer at a receiver: it sends queued packets, and records its calls.
type recvControl struct {
	queue   int // packets to be sent, of 100 bytes
	again   bool
	handled []events.Instance
	removed []events.Instance
	err     error
}

func (x *recvControl) Handle(_ Instant, from events.Instance, _ []byte) error {
	x.handled = append(x.handled, from)
	return x.err
}

func (x *recvControl) Append(_ Instant, to events.Instance, buf []byte) (p []byte, again bool) {
	if x.queue == 0 {
		return nil, false
	}
	x.queue--
	h := wire.Header{GroupTag: 9, Publisher: to.Publisher, Epoch: to.Epoch}
	return wire.AppendReply(buf, h, &wire.Reply{Total: 100, Bytes: make([]byte, 100-wire.ReplyHeaderLen)}), x.again
}

func (x *recvControl) Removed(of events.Instance) { x.removed = append(x.removed, of) }
func (x *recvControl) Deadline() Instant {
	if x.queue > 0 {
		return 0
	}
	return Instant(time.Minute)
}

// A receiver passes packets of the message layer in both directions without reading them: it adds padding
// and a checksum, sends them after NAKs, and counts malformed packets and those of unknown streams.
func TestReceiverControl(t *testing.T) {
	x := &recvControl{}
	r := newReceiver(t, &log{}, func(c *ReceiverConfig) { c.Pad = 64 })
	r.SetControl(x)
	of := events.Instance{Publisher: 7, Epoch: 3}
	if _, ok := r.Recipient(of); ok {
		t.Error("an unknown publisher is a recipient")
	}
	b := data(3, 0, 0)
	wire.SetChecksum(b) // then packets to this publisher need one
	r.Handle(1, 5, b)
	replies(r, 1)
	if to, ok := r.Recipient(of); !ok || to.Down || to.PacketSize != 512 || to.RTT != startRTT || to.Header != (wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}) {
		t.Errorf("the recipient is %+v, %v", to, ok)
	}
	if d := r.Deadline(); d > Instant(time.Minute) {
		t.Errorf("the deadline %v is after that of the message layer", d)
	}
	b = data(3, 5, 0) // 1 to 4 are missing
	wire.SetChecksum(b)
	r.Handle(2, 5, b)
	x.queue = 2
	if d := r.Deadline(); d != 0 {
		t.Errorf("packets are queued, and the deadline is %v", d)
	}
	var types []wire.Type
	for _, p := range replies(r, Instant(10*time.Millisecond)) {
		if types = append(types, p.Type); p.Type == wire.TypeReply && (len(p.b) != 128 || wire.Verify(p.b, true) != nil) {
			t.Errorf("a packet of %d bytes: %v", len(p.b), wire.Verify(p.b, true))
		}
	}
	if want := []wire.Type{wire.TypeNAK, wire.TypeReply, wire.TypeReply}; len(types) < 3 || !slices.Equal(types[:3], want) {
		t.Errorf("sent %v, want %v first", types, want)
	}

	recall := func(epoch uint64) []byte {
		p := wire.AppendRecallHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: events.ID(epoch)})
		wire.SetChecksum(p)
		return p
	}
	before := r.Stats()
	r.Handle(3, 5, recall(3))
	r.Handle(3, 5, recall(4)) // of an unknown stream
	x.err = errors.New("malformed")
	r.Handle(3, 5, recall(3))
	if st := r.Stats(); len(x.handled) != 3 || st.Malformed-before.Malformed != 1 || st.Stale-before.Stale != 1 {
		t.Errorf("handled %v, %d malformed, %d stale", x.handled, st.Malformed, st.Stale)
	}
	r.Free()
	if !slices.Equal(x.removed, []events.Instance{of}) {
		t.Errorf("removed %v", x.removed)
	}
}

// Packets that were sent before take another leg. docs/protocol §23.6.
func TestReceiverControlByTheOtherLeg(t *testing.T) {
	x := &recvControl{}
	r := newReceiver(t, &log{}, func(c *ReceiverConfig) { c.LegTags = []uint32{8, 9} })
	r.SetControl(x)
	hb := heartbeatOf(1, 0, wire.Heartbeat{SentAt: 5, Interval: time.Second, StatusInterval: time.Second})
	r.SetLeg(0)
	r.Handle(1, 100, hb)
	r.SetLeg(1)
	r.Handle(2, 101, hb)
	replies(r, 3)
	for _, c := range []struct {
		again bool
		want  uint32
	}{{false, 100}, {true, 101}} {
		x.queue, x.again = 1, c.again
		if peer, _, ok := r.Next(3, nil); !ok || peer != c.want {
			t.Errorf("again %v: sent to %d, %v", c.again, peer, ok)
		}
	}
}

// sendControl is a message layer at a publisher: it sends queued packets, and records its calls.
type sendControl struct {
	noSenderControl
	queue   int // packets to be sent
	handled []wire.Header
	err     error
	sent    []int      // packets of each train
	flags   wire.Flags // of the last status
	left    int
}

func (x *sendControl) Handle(_ Instant, h wire.Header, _ []byte, _ func() string) (known bool, err error) {
	if h.Type != wire.TypeReply {
		return false, nil
	}
	x.handled = append(x.handled, h)
	return true, x.err
}

func (x *sendControl) Append(_ Instant, h wire.Header, buf []byte) []byte {
	if x.queue == 0 {
		return nil
	}
	x.queue--
	return wire.AppendRecallHeader(buf, h)
}

func (x *sendControl) Sent(_ Instant, n int)                                         { x.sent = append(x.sent, n) }
func (x *sendControl) Status(_ Instant, _ *Member, flags wire.Flags, _ *wire.Status) { x.flags = flags }
func (x *sendControl) MemberLeft(*Member)                                            { x.left++ }
func (x *sendControl) Deadline() Instant {
	if x.queue > 0 {
		return 0
	}
	return Never
}

// A sender passes packets of the message layer in both directions without reading them. It reports which of
// them the transport did not take, and that a member has left.
func TestSenderControl(t *testing.T) {
	x := &sendControl{}
	b := newBench(t, nil)
	b.s.SetControl(x)
	b.status(1, 0, 10, 0)
	b.next()
	x.queue, x.sent, b.narrow = 3, nil, true
	if d := b.s.Deadline(); d != 0 {
		t.Errorf("packets are queued, and the deadline is %v", d)
	}
	sent := of(wire.TypeRecall, b.next())
	if len(sent) != 1 || sent[0].Publisher != 7 || sent[0].Epoch != 3 || sent[0].GroupTag != 9 {
		t.Errorf("sent %+v", sent)
	}
	if !slices.Equal(x.sent, []int{1}) {
		t.Errorf("%v packets were sent", x.sent)
	}

	progress := b.s.Progress()
	b.s.Handle(b.now, wire.AppendReply(nil, b.header(), &wire.Reply{Total: 1, Bytes: []byte("x")}), nil)
	if len(x.handled) != 1 || b.s.Progress() == progress {
		t.Errorf("handled %v, progress %d after %d", x.handled, b.s.Progress(), progress)
	}
	x.err = errors.New("malformed")
	b.s.Handle(b.now, wire.AppendReply(nil, b.header(), &wire.Reply{Total: 1, Bytes: []byte("x")}), nil)
	b.s.Handle(b.now, wire.AppendRecallHeader(nil, b.header()), nil)
	if st := b.s.Stats(); st.Malformed != 1 || st.Foreign != 1 {
		t.Errorf("%d malformed, %d foreign", st.Malformed, st.Foreign)
	}

	b.status(1, 0, 10, wire.FlagLeaving)
	if x.left != 1 {
		t.Errorf("%d members have left", x.left)
	}
}
