package pubsub

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
)

// NoStallLimit as Config.StallLimit waits for subscribers for ever, as long as they are
// there.
const NoStallLimit time.Duration = -1

// FlowError is why Publish, Flush, Drain or another call ended with its context while
// flow control held the publisher up: a subscriber is there, and does not read. It
// matches ErrBackPressure, and the context's error and its cause.
type FlowError struct {
	Receiver uint64        // random id of the subscriber that has held the publisher up for longest
	Name     string        // what that calls itself (Config.Name), or host and process
	Address  string        // where it sends from, as the fabric writes it; empty: not known
	For      time.Duration // since the publisher could send last
	Behind   uint64        // packets that it misses or has not read
	Err      error         // the context's
}

func (e *FlowError) Error() string {
	return fmt.Sprintf("%v: %s", e.Err, engine.HeldText(e.hold()))
}

func (e *FlowError) hold() reliable.Hold {
	return reliable.Hold{Receiver: e.Receiver, Name: e.Name, Address: e.Address, For: e.For, Behind: e.Behind}
}

// Is makes errors.Is(err, ErrBackPressure) true.
func (e *FlowError) Is(target error) bool { return target == ErrBackPressure }

// Unwrap returns the context's error.
func (e *FlowError) Unwrap() error { return e.Err }

// BackPressureError says what holds a publisher up. It matches ErrBackPressure.
type BackPressureError struct {
	Reason Reason
	// Of ReasonFlow, as in FlowError; Receiver 0: it is not known yet.
	Receiver uint64
	Name     string
	Address  string
	For      time.Duration
	Behind   uint64
	// Err says since when nothing can be sent, and why, if that is so for a second or more
	// (events.CannotSend); nil: it can.
	Err error
}

func (e *BackPressureError) Error() string {
	switch {
	case e.Receiver != 0:
		return "back pressure: " + engine.HeldText(reliable.Hold{Receiver: e.Receiver, Name: e.Name, Address: e.Address, For: e.For, Behind: e.Behind})
	case e.Err != nil:
		return "back pressure: " + e.Err.Error()
	}
	return fmt.Sprintf("back pressure: %s holds the publisher up, try again later", e.Reason)
}

// Unwrap returns Err.
func (e *BackPressureError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrBackPressure) true.
func (e *BackPressureError) Is(target error) bool { return target == ErrBackPressure }

// Receiver is what a publisher knows of a bus that subscribes to its topic.
type Receiver struct {
	ID        uint64        // random, for as long as that bus lives
	Name      string        // what it calls itself (Config.Name), or host and process
	Address   string        // where it sends from, as the fabric writes it; empty: not known
	Tag       string        // its Config.Tag; empty: it has none, or has not said it yet
	Behind    uint64        // packets that it misses or has not read
	Room      uint64        // packets that it has room for
	LastHeard time.Duration // since it said anything
	// Unanswered is for how long it has been asked for a sign of life, and has given none: it is not
	// waited for any more after Config.Silence. Who is there answers at once.
	Unanswered time.Duration
	Holds      bool          // it holds the publisher up
	Released   bool          // it has for longer than Config.StallLimit, and has not caught up since: it is not waited for
	HeldFor    time.Duration // that it holds the publisher up, or had until it was released
	Joining    bool          // it fetches what it begins with (From): it is not waited for before it has that
}

// Receivers are the buses with a subscription of the topic that are known to be
// present, in no order.
func (p *Publisher) Receivers() []Receiver {
	var all []Receiver
	for _, m := range p.p.Members(p.topic.ID) {
		all = append(all, Receiver(m))
	}
	return all
}
