package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// MaxLegs is the maximum number of legs: networks that carry the same packets, such as those of two interfaces.
const MaxLegs = wire.MaxLegs

// streamLegs is the state of a stream on each leg. It decides
//
//   - which of several copies counts: the first; others are recognised by their header (Receiver.copied);
//   - how long to wait for a packet that one leg lost: until every other leg has passed it (passed), or its skew has
//     expired (overdue);
//   - which leg has fallen silent while another brings the stream (silences);
//   - by which leg control packets are sent (way).
//
// docs/protocol §23. Receivers with one leg have no streamLegs.
type streamLegs struct {
	n  int
	of [MaxLegs]streamLeg
	// passed is how far all legs waited for have come: missing packets below it arrived by none of them.
	passed uint64
	how    arrival // of the packet being handled
	lead   int     // leg that first brought the newest heartbeat
	stats  []legCounts
}

// streamLeg is one leg of a stream.
//
//	       brings something newer
//	┌────────┐ ◄───────────────── ┌───────────┐
//	│ waited │                    │ not waited│
//	│  for   │ ─────────────────► │    for    │
//	└────────┘  is overdue        └───────────┘
type streamLeg struct {
	end    uint64 // one beyond the newest sequence that arrived or was announced by the leg
	seen   seqSet // first transmissions that arrived
	again  seqSet // repairs that arrived
	waited bool
	skew   rttEstimator // how late it is behind the first leg
	probe  probe

	heard  upTime // last sign of life
	newest uint64 // SentAt of its newest heartbeat
	old    int    // heartbeats since then that were not newer
	missed int    // new heartbeats that other legs have brought since heard
	silent bool
	absent bool // the publisher does not use this leg

	peer  uint32 // destination of control packets
	known bool   // peer is set
}

// probe is a packet that another leg brought first, by which a leg's skew is measured.
type probe struct {
	set bool
	seq uint64
	at  Instant
}

const (
	// mostSkew is the longest time to wait for a copy on a slower leg.
	mostSkew = maxRetry
	// silentHeartbeats is how many new heartbeats a silent leg has missed at least.
	silentHeartbeats = 3
)

// arrival is how a first transmission arrived by its leg.
type arrival uint8

const (
	inTurn    arrival = iota // nothing newer arrived by the leg before
	overtaken                // something newer did
	repeated                 // the packet itself did
)

func newStreamLegs(stats []legCounts, start uint64, now upTime) *streamLegs {
	x := &streamLegs{n: len(stats), stats: stats, passed: start}
	for i := range x.of {
		x.of[i].end, x.of[i].heard = start, now
	}
	return x
}

// brought records a first transmission that arrived by a leg. first: no other leg has brought it before.
func (x *streamLegs) brought(now Instant, leg int, seq uint64, first bool) arrival {
	l, s := &x.of[leg], &x.stats[leg]
	if l.seen.add(seq) {
		s.Duplicates++
		return repeated
	}
	s.Packets++
	if !first {
		s.Copies++
	}
	if seq < l.end {
		s.Late++
		s.Lost -= min(s.Lost, 1)
		return overtaken
	}
	x.comes(now, leg, seq)
	l.end = seq + 1
	if first {
		for i := range x.n {
			if o := &x.of[i]; o.end <= seq && !o.probe.set {
				o.probe = probe{true, seq, now}
			}
		}
	}
	return inTurn
}

// comes records that a leg has reached seq: what it has not brought before seq is lost on it.
func (x *streamLegs) comes(now Instant, leg int, seq uint64) {
	l := &x.of[leg]
	if seq > l.end {
		x.stats[leg].Lost += seq - l.end
		l.end = seq
	}
	l.waited = true
	if l.probe.set && l.probe.seq <= seq {
		if d := now.Sub(l.probe.at); d <= mostSkew {
			l.skew.sampleCut(d)
		}
		l.probe.set = false
	}
}

// advance updates passed, and returns its old value.
func (x *streamLegs) advance() (from uint64) {
	from = x.passed
	least := ^uint64(0)
	for i := range x.n {
		if l := &x.of[i]; l.waited {
			least = min(least, l.end)
		}
	}
	if least != ^uint64(0) {
		x.passed = max(x.passed, least)
	}
	return from
}

// grace is how long to wait for a packet that some leg has not passed yet.
func (x *streamLegs) grace() time.Duration {
	var d time.Duration
	for i := range x.n {
		if l := &x.of[i]; l.waited {
			d = max(d, l.skew.retry(0))
		}
	}
	return min(d, mostSkew)
}

// overdue ends the wait for seq on the legs that have not passed it, until they bring something newer.
func (x *streamLegs) overdue(seq uint64) {
	for i := range x.n {
		if l := &x.of[i]; l.end <= seq {
			l.waited = false
		}
	}
}

// repaired records that n packets from seq on, which no leg delivered, were repaired or are lost permanently.
func (x *streamLegs) repaired(seq, n uint64) {
	for i := range x.n {
		if end := x.of[i].end; end > seq {
			x.stats[i].unfilled += min(n, end-seq)
		}
	}
}

// silences records that a leg was the first to bring a new heartbeat. It calls fell for each leg that has fallen
// silent: one that missed silentHeartbeats or more, for longer than limit.
func (x *streamLegs) silences(now upTime, leg int, limit time.Duration, fell func(leg int)) {
	x.lead = leg
	for i := range x.n {
		l := &x.of[i]
		if i == leg {
			continue
		}
		if l.missed++; !l.silent && !l.absent && l.missed >= silentHeartbeats && now.sub(l.heard) > limit {
			l.silent = true
			fell(i)
		}
	}
}

// old is the highest number of heartbeats without a newer one, over all legs.
func (x *streamLegs) old() (highest int) {
	for i := range x.n {
		highest = max(highest, x.of[i].old)
	}
	return highest
}

// restart records that the publisher is received again, after no leg received it: heartbeats missed before do not
// count.
func (x *streamLegs) restart(now upTime) {
	for i := range x.n {
		x.of[i].heard, x.of[i].missed = now, 0
	}
}

// way is the peer for a control packet: on the leg that first brought the newest heartbeat. A repetition uses another
// leg that receives the stream, if there is one: the path back may be broken where the path here is not.
func (x *streamLegs) way(again bool) uint32 {
	at := x.lead
	for i := 1; again && i < x.n; i++ {
		if l := &x.of[(x.lead+i)%x.n]; l.known && !l.silent {
			at = (x.lead + i) % x.n
			break
		}
	}
	if !x.of[at].known {
		for i := range x.n {
			if x.of[i].known {
				return x.of[i].peer
			}
		}
	}
	return x.of[at].peer
}

// seqSet records which of the last seqSetSize sequences have arrived.
type seqSet struct {
	words [seqSetSize / 64]uint64
	end   uint64 // one beyond the highest sequence
}

const seqSetSize = 1024

// add adds a sequence, and reports whether it was in the set. A sequence that is too old counts as new.
func (s *seqSet) add(seq uint64) (known bool) {
	if seq+seqSetSize < s.end {
		return false
	}
	if seq >= s.end {
		for i := max(s.end, seq+1-min(seq+1, seqSetSize)); i <= seq; i++ {
			s.words[i%seqSetSize/64] &^= 1 << (i % 64)
		}
		s.end = seq + 1
	}
	w, bit := &s.words[seq%seqSetSize/64], uint64(1)<<(seq%64)
	known = *w&bit != 0
	*w |= bit
	return known
}
