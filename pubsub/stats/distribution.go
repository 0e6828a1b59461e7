package stats

import (
	"math"
	"time"
)

// Distributions are the histograms of a bus. Most messages record nothing: only packets that were lost, trains
// that were sent, statuses, and the few packets that publishers time do.
type Distributions struct {
	// LossNAK is how long packets were missing before they were first asked for, in seconds: the back-off that
	// spreads the NAKs of many subscribers, and the wait for packets that a fabric delivers out of order.
	LossNAK Distribution
	// LossRepair is the time from the latest NAK for a packet to its repair, in seconds: the round trip, and the
	// wait for the publisher's budget for repairs. Of each packet that this bus has asked for.
	LossRepair Distribution
	// LossDelivery is the time from a repair to its delivery in order, in seconds: the wait for others that are
	// missing before it, and for readers. Of each packet.
	LossDelivery Distribution
	// Repair is the time from a packet being found missing to its repair, in seconds.
	Repair Distribution
	// StatusRTT is the round trip from heartbeats of this bus's publishers to the statuses that answer them,
	// without the time that subscribers took, in seconds.
	StatusRTT Distribution
	// PacketMessages is the number of messages in each packet sent for the first time; of a message in several
	// packets the last one counts.
	PacketMessages Distribution
	// TrainPackets is the number of packets in each train of such packets, which one call sends.
	TrainPackets Distribution
	// Delivery is the time from when a publisher first hands a packet to the fabric to its delivery in order here,
	// in seconds: to handlers, or to where Next and Messages read. Each publisher times some hundred packets a
	// second at most (all of them where it sends fewer). Only of publishers with the clock of this bus: those on
	// this host, and those with the same Config.Clock.
	Delivery Distribution
}

// Schema is the width of buckets: that of Prometheus's native histograms with this schema. The bucket of Index i
// counts values above 2^((i-1)/2^Schema), up to 2^(i/2^Schema): a doubling has 32, so that percentiles are at most
// 2.2 % too large.
const Schema = 5

// Bucket is one bucket of a Distribution.
type Bucket struct {
	Index int    `json:"index"` // see Schema
	Count uint64 `json:"count"` // values
}

// Upper is the bucket's upper bound, inclusive. It is exact where Index is a multiple of 2^Schema.
func (b Bucket) Upper() float64 {
	whole := b.Index >> Schema
	part := b.Index - whole<<Schema
	return math.Ldexp(math.Exp2(float64(part)/(1<<Schema)), whole)
}

// Distribution is a histogram, in the unit that Distributions states.
type Distribution struct {
	Count     uint64   // all values
	Zero      uint64   // of Count: values of at most ZeroUpper, too small for a bucket
	ZeroUpper float64  // upper bound of Zero, inclusive
	Sum, Max  float64  // of all values
	Buckets   []Bucket // that are not empty, the smallest first
}

// All returns Buckets, and before them Zero as the bucket below.
func (d *Distribution) All() []Bucket {
	if d.Zero == 0 {
		return d.Buckets
	}
	zero := Bucket{int(math.Round(math.Log2(d.ZeroUpper) * (1 << Schema))), d.Zero}
	return append([]Bucket{zero}, d.Buckets...)
}

// Quantile returns the value that a share q of all values, from 0 to 1, does not exceed; 0 of none.
func (d *Distribution) Quantile(q float64) float64 { return min(Quantile(d.All(), q), d.Max) }

// Quantile is Distribution.Quantile of the values in buckets.
func Quantile(buckets []Bucket, q float64) float64 {
	total := uint64(0)
	for _, b := range buckets {
		total += b.Count
	}
	left := max(uint64(math.Ceil(q*float64(total))), 1)
	for _, b := range buckets {
		if left <= b.Count {
			return b.Upper()
		}
		left -= b.Count
	}
	return 0
}

// Latency summarises a Distribution of times, since the bus was opened.
type Latency struct {
	Count              int64 // times measured
	P50, P90, P99, Max time.Duration
}

// Latency summarises a distribution in seconds.
func (d *Distribution) Latency() Latency {
	at := func(q float64) time.Duration { return time.Duration(d.Quantile(q) * float64(time.Second)) }
	most := time.Duration(d.Max * float64(time.Second))
	return Latency{Count: int64(d.Count), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: most}
}
