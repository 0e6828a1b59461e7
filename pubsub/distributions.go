package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/histogram"
)

// Distributions are the histograms of a bus, since Open. Nothing is recorded for a message:
// only for packets that were lost, for trains that were sent, for statuses, and for the few packets
// that publishers time.
type Distributions struct {
	// LossNAK is how long packets were missing before they were asked for first: the back-off
	// that spreads the NAKs of many subscribers, and what a fabric that changes the order
	// makes wait. In seconds, of each packet.
	LossNAK Distribution
	// LossRepair is the time from the NAK that asked for a packet last to its repair: the round
	// trip, and what the publisher's budget for repairs makes wait. In seconds, of each packet
	// that this bus has asked for.
	LossRepair Distribution
	// LossDelivery is the time from a repair to its delivery in order: it waits for others
	// that are missing before it, and for readers. In seconds, of each packet.
	LossDelivery Distribution
	// Repair is the time from a packet being found missing to its repair, in seconds.
	Repair Distribution
	// StatusRTT is the round trip from heartbeats of this bus's publishers to the statuses
	// that answer them, without the time that subscribers took, in seconds.
	StatusRTT Distribution
	// PacketMessages is how many messages the packets sent for the first time have; of a
	// message in several packets the last one counts.
	PacketMessages Distribution
	// TrainPackets is how many packets each train of such packets has, which one call sends.
	TrainPackets Distribution
	// Delivery is the time from when a publisher first hands a packet to the fabric to its
	// delivery in order here: to handlers, or to where Next and Messages read. In seconds, of some
	// hundred packets a second at most that each publisher times (all of them where it sends fewer), and only
	// of publishers whose clock is this bus's: those on this host, and those with the same Config.Clock.
	Delivery Distribution
}

// Distribution is a histogram. Its buckets are those of Prometheus's native histograms with
// DistributionSchema: a doubling has 32, so that percentiles are at most 2.2 % too large.
type Distribution struct {
	Count uint64 // of all values
	// Zero is how many of them are at most ZeroUpper: too small for a bucket.
	Zero      uint64
	ZeroUpper float64
	Sum, Max  float64
	Buckets   []DistributionBucket // those that are not empty, the smallest first
}

// DistributionSchema says how wide buckets are: that of Index i is of values above
// 2^((i-1)/2^5), and up to 2^(i/2^5).
const DistributionSchema = int(histogram.Schema)

// DistributionBucket is one bucket of a Distribution.
type DistributionBucket struct {
	Index int
	Count uint64
}

// Upper is the bucket's upper bound, inclusive.
func (b DistributionBucket) Upper() float64 { return histogram.Bucket(b).Upper() }

// Quantile is what a share q of all values, from 0 to 1, does not exceed. Of nothing it is 0.
func (d *Distribution) Quantile(q float64) float64 {
	x := histogram.Snapshot{Count: d.Count, Zero: d.Zero, ZeroUpper: d.ZeroUpper, Max: d.Max, Buckets: make([]histogram.Bucket, len(d.Buckets))}
	for i, b := range d.Buckets {
		x.Buckets[i] = histogram.Bucket(b)
	}
	return x.Quantile(q)
}

// Latency summarises a distribution of times.
type Latency struct {
	Count              int64         // times measured
	P50, P90, P99, Max time.Duration // percentiles since the start
}

func (d *Distribution) latency() Latency {
	at := func(q float64) time.Duration { return time.Duration(d.Quantile(q) * float64(time.Second)) }
	return Latency{Count: int64(d.Count), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: time.Duration(d.Max * float64(time.Second))}
}

func publicDistributions(d *engine.Distributions) Distributions {
	return Distributions{
		publicDistribution(d.LossNAK), publicDistribution(d.LossRepair), publicDistribution(d.LossDelivery), publicDistribution(d.Repair),
		publicDistribution(d.StatusRTT), publicDistribution(d.PacketMessages), publicDistribution(d.TrainPackets), publicDistribution(d.Delivery),
	}
}

func publicDistribution(x histogram.Snapshot) Distribution {
	d := Distribution{Count: x.Count, Zero: x.Zero, ZeroUpper: x.ZeroUpper, Sum: x.Sum, Max: x.Max}
	for _, b := range x.Buckets {
		d.Buckets = append(d.Buckets, DistributionBucket(b))
	}
	return d
}
