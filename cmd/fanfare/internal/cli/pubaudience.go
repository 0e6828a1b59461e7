package cli

import (
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// audience follows the subscribers of pub's topic that have gone: the publisher knows those that are present.
type audience struct {
	mu     sync.Mutex
	silent map[uint64]struct{} // under mu: given up as silent, and not heard again; they count by what they say they have
	left   bool                // under mu: there was one, and there is none
	over   bool                // under mu: nothing is published any more
}

// Changes of an audience, beside what an event says by itself (stallWords).
const (
	audienceBack  = "back"  // a subscriber that had vanished
	audienceAlone = "alone" // the last one has gone
	audienceAgain = "again" // there is one again
)

// event takes in an event of the bus when so many subscribers of the topic are there, and says what has become of the
// audience, for people and as a word; empty where that is nothing. Subscribers of other topics are none of it.
func (a *audience) event(e events.Event, there int) (word, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, silent := a.silent[e.Subscriber]
	switch e.Kind {
	case events.SubscriberUp:
		if delete(a.silent, e.Subscriber); silent {
			a.left = false
			return audienceBack, subscriberText(e) + ", which had vanished, is back: it is waited for again"
		}
		if a.left && e.Relevant {
			a.left = false
			return audienceAgain, "there is a subscriber again: " + subscriberText(e)
		}
		return "", ""
	case events.SubscriberSilent:
		if a.silent == nil {
			a.silent = make(map[uint64]struct{})
		}
		if e.Relevant {
			a.silent[e.Subscriber] = struct{}{}
		}
	case events.SubscriberLeft:
		delete(a.silent, e.Subscriber)
	default:
		return "", ""
	}
	if !e.Relevant || silent || there > 0 || a.left || a.over {
		return "", ""
	}
	a.left = true
	return audienceAlone, "no subscriber is left, the last was " + subscriberText(e) + ": later subscribers begin there (-wait, sub -from)"
}

// alone reports whether there was a subscriber, and there was none when an event said so last.
func (a *audience) alone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// end says that nothing is published any more: a subscriber that goes then is not reported.
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

// present counts the subscribers of a publisher that are there at one time. Any goroutine may call its methods.
type present struct {
	of   atomic.Pointer[pubsub.Publisher] // nil: there is none yet
	most atomic.Int64                     // that were there
}

func (x *present) count() int {
	of := x.of.Load()
	if of == nil {
		return 0
	}
	n := int64(of.Subscribers())
	for most := x.most.Load(); n > most && !x.most.CompareAndSwap(most, n); most = x.most.Load() {
	}
	return int(n)
}
