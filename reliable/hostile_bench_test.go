package reliable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// BenchmarkHostile measures the cost of a hostile packet for a bus without keys, by kind. Packets of data have 1416
// bytes, and the receiver has live streams. docs/security.md has the range.
func BenchmarkHostile(b *testing.B) {
	const size = 1416
	long := func(publisher, epoch events.ID, seq uint64, group uint32) []byte {
		p := make([]byte, size)
		wire.PutDataHeader(p, wire.Header{GroupTag: group, Publisher: publisher, Epoch: epoch}, size)
		wire.SetSeq(p, seq)
		wire.PutRunHeader(p[wire.DataHeaderLen:], wire.RunMessages, size-wire.DataHeaderLen-wire.RunHeaderLen, wire.TopicID("a.b"), seq)
		binary.LittleEndian.PutUint16(p[wire.DataHeaderLen+wire.RunHeaderLen:], uint16(size-wire.DataHeaderLen-wire.RunHeaderLen-wire.MessageHeaderLen))
		return p
	}
	garbage := make([]byte, size)
	for _, c := range []struct {
		name   string
		packet []byte
		change func(p []byte, i int) // called before each; nil: the same packet repeatedly
	}{
		{"garbage", garbage, nil},
		{"of another group", long(7, 3, 5, 8), nil},
		{"truncated", long(7, 3, 5, 9)[:wire.HeaderLen+3], nil},
		{"replayed", long(7, 3, 5, 9), nil},
		{"far ahead", long(7, 3, 1<<50, 9), nil},
		{"of a stream beyond the limit", long(0, 3, 5, 9), func(p []byte, i int) { binary.LittleEndian.PutUint64(p[16:], uint64(1000+i)) }},
		{"a reply to a receiver", wire.AppendReply(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &wire.Reply{Receiver: 1, Total: 1000, Bytes: make([]byte, 1000)}), nil},
		{"replayed heartbeat", heartbeatOf(3, 0, wire.Heartbeat{Lead: 10, SentAt: 1, Interval: time.Second}), nil},
	} {
		b.Run("receiver/"+c.name, func(b *testing.B) {
			l := &log{}
			cfg := receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, WindowBytes: 1 << 20, MemoryBytes: 4 << 20, MaxStreams: 2, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))})
			r, err := NewReceiver(cfg, l, l)
			if err != nil {
				b.Fatal(err)
			}
			r.SetWanted(true)
			now := Instant(time.Hour)
			for _, publisher := range []events.ID{7, 8} { // as many streams as there is room for
				for seq := range uint64(10) {
					r.Handle(now, 5, long(publisher, 3, seq, 9))
				}
			}
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 10, SentAt: uint64(time.Hour), Interval: time.Second}))
			before := len(l.packets)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.change != nil {
					c.change(c.packet, i)
				}
				r.Handle(now, 5, c.packet)
			}
			if len(l.packets) != before {
				b.Errorf("%d hostile packets were delivered", len(l.packets)-before)
			}
		})
	}
	var rb wire.RangesBuilder
	rb.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNAK, 666, 0, wire.ReasonNone, 0, 1200)
	rb.Add(0, 1<<40)
	for _, c := range []struct {
		name   string
		packet []byte
	}{
		{"of another stream", long(7, 4, 5, 9)},
		{"a NAK of an unknown receiver for all", rb.Finish()},
		{"a status of an unknown receiver, without room", wire.AppendStatus(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &wire.Status{Receiver: 666, Next: 0, Limit: 5}, nil)},
		{"a reply to no request", wire.AppendReply(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &wire.Reply{Receiver: 1, Total: 1000, Bytes: make([]byte, 1000)})},
	} {
		b.Run("publisher/"+c.name, func(b *testing.B) {
			cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: size, MaxTrain: 32, MaxTrainBytes: 32 * size, WindowPackets: 4096, MaxReceivers: 2})
			now := Instant(time.Hour)
			s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+2)), now)
			if err != nil {
				b.Fatal(err)
			}
			h := wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}
			if c.name[:6] != "a NAK " {
				for id := range uint64(2) {
					s.Handle(now, wire.AppendStatus(nil, h, &wire.Status{Receiver: 1 + id, Next: 0, Limit: 1 << 40}, nil), nil)
				}
			}
			w := s.NewWriter()
			x := newTopic("a.b")
			var tr transport.Outbound
			for range 1000 {
				for !w.Append(x, make([]byte, 1300)) {
					s.Assign(now, w, false)
					s.Grant(w.Packets)
				}
				s.Assign(now, w, true)
				for s.Next(now, &tr) {
					s.Sent(now, tr.Count, s.out.posted+uint64(tr.Count))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Handle(now, c.packet, nil)
			}
		})
	}
}
