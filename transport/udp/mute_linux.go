//go:build !fanfare_plainudp

package udp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.Muter = (*Transport)(nil)

// muted is what is kept out of the groups' sockets, and what these dropped. Loop only.
type muted struct {
	of     map[int][]sys.Unwanted // by group
	drops  mixedDrops
	noRoom *sys.NoRoom
	sorted time.Time
}

func (m *muted) init(is6 bool) {
	m.of, m.noRoom = make(map[int][]sys.Unwanted), sys.OpenNoRoom(is6)
}

func (m *muted) close() {
	if m.noRoom != nil {
		m.noRoom.Close()
	}
}

// attach has a socket keep out what its group is to. It reports whether it does.
func (m *muted) attach(s *socket) bool {
	list := m.of[s.group]
	if s.fd < 0 || len(list) == 0 && !s.mutes {
		return true
	}
	if sys.KeepOut(s.fd, list) != nil {
		return false
	}
	s.mutes = len(list) > 0
	return true
}

// set changes what is kept out of a group, and reports whether that could be done.
func (t *Transport) set(group int, list []sys.Unwanted) bool {
	m, before := &t.muted, t.muted.of[group]
	if len(m.of) == 0 {
		m.drops = mixedDrops{host: m.noRoom.Count()}
	}
	if m.of[group] = list; len(list) == 0 {
		delete(m.of, group)
	}
	s := t.groups[group]
	if s == nil {
		return true
	}
	t.askSocket(s) // what it has dropped up to now is of the one kind
	if !m.attach(s) {
		m.of[group] = before
		return false
	}
	return true
}

// Mute implements transport.Muter, by a filter of the group's socket.
func (t *Transport) Mute(group int, from transport.Peer, head transport.Head) bool {
	to := t.peers.Get(from)
	if to == nil || t.check(group) != nil || len(t.muted.of[group]) >= sys.MaxUnwanted {
		return false
	}
	return t.set(group, append(slices.Clip(t.muted.of[group]), unwanted(to.AddrPort(), &head)))
}

// Unmute implements transport.Muter. A socket that goes on keeping something out is made anew.
func (t *Transport) Unmute(group int, from transport.Peer, head transport.Head) {
	to := t.peers.Get(from)
	if to == nil || t.check(group) != nil {
		return
	}
	x := unwanted(to.AddrPort(), &head)
	i := slices.IndexFunc(t.muted.of[group], func(o sys.Unwanted) bool {
		return o.From == x.From && slices.Equal(o.Value, x.Value) && slices.Equal(o.Mask, x.Mask)
	})
	if i < 0 {
		return
	}
	list := slices.Delete(slices.Clone(t.muted.of[group]), i, i+1)
	if !t.set(group, list) {
		t.muted.of[group] = list
		t.exit(t.groups[group])
		t.enter(group, t.link())
	}
}

func unwanted(from netip.AddrPort, head *transport.Head) sys.Unwanted {
	return sys.Unwanted{From: from, Value: head.Value[:], Mask: head.Mask[:]}
}

// dropped notes that a socket has dropped datagrams.
func (t *Transport) dropped(s *socket, n uint64) {
	t.repliesLost = t.repliesLost || s.group == transport.Unicast
	d := &t.muted.drops
	if !s.mutes {
		d.noRoom += n
		t.received.Overflow.Add(n)
		return
	}
	d.mixed += n
	if now := time.Now(); now.Sub(t.muted.sorted) >= sortEvery {
		t.sortDrops(now)
	}
}

// sortEvery is how often drops are sorted at most: less than the time in which a packet that
// was dropped is repaired, more than it costs to count.
const sortEvery = 20 * time.Millisecond

// sortDrops finds out which of the datagrams that sockets have dropped were not to be kept out.
func (t *Transport) sortDrops(now time.Time) {
	t.muted.sorted = now
	if d := &t.muted.drops; d.mixed > 0 {
		t.received.Overflow.Add(d.sort(t.muted.noRoom.Count()))
	}
}

// mixedDrops is what sockets have dropped that keep something out: the kernel counts that as it counts
// what they had no room for. The latter it counts for all sockets of the host together, too.
type mixedDrops struct {
	mixed  uint64 // dropped, of either kind
	noRoom uint64 // dropped by sockets that keep nothing out
	host   uint64 // the host's count when it was looked at last
}

// sort returns how many of mixed found no room: as many as the host counts at most.
func (d *mixedDrops) sort(host uint64) uint64 {
	all := host - min(d.host, host)
	n := min(d.mixed, all-min(d.noRoom, all))
	*d = mixedDrops{host: host}
	return n
}
