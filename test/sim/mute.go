package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// One of two legs may be within the host: what it brings is kept out of the other one. docs/protocol.md §23.11.

// local puts a leg within the host of those who are on both, in some runs, and has it bring no data for a while: its memory is full.
func (d drawer) local(o *Options) {
	if o.Second == nil || !d.chance(50) {
		return
	}
	o.Local = d.between(1, 2)
	if d.chance(50) {
		o.Cuts = append(o.Cuts, Cut{
			At: d.time(100*time.Microsecond, o.Faults), For: d.time(time.Millisecond, 3*time.Second), Leg: o.Local,
			Publisher: -1, Subscribers: 1<<len(o.Subscribers) - 1, Data: true, Down: true,
		})
	}
}

// stream is one as it comes from an address.
type stream struct{ from, publisher, epoch uint64 }

// muting is that of a subscriber: of what is sealed nobody can tell what it is.
func (s *subscriber) muting() reliable.Muting {
	if s.sim.o.Local == 0 || s.sim.second == nil || s.o.Only != 0 || s.sim.o.Sealing != nil {
		return reliable.Muting{}
	}
	return reliable.Muting{Local: 1 << (s.sim.o.Local - 1), Mute: s.mute}
}

// mute takes in a wish. There is room for keptOut at a time.
func (s *subscriber) mute(st *reliable.Stream, p uint32, w reliable.Wish) bool {
	if s.peers[p].refs <= 0 {
		s.sim.fail("subscriber %d: stream %#x.%d wishes something of peer %d, which was given back", s.number, st.Publisher, st.Epoch, p)
	}
	x := stream{s.peers[p].from, st.Publisher, st.Epoch}
	if _, leg := addressed(x.from); leg == s.sim.o.Local-1 && w == reliable.WishOut {
		s.sim.fail("subscriber %d: stream %#x.%d is kept out of the leg within the host", s.number, st.Publisher, st.Epoch)
	}
	s.sim.trace("subscriber %d: stream %#x.%d wishes %d of leg %d", s.number, st.Publisher, st.Epoch, w, packetLeg(x.from))
	if w == reliable.WishNone {
		delete(s.wishes, x)
		return true
	}
	if s.wishes[x] != reliable.WishOut && w == reliable.WishOut {
		if n := s.keptOut(); n >= keptOut {
			delete(s.wishes, x)
			return false
		}
		s.sim.report.Muted++
	}
	if s.wishes == nil {
		s.wishes = make(map[stream]reliable.Wish)
	}
	s.wishes[x] = w
	return true
}

// keptOut is how many streams can be kept out at a time.
const keptOut = 2

func (s *subscriber) keptOut() (n int) {
	for _, w := range s.wishes {
		if w == reliable.WishOut {
			n++
		}
	}
	return n
}

// keepsOut reports whether the packet is kept out.
func (s *subscriber) keepsOut(p *packet) bool {
	if len(s.wishes) == 0 {
		return false
	}
	h, err := wire.ParseHeader(p.b)
	if err != nil || h.Type != wire.TypeData || s.wishes[stream{p.from, h.Publisher, h.Epoch}] != reliable.WishOut {
		return false
	}
	s.sim.report.KeptOut++
	return true
}

func packetLeg(from uint64) int {
	_, leg := addressed(from)
	return leg
}

// isData reports whether a packet is one of data.
func isData(b []byte) bool { return len(b) > 3 && wire.Type(b[3]) == wire.TypeData }
