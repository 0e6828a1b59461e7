package engine

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// loans are the trains that stay lent by the transport because packets in them wait for a missing packet
// (reliable.Loans). There are at most as many as the transport lends past its next Poll. Loop only.
type loans struct {
	t     transport.Transport
	kept  []loan
	free  []uint32 // unused indexes of kept
	train *transport.Train
	index int // of train in kept; none: no packet of train is kept
	at    int // index of the packet in train that is being handled
}

type loan struct {
	train   transport.Train
	packets int // kept packets
}

const (
	none = -1
	// packetBits is the number of low bits of a loan that are the packet's index in the train.
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

// begin begins a train. Its packets are handled next.
func (l *loans) begin(tr *transport.Train) { l.train, l.index = tr, none }

// packet returns packet i of the train, which is handled next, without its signature.
func (l *loans) packet(i int) []byte {
	l.at = i
	p := l.train.Packet(i)
	if wire.IsSigned(p) {
		return wire.Content(p)
	}
	return p // nearly always, and without a call
}

// end returns the train to the transport, unless packets of it are kept.
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
