package transport

import "time"

// MaxLegs bounds the legs of a transport.
const MaxLegs = 4

// Legged is a Transport over several others, its legs: each packet is sent on all of them, and may arrive on any, also
// more than once (package transport/legs). A group is joined while at least one leg has joined it.
type Legged interface {
	Transport
	// LegAddress is GroupAddress of one leg; both are indexes from 0.
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
	// WaitDescriptor is a file descriptor that is readable when Wait would return, or -1 if there is none. It is constant
	// until the end of the transport.
	WaitDescriptor() int
	// WaitFor makes every Wait return also when descriptor is readable.
	WaitFor(descriptor int) error
	// BeginWait does what Wait does before it blocks. It returns how long the caller may wait, at most timeout: 0 if Poll
	// may return something, a negative time for no limit. EndWait must follow; a Wake in between makes the descriptor
	// readable.
	BeginWait(timeout time.Duration) (limit time.Duration)
	EndWait()
}
