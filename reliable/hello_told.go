package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// told remembers of which buses the user has been told that they are configured
// differently, so that each is told of once, however often it says so: once for an
// epoch and what it says. It bounds what strangers can make us say.
type told struct {
	buses  [toldKept]toldBus
	next   int // to be replaced, when all are in use
	budget allowance
}

type toldBus struct {
	publisher, epoch uint64
	last             theirs
	said             bool
	seen             int // packets in a row that said last
}

const (
	// toldKept is how many buses are remembered.
	toldKept = 64
	// toldAtOnce is how many are told of at once, and then one each toldEvery.
	toldAtOnce = 16
	toldEvery  = time.Second
	// confirmations is how many packets it takes to accept what damage may look like.
	confirmations = 2
)

// fresh reports whether the user is to be told what a bus says of itself. One that
// may only be damaged must say so twice.
func (x *told) fresh(now Instant, publisher, epoch uint64, t theirs) bool {
	b := x.bus(publisher, epoch)
	if b.last != t {
		*b = toldBus{publisher: publisher, epoch: epoch, last: t}
	}
	if b.said {
		return false
	}
	if b.seen++; b.seen < confirmations && (t.version != wire.Version || t.noChecksum) {
		return false
	}
	b.said = x.budget.take(now, toldAtOnce, toldEvery)
	return b.said
}

// already reports whether the user has been told what a bus says of itself.
func (x *told) already(publisher, epoch uint64, t theirs) bool {
	b := x.find(publisher, epoch)
	return b != nil && b.said && b.last == t
}

func (x *told) find(publisher, epoch uint64) *toldBus {
	for i := range x.buses {
		if b := &x.buses[i]; b.publisher == publisher && b.epoch == epoch {
			return b
		}
	}
	return nil
}

// bus returns the record of a bus, or a free one.
func (x *told) bus(publisher, epoch uint64) *toldBus {
	if b := x.find(publisher, epoch); b != nil {
		return b
	}
	b := &x.buses[x.next]
	x.next = (x.next + 1) % len(x.buses)
	*b = toldBus{publisher: publisher, epoch: epoch}
	return b
}

// allowance lets a few things happen at once, and then so many in a time.
type allowance struct {
	at   Instant // when the last room was made
	left int
	used bool
}

// take reports whether one more may happen at now: burst at once, then one each time
// that every has passed.
func (a *allowance) take(now Instant, burst int, every time.Duration) bool {
	if !a.used {
		a.used, a.at, a.left = true, now, burst
	}
	if n := int(now.Sub(a.at) / every); n > 0 {
		a.left = min(burst, a.left+min(n, burst))
		a.at = a.at.Add(time.Duration(n) * every)
	}
	if a.left == 0 {
		return false
	}
	a.left--
	return true
}
