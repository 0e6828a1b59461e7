package cli

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// audience tracks the subscribers of pub's topic that have gone; the publisher tracks those present.
type audience struct {
	mu     sync.Mutex
	silent map[events.ID]string // guarded by mu: names of those given up and not back; their last statuses still count
	left   bool                 // guarded by mu: all subscribers have gone
	over   bool                 // guarded by mu: publishing has ended
}

// Changes of an audience, in addition to those that an event alone states (stallWords).
const (
	audienceBack  = "back"  // a silent subscriber has returned
	audienceEmpty = "alone" // the last subscriber has gone
	audienceAgain = "again" // the first subscriber after audienceEmpty
)

// event processes an event of the bus; present is the number of subscribers of the topic. It returns the change of the
// audience as a word and as text, both empty without a change. Events of other topics' subscribers change nothing.
// It completes the name of a subscriber that is back: its first status may come without one.
func (a *audience) event(e *events.Event, present int) (word, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, silent := a.silent[e.Subscriber]
	e.Name = cmp.Or(e.Name, name)
	switch e.Kind {
	case events.SubscriberUp:
		if delete(a.silent, e.Subscriber); silent {
			a.left = false
			return audienceBack, subscriberText(*e) + ", which had stopped answering, is back: pub waits for it again"
		}
		if a.left && e.Relevant {
			a.left = false
			return audienceAgain, "a subscriber has come: " + subscriberText(*e)
		}
		return "", ""
	case events.SubscriberSilent:
		if a.silent == nil {
			a.silent = make(map[events.ID]string)
		}
		if e.Relevant {
			a.silent[e.Subscriber] = e.Name
		}
	case events.SubscriberLeft:
		delete(a.silent, e.Subscriber)
	default:
		return "", ""
	}
	if !e.Relevant || silent || present > 0 || a.left || a.over {
		return "", ""
	}
	a.left = true
	return audienceEmpty, "no subscriber is left; the last was " + subscriberText(*e) + ". Later subscribers begin at this point (-wait, sub -from)"
}

func (a *audience) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// end marks the end of publishing: subscribers that leave later are not reported.
func (a *audience) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

func (a *audience) vanished() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return uint64(len(a.silent))
}

// present counts the subscribers that are present. Its methods are safe for concurrent use.
type present struct {
	of  atomic.Pointer[pubsub.Publisher] // nil: not created yet
	max atomic.Int64                     // the highest count
}

func (x *present) count() int {
	of := x.of.Load()
	if of == nil {
		return 0
	}
	n := int64(of.Subscribers())
	for highest := x.max.Load(); n > highest && !x.max.CompareAndSwap(highest, n); highest = x.max.Load() {
	}
	return int(n)
}
