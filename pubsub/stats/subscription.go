package stats

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Subscription is what a subscription has delivered and what it lacks.
type Subscription struct {
	Topics   int    // topics and patterns
	Messages uint64 // delivered; while a Next is running those of the packet that it reads are missing
	// Pending is the sum of all lags, in packets: received in order, for any of its topics or others of their
	// groups, and not read yet.
	Pending int
	// The following three are of a subscription with Conflate.
	Replaced     uint64 // messages that newer ones of their keys replaced
	Waiting      int    // messages, gaps and events that wait to be read
	WaitingBytes int    // bytes of memory for the keys and data of Waiting
	// Publishers are those that it follows, in its groups. Some may have none of its topics.
	Publishers []SubscriptionPublisher
	Lost       []Loss // what was lost permanently, each cause once
}

// Gaps is how many GapErrors were delivered, of all causes.
func (s Subscription) Gaps() (n uint64) {
	for _, x := range s.Lost {
		n += x.Gaps
	}
	return n
}

// SubscriptionPublisher is how far a subscription has read what one publisher sends to one group.
type SubscriptionPublisher struct {
	Publisher events.ID
	Epoch     events.ID     // of this instance; no count
	Name      string        // the publisher's Config.Name; empty: it has none
	Group     string        // address of the group
	Lag       int           // packets received in order and not read yet; 0 for a handler that the bus calls
	Window    int           // packets that are kept for the subscription; 0 for a handler that the bus calls
	Relevant  bool          // the publisher has named a topic that is subscribed on this bus
	Blocking  bool          // the subscription may block the publisher
	Unread    time.Duration // that it has held the stream up and read nothing; 0: it does not
	LostFor   time.Duration // since the publisher was given up as lost; 0: it is received
}
