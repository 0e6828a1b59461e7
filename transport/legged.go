package transport

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// MaxLegs bounds the legs of a transport.
const MaxLegs = 4

// Legged is a Transport over several others, its legs: each packet goes out on all of them,
// and comes in by any, also more than once (package transport/legs). A group is joined while
// one leg has joined it.
type Legged interface {
	Transport
	// Legs are what is known of the legs, in the order in which they were given. Any
	// goroutine may call it.
	Legs() []stats.Leg
	// LegAddress is GroupAddress of one leg.
	LegAddress(leg, group int) string
}

// Pollable is a Transport that waits by a file descriptor, so that one Wait can be that of
// several: one of them hosts the others, whose descriptors its Wait looks at, too.
//
//	for each of the others: most = min(most, x.BeginWait(most))
//	host.Wait(most)
//	for each of the others: x.EndWait()
//
// All of it belongs to the loop.
type Pollable interface {
	Transport
	// WaitDescriptor is readable when Wait would return. It is -1 where there is none, and
	// stays the same until the end of the transport.
	WaitDescriptor() int
	// WaitFor has every Wait return also while a descriptor is readable.
	WaitFor(descriptor int) error
	// BeginWait is what Wait does before it blocks. It returns for how long of timeout the
	// transport may be waited for: not at all where Poll may have something. A negative time
	// has no end. EndWait is to follow in any case; a Wake in between makes the descriptor
	// readable.
	BeginWait(timeout time.Duration) (most time.Duration)
	EndWait()
}
