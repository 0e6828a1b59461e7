package transport

import "time"

// MaxLegs bounds the legs of a transport.
const MaxLegs = 4

// Legged is a Transport over several others, its legs: each packet is sent on all of them, and may arrive on any, also
// more than once (package transport/legs). A group is joined while one leg has joined it.
type Legged interface {
	Transport
	// LegAddress is GroupAddress of one leg.
	LegAddress(leg, group int) string
}

// Pollable is a Transport that waits on a file descriptor, so that one Wait serves several: one of them
// hosts the others, and its Wait watches their descriptors, too.
//
//	for each of the others: limit = min(limit, x.BeginWait(limit))
//	host.Wait(limit)
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
	// BeginWait is what Wait does before it blocks. It returns for how long of timeout the transport may be waited for:
	// not at all where Poll may have something. A negative time has no end. EndWait is to follow in any case; a Wake in
	// between makes the descriptor readable.
	BeginWait(timeout time.Duration) (limit time.Duration)
	EndWait()
}
