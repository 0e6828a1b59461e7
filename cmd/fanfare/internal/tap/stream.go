package tap

import (
	"slices"
	"time"
)

const (
	maxStreams      = 1024
	maxTopics       = 8192
	maxReceivers    = 256 // of a stream
	maxSpans        = 256 // gaps of a stream
	maxDictionaries = 64  // that are not given
	// farJump is a sequence too far ahead to be plausible: docs/protocol.md §9.4.
	farJump = 1 << 30
)

// streamKey is a stream: docs/protocol.md §3.1.
type streamKey struct {
	tag              uint32
	publisher, epoch uint64
}

type Counts struct {
	Packets    uint64 `json:"packets"` // of the publisher
	Bytes      uint64 `json:"bytes"`
	Data       uint64 `json:"data"` // packets, without repairs
	Messages   uint64 `json:"messages"`
	Heartbeats uint64 `json:"heartbeats"`
	Announces  uint64 `json:"announces"`
	NCFs       uint64 `json:"ncfs"`
	Gones      uint64 `json:"gones"`
	Repairs    uint64 `json:"repairs"`     // packets sent again
	NAKs       uint64 `json:"naks"`        // as far as they are seen here
	NAKPackets uint64 `json:"nak_packets"` // that they ask for
	Statuses   uint64 `json:"statuses"`
	Missing    uint64 `json:"missing"`    // packets that did not come when it was their turn
	Repaired   uint64 `json:"repaired"`   // of those, came as repairs
	Late       uint64 `json:"late"`       // of those, came late but not again
	Gone       uint64 `json:"gone"`       // of those, cannot be sent again
	Open       uint64 `json:"open"`       // of those, nothing is known
	Duplicates uint64 `json:"duplicates"` // data that came twice, and is no repair
	Unneeded   uint64 `json:"unneeded"`   // repairs of what had come here
	Unread     uint64 `json:"unread"`     // data packets whose dictionary is not given: their messages are not counted
}

type Stream struct {
	Publisher, Epoch uint64
	Name             string // of the publisher, clean; empty: not known
	Group            Group
	GroupKnown       bool
	Tag              uint32
	First, Last      time.Time // packets of the publisher
	Ended            bool
	Receivers        int // that NAKs, statuses and heartbeats tell of
	Counts

	started     bool
	start, high uint64
	spans       []span // in order
	members     map[uint64]bool
	burst       burst
	told        map[Kind]uint64
	lacks       uint32 // the dictionary that was told of last
}

// leastRate is over how long a rate says something.
const leastRate = 100 * time.Millisecond

// Rate is packets and bytes a second. It is zero for a stream that was seen for less than a
// tenth of a second: there is none.
func (s *Stream) Rate() (packets, bytes float64) {
	if s.Last.Sub(s.First) < leastRate {
		return 0, 0
	}
	took := s.Last.Sub(s.First).Seconds()
	return float64(s.Packets) / took, float64(s.Bytes) / took
}

// gap is a run of packets that were missing at one time.
type gap struct {
	first, count   uint64
	left           uint64 // not here yet
	since          time.Time
	repaired, late uint64
}

// span is what is still missing of a gap.
type span struct {
	first, end uint64
	of         *gap
}

// cut takes [lo, hi) out of span i, and returns how many spans are left of it.
func (s *Stream) cut(i int, lo, hi uint64) int {
	x, rest := s.spans[i], []span(nil)
	if x.first < lo {
		rest = append(rest, span{x.first, lo, x.of})
	}
	if hi < x.end {
		rest = append(rest, span{hi, x.end, x.of})
	}
	s.spans = slices.Replace(s.spans, i, i+1, rest...)
	x.of.left -= hi - lo
	s.Open -= hi - lo
	return len(rest)
}

// fill takes seq out of what is missing, and returns its gap; nil if it is not missing.
func (s *Stream) fill(seq uint64) *gap {
	i := slices.IndexFunc(s.spans, func(x span) bool { return seq >= x.first && seq < x.end })
	if i < 0 {
		return nil
	}
	of := s.spans[i].of
	s.cut(i, seq, seq+1)
	s.bound()
	return of
}

// bound forgets the oldest of too many gaps: they stay open.
func (s *Stream) bound() {
	if n := len(s.spans) - maxSpans; n > 0 {
		s.spans = append(s.spans[:0], s.spans[n:]...)
	}
}

// give takes what is missing of [first, end) out for good, and returns how much it was.
func (s *Stream) give(first, end uint64) (n uint64) {
	for i := 0; i < len(s.spans); {
		x := s.spans[i]
		lo, hi := max(first, x.first), min(end, x.end)
		if lo >= hi {
			i++
			continue
		}
		i += s.cut(i, lo, hi)
		n += hi - lo
	}
	s.Gone += n
	s.bound()
	return n
}

// burst counts what comes within a second, for storms.
type burst struct {
	began               time.Time
	naks, repairs, data uint64
	asked               uint64
	from                map[uint64]bool
	nakStorm, repStorm  bool // told of in this second
}

func (b *burst) at(now time.Time) {
	if d := now.Sub(b.began); d < 0 || d >= time.Second {
		*b = burst{began: now}
	}
}
