package engine

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// loans are the trains that stay lent by the transport because packets in them wait for a missing one (reliable.Loans).
// They are as many as a transport lends beyond its next Poll without being held up, at most. Loop only.
type loans struct {
	t     transport.Transport
	kept  []loan
	free  []uint32 // indices of kept
	train *transport.Train
	index int // the train's in kept; none: no packet of it stays
	at    int // the packet in train that is being handled
}

type loan struct {
	train   transport.Train
	packets int // of it that stay
}

const (
	none = -1
	// packetBits of a loan say which packet of the train it is.
	packetBits = 16
)

func newLoans(t transport.Transport) *loans {
	most := min(t.Capabilities().LendMax, 1<<(32-packetBits))
	l := &loans{t: t, kept: make([]loan, most), free: make([]uint32, most), index: none}
	for i := range l.free {
		l.free[i] = uint32(most - 1 - i)
	}
	return l
}

// begin: the packets of a train are handled next.
func (l *loans) begin(tr *transport.Train) { l.train, l.index = tr, none }

// packet returns packet i of the train, which is handled next, without what it is signed by.
func (l *loans) packet(i int) []byte {
	l.at = i
	p := l.train.Packet(i)
	if wire.IsSigned(p) {
		return wire.Content(p)
	}
	return p // without a call, as nearly all
}

// end gives the train back, unless packets of it stay.
func (l *loans) end() {
	switch i := l.index; {
	case i == none:
		l.t.Release(l.train)
	case l.kept[i].packets == 0:
		l.release(i)
	}
	l.train, l.index = nil, none
}

// Keep implements reliable.Loans.
func (l *loans) Keep() (uint32, bool) {
	if l.at >= 1<<packetBits {
		return 0, false
	}
	if l.index == none {
		if len(l.free) == 0 {
			return 0, false
		}
		n := len(l.free) - 1
		l.index, l.free = int(l.free[n]), l.free[:n]
		l.kept[l.index].train = *l.train
	}
	l.kept[l.index].packets++
	return uint32(l.index)<<packetBits | uint32(l.at), true
}

// Packet implements reliable.Loans.
func (l *loans) Packet(n uint32) []byte {
	return wire.Content(l.kept[n>>packetBits].train.Packet(int(n & (1<<packetBits - 1))))
}

// Return implements reliable.Loans.
func (l *loans) Return(n uint32) {
	i := int(n >> packetBits)
	if l.kept[i].packets--; l.kept[i].packets == 0 && i != l.index {
		l.release(i)
	}
}

func (l *loans) release(i int) {
	l.t.Release(&l.kept[i].train)
	l.kept[i].train = transport.Train{}
	l.free = append(l.free, uint32(i))
}
