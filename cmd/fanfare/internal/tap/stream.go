package tap

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

const (
	maxStreams      = 1024
	maxTopics       = 8192
	maxReceivers    = 256     // of a stream
	maxSpans        = 256     // gaps of a stream
	maxDictionaries = 64      // missing ones that are counted separately
	farJump         = 1 << 30 // a jump of the sequence that is implausible: docs/protocol §9.4
)

type streamKey struct {
	tag uint32
	events.Instance
}

type Counts struct {
	Packets    uint64 `json:"packets"` // sent by the publisher
	Bytes      uint64 `json:"bytes"`
	Data       uint64 `json:"data"` // data packets without repairs
	Messages   uint64 `json:"messages"`
	Heartbeats uint64 `json:"heartbeats"`
	NCFs       uint64 `json:"ncfs"`
	Gones      uint64 `json:"gones"`
	Repairs    uint64 `json:"repairs"`     // packets sent again
	NAKs       uint64 `json:"naks"`        // as far as visible here
	NAKPackets uint64 `json:"nak_packets"` // packets requested by them
	Statuses   uint64 `json:"statuses"`
	Missing    uint64 `json:"missing"`    // packets absent when a later one arrived
	Repaired   uint64 `json:"repaired"`   // of Missing: received as repairs
	Late       uint64 `json:"late"`       // of Missing: received late, not as repairs
	Gone       uint64 `json:"gone"`       // of Missing: cannot be repaired
	Open       uint64 `json:"open"`       // of Missing: still missing
	Duplicates uint64 `json:"duplicates"` // data received twice, not as repairs
	Unneeded   uint64 `json:"unneeded"`   // repairs of packets already received here
	Unread     uint64 `json:"unread"`     // data packets without their dictionary; their messages are not counted
}

type Stream struct {
	events.Instance
	Name        string // of the publisher, printable; empty: unknown
	Group       Group
	GroupKnown  bool
	Tag         uint32
	First, Last time.Time // times of the publisher's packets
	Ended       bool
	Receivers   int // seen in NAKs, statuses and heartbeats
	Counts

	started     bool
	start, high uint64
	spans       []span // sorted
	members     map[uint64]bool
	burst       burst
	found       map[Kind]uint64
	missingDict uint32 // the missing dictionary reported last
}

const minRatePeriod = 100 * time.Millisecond // shorter periods give no useful rate

// Rate returns packets and bytes a second; zero for a stream shorter than minRatePeriod.
func (s *Stream) Rate() (packets, bytes float64) {
	if s.Last.Sub(s.First) < minRatePeriod {
		return 0, 0
	}
	elapsed := s.Last.Sub(s.First).Seconds()
	return float64(s.Packets) / elapsed, float64(s.Bytes) / elapsed
}

// gap is a run of packets found missing together.
type gap struct {
	first, count   uint64
	left           uint64 // still missing
	since          time.Time
	repaired, late uint64
}

type span struct {
	first, end uint64
	of         *gap
}

// cut removes [lo, hi) from span i, and returns how many spans remain of it.
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

// fill removes seq from the missing packets and returns its gap; nil if it was not missing.
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

// bound drops the oldest gaps above maxSpans: they count as open.
func (s *Stream) bound() {
	if n := len(s.spans) - maxSpans; n > 0 {
		s.spans = append(s.spans[:0], s.spans[n:]...)
	}
}

// giveUp removes from the missing packets those in [first, end), and returns their number.
func (s *Stream) giveUp(first, end uint64) (n uint64) {
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

// burst counts packets within a second, to detect storms.
type burst struct {
	began               time.Time
	naks, repairs, data uint64
	requested           uint64
	from                map[uint64]bool
	nakStorm, repStorm  bool // already reported in this second
}

func (b *burst) at(now time.Time) {
	if d := now.Sub(b.began); d < 0 || d >= time.Second {
		*b = burst{began: now}
	}
}

// packet tracks a stream with a valid packet: missing and repeated packets.
func (o *Observer) packet(s *Stream, p *Packet, h wire.Header) {
	switch h.Type {
	case wire.TypeData:
		o.data(s, p, h)
	case wire.TypeHeartbeat:
		o.heartbeat(s, p, h)
	case wire.TypeNAK:
		o.nak(s, p)
	case wire.TypeNCF:
		s.NCFs++
	case wire.TypeGone:
		s.Gones++
		r, _ := wire.ParseRanges(p.Data)
		for first, n, ok := r.Next(); ok; first, n, ok = r.Next() {
			o.gone(s, p, first, first+n, "the publisher cannot send them again")
		}
	case wire.TypeStatus:
		s.Statuses++
		x, _ := wire.ParseStatus(p.Data)
		s.receiver(x.Receiver)
	}
}

func (o *Observer) data(s *Stream, p *Packet, h wire.Header) {
	d, _ := wire.ParseData(p.Data)
	repair := h.Flags&wire.FlagRepair != 0
	s.content(o, p.Runs, repair)
	o.unread(s, p, repair)
	switch {
	case repair:
		s.Repairs++
		b := &s.burst
		if b.repairs++; b.repairs >= storm && b.repairs > b.data && !b.repStorm {
			b.repStorm = true
			o.report(p, s, KindRepairStorm, 0, b.repairs, "repair storm: %d repairs and %d new packets within %v", b.repairs, b.data, p.Time.Sub(b.began))
		}
	default:
		s.Data++
		s.burst.data++
	}
	switch {
	case !s.started && !repair: // §4.1
		s.started, s.start, s.high = true, d.Seq, d.Seq+1
	case !s.started, d.Seq < s.start:
	case d.Seq >= s.high:
		if o.lead(s, p, d.Seq) {
			s.high = d.Seq + 1
		}
	default:
		o.again(s, p, d.Seq, repair)
	}
}

func (s *Stream) content(o *Observer, runs []byte, repair bool) {
	for r, rest, ok := wire.NextRun(runs); ok; r, rest, ok = wire.NextRun(rest) {
		switch r.Kind {
		case wire.RunTopic:
			o.NameTopic(r.Topic, wire.CleanName(r.Body))
		case wire.RunMessages:
			for body := r.Body; !repair; s.Messages++ {
				if _, body, ok = wire.NextMessage(body); !ok {
					break
				}
			}
		case wire.RunFragment:
			if f, err := wire.ParseFragment(r.Body); err == nil && !repair && f.Offset+len(f.Bytes) == f.Total {
				s.Messages++
			}
		}
	}
}

// lead records that all packets below seq exist; false: implausible.
func (o *Observer) lead(s *Stream, p *Packet, seq uint64) bool {
	n := seq - s.high
	switch {
	case n == 0:
		return true
	case n > farJump:
		o.report(p, s, KindFar, seq, 1, "sequence %d is %d ahead of the stream", seq, n)
		return false
	}
	g := &gap{first: s.high, count: n, left: n, since: p.Time}
	s.spans = append(s.spans, span{s.high, seq, g})
	s.bound()
	s.Missing += n
	s.Open += n
	s.high = seq
	o.report(p, s, KindGap, g.first, n, "%s %s missing", sequences(g.first, n), verb(n))
	return true
}

// again handles a packet that arrives after a later one.
func (o *Observer) again(s *Stream, p *Packet, seq uint64, repair bool) {
	g := s.fill(seq)
	switch {
	case g == nil && repair:
		s.Unneeded++
		return
	case g == nil:
		s.Duplicates++
		o.report(p, s, KindDuplicate, seq, 1, "packet %d received again, not as a repair", seq)
		return
	case repair:
		s.Repaired++
		g.repaired++
	default:
		s.Late++
		g.late++
	}
	if g.left > 0 {
		return
	}
	how := "repaired"
	switch {
	case g.repaired == 0:
		how = "received late, without repair,"
	case g.late > 0:
		how = "received, some late and some repaired,"
	}
	if gone := g.count - g.repaired - g.late; gone > 0 {
		o.report(p, s, KindClosed, g.first, g.count, "%d of %d missing packets %s gone, %d %s %s after %v",
			gone, g.count, verb(gone), g.count-gone, verb(g.count-gone), how, p.Time.Sub(g.since))
		return
	}
	o.report(p, s, KindRepaired, g.first, g.count, "%s %s %s after %v", sequences(g.first, g.count), verb(g.count), how, p.Time.Sub(g.since))
}

func (o *Observer) gone(s *Stream, p *Packet, first, end uint64, why string) {
	if n := s.giveUp(first, end); n > 0 {
		o.report(p, s, KindGone, first, n, "%d of the missing packets will not arrive: %s", n, why)
	}
}

func (o *Observer) heartbeat(s *Stream, p *Packet, h wire.Header) {
	s.Heartbeats++
	x, _ := wire.ParseHeartbeat(p.Data)
	s.name(x.Name)
	s.Receivers = max(s.Receivers, int(min(x.Receivers, 1<<20)))
	switch {
	case !s.started && h.Flags&wire.FlagEnd == 0: // §4.1
		s.started, s.start, s.high = true, x.Lead, x.Lead
	case s.started && x.Lead > s.high:
		o.lead(s, p, x.Lead)
	}
	if x.Lead <= s.high {
		o.gone(s, p, 0, x.Trail, "they are older than the oldest packet that the publisher keeps")
	}
	if h.Flags&wire.FlagEnd != 0 && !s.Ended {
		s.Ended = true
		o.report(p, s, KindEnd, 0, 0, "the stream ends before packet %d", x.Lead)
	}
}

func (o *Observer) nak(s *Stream, p *Packet) {
	s.NAKs++
	r, _ := wire.ParseRanges(p.Data)
	s.receiver(r.Receiver)
	b := &s.burst
	b.naks++
	if b.from == nil {
		b.from = make(map[uint64]bool)
	}
	if len(b.from) < maxReceivers {
		b.from[r.Receiver] = true
	}
	for _, n, ok := r.Next(); ok; _, n, ok = r.Next() {
		s.NAKPackets += n
		b.requested += n
	}
	if b.naks >= storm && !b.nakStorm {
		b.nakStorm = true
		o.report(p, s, KindNAKStorm, 0, b.naks, "NAK storm: %d NAKs of %d receivers within %v request %d packets", b.naks, len(b.from), p.Time.Sub(b.began), b.requested)
	}
}
