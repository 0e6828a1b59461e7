package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscriptions that fall behind by more than their policy allows: some go on with the
// newest packet, others end. Neither holds its stream up.

// EvictedError says that a subscription was ended because it fell too far behind.
type EvictedError struct {
	Publisher, Epoch uint64 // behind which it was
	Name             string // the publisher's
	Group            string // address
	Behind           uint64 // packets
	Allowed          uint64 // packets
	For              time.Duration
}

func (e *EvictedError) Error() string {
	return fmt.Sprintf("evicted: it has been behind for %v and is now %d packets behind publisher %s, more than the %d allowed",
		e.For.Round(time.Millisecond), e.Behind, events.Who(e.Publisher, e.Name, ""), e.Allowed)
}

// catchUp goes on with the newest packet, if the feed is too far behind. The reader's own.
func (f *feed) catchUp() {
	if f.s.policy.Kind != slow.Latest {
		return
	}
	if f.s.policy.Act(f.c.Lag(), f.bound, f.c.Overtaken()) == slow.Jump {
		f.c.Jump(f.newest.Load())
	}
}

// evict ends the subscription, if the feed is too far behind. Loop only.
func (f *feed) evict(now reliable.Instant) {
	s := f.s
	if s.policy.Kind != slow.Evict {
		return
	}
	lag := f.c.Lag()
	d := f.late.Note(time.Duration(now), lag, f.bound)
	if s.suppressed.Load() || s.policy.Act(lag, f.bound, f.c.Overtaken()) != slow.End {
		return
	}
	err := &EvictedError{
		Publisher: f.st.Publisher, Epoch: f.st.Epoch, Name: f.st.Origin().Name, Group: f.g.address,
		Behind: uint64(lag), Allowed: uint64(f.bound), For: d,
	}
	logline.SubscriptionEvicted.Log(s.l.log,
		append(publisherArgs(f.g, f.st), "topics", s.names(), "for", d, "behind_packets", lag, "allowed_packets", f.bound)...)
	e := f.g.event(events.SubscriptionEvicted, f.st)
	e.For, e.Behind, e.Topics, e.Err = d, uint64(lag), s.names(), err
	s.l.event(e)
	s.suppressed.Store(true)
	s.fail(err)
	s.l.evicted = append(s.l.evicted, s)
}

// endEvicted gives back what evicted subscriptions hold, as soon as nobody is just
// reading them. What their readers look at stays valid, as after Close. Loop only.
func (l *Loop) endEvicted() {
	l.evicted = slices.DeleteFunc(l.evicted, func(s *Subscription) bool {
		if s.closed.Load() {
			return true // Close does it
		}
		if !s.readers.borrow() {
			return false
		}
		s.stop()
		s.topics = topicSet{}
		s.readers.giveBack()
		return true
	})
}
