package rdma

import "time"

// Waiting is an optional interface of a Device with waiters. A completion channel passes a completion through another
// goroutine; with a Waiter, the goroutine that polls a completion queue waits for the device itself, which saves a
// switch of goroutines for each message. Providers without waiters return EOPNOTSUPP.
type Waiting interface {
	NewWaiter() (Waiter, error)
}

// Waiter waits for a device. Its owner polls all its completion queues and event
// channels, finds them empty, waits, and polls again. No queue need be armed.
type Waiter interface {
	// Wait returns when something may have come for a completion queue or an event channel of the provider, when timeout
	// has passed (a negative one never does), when Wake was called since the last Wait, or for no reason. It is for one
	// goroutine at a time. After Close: an error that matches net.ErrClosed.
	Wait(timeout time.Duration) error
	// Wake ends Wait, or the next one. Any goroutine may call it.
	Wake()
	// Close frees the waiter. No Wait may be under way.
	Close() error
}

// Pollable is an optional interface of a Waiter: its owner can wait for several in one system call, by
// their descriptors. Begin comes before that, and reports whether Wake was called; End after it.
type Pollable interface {
	Waiter
	// Descriptor is readable between Begin and End when Wait would return.
	Descriptor() int
	// WaitFor has every Wait return also while a descriptor is readable.
	WaitFor(descriptor int) error
	Begin() (woken bool)
	End()
}
