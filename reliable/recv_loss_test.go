package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// The sink gets each step of a loss, with its duration.
func TestLossSteps(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	const ms = time.Millisecond
	after := func(d time.Duration) { now = now.Add(d) }
	for _, seq := range []uint64{0, 3} { // 1 and 2 are missing
		r.Handle(now, 5, data(3, seq, 0))
	}
	after(2 * ms)
	replies(r, now) // sends the NAK
	after(3 * ms)
	r.Handle(now, 5, data(3, 2, wire.FlagRepair)) // packet 1 is still missing
	after(4 * ms)
	r.Handle(now, 5, data(3, 1, wire.FlagRepair))
	want := []LossEvent{
		{Step: LossFound, Seq: 1, Count: 2},
		{Step: LossAsked, Seq: 1, Count: 1, Took: 2 * ms}, {Step: LossAsked, Seq: 2, Count: 1, Took: 2 * ms},
		{Step: LossNAK, Seq: 1, Count: 2},
		{Step: LossRepaired, Seq: 2, Count: 1, Took: 5 * ms, Asked: 3 * ms},
		{Step: LossRepaired, Seq: 1, Count: 1, Took: 9 * ms, Asked: 7 * ms},
		{Step: LossDelivered, Seq: 1, Count: 1}, {Step: LossDelivered, Seq: 2, Count: 1, Took: 4 * ms},
	}
	if !slices.Equal(l.losses, want) {
		t.Errorf("reported\n%+v, want\n%+v", l.losses, want)
	}
	// A late packet is found missing, and is not a repair.
	l.losses = nil
	for _, seq := range []uint64{5, 4} {
		r.Handle(now, 5, data(3, seq, 0))
	}
	if !slices.Equal(l.losses, []LossEvent{{Step: LossFound, Seq: 4, Count: 1}}) {
		t.Errorf("of a late packet: %+v", l.losses)
	}
}

// sinkLog is a SenderSink that records its calls.
type sinkLog struct {
	sent  []SentTrain
	asked [][3]uint64
	trips []time.Duration
}

func (x *sinkLog) Sent(t SentTrain) { x.sent = append(x.sent, t) }
func (x *sinkLog) Asked(id, first, count uint64) {
	x.asked = append(x.asked, [3]uint64{id, first, count})
}
func (x *sinkLog) RoundTrip(d time.Duration) { x.trips = append(x.trips, d) }

// A sender reports trains, NAKs, repairs and round trips.
func TestSenderReports(t *testing.T) {
	var x sinkLog
	b := newBench(t, func(c *SenderConfig) { c.Sink = &x })
	b.publish(3)
	topic := b.topic("a.b")
	for range 2 {
		b.put(topic, 100)
	}
	b.s.Assign(b.now, b.w, true)
	b.next()
	var nak wire.RangesBuilder
	nak.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNAK, 77, 1, wire.ReasonNone, 0, 512)
	nak.Add(1, 2)
	b.s.Handle(b.now, nak.Finish(), nil)
	b.next()
	packets, bytes := 0, 0
	for _, s := range x.sent {
		if !s.Repair {
			packets += s.Packets
		}
		bytes += s.Bytes
	}
	last := x.sent[len(x.sent)-1]
	if st := b.s.Stats(); packets != 4 || !last.Repair || last.First != 1 || last.Packets != 2 || uint64(bytes-last.Bytes) != st.BytesSent {
		t.Errorf("trains %+v, %+v", x.sent, st)
	}
	if !slices.Equal(x.asked, [][3]uint64{{77, 1, 2}}) {
		t.Errorf("requested %v", x.asked)
	}
}
