package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// MaxLegs is by how many legs a stream may come: ways of a network that carry the same packets, such as two interfaces.
const MaxLegs = wire.MaxLegs

// streamLegs is what of a stream comes by each leg. It decides
//
//   - which of several copies counts: the first; others are known by their header (Receiver.copied);
//   - until when a packet that one leg lost is waited for: until every other leg has passed it
//     (passed), or has not come that far within its skew (overdue);
//   - which leg has fallen silent while another brings the stream (silences);
//   - by which leg replies go (way).
//
// docs/protocol §23. Streams of a receiver with one leg have none.
type streamLegs struct {
	n  int
	of [MaxLegs]streamLeg
	// passed is where the last of those legs is that are waited for: what is missing below came by none of them.
	passed uint64
	how    arrival // of the packet that is being handled
	lead   int     // the leg by which the newest heartbeat came first
	stats  []legCounts
}

// streamLeg is one of them.
//
//	       brings something newer
//	┌────────┐ ◄───────────────── ┌───────────┐
//	│ waited │                    │ not waited│
//	│  for   │ ─────────────────► │    for    │
//	└────────┘  is overdue        └───────────┘
type streamLeg struct {
	end    uint64 // one beyond the newest sequence that it delivered or announced
	seen   seqSet // what it brought as first transmissions
	again  seqSet // and as repairs
	waited bool
	skew   rttEstimator // how far it is behind the first leg
	probe  probe

	heard  upTime // last
	newest uint64 // SentAt of the newest heartbeat that it brought
	old    int    // heartbeats since then that were not newer
	missed int    // new heartbeats that others have brought since heard
	silent bool
	absent bool // the publisher is not on it

	peer  uint32 // replies go there
	known bool   // there is a peer
}

// probe is a packet that another leg brought first: the skew is measured by it.
type probe struct {
	set bool
	seq uint64
	at  Instant
}

const (
	// mostSkew is how far behind a leg may be for its copies to be waited for.
	mostSkew = maxRetry
	// silentHeartbeats is how many new heartbeats a leg must have missed to be silent.
	silentHeartbeats = 3
)

// arrival is how a first transmission came by its leg.
type arrival uint8

const (
	inTurn    arrival = iota // nothing newer has come by it
	overtaken                // something newer has
	repeated                 // it has come by it before
)

func newStreamLegs(stats []legCounts, start uint64, now upTime) *streamLegs {
	x := &streamLegs{n: len(stats), stats: stats, passed: start}
	for i := range x.of {
		x.of[i].end, x.of[i].heard = start, now
	}
	return x
}

// brought notes a first transmission that came by a leg. first: no other leg has brought it.
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

// comes notes that a leg is at seq: what it has not brought before is lost there.
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

// advance moves passed on, and returns where it was.
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

// grace is how long a packet is waited for that some leg has still to pass.
func (x *streamLegs) grace() time.Duration {
	var d time.Duration
	for i := range x.n {
		if l := &x.of[i]; l.waited {
			d = max(d, l.skew.retry(0))
		}
	}
	return min(d, mostSkew)
}

// overdue notes that the time is over in which seq might have come: legs that have not
// passed it are not waited for any more.
func (x *streamLegs) overdue(seq uint64) {
	for i := range x.n {
		if l := &x.of[i]; l.end <= seq {
			l.waited = false
		}
	}
}

// repaired records that a packet which no leg delivered arrived as a repair, or is lost permanently.
func (x *streamLegs) repaired(seq, n uint64) {
	for i := range x.n {
		if end := x.of[i].end; end > seq {
			x.stats[i].unfilled += min(n, end-seq)
		}
	}
}

// silences notes a new heartbeat that came by a leg first, and calls fell for each leg
// that has fallen silent: it missed some heartbeats, for that long at least.
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

// old is how many heartbeats a leg has brought at most since one that was newer.
func (x *streamLegs) old() (most int) {
	for i := range x.n {
		most = max(most, x.of[i].old)
	}
	return most
}

// restart notes that the publisher was not heard by any leg, and is again: what a leg has missed
// before says nothing of it.
func (x *streamLegs) restart(now upTime) {
	for i := range x.n {
		x.of[i].heard, x.of[i].missed = now, 0
	}
}

// way is the peer by which a reply goes: by the leg that the newest heartbeat came by first. What is said again goes by
// another that is heard, if there is one: the way back may be broken where the way here is not.
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

// seqSet holds which of the last seqSetSize sequences have come.
type seqSet struct {
	words [seqSetSize / 64]uint64
	end   uint64 // one beyond the highest
}

const seqSetSize = 1024

// add adds a sequence, and reports whether it was there. One that is too old counts as new.
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
