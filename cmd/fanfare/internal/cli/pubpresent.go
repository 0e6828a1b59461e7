package cli

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub"
)

// present counts the subscribers of a publisher that are there at one time. Any goroutine may
// call its methods.
type present struct {
	of   atomic.Pointer[pubsub.Publisher] // nil: there is none yet
	most atomic.Int64                     // that were there
}

// count takes in how many there are, and returns it.
func (x *present) count() int {
	of := x.of.Load()
	if of == nil {
		return 0
	}
	n := int64(of.Subscribers())
	for most := x.most.Load(); n > most && !x.most.CompareAndSwap(most, n); most = x.most.Load() {
	}
	return int(n)
}
