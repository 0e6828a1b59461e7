package pubsub

import "time"

// NoStallLimit as Config.StallLimit waits for subscribers for ever, as long as they are
// there.
const NoStallLimit time.Duration = -1

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
