package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Which streams a receiver keeps: at most MaxStreams. docs/protocol §12.1.

// admit makes room for one more stream of the publisher if necessary. It reports false if it cannot.
func (r *Receiver) admit(publisher events.ID) bool {
	if r.instances.full(publisher, r.cfg.MaxStreams) {
		st := r.dispensable(r.instances.of[publisher])
		if st == nil {
			return false
		}
		r.evict(st)
	}
	if r.cfg.ProvedKeys && !r.fair(uint32(publisher>>32)) {
		return false
	}
	if len(r.list) < r.cfg.MaxStreams {
		return true
	}
	st := r.dispensable(r.list)
	if st == nil {
		return false
	}
	r.evict(st)
	return true
}

// fair reports whether a key has fewer streams that are up than there is room for further ones. So each key has a
// share, whatever others do: at least two, for the instances before and after a restart.
func (r *Receiver) fair(key uint32) bool {
	own, heard := 0, 0
	for _, st := range r.list {
		if st.life.down {
			continue
		}
		if heard++; st.signKey() == key {
			own++
		}
	}
	return own < max(2, r.cfg.MaxStreams-heard)
}

// dispensable returns the stream to evict first, with a publisher that is lost or has ended, or nil. It prefers a
// stream that another instance has probably replaced, then one without packets kept by its output, then the one silent
// longest. docs/protocol §12.1.
func (r *Receiver) dispensable(list []*Stream) *Stream {
	var first *Stream
	for _, st := range list {
		if st.life.down && (first == nil || r.evictBefore(st, first)) {
			first = st
		}
	}
	return first
}

// evictBefore reports whether a is to be evicted before b.
func (r *Receiver) evictBefore(a, b *Stream) bool {
	if x, y := r.instances.superseded(a), r.instances.superseded(b); x != y {
		return x
	}
	if x, y := !a.win.keeps, !b.win.keeps; x != y {
		return x
	}
	return a.life.heard < b.life.heard
}

// evict removes a stream that is down. If its publisher returns, the stream continues where it stopped.
func (r *Receiver) evict(st *Stream) {
	st.returnLoans()
	switch {
	case st.life.finished:
	case st.life.gone():
		st.deliverEnd(events.CauseOverrun) // the output has not taken all packets
	default:
		st.deliverEnd(st.life.downCause)
	}
	r.remove(st)
	st.life.finished = true
}

// remove forgets a stream and releases its memory.
func (r *Receiver) remove(st *Stream) {
	r.instances.remove(st)
	for i, x := range r.list {
		if x == st {
			r.list = append(r.list[:i], r.list[i+1:]...)
			break
		}
	}
	if r.latest == st {
		r.latest = nil
	}
	r.cfg.Buffer.leave(&st.report.share)
	r.tombstones.remember(st.Instance, formerStream{evicted: !st.life.finished, next: st.high})
	for _, p := range st.path.peers() {
		r.peers.Forget(p)
	}
	st.contents.Removed()
	r.control.Removed(st.Instance)
	if !st.win.keeps {
		st.freeWindow()
		return
	}
	r.detached = append(r.detached, st) // until Unkeep or reclaim
	r.windows--
}

// refuse counts a packet of a publisher that the receiver does not follow, and reports it to the sink.
func (r *Receiver) refuse(now Instant, h *wire.Header, why events.Refusal) {
	r.stats.StreamsRefused++
	r.sink.Refused(now, h.Instance(), why)
}

// Leave forgets all streams except ended ones, as if no packet of them had arrived, because no subscription wants them
// any more. It keeps the counters. No output may keep packets (Detached reports false). docs/protocol §4.5.
func (r *Receiver) Leave() {
	for _, st := range r.list {
		st.returnLoans()
	}
	r.Free()
	r.tombstones.drop(func(x formerStream) bool { return x.evicted })
	r.heldUp = nil
}

// Detached reports whether outputs of streams that are over still keep packets.
func (r *Receiver) Detached() bool { return len(r.detached) > 0 }

// signKey is the id of the key with which the stream's publisher signs. docs/protocol §29.1.
func (st *Stream) signKey() uint32 { return uint32(st.Publisher >> 32) }
