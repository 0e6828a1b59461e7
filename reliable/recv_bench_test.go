package reliable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// running is a sink that takes messages by the run, as handlers do.
type running struct {
	log
	rd       *Reader
	it       Item
	messages int
	bytes    int
}

func (s *running) packet(_ *Stream, runs []byte) {
	rd := s.rd
	rd.Packet(runs)
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

func (s *running) run() {
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

// BenchmarkReceive is what a packet costs from Handle to its last message, full of
// messages of one size, or of two by turns; ns/message beside it.
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

// BenchmarkCopy is what the second copy of a packet costs, which another leg has brought.
func BenchmarkCopy(b *testing.B) {
	p := data(3, 0, 0)
	l := &log{onPacket: func(*Stream, []byte) {}}
	r, err := NewReceiver(receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, LegTags: []uint32{9, 10}, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))}), l, l)
	if err != nil {
		b.Fatal(err)
	}
	seq := uint64(0)
	for b.Loop() {
		b.StopTimer()
		for range 1000 {
			wire.SetSeq(p, seq)
			seq++
			r.SetLeg(0)
			r.Handle(Instant(seq), 1, p)
		}
		b.StartTimer()
		r.SetLeg(1)
		for i := range uint64(1000) {
			wire.SetSeq(p, seq-1000+i)
			r.Handle(Instant(seq), 2, p)
		}
	}
	if s := r.LegStats()[1]; s.Copies != seq {
		b.Fatalf("%+v, %d packets", s, seq)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seq), "ns/copy")
}

func benchmarkReceive(b *testing.B, size, differ, packet int, checksum bool) {
	topic := TopicID("a.b")
	packets := make([][]byte, max(1, 65536/packet)) // a train that was just received
	each := (packet - wire.DataHeaderLen - wire.RunHeaderLen) / (wire.MessageHeaderLen + size) &^ 1
	if each == 0 {
		each = 1
	}
	for i := range packets {
		p := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+each*(wire.MessageHeaderLen+size))
		wire.PutDataHeader(p, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, packet)
		wire.PutRunHeader(p[wire.DataHeaderLen:], wire.RunMessages, len(p)-wire.DataHeaderLen-wire.RunHeaderLen, topic, 0)
		at, n := wire.DataHeaderLen+wire.RunHeaderLen, size+differ
		for at < len(p) {
			p[at], p[at+1] = byte(n), byte(n>>8)
			at += wire.MessageHeaderLen + n
			n = 2*size - n
		}
		packets[i] = p
	}
	sink := &running{rd: NewReader(0, 1<<20)}
	sink.onPacket = sink.packet
	sink.rd.Want(topic, "a.b", nil)
	r, err := NewReceiver(receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))}), sink, &sink.log)
	if err != nil {
		b.Fatal(err)
	}
	setTopics(r, 0, []string{"a.b"})
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
			wire.SetChecksum(p) // as dear as to verify it
		}
		seq++
		r.Handle(Instant(seq), 1, p)
	}
	if r.Stats().Packets != uint64(sink.messages/each) || r.Stats().Lost != 0 {
		b.Fatalf("%d messages of %d: %+v", sink.messages, each, r.Stats())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sink.messages), "ns/message")
}
