package cli

import (
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// audience is who hears pub: the subscribers that are there, and those that it has given up as silent and that
// were not heard again, which count by what they say they have.
type audience struct {
	mu     sync.Mutex
	here   map[uint64]struct{} // under mu
	silent map[uint64]struct{} // under mu
	left   bool                // under mu: somebody was there, and nobody is
	over   bool                // under mu: nothing is published any more
}

// What becomes of an audience, beside what an event says by itself (stallWords).
const (
	audienceBack  = "back"  // a subscriber that had vanished
	audienceAlone = "alone" // the last one has gone
	audienceAgain = "again" // there is one again
)

// event takes in an event of the bus, and says what has become of the audience, for people and as a word; empty
// where that is nothing.
func (a *audience) event(e events.Event) (word, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e.Kind {
	case events.SubscriberUp:
		return a.up(e)
	case events.SubscriberSilent:
		a.put(&a.silent, e.Subscriber)
	case events.SubscriberLeft:
		delete(a.silent, e.Subscriber)
	default:
		return "", ""
	}
	if _, was := a.here[e.Subscriber]; !was {
		return "", ""
	}
	if delete(a.here, e.Subscriber); len(a.here) > 0 || a.over {
		return "", ""
	}
	a.left = true
	return audienceAlone, "no subscriber is left, the last was " + subscriberText(e) + ": who comes later begins there (-wait, sub -from)"
}

func (a *audience) up(e events.Event) (word, text string) {
	_, silent := a.silent[e.Subscriber]
	delete(a.silent, e.Subscriber)
	a.put(&a.here, e.Subscriber)
	again := a.left
	switch a.left = false; {
	case silent:
		return audienceBack, subscriberText(e) + ", which had vanished, is back: it is waited for again"
	case again:
		return audienceAgain, fmt.Sprintf("there is a subscriber again: %s", subscriberText(e))
	}
	return "", ""
}

func (a *audience) put(set *map[uint64]struct{}, id uint64) {
	if *set == nil {
		*set = make(map[uint64]struct{})
	}
	(*set)[id] = struct{}{}
}

// end says that nothing is published any more: who goes then is not missed.
func (a *audience) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

// vanished is how many fell silent and have not come back.
func (a *audience) vanished() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return uint64(len(a.silent))
}
