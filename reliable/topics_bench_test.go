package reliable

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// BenchmarkTopics is what a message of 64 bytes, or 1 KiB, of many topics in turn costs each side.
// Its publisher has 16 groups, and a locked instruction for each message, as a bus has.
func BenchmarkTopics(b *testing.B) {
	for _, topics := range []int{1, 16, 1000, 10_000} {
		b.Run(fmt.Sprintf("send/topics=%d/size=64", topics), func(b *testing.B) { benchmarkSend(b, topics, 64) })
		b.Run(fmt.Sprintf("send/topics=%d/size=1024", topics), func(b *testing.B) { benchmarkSend(b, topics, 1024) })
		b.Run(fmt.Sprintf("receive/topics=%d", topics), func(b *testing.B) { benchmarkTopics(b, topics) })
	}
}

// benchTopic is a topic and its group.
type benchTopic struct {
	s    *Sender
	w    *Writer
	gate *atomic.Uint32
	t    *Topic
}

func benchmarkSend(b *testing.B, topics, size int) {
	list := make([]*benchTopic, topics)
	for i := range list {
		if i >= 16 {
			x := *list[i%16]
			list[i] = &x
		} else {
			cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, MaxTrain: 64, MaxTrainBytes: wire.MaxPacket, WindowPackets: 2048, EqualTrains: true})
			s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+2)), 0)
			if err != nil {
				b.Fatal(err)
			}
			list[i] = &benchTopic{s: s, w: s.NewWriter(), gate: new(atomic.Uint32)}
		}
		list[i].t, _ = list[i].s.Topic(fmt.Sprint("t", i))
	}
	msg := make([]byte, size)
	var train transport.Outbound
	now, i, posted := Instant(1), 0, uint64(0)
	for b.Loop() {
		x := list[i]
		if i++; i == topics {
			i = 0
		}
		x.gate.CompareAndSwap(0, 1)
		for !x.w.Append(x.t, msg) {
			now++
			x.s.Assign(now, x.w, false)
			for x.s.Next(now, &train) {
				posted += uint64(train.Count)
				x.s.Sent(now, train.Count, posted)
			}
			if !x.s.Grant(x.w) {
				b.Fatal("no memory")
			}
		}
		x.gate.Store(0)
	}
}

func benchmarkTopics(b *testing.B, topics int) {
	const each, run = 16, wire.RunHeaderLen + wire.MessageHeaderLen + 64
	next, ids := make([]uint64, topics), make([]uint64, topics)
	sink := &running{rd: NewReader(0, wire.MaxMessage)}
	sink.onPacket = sink.packet
	for i := range ids {
		name := fmt.Sprint("t", i)
		ids[i] = TopicID(name)
		sink.rd.Want(ids[i], name, nil)
	}
	r, err := NewReceiver(receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))}), sink, &sink.log)
	if err != nil {
		b.Fatal(err)
	}
	setTopics(r, 0, []string{"t0"})
	packets := make([][]byte, 44) // a train that was just received
	for i := range packets {
		packets[i] = make([]byte, wire.DataHeaderLen+each*run)
		wire.PutDataHeader(packets[i], wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, 1472)
	}
	seq, topic := uint64(0), 0
	fill := func(p []byte) {
		wire.SetSeq(p, seq)
		seq++
		for at := wire.DataHeaderLen; at < len(p); at += run {
			wire.PutRun(p[at:at+run], ids[topic], p[at+wire.RunHeaderLen+wire.MessageHeaderLen:at+run])
			wire.SetRunNumber(p[at:], next[topic])
			next[topic]++
			if topic++; topic == topics {
				topic = 0
			}
		}
	}
	for b.Loop() {
		b.StopTimer()
		for _, p := range packets {
			fill(p)
		}
		b.StartTimer()
		for _, p := range packets {
			r.Handle(Instant(seq), 1, p)
		}
	}
	if r.Stats().Packets != uint64(sink.messages/each) || r.Stats().Lost != 0 {
		b.Fatalf("%d messages: %+v", sink.messages, r.Stats())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sink.messages), "ns/message")
}
