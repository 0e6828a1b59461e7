package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Report has the results of a run, or of many.
type Report struct {
	Counts
	opened
	Runs         int
	Virtual      time.Duration
	Sending      time.Duration            // of one run: from the first data packet to the last
	Drained      time.Duration            // after the end of all faults
	HeldReported time.Duration            // longest time for which a subscriber reported to block a publisher
	Gaps         [events.NumCauses]uint64 // packets lost permanently, by cause
	Downs        [events.NumCauses]uint64 // streams that went down, by cause
	Stateless    [16]uint64               // topics that should have begun with state but did not, by cause
	Net          netStats
	Sender       stats.Sender
	Receiver     stats.Receiver
	Proofs       stats.Sign // of replies to publishers

	repairs   []time.Duration     // from the detection of a loss to the repair
	latencies []time.Duration     // from the first transmission to the reader
	timed     time.Duration       // longest reported delivery time
	trailing  []reliable.Trailing // members that fell behind, each second
	after     uint64              // repairs after the last new packet
	done      bool
	writtenAt reliable.Instant
}

// opened counts the results of opening sealed packets.
type opened struct {
	Refused uint64 // packets that did not open
	Relayed uint64 // packets of the attacker that opened: replayed unchanged, or made by an insider
	// RefusedMessages are messages that readers refused because of Trust.
	RefusedMessages uint64
}

// Counts are counters of a run that the library does not have.
type Counts struct {
	Events           uint64
	Messages         uint64 // delivered
	Bytes            uint64
	GapMessages      uint64 // reported lost by number
	Silent           uint64 // subscribers that were released because they were silent
	Released         uint64 // subscribers that were released
	ReleasedReported uint64 // times that a subscriber was informed of its release
	Jumps            uint64 // readers that jumped to the newest packet
	Evicted          uint64 // readers that were evicted because they were slow
	Replaced         uint64 // messages that were replaced by newer ones of their keys
	Named            uint64 // topic names that subscribers with patterns have learned
	Ahead            uint64 // times that names were learned before a pattern began
	Listed           uint64 // publishers with a complete list
	Abandoned        uint64
	Replies          uint64 // replies received by publishers
	Attacks          uint64
	Answered         uint64 // topics with complete answers at the end
	Unsupported      uint64 // times that subscribers reported unreadable packets
	LostPackets      uint64 // new data packets that at least one receiver lost
	LostCopies       uint64 // the same, counted at each receiver
	Kept             uint64 // packets that were kept where they arrived
	States           uint64 // topics that readers began with state
	Timed            uint64 // deliveries with a time that a receiver reported
	legCounts
}

// legCounts are the counts of subscribers with several legs.
type legCounts struct {
	Requested      uint64 // packets requested, each counted once
	RequestedEarly uint64 // of these, those that one leg did not lose
	LegsDown       uint64 // times that a leg was reported silent
	LegsBack       uint64 // times that a leg was reported active again
}

func (r *Report) delivered(d time.Duration, bytes int, live bool) {
	r.Messages++
	r.Bytes += uint64(bytes)
	if live {
		r.latencies = append(r.latencies, d)
	}
}

func (r *Report) repaired(d time.Duration) { r.repairs = append(r.repairs, d) }

func (r *Report) gap(count uint64, cause events.Cause) { r.Gaps[cause] += count }

// RepairTime returns the p-th percentile of the time from the detection of a loss to its repair.
func (r *Report) RepairTime(p float64) time.Duration { return percentile(r.repairs, p) }

// Latency returns the p-th percentile of the time from a message's first transmission to its reader.
func (r *Report) Latency(p float64) time.Duration { return percentile(r.latencies, p) }

func percentile(d []time.Duration, p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(p/100*float64(len(s))))]
}

// NAKsPerLoss and RepairsPerLoss divide traffic by the number of packets that at least one receiver lost.
func (r *Report) NAKsPerLoss() float64 {
	return float64(r.Receiver.NAKs) / float64(max(1, r.LostPackets))
}

func (r *Report) RepairsPerLoss() float64 {
	return float64(r.Sender.RepairsSent) / float64(max(1, r.LostPackets))
}

// Add adds the counters of x, not its distributions.
func (r *Report) Add(x *Report) {
	r.Runs++
	stats.Add(&r.Counts, &x.Counts)
	stats.Add(&r.opened, &x.opened)
	r.Virtual += x.Virtual
	r.Drained = max(r.Drained, x.Drained)
	r.HeldReported = max(r.HeldReported, x.HeldReported)
	for i := range r.Gaps {
		r.Gaps[i] += x.Gaps[i]
		r.Downs[i] += x.Downs[i]
	}
	r.sender(x.Sender)
	r.receiver(x.Receiver)
	stats.Add(&r.Net, &x.Net)
	stats.Add(&r.Proofs, &x.Proofs)
}

func (r *Report) sender(s stats.Sender)     { stats.Add(&r.Sender, &s) }
func (r *Report) receiver(s stats.Receiver) { stats.Add(&r.Receiver, &s) }

func (r *Report) String() string {
	return fmt.Sprintf("%d runs, %d events, %v of virtual time, %d messages, %d packets, %d repairs, %d NAKs for %d lost packets, gaps %v, downs %v, %d names learned, %d silent, %d released, %d attacks, longest drain %v",
		max(1, r.Runs), r.Events, r.Virtual, r.Messages, r.Sender.PacketsSent, r.Sender.RepairsSent, r.Receiver.NAKs,
		r.LostPackets, r.Gaps, r.Downs, r.Named, r.Silent, r.Released, r.Attacks, r.Drained)
}

// trailLog records the reports of members that fall behind.
type trailLog struct {
	slog.Handler
	report *Report
}

func (x *trailLog) Enabled(context.Context, slog.Level) bool { return true }

func (x *trailLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != report.SubscriberTrails.Text {
		return nil
	}
	var t reliable.Trailing
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "subscriber":
			t.Subscriber = a.Value.Any().(events.ID)
		case "received_packets_per_s":
			t.Received = float64(a.Value.Int64())
		case "published_packets_per_s":
			t.Sent = float64(a.Value.Int64())
		}
		return true
	})
	x.report.trailing = append(x.report.trailing, t)
	return nil
}
