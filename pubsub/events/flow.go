package events

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

// ErrBackPressure is what TryPublish returns when a message cannot be taken now: a subscriber is behind, or the rate
// limit is reached. A *FlowError matches it, too.
var ErrBackPressure = errors.New("back pressure")

// Hold is how a subscriber holds a publisher up.
type Hold struct {
	Subscriber ID            // random id of the subscriber that has blocked the publisher for longest; 0: not known yet
	Name       string        // its Config.Name, or host and process; empty: not known yet
	Address    string        // the source of its packets, as the fabric writes it; empty: not known
	For        time.Duration // since the publisher could send last
	Behind     uint64        // packets that it misses or has not read
	// Fault is why it blocks the publisher, unless it does not read: it has not answered for 0.3 s or more, because it
	// died, was stopped, or the network between is cut; or it answers, but packets do not reach it.
	Fault error
}

func (h Hold) String() string {
	do := "have it read, close it, or lower StallLimit"
	if h.Fault != nil {
		do = h.Fault.Error() + ": check its host, and the network between"
	}
	return fmt.Sprintf("subscriber %s has blocked the publisher for %v and is %s behind: %s",
		PeerText(h.Subscriber, h.Name, h.Address), plural.Duration(h.For), plural.N(h.Behind, "packet"), do)
}

// FlowError is why Publish, Flush, Drain or another call ended with its context while flow control held the publisher
// up: a subscriber does not read, or does not answer. It matches ErrBackPressure, the context's error and its cause.
type FlowError struct {
	Hold
	Err error // the context's
}

func (e *FlowError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Hold) }

// Is makes errors.Is(err, ErrBackPressure) true.
func (e *FlowError) Is(target error) bool { return target == ErrBackPressure }

// Unwrap returns the context's error.
func (e *FlowError) Unwrap() error { return e.Err }

// Reason is what holds a publisher up.
type Reason uint8

// Reasons of a BackPressureError, and of stats.Publication.Blocked.
const (
	// ReasonNone: nothing does.
	ReasonNone Reason = iota
	// ReasonFlow: flow control waits for a subscriber.
	ReasonFlow
	// ReasonRate: the limit of Config.Rate is reached.
	ReasonRate
	// ReasonOther: another publisher of the group is in the middle of a message of several packets.
	ReasonOther
	// ReasonMemory: the fabric still sends from all packet memory.
	ReasonMemory
)

func (r Reason) String() string {
	return [...]string{"none", "flow control", "rate limit", "another writer's message", "packet memory"}[r]
}

// BackPressureError says what holds a publisher up. It matches ErrBackPressure.
type BackPressureError struct {
	Reason Reason
	Hold   // of ReasonFlow
	// Err says since when nothing can be sent, and why, if this has lasted for a second or more
	// (CannotSend); nil otherwise.
	Err error
}

func (e *BackPressureError) Error() string {
	switch {
	case e.Subscriber != 0:
		return "back pressure: " + e.Hold.String()
	case e.Err != nil:
		return "back pressure: " + e.Err.Error()
	}
	return fmt.Sprintf("back pressure: %s blocks the publisher, try again later", e.Reason)
}

// Unwrap returns Err.
func (e *BackPressureError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrBackPressure) true.
func (e *BackPressureError) Is(target error) bool { return target == ErrBackPressure }

// UnsentError is why Close or Shutdown of a bus failed, or Close of a publisher on a closed bus: there was no time to
// send messages that Publish had taken, because of a subscriber that blocked the publisher, the rate limit or the
// fabric. It matches the error that ended the wait.
type UnsentError struct {
	Messages uint64 // that were never sent, of the bus or of the publisher's group
	Err      error
}

func (e *UnsentError) Error() string {
	what := "1 message was"
	if e.Messages != 1 {
		what = fmt.Sprintf("%d messages were", e.Messages)
	}
	return fmt.Sprintf("%s published and never sent, for lack of time: %v", what, e.Err)
}

// Unwrap returns the reason.
func (e *UnsentError) Unwrap() error { return e.Err }

// ErrEvicted: a subscription with pubsub.SlowEvict fell too far behind. *EvictedError says how far.
var ErrEvicted = errors.New("the subscription was evicted")

// EvictedError is why a subscription with pubsub.SlowEvict ended. It matches ErrEvicted.
type EvictedError struct {
	// Publisher is the one that the subscription fell behind, Group the address of the group.
	Publisher     ID
	PublisherName string
	Epoch         ID
	Group         string
	// Behind is the number of packets that were unread, Allowed the limit.
	Behind, Allowed uint64
	// For is how long more than half of Allowed were unread.
	For time.Duration
}

func (e *EvictedError) Error() string {
	return fmt.Sprintf("the subscription was evicted: behind for %v, and now %s behind publisher %s, %d allowed: read faster, or allow more with MaxBehind",
		plural.Duration(e.For), plural.N(e.Behind, "packet"), PeerText(e.Publisher, e.PublisherName, ""), e.Allowed)
}

// Is makes errors.Is(err, ErrEvicted) true.
func (e *EvictedError) Is(target error) bool { return target == ErrEvicted }
