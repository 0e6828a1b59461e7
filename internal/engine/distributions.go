package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/histogram"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// distributions are the histograms of a bus. They record losses, trains, statuses and the few timed packets, but
// nothing per message. Any goroutine may record.
type distributions struct {
	lossNAK, lossRepair, lossDelivery *histogram.Histogram
	repair, statusRTT                 *histogram.Histogram
	packetMessages, trainPackets      *histogram.Histogram
	delivery                          *histogram.Histogram
}

func newDistributions() distributions {
	seconds, sizes := func() *histogram.Histogram { return histogram.New(histogram.Seconds) }, func() *histogram.Histogram { return histogram.New(histogram.Sizes) }
	return distributions{seconds(), seconds(), seconds(), seconds(), seconds(), sizes(), sizes(), seconds()}
}

func (d *distributions) snapshot() stats.Distributions {
	return stats.Distributions{
		LossNAK: d.lossNAK.Snapshot(), LossRepair: d.lossRepair.Snapshot(), LossDelivery: d.lossDelivery.Snapshot(),
		Repair: d.repair.Snapshot(), StatusRTT: d.statusRTT.Snapshot(), Delivery: d.delivery.Snapshot(),
		PacketMessages: d.packetMessages.Snapshot(), TrainPackets: d.trainPackets.Snapshot(),
	}
}

// loss records one step in the repair of lost packets.
func (d *distributions) loss(e *reliable.LossEvent) {
	switch e.Step {
	case reliable.LossAsked:
		d.lossNAK.Record(int64(e.Took), e.Count)
	case reliable.LossRepaired:
		d.repair.Record(int64(e.Took), e.Count)
		if e.Asked > 0 {
			d.lossRepair.Record(int64(e.Asked), e.Count)
		}
	case reliable.LossDelivered:
		d.lossDelivery.Record(int64(e.Took), e.Count)
	}
}

// Timed implements reliable.Sink.
func (g *group) Timed(_ *reliable.Stream, _ uint64, took time.Duration) {
	g.l.counters.times.delivery.Record(int64(took), 1)
}

// Loss implements reliable.Sink.
func (g *group) Loss(st *reliable.Stream, e reliable.LossEvent) {
	g.l.counters.times.loss(&e)
	if g.l.cfg.Trace != nil {
		g.traceLoss(st.Origin(), &e)
	}
}

// senderSink implements reliable.SenderSink and topics.SenderSink for a publication's stream. Its methods are called
// under the publication's lock.
type senderSink struct {
	l     *Loop
	group int
}

func (x *senderSink) Sent(t reliable.SentTrain) {
	if !t.Repair {
		x.l.counters.times.trainPackets.Record(int64(t.Packets), 1)
	}
	if x.l.cfg.Trace != nil {
		x.traceSent(&t)
	}
}

func (x *senderSink) Batch(messages, packets uint64) {
	x.l.counters.times.packetMessages.Record(int64(messages), packets)
}

func (x *senderSink) Asked(receiver, first, count uint64) {
	if x.l.cfg.Trace != nil {
		x.traceAsked(receiver, first, count)
	}
}

// Forgotten implements topics.SenderSink.
func (x *senderSink) Forgotten(topic uint64) { x.l.hellos.forgets(topic) }

func (x *senderSink) RoundTrip(d time.Duration) { x.l.counters.times.statusRTT.Record(int64(d), 1) }
