package reliable

import (
	"math/rand/v2"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// BenchmarkCopy measures the cost of a copy of a packet received on a second leg.
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
