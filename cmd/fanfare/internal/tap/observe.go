package tap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/dissect"
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type Kind string

const (
	KindStream      Kind = "stream"       // the first packet of a stream
	KindRestart     Kind = "restart"      // the first packet of another instance of a publisher
	KindEnd         Kind = "end"          // a stream ends
	KindGap         Kind = "gap"          // packets are missing
	KindRepaired    Kind = "repaired"     // a gap is closed, and none of it is gone
	KindClosed      Kind = "closed"       // a gap is closed, and a part of it is gone
	KindGone        Kind = "gone"         // missing packets cannot be repaired
	KindNAKStorm    Kind = "nak_storm"    // very many NAKs within a second
	KindRepairStorm Kind = "repair_storm" // more repairs than data within a second, and very many
	KindDuplicate   Kind = "duplicate"    // a packet was received twice
	KindFar         Kind = "implausible"  // a sequence that is too far ahead
	KindSealed      Kind = "sealed"       // a sealed packet that could not be opened
	KindForeign     Kind = "foreign"      // foreign traffic at an address of the fabric
	KindMalformed   Kind = "malformed"    // a packet that receivers refuse
	KindOtherTag    Kind = "other_group"  // a packet of another group
	KindFull        Kind = "full"         // more streams than can be tracked
	KindDictionary  Kind = "dictionary"   // packets are compressed with a missing dictionary
)

const storm = 100 // NAKs or repairs of a stream within a second that count as a storm

type Finding struct {
	Time         time.Time
	Kind         Kind
	Stream       *Stream // nil: concerns no stream
	Group        Group   // valid if GroupKnown
	GroupKnown   bool
	First, Count uint64 // packets, for gap, repaired, closed, gone and duplicate
	Nth          uint64 // occurrences so far; not all are reported
	Text         string // one line for display
}

type Totals struct {
	Packets    uint64 `json:"packets"`
	Bytes      uint64 `json:"bytes"`
	Hellos     uint64 `json:"hellos"`
	Sealed     uint64 `json:"sealed"`
	Unopened   uint64 `json:"unopened"` // of Sealed, packets that could not be opened
	Signed     uint64 `json:"signed"`
	Foreign    uint64 `json:"foreign"`
	Malformed  uint64 `json:"malformed"`
	OtherTag   uint64 `json:"other_group"`
	Unfollowed uint64 `json:"unfollowed"` // packets of streams that are not tracked
}

type Observer struct {
	Totals
	Reasons      map[string]uint64 // malformed packets by reason
	MissingDicts map[string]uint64 // data packets that cannot be read, by missing dictionary

	groups   *Groups
	emit     func(Finding)
	streams  map[streamKey]*Stream
	order    []*Stream
	latest   map[streamKey]events.ID // epoch of the newest instance; the key's epoch is zero
	topics   map[uint64]string
	found    map[Kind]uint64
	unpacker *compress.Unpacker
	plain    []byte   // the last packet decompressed
	Unsealer Unsealer // nil: sealed packets are not opened
}

var errNoKey = errors.New("no key")

func (o *Observer) unwrap(p *Packet) {
	p.size = p.Bytes()
	o.unseal(p)
	if p.Err != nil || p.Signed != nil || !wire.IsSigned(p.Data) {
		return
	}
	s, err := wire.ParseSigned(p.Data)
	p.Signed = &Signed{s, err}
	if err == nil {
		p.Data = s.Packet
	}
}

func (o *Observer) unseal(p *Packet) {
	if p.Err != nil || p.Sealed != nil || !wire.IsSealed(p.Data) {
		return
	}
	p.Sealed = &Sealed{wire.ParseSealed(p.Data), errNoKey}
	if o.Unsealer == nil {
		return
	}
	index := int64(-1)
	if p.Address == "" {
		index = unicastIndex
	} else if g, ok := o.groups.byAddress[p.Address]; ok {
		index = int64(g.Index)
	}
	data, err := o.Unsealer.Open(p.Data, index)
	if p.Sealed.Err = err; err == nil {
		p.Data = data
	}
}

const unicastIndex = 1<<32 - 1 // the index for packets to one bus: docs/protocol §27.4

func NewObserver(groups *Groups, emit func(Finding)) *Observer {
	return &Observer{
		Reasons: make(map[string]uint64), MissingDicts: make(map[string]uint64), groups: groups, emit: emit,
		unpacker: compress.NewUnpacker(nil),
		streams:  make(map[streamKey]*Stream), latest: make(map[streamKey]events.ID),
		topics: make(map[uint64]string), found: make(map[Kind]uint64),
	}
}

func (o *Observer) Streams() []*Stream { return o.order }

// TopicName implements dissect.Names.
func (o *Observer) TopicName(id uint64) string { return o.topics[id] }

func (o *Observer) NameTopic(id uint64, name string) {
	if len(o.topics) < maxTopics {
		o.topics[id] = name
	}
}

// Locate sets the group of a packet. It opens a sealed one.
func (o *Observer) Locate(p *Packet) {
	o.unwrap(p)
	if h, ok := p.header(); ok {
		if p.group, p.known = o.groups.byTag[h.GroupTag]; p.known {
			return
		}
	}
	p.group, p.known = o.groups.byAddress[p.Address]
}

// Observe parses and analyses the next packet. Locate must have been called before if groups matter.
func (o *Observer) Observe(p *Packet) {
	o.unwrap(p)
	o.Packets++
	o.Bytes += uint64(p.Bytes())
	if x := p.Sealed; x != nil {
		if o.Sealed++; x.Err != nil {
			o.Unopened++
			o.report(p, nil, KindSealed, 0, 0, "%d bytes from %s to %s are sealed with key 0x%08x by sender %x (counter %d, sent at %s) and cannot be opened: %v",
				p.Bytes(), p.From, p.To, x.Key, x.Salt, x.Counter, x.At().Format(time.RFC3339), x.Err)
			return
		}
	}
	if p.Signed != nil {
		o.Signed++
	}
	switch {
	case p.Err != nil:
		p.Read = dissect.Packet{Err: p.Err}
	case p.Signed != nil && p.Signed.Err != nil:
		p.Read = dissect.Packet{Err: fmt.Errorf("signed: %w", p.Signed.Err)}
	default:
		p.Read, p.Runs, p.missingDict = o.read(p.Data)
	}
	h, ok := p.header()
	switch {
	case !ok && p.Err == nil && (errors.Is(p.Read.Err, wire.ErrForeign) || len(p.Data) < 2):
		o.Foreign++
		o.report(p, nil, KindForeign, 0, 0, "%d bytes from %s to %s are not a packet of Fanfare", len(p.Data), p.From, p.To)
		return
	case p.Read.Err != nil:
		o.Malformed++
		o.Reasons[p.Read.Err.Error()]++
		o.report(p, nil, KindMalformed, 0, 0, "%d bytes from %s to %s: %v", len(p.Data), p.From, p.To, p.Read.Err)
		return
	}
	h, _ = wire.ParseHeader(p.Data) // including its flags
	if p.Address != "" && wire.GroupTag(p.Address) != h.GroupTag {
		o.OtherTag++
		of := "no known group"
		if g, ok := o.groups.byTag[h.GroupTag]; ok {
			of = g.String()
		}
		o.report(p, nil, KindOtherTag, 0, 0, "a %v from %s to %s has group tag %08x, the tag of %s", h.Type, p.From, p.Address, h.GroupTag, of)
		return
	}
	if h.Type == wire.TypeHello {
		o.Hellos++
		return
	}
	s := o.stream(p, h)
	if s == nil {
		o.Unfollowed++
		o.report(p, nil, KindFull, 0, 0, "there are more than %d streams: further ones are not tracked", maxStreams)
		return
	}
	s.burst.at(p.Time)
	switch h.Type {
	case wire.TypeNAK, wire.TypeStatus:
	default:
		if s.Packets == 0 {
			s.First = p.Time
		}
		s.Packets++
		s.Bytes += uint64(p.Bytes())
		s.Last = p.Time
	}
	o.packet(s, p, h)
}

func (o *Observer) stream(p *Packet, h wire.Header) *Stream {
	key := streamKey{h.GroupTag, h.Instance()}
	if s := o.streams[key]; s != nil {
		return s
	}
	if len(o.streams) == maxStreams {
		return nil
	}
	s := &Stream{Instance: h.Instance(), Tag: h.GroupTag, Group: p.group,
		GroupKnown: p.known, found: make(map[Kind]uint64), members: make(map[uint64]bool)}
	o.streams[key] = s
	o.order = append(o.order, s)
	if x, err := wire.ParseHeartbeat(p.Data); h.Type == wire.TypeHeartbeat && err == nil {
		s.name(x.Name)
	}
	instance := streamKey{h.GroupTag, events.Instance{Publisher: h.Publisher}}
	if _, again := o.latest[instance]; again {
		o.report(p, s, KindRestart, 0, 0, "another instance of this publisher appeared, with epoch %s", h.Epoch)
	} else {
		o.report(p, s, KindStream, 0, 0, "first packet from %s, with epoch %s", p.From, h.Epoch)
	}
	o.latest[instance] = h.Epoch
	return s
}

func (s *Stream) name(b []byte) {
	if len(b) > 0 {
		s.Name = wire.CleanName(b)
	}
}

// report emits a finding: the first ten of a kind and stream, then the 16th, the 32nd, and so on.
func (o *Observer) report(p *Packet, s *Stream, kind Kind, first, count uint64, format string, args ...any) {
	counts := o.found
	f := Finding{Time: p.Time, Kind: kind, Stream: s, First: first, Count: count, Group: p.group, GroupKnown: p.known}
	if s != nil {
		counts = s.found
		f.Group, f.GroupKnown = s.Group, s.GroupKnown
	}
	counts[kind]++
	if f.Nth = counts[kind]; f.Nth > 10 && f.Nth&(f.Nth-1) != 0 {
		return
	}
	for i, x := range args {
		if d, ok := x.(time.Duration); ok {
			args[i] = plural.Duration(d)
		}
	}
	f.Text = fmt.Sprintf(format, args...)
	if s != nil {
		name := ""
		if s.Name != "" {
			name = " (" + s.Name + ")"
		}
		f.Text = fmt.Sprintf("publisher %s%s: %s", s.Publisher, name, f.Text)
	}
	o.emit(f)
}

func sequences(first, count uint64) string {
	if count == 1 {
		return "packet " + strconv.FormatUint(first, 10)
	}
	return fmt.Sprintf("%d packets, %d to %d,", count, first, first+count-1)
}

func verb(count uint64) string {
	if count == 1 {
		return "is"
	}
	return "are"
}

func (s *Stream) receiver(id uint64) {
	if len(s.members) < maxReceivers {
		s.members[id] = true
	}
	s.Receivers = max(s.Receivers, len(s.members))
}

func (o *Observer) ReasonList() []string {
	return slices.SortedFunc(maps.Keys(o.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.Reasons[b], o.Reasons[a]), cmp.Compare(a, b))
	})
}
