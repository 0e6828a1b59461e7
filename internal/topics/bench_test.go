package topics

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// runSink reads messages by runs, as handlers do.
type runSink struct {
	rd       *Reader
	it       Item
	messages int
	bytes    int
}

func (s *runSink) deliver(e *reliable.Event) {
	rd := s.rd
	rd.Take(e)
	for {
		for !rd.Through() {
			if t, _, msg := rd.One(); t != nil {
				s.messages++
				s.bytes += len(msg)
				continue
			}
			if !rd.Open() {
				break
			}
			s.run()
		}
		if rd.Through() || !rd.Next(&s.it) {
			return
		}
		s.messages++
		s.run()
	}
}

func (s *runSink) run() {
	t, body, step, number := s.rd.Run()
	if t == nil {
		return
	}
	for {
		msg, rest, ok := NextMessage(body, step, s.rd.MaxMessage())
		if !ok {
			break
		}
		s.messages++
		s.bytes += len(msg)
		body = rest
		number++
	}
	s.rd.Took(body, number)
}

// BenchmarkReceive measures a packet from Handle to the delivery of its last message, and reports ns/message. Messages
// have one size, or two sizes by turns.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{16, 64, 1024} {
		for _, packet := range []int{1472, 8972} {
			for _, checksum := range []bool{false, true} {
				b.Run(fmt.Sprintf("message=%d/packet=%d/checksum=%v", size, packet, checksum), func(b *testing.B) {
					benchmarkReceive(b, size, 0, packet, checksum)
				})
			}
		}
	}
	b.Run("message=48..80/packet=1472/checksum=false", func(b *testing.B) { benchmarkReceive(b, 64, 16, 1472, false) })
}

// BenchmarkTopics measures sending and receiving of messages of many topics in turn. The publisher has 16 groups and
// executes a locked instruction per message, as a bus does.
func BenchmarkTopics(b *testing.B) {
	for _, topics := range []int{1, 16, 1000, 10_000} {
		b.Run(fmt.Sprintf("send/topics=%d/size=64", topics), func(b *testing.B) { benchmarkSend(b, topics, 64) })
		b.Run(fmt.Sprintf("send/topics=%d/size=1024", topics), func(b *testing.B) { benchmarkSend(b, topics, 1024) })
		b.Run(fmt.Sprintf("receive/topics=%d", topics), func(b *testing.B) { benchmarkTopics(b, topics) })
	}
}

// benchTopic is a topic and its group.
type benchTopic struct {
	s    *reliable.Sender
	m    *Sender
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
			cfg := reliable.SenderConfig{RepairShare: 0.5, Silence: time.Second, Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, MaxTrain: 64, MaxTrainBytes: wire.MaxPacket, WindowPackets: 2048, EqualTrains: true}
			s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+2)), 0)
			if err != nil {
				b.Fatal(err)
			}
			m := NewSender(s, nil, nil)
			list[i] = &benchTopic{s: s, m: m, w: m.NewWriter(), gate: new(atomic.Uint32)}
		}
		list[i].t, _ = list[i].m.Topic(fmt.Sprint("t", i))
	}
	msg := make([]byte, size)
	var train transport.Outbound
	now, i, posted := reliable.Instant(1), 0, uint64(0)
	for b.Loop() {
		x := list[i]
		if i++; i == topics {
			i = 0
		}
		x.gate.CompareAndSwap(0, 1)
		for !x.w.Append(x.t, msg) {
			now++
			x.m.Assign(now, x.w, false)
			for x.s.Next(now, &train) {
				posted += uint64(train.Count)
				x.s.Sent(now, train.Count, posted)
			}
			if !x.s.Grant(x.w.Packets) {
				b.Fatal("Grant returned false, want memory")
			}
		}
		x.gate.Store(0)
	}
}

func benchmarkTopics(b *testing.B, topics int) {
	const each, run = 16, wire.RunHeaderLen + wire.MessageHeaderLen + 64
	next, ids := make([]uint64, topics), make([]uint64, topics)
	sink := &runSink{rd: NewReader(0, wire.MaxMessage)}
	for i := range ids {
		name := fmt.Sprint("t", i)
		ids[i] = wire.TopicID(name)
		sink.rd.Want(ids[i], name, nil)
	}
	r := newReceiver(b, "t0", sink.deliver)
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
			r.Handle(reliable.Instant(seq), 1, p)
		}
	}
	if r.Stats().Packets != uint64(sink.messages/each) || r.Stats().Lost != 0 {
		b.Fatalf("%d messages, want %d per packet and no loss: %+v", sink.messages, each, r.Stats())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sink.messages), "ns/message")
}

func benchmarkReceive(b *testing.B, size, delta, packet int, checksum bool) {
	topic := wire.TopicID("a.b")
	packets := make([][]byte, max(1, 65536/packet)) // a train that was just received
	each := (packet - wire.DataHeaderLen - wire.RunHeaderLen) / (wire.MessageHeaderLen + size) &^ 1
	if each == 0 {
		each = 1
	}
	for i := range packets {
		p := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+each*(wire.MessageHeaderLen+size))
		wire.PutDataHeader(p, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, packet)
		wire.PutRunHeader(p[wire.DataHeaderLen:], wire.RunMessages, len(p)-wire.DataHeaderLen-wire.RunHeaderLen, topic, 0)
		at, n := wire.DataHeaderLen+wire.RunHeaderLen, size+delta
		for at < len(p) {
			p[at], p[at+1] = byte(n), byte(n>>8)
			at += wire.MessageHeaderLen + n
			n = 2*size - n
		}
		packets[i] = p
	}
	sink := &runSink{rd: NewReader(0, 1<<20)}
	sink.rd.Want(topic, "a.b", nil)
	r := newReceiver(b, "a.b", sink.deliver)
	seq, at := uint64(0), 0
	b.SetBytes(int64(len(packets[0])))
	for b.Loop() {
		p := packets[at]
		if at++; at == len(packets) {
			at = 0
		}
		wire.SetSeq(p, seq)
		wire.SetRunNumber(p[wire.DataHeaderLen:], seq*uint64(each))
		if checksum {
			wire.SetChecksum(p) // costs as much as verifying the checksum
		}
		seq++
		r.Handle(reliable.Instant(seq), 1, p)
	}
	if r.Stats().Packets != uint64(sink.messages/each) || r.Stats().Lost != 0 {
		b.Fatalf("%d messages, want %d per packet and no loss: %+v", sink.messages, each, r.Stats())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sink.messages), "ns/message")
}
