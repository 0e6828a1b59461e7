package rdma

import "time"

// Waiting is an optional interface of a Device with waiters. With a completion channel another goroutine waits for
// completions. With a Waiter the goroutine that polls a completion queue waits for the device itself, which saves a
// goroutine switch for each message. Providers without waiters return EOPNOTSUPP.
type Waiting interface {
	NewWaiter() (Waiter, error)
}

// Waiter waits for a device. When its owner has polled all its completion queues and event channels and found them
// empty, it waits, and then polls again. No queue must be armed.
type Waiter interface {
	// Wait returns when a completion queue or an event channel of the provider may have something, when timeout has passed
	// (negative: no limit), or when Wake was called since the last Wait. It may also return early. Only one goroutine may
	// call it at a time. After Close it returns an error that matches net.ErrClosed.
	Wait(timeout time.Duration) error
	// Wake ends the current or the next Wait. Any goroutine may call it.
	Wake()
	// Close frees the waiter. It must not be called during a Wait.
	Close() error
}

// Pollable is an optional interface of a Waiter with a file descriptor, so that its owner can wait for several with one
// system call. The owner calls Begin before, and End after the call. Begin reports whether Wake was called.
type Pollable interface {
	Waiter
	// Descriptor is readable between Begin and End when Wait would return.
	Descriptor() int
	// WaitFor makes every later Wait also return while descriptor is readable.
	WaitFor(descriptor int) error
	Begin() (woken bool)
	End()
}
