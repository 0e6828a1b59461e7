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
			sums["repairs"] += float64(x.RepairsSent)
			sums["naks"] += float64(x.NAKs)
			sums["flow_blocked"] += float64(x.FlowBlocked)
			sums["memory_bytes"] += float64(x.MemoryBytes)
			rtt = max(rtt, x.RTT)
		}
		sums["groups"] += float64(len(st.Publications))
		sums["send_calls"] += float64(st.Transport.SendCalls)
	}
	for _, bus := range buses {
		hostileFigures(r, sums, bus)
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
	hostileFigures(r, sums, bus)
	if st.Repair.Count > 0 {
		sums["repair_p50_us"] = float64(st.Repair.P50) / 1e3
		sums["repair_p99_us"] = float64(st.Repair.P99) / 1e3
	}
	r.Figures(sums)
}

// hostileFigures add what a bus with keys has refused, and what it has believed that none of a run with one publisher sends.
func hostileFigures(r *worker.Run, sums map[string]float64, bus *pubsub.Bus) {
	if !r.Spec.Sealed {
		return
	}
	st := bus.Stats()
	s := &st.Seal
	sums["refused"] += float64(s.Foreign + s.Open + s.Version + s.UnknownKey + s.Replayed + s.Forged + s.Stale + s.Deferred)
	for kind, n := range map[string]uint64{"foreign": s.Foreign, "open": s.Open, "unknown_key": s.UnknownKey, "replayed": s.Replayed, "forged": s.Forged} {
		sums["refused_"+kind] += float64(n)
	}
	believed := st.ForeignReplies
	for _, g := range st.Groups {
		believed += g.Malformed + g.Foreign + g.Version + g.Damaged + g.Implausible + g.Stale + max(g.ReceiverStats.Streams, 1) - 1
	}
	for _, p := range st.Publications {
		believed += p.Malformed + p.Foreign + p.NAKInvalid + uint64(max(p.Receivers-max(r.Spec.Subs, 1), 0))
	}
	sums["believed"] += float64(believed)
}
