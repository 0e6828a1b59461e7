package contenders

import (
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// publisherFigures reports what buses have counted that publish, all together: of the
// round trips the longest.
func publisherFigures(r *worker.Run, buses ...*pubsub.Bus) {
	sums := make(map[string]float64)
	var rtt time.Duration
	for _, bus := range buses {
		st := bus.Stats()
		for _, x := range st.Publications {
			sums["packets"] += float64(x.PacketsSent)
			sums["wire_bytes"] += float64(x.BytesSent)
			sums["repairs"] += float64(x.RepairsSent)
			sums["naks"] += float64(x.NAKs)
			sums["flow_blocked"] += float64(x.FlowBlocked)
			sums["memory_bytes"] += float64(x.MemoryBytes)
			rtt = max(rtt, x.RTT)
		}
		sums["groups"] += float64(len(st.Publications))
		sums["send_calls"] += float64(st.Transport.SendCalls)
	}
	sums["rtt_us"] = float64(rtt) / 1e3
	if d := r.Longest(); d > 0 { // a full load of one goroutine on one topic
		sums["longest_chunk_us"] = float64(d) / 1e3
	}
	r.Figures(sums)
}

// subscriberFigures reports what a bus has counted that subscribes.
func subscriberFigures(r *worker.Run, bus *pubsub.Bus) {
	sums := make(map[string]float64)
	st := bus.Stats()
	for _, g := range st.Groups {
		sums["packets"] += float64(g.Packets)
		sums["missing"] += float64(g.Missing)
		sums["repaired"] += float64(g.Repaired)
		sums["naks"] += float64(g.NAKs)
		sums["duplicates"] += float64(g.Duplicates)
	}
	sums["overflow"] = float64(st.Transport.ReceiveOverflow)
	sums["receive_calls"] = float64(st.Transport.ReceiveCalls)
	if st.Repair.Count > 0 {
		sums["repair_p50_us"] = float64(st.Repair.P50) / 1e3
		sums["repair_p99_us"] = float64(st.Repair.P99) / 1e3
	}
	r.Figures(sums)
}
