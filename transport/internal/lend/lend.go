// Package lend limits the trains that a borrower keeps to transport.Capabilities.LendMax, so that the receive queue
// does not shrink.
package lend

import "sync/atomic"

// Limit counts the lent trains. There are never more than max + batch: those that may be kept, and those of the latest
// Poll. Loop only.
type Limit struct {
	max, batch int
	out        int
	counted    bool // the refusal was counted, and nothing has changed since
	refused    *atomic.Uint64
}

// New returns the limit of a transport with LendMax and Batch of its Capabilities. refused counts the calls of Room
// that returned less than was wanted; repeated calls, with nothing lent or released in between, count once.
func New(lendMax, batch int, refused *atomic.Uint64) Limit {
	return Limit{max: lendMax, batch: batch, refused: refused}
}

// Room is how many trains a Poll may lend; its caller has room for want, at most batch.
func (l *Limit) Room(want int) int {
	room := l.max + l.batch - l.out
	if room >= want {
		return want
	}
	if !l.counted {
		l.counted = true
		l.refused.Add(1)
	}
	return room
}

// Full reports whether nothing can be lent until a train is released.
func (l *Limit) Full() bool { return l.out >= l.max+l.batch }

// Lent records that n trains were lent, at most as many as Room returned.
func (l *Limit) Lent(n int) {
	if n > 0 {
		l.out += n
		l.counted = false
	}
}

// Released records that a train was released.
func (l *Limit) Released() {
	l.out--
	l.counted = false
}
