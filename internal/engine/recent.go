package engine

import (
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// RecentEvent is a remembered event.
type RecentEvent struct {
	Sequence uint64 // the first event of a bus has 1
	Time     time.Time
	events.Event
}

// recentEvents remembers the newest events. Its memory grows with their number.
type recentEvents struct {
	mu   sync.Mutex
	list []RecentEvent // under mu: a ring, once it is full
	last uint64        // under mu: Sequence of the newest
}

// add remembers an event, and forgets the oldest if there are more than most.
func (x *recentEvents) add(c *clock, e events.Event, most int) {
	if most <= 0 {
		return
	}
	r := RecentEvent{Time: c.wall(), Event: e}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	r.Sequence = x.last
	if len(x.list) < most {
		x.list = append(x.list, r)
		return
	}
	x.list[(x.last-1)%uint64(most)] = r
}

// RecentEvents returns the remembered events with a Sequence above after, the oldest first. Config.RecentEvents bounds
// their number.
func (l *Loop) RecentEvents(after uint64) []RecentEvent {
	x := &l.recent
	x.mu.Lock()
	defer x.mu.Unlock()
	n := uint64(len(x.list))
	if after >= x.last {
		return nil
	}
	var all []RecentEvent
	for seq := max(after, x.last-n) + 1; seq <= x.last; seq++ {
		all = append(all, x.list[(seq-1)%n])
	}
	return all
}
