package reliable

import (
	"errors"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// verdict says whether a packet is accepted, or why not.
type verdict uint8

const (
	accepted    verdict = iota
	helloPacket         // handled by Discovery
	otherVersion
	sealedPacket
	foreignPacket
	malformedPacket
	ownPacket
	damagedPacket
)

// Check returns the header of a packet, and whether the packet is undamaged and for a stream of a receiver with this
// configuration. It passes what the packet states of its publisher's configuration to Discovery. tagOf returns the tag
// of a known stream. docs/protocol §13.1.
func (c *ReceiverConfig) Check(now Instant, from uint64, b []byte,
	tagOf func(events.Instance) (tag uint32, ok bool)) (h wire.Header, ok bool) {
	h, v := c.judge(now, from, b, tagOf)
	return h, v == accepted
}

func (c *ReceiverConfig) judge(now Instant, from uint64, b []byte,
	tagOf func(events.Instance) (tag uint32, ok bool)) (wire.Header, verdict) {
	h, err := wire.ParseHeader(b)
	switch {
	case err == nil:
	case errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrUnsupported):
		if c.Discovery != nil {
			c.Discovery.OtherVersion(from, now, c.LegTags, b)
		}
		return h, otherVersion
	case !errors.Is(err, wire.ErrForeign) && !errors.Is(err, wire.ErrType):
		return h, malformedPacket
	case wire.IsSealed(b):
		return h, sealedPacket
	default:
		return h, foreignPacket
	}
	if !c.ours(h.GroupTag) && !c.byOtherTag(&h, b, tagOf) || h.Type == wire.TypeNAK ||
		h.Type == wire.TypeStatus || h.Type == wire.TypeReply {
		return h, foreignPacket
	}
	if h.Type == wire.TypeHello {
		if c.Discovery == nil || !c.Discovery.Hello(from, now, b) {
			return h, foreignPacket
		}
		return h, helloPacket
	}
	if h.Instance() == c.Own && !c.Loopback {
		return h, ownPacket
	}
	// A checksum that is present must match, even if the fabric has checked the packet: the damage may be older
	// (docs/protocol §2.4).
	if wire.Verify(b, c.Checksum) != nil {
		if c.Discovery != nil && h.Flags&wire.FlagChecksum == 0 {
			c.Discovery.WithoutChecksum(from, now, h, b)
		}
		return h, damagedPacket
	}
	return h, accepted
}

// addressed is Check, and counts packets that are not accepted.
func (r *Receiver) addressed(now Instant, from uint64, b []byte) (h wire.Header, ok bool) {
	h, v := r.cfg.judge(now, from, b, r.tagOf)
	switch v {
	case otherVersion:
		r.stats.Version++
	case sealedPacket:
		r.stats.Sealed++
		r.sealed.note(b, from, r.peers)
	case foreignPacket:
		r.stats.Foreign++
	case malformedPacket:
		r.stats.Malformed++
	case ownPacket:
		r.stats.Own++
	case damagedPacket:
		r.stats.Damaged++
		if r.damage.Packets++; r.damage.Packets == 1 {
			r.damage.Publisher, r.damage.Address = h.Publisher, r.peers.Address(from)
		}
	}
	return h, v == accepted
}

// Addressed reports whether a packet may be for this group. Handle only counts other packets.
func (r *Receiver) Addressed(b []byte) bool {
	h, err := wire.ParseHeader(b)
	return err != nil || r.cfg.ours(h.GroupTag) || r.cfg.byOtherTag(&h, b, r.tagOf)
}

// tagOf returns the tag of a known stream.
func (r *Receiver) tagOf(of events.Instance) (tag uint32, ok bool) {
	if st := r.instances.streams[of]; st != nil {
		return st.path.tag, true
	}
	return 0, false
}

// legTags returns the tags of a group on its legs: just tag with one leg.
func legTags(tag uint32, legs []uint32) []uint32 {
	if len(legs) == 0 {
		return []uint32{tag}
	}
	return legs
}

// ours reports whether a tag is the group's on any leg.
func (c *ReceiverConfig) ours(tag uint32) bool { return slices.Contains(c.LegTags, tag) }

// byOtherTag reports whether a packet with a tag other than the group's comes from a publisher that shares a leg with
// this receiver. The publisher's heartbeats list its legs. docs/protocol §23.8.
func (c *ReceiverConfig) byOtherTag(h *wire.Header, b []byte,
	tagOf func(events.Instance) (tag uint32, ok bool)) bool {
	if tag, ok := tagOf(h.Instance()); ok && tag == h.GroupTag {
		return true
	}
	if h.Type != wire.TypeHeartbeat {
		return false
	}
	hb, err := wire.ParseHeartbeat(b)
	return err == nil && hb.Legs.N > 0 && hb.Legs.Tags[0] == h.GroupTag && slices.ContainsFunc(hb.Legs.List(), c.ours)
}

// Damage counts packets that lack a required checksum, or have a wrong one.
type Damage struct {
	Packets   uint64
	Publisher events.ID // of the first, as its header states: it may be damaged, too
	Address   string    // source of the first; empty: unknown
}

// TakeDamage returns the damage since the last call.
func (r *Receiver) TakeDamage() Damage {
	d := r.damage
	r.damage = Damage{}
	return d
}

// noticed is what a receiver found in packets that it refused, until its owner takes it.
type noticed struct {
	damage Damage
	sealed sealedSeen
}

// sealedSeen records sealed packets (docs/protocol §27), which a receiver behind a transport without keys cannot open.
type sealedSeen struct {
	seen, taken bool
	key         uint32
	address     string
}

// note records the first such packet.
func (x *sealedSeen) note(b []byte, from uint64, peers Sources) {
	if !x.seen {
		*x = sealedSeen{seen: true, key: wire.ParseSealed(b).Key, address: peers.Address(from)}
	}
}

// TakeSealed returns, once, the key id and the source of the first sealed packet.
func (r *Receiver) TakeSealed() (key uint32, address string, seen bool) {
	x := &r.sealed
	if !x.seen || x.taken {
		return 0, "", false
	}
	x.taken = true
	return x.key, x.address, true
}
