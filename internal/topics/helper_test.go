package topics

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// heap is packet memory from the heap.
type heap struct{}

func (heap) Alloc(n int, _ bool) ([]byte, error) { return make([]byte, n), nil }
func (heap) Free([]byte)                         {}

// sink passes all events of a receiver's streams to functions.
type sink struct {
	deliver func(e *reliable.Event)
	note    func(e *Event)
}

func (sink) StreamUp(*reliable.Stream)                                 {}
func (sink) StreamDown(*reliable.Stream, events.Cause)                 {}
func (sink) DuplicateName(_, _ *reliable.Stream)                       {}
func (sink) Refused(reliable.Instant, events.Instance, events.Refusal) {}
func (sink) Leg(*reliable.Stream, reliable.LegEvent)                   {}
func (sink) Loss(*reliable.Stream, reliable.LossEvent)                 {}
func (sink) Timed(_ *reliable.Stream, _ uint64, _ time.Duration)       {}
func (sink) Retain(from uint64) (uint32, bool)                         { return uint32(from), true }
func (sink) Forget(uint32)                                             {}
func (sink) Address(uint64) string                                     { return "" }
func (sink) Room() bool                                                { return true }
func (s sink) Deliver(e *reliable.Event) (kept bool)                   { s.deliver(e); return false }
func (s sink) Note(e *Event)                                           { s.note(e) }
func (sink) Backlog() (unread, held int)                               { return 0, 0 }
func (sink) Reclaim(int)                                               {}
func (sink) Abandon() bool                                             { return true }

// newReceiver returns a receiver that wants a topic and passes its events to deliver.
func newReceiver(tb testing.TB, topic string, deliver func(e *reliable.Event)) *reliable.Receiver {
	tb.Helper()
	output := func(*reliable.Stream) Output { return sink{deliver, func(*Event) {}} }
	r, in := openReceiver(tb, output, func(*reliable.ReceiverConfig) {})
	in.Want(topic)
	in.TopicsChanged(0)
	return r
}

// opener opens outputs for the streams of a receiver.
type opener struct {
	sink
	in     *Receiver
	output func(st *reliable.Stream) Output
}

func (o *opener) Open(now reliable.Instant, st *reliable.Stream) (reliable.Output, reliable.Contents) {
	out := o.output(st)
	return out, o.in.Open(now, st, out)
}

// openReceiver returns a receiver that wants no topic, and its message layer.
func openReceiver(tb testing.TB, output func(*reliable.Stream) Output,
	change func(*reliable.ReceiverConfig)) (*reliable.Receiver, *Receiver) {
	tb.Helper()
	cfg := reliable.ReceiverConfig{
		ID: 42, GroupTag: 9, WindowBytes: 8 << 20, MemoryBytes: 64 << 20, MaxStreams: 64, Deadline: 2 * time.Second,
		Buffer: reliable.NewReceiveBuffer(128, false, false), Memory: heap{}, Rand: rand.New(rand.NewPCG(1, 2)),
	}
	to := &opener{output: output}
	change(&cfg)
	r, err := reliable.NewReceiver(cfg, to, to)
	if err != nil {
		tb.Fatal(err)
	}
	to.in = NewReceiver(r, cfg.ID)
	return r, to.in
}

// newSender returns both layers of a stream, and a writer that has memory.
func newSender(tb testing.TB, now reliable.Instant, encoder *Encoder, change func(*reliable.SenderConfig)) (*reliable.Sender, *Sender, *Writer) {
	tb.Helper()
	s := openSender(tb, now, change)
	m := NewSender(s, encoder, nil)
	w := m.NewWriter()
	s.Grant(w.Packets)
	return s, m, w
}

// openSender returns the packet layer of a stream.
func openSender(tb testing.TB, now reliable.Instant, change func(*reliable.SenderConfig)) *reliable.Sender {
	tb.Helper()
	cfg := reliable.SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 16, RepairShare: 0.5, Silence: time.Second}
	if change != nil {
		change(&cfg)
	}
	s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+2)), now)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// sent returns copies of all packets that a sender sends at now.
func sent(s *reliable.Sender, now reliable.Instant) (packets [][]byte) {
	var tr transport.Outbound
	for s.Next(now, &tr) {
		for i := range tr.Count {
			packets = append(packets, bytes.Clone(tr.Data[i*tr.Stride:][:tr.Lens[i]]))
		}
		s.Sent(now, tr.Count, 0)
	}
	return packets
}
