package reliable

import (
	"errors"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// addressed reports whether a packet is for a stream of this receiver, and undamaged: it is
// counted if not. What it says of how its publisher's bus is configured goes to the
// greeter. docs/protocol.md §13.1.
func (r *Receiver) addressed(now Instant, from uint64, b []byte) (h wire.Header, ok bool) {
	h, err := wire.ParseHeader(b)
	if err != nil {
		switch {
		case errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrUnsupported):
			r.stats.Version++
			if g := r.cfg.Greeter; g != nil {
				g.OtherVersion(from, now, r.cfg.GroupTag, b)
			}
		case errors.Is(err, wire.ErrForeign), errors.Is(err, wire.ErrType):
			r.stats.Foreign++
		default:
			r.stats.Malformed++
		}
		return h, false
	}
	if !r.ours(h.GroupTag) || h.Type == wire.TypeNAK || h.Type == wire.TypeStatus || h.Type == wire.TypeReply {
		r.stats.Foreign++
		return h, false
	}
	if h.Type == wire.TypeHello {
		if g := r.cfg.Greeter; g == nil || !g.Hello(from, now, b) {
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
		if g := r.cfg.Greeter; g != nil && h.Flags&wire.FlagChecksum == 0 {
			g.WithoutChecksum(from, now, &h, b)
		}
		return h, false
	}
	return h, true
}

// ours reports whether a tag is that of the group, on any leg.
func (r *Receiver) ours(tag uint32) bool {
	return tag == r.cfg.GroupTag || slices.Contains(r.cfg.LegTags, tag)
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
