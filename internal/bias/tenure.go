package bias

// single is the lock of a goroutine. It is not used again for another one, so that who finds it late finds it revoked.
type single struct {
	Lock
	goroutine uint64
	_         [48]byte // so that nobody else's is in its line
}

// tenure decides whose a lock is that any goroutine may use: one's that has used it alone for long, otherwise everybody's.
type tenure struct {
	last  uint64 // the goroutine that was told of last
	row   uint64 // how much it has used the lock, since others have
	least uint64 // how much it takes before it is its
}

// change is what a tenure has decided.
type change int

const (
	noChange change = iota
	toMe            // the lock is the goroutine's from now on
	toAll           // everybody's
)

// used notes that goroutine me has used the lock, so many times since this was told last. one says that the lock is one
// goroutine's.
func (t *tenure) used(me, times uint64, one bool) change {
	if me == t.last {
		if t.row += times; biases && t.row >= max(t.least, leastUse) && !one {
			return toMe
		}
		return noChange
	}
	if t.last, t.row = me, 0; !one {
		return noChange
	}
	t.least = min(2*max(t.least, leastUse), mostUse)
	return toAll
}

// How many times a goroutine uses a lock in a row before it is its: at first, and at most, where others have come again and
// again. To take it away costs some microseconds.
const (
	leastUse = 1 << 12
	mostUse  = 1 << 24
)
