// Package lend keeps a borrower to transport.Capabilities.LendMax, so that what
// he keeps never comes out of the receive queue.
package lend

import "sync/atomic"

// Limit counts the trains that are lent. There are never more than max + batch:
// those that may be kept, and those of the latest Poll. Loop only.
type Limit struct {
	max, batch int
	out        int
	told       bool // the refusal was counted, and nothing has changed since
	refused    *atomic.Uint64
}

// New returns the limit of a transport with these Capabilities. refused counts
// the calls of Room that gave less than was wanted; those that only ask again,
// with nothing lent or given back in between, are one.
func New(lendMax, batch int, refused *atomic.Uint64) Limit {
	return Limit{max: lendMax, batch: batch, refused: refused}
}

// Room is how many trains a Poll may lend of the want, at most batch, that its
// caller has room for.
func (l *Limit) Room(want int) int {
	room := l.max + l.batch - l.out
	if room >= want {
		return want
	}
	if !l.told {
		l.told = true
		l.refused.Add(1)
	}
	return room
}

// Full reports whether nothing can be lent until something comes back.
func (l *Limit) Full() bool { return l.out >= l.max+l.batch }

// Lent notes that n trains were lent, no more than Room gave.
func (l *Limit) Lent(n int) {
	if n > 0 {
		l.out += n
		l.told = false
	}
}

// Released notes that one came back.
func (l *Limit) Released() {
	l.out--
	l.told = false
}
