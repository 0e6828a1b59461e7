package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// histogram is one histogram of a stats.Distributions.
type histogram struct {
	desc    *prometheus.Desc
	labels  []string
	classic []float64 // upper bounds of the classic buckets
	value   func(*stats.Distributions) *stats.Distribution
}

// nativeSchema is the schema of the native histograms: eight buckets for each power of two. Four buckets of a
// stats.Distribution make one of them.
const nativeSchema = 3

const perNative = 1 << (stats.Schema - nativeSchema)

// Bounds of classic buckets are powers of two, which are also bounds of a Distribution: so they are exact.
var (
	classicSeconds = powers(-20, 6, 2) // 0.95 µs to 64 s
	classicSizes   = powers(0, 16, 1)
)

func powers(low, high, step int) (all []float64) {
	for i := low; i <= high; i += step {
		all = append(all, math.Ldexp(1, i))
	}
	return all
}

// stages is the histogram of the stages of a loss.
var stages = prometheus.NewDesc(namespace+"_loss_stage_seconds",
	"Time that each stage of a packet's loss took: nak, from being found missing to the first NAK; repair, from the last NAK to the repair; delivery, from the repair to its delivery in order.", []string{"stage"}, nil)

func sizes(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, nil, nil)
}

var histograms = []histogram{
	{stages, []string{"nak"}, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.LossNAK }},
	{stages, []string{"repair"}, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.LossRepair }},
	{stages, []string{"delivery"}, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.LossDelivery }},
	{sizes("repair_seconds", "Time from a packet being found missing to its repair."), nil, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.Repair }},
	{sizes("delivery_latency_seconds", "Time from a packet's first sending to its delivery in order, of the packets that publishers with the same clock have timed."), nil, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.Delivery }},
	{sizes("publish_status_rtt_seconds", "Round trip from heartbeats to the statuses that answer them."), nil, classicSeconds, func(d *stats.Distributions) *stats.Distribution { return &d.StatusRTT }},
	{sizes("publish_packet_messages", "Messages in each published packet; a message in several packets counts in the last one."), nil, classicSizes, func(d *stats.Distributions) *stats.Distribution { return &d.PacketMessages }},
	{sizes("publish_train_packets", "Packets in each published train: in one send call."), nil, classicSizes, func(d *stats.Distributions) *stats.Distribution { return &d.TrainPackets }},
}

// collect sends the histogram as a native one, and with classic buckets for scrapers that do not support it.
func (h *histogram) collect(out chan<- prometheus.Metric, from *stats.Distributions) {
	d := h.value(from)
	native := make(map[int]int64)
	count := d.Zero
	for _, b := range d.Buckets {
		native[ceilDiv(b.Index, perNative)] += int64(b.Count)
		count += b.Count
	}
	m := prometheus.MustNewConstNativeHistogram(h.desc, count, d.Sum, native, nil, d.Zero, nativeSchema,
		d.ZeroUpper, time.Time{}, h.labels...)
	out <- &nativeAndClassic{m, d, h.classic}
}

// ceilDiv is a/b, rounded up.
func ceilDiv(a, b int) int { return int(math.Ceil(float64(a) / float64(b))) }

// nativeAndClassic is a native histogram with classic buckets.
type nativeAndClassic struct {
	prometheus.Metric
	d       *stats.Distribution
	classic []float64
}

// Write implements prometheus.Metric.
func (b *nativeAndClassic) Write(out *dto.Metric) error {
	if err := b.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.CreatedTimestamp = nil // it is not known
	n, next := b.d.Zero, 0
	for _, upper := range b.classic {
		for ; next < len(b.d.Buckets) && b.d.Buckets[next].Upper() <= upper; next++ {
			n += b.d.Buckets[next].Count
		}
		count := n
		out.Histogram.Bucket = append(out.Histogram.Bucket, &dto.Bucket{UpperBound: &upper, CumulativeCount: &count})
	}
	return nil
}
