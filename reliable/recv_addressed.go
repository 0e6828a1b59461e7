package reliable

import (
	"errors"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// addressed reports whether a packet is for a stream of this receiver, and undamaged: it is
// counted if not. What it says about the configuration of its publisher's bus goes to
// Discovery. tagOf is the tag of a stream that is known. docs/protocol.md §13.1.
func (r *Receiver) addressed(now Instant, from uint64, b []byte, tagOf func(streamKey) (uint32, bool)) (h wire.Header, ok bool) {
	h, err := wire.ParseHeader(b)
	if err != nil {
		switch {
		case errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrUnsupported):
			r.stats.Version++
			if d := r.cfg.Discovery; d != nil {
				d.OtherVersion(from, now, r.cfg.LegTags, b)
			}
		case errors.Is(err, wire.ErrForeign), errors.Is(err, wire.ErrType):
			if wire.IsSealed(b) {
				r.stats.Sealed++
				r.sealed.note(b, from, r.peers)
				break
			}
			r.stats.Foreign++
		default:
			r.stats.Malformed++
		}
		return h, false
	}
	if !r.ours(h.GroupTag) && !r.byOtherTag(&h, b, tagOf) || h.Type == wire.TypeNAK || h.Type == wire.TypeStatus || h.Type == wire.TypeReply {
		r.stats.Foreign++
		return h, false
	}
	if h.Type == wire.TypeHello {
		if d := r.cfg.Discovery; d == nil || !d.Hello(from, now, b) {
			r.stats.Foreign++
		}
		return h, false
	}
	if h.Publisher == r.cfg.Own && h.Epoch == r.cfg.OwnEpoch && !r.cfg.Loopback {
		r.stats.Own++
		return h, false
	}
	// A checksum that is there must match, even where the fabric has checked the
	// packet: the damage may be older (docs/protocol.md §2.4).
	if wire.Verify(b, r.cfg.Checksum) != nil {
		r.stats.Damaged++
		if r.damage.Packets++; r.damage.Packets == 1 {
			r.damage.Publisher, r.damage.Address = h.Publisher, r.peers.Address(from)
		}
		if d := r.cfg.Discovery; d != nil && h.Flags&wire.FlagChecksum == 0 {
			d.WithoutChecksum(from, now, h, b)
		}
		return h, false
	}
	return h, true
}

// Addressed reports whether a packet may be for this group. Handle counts one that is not, and does nothing else.
func (r *Receiver) Addressed(b []byte) bool {
	h, err := wire.ParseHeader(b)
	return err != nil || r.ours(h.GroupTag) || r.byOtherTag(&h, b, r.tagOf)
}

// tagOf is the tag of a stream that is known.
func (r *Receiver) tagOf(key streamKey) (tag uint32, ok bool) {
	if st := r.instances.streams[key]; st != nil {
		return st.path.tag, true
	}
	return 0, false
}

// legTags are the tags of a group on each leg: one, where there are no legs.
func legTags(tag uint32, legs []uint32) []uint32 {
	if len(legs) == 0 {
		return []uint32{tag}
	}
	return legs
}

// ours reports whether a tag is that of the group, on any leg.
func (r *Receiver) ours(tag uint32) bool { return slices.Contains(r.cfg.LegTags, tag) }

// byOtherTag reports whether a packet whose tag is not the group's here is of a publisher that
// has legs, and one of them with this receiver: its heartbeats say so. docs/protocol.md §23.8.
func (r *Receiver) byOtherTag(h *wire.Header, b []byte, tagOf func(streamKey) (uint32, bool)) bool {
	if tag, ok := tagOf(streamKey{h.Publisher, h.Epoch}); ok && tag == h.GroupTag {
		return true
	}
	if h.Type != wire.TypeHeartbeat {
		return false
	}
	hb, err := wire.ParseHeartbeat(b)
	return err == nil && hb.Legs.N > 0 && hb.Legs.Tags[0] == h.GroupTag && slices.ContainsFunc(hb.Legs.List(), r.ours)
}

// Damage is what came without the checksum that it should have, or with a wrong one.
type Damage struct {
	Packets   uint64
	Publisher uint64 // of the first, as it says: that may be damaged, too
	Address   string // where the first came from; empty: not known
}

// TakeDamage returns what came damaged since the last call.
func (r *Receiver) TakeDamage() Damage {
	d := r.damage
	r.damage = Damage{}
	return d
}
