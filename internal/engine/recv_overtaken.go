package engine

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscriptions that are further behind than their policy allows. Some jump to the newest packet, others end; neither
// blocks its stream.

// catchUp jumps to the newest packet if the feed is too far behind. Used by the reader only.
func (f *feed) catchUp() {
	if f.s.policy.Kind != slow.Latest {
		return
	}
	if f.s.policy.Act(f.c.Lag(), f.bound, f.c.Overtaken()) == slow.Jump {
		f.c.Jump(f.newest.Load())
	}
}

// evict ends the subscription if the feed is too far behind. Loop only.
func (f *feed) evict(now reliable.Instant) {
	s := f.s
	if s.policy.Kind != slow.Evict {
		return
	}
	lag := f.c.Lag()
	d := f.late.Record(time.Duration(now), lag, f.bound)
	if s.suppressed.Load() || s.policy.Act(lag, f.bound, f.c.Overtaken()) != slow.End {
		return
	}
	err := &events.EvictedError{
		Publisher: f.st.Publisher, Epoch: f.st.Epoch,
		PublisherName: f.st.Origin().Name, Group: f.g.address,
		Behind: uint64(lag), Allowed: uint64(f.bound), For: d,
	}
	report.SubscriptionEvicted.Log(s.l.log,
		append(publisherArgs(f.st.Origin(), f.g.address), "topics", s.names(), "for", d, "behind_packets", lag, "allowed_packets", f.bound)...)
	e := f.g.event(events.SubscriptionEvicted, f.st)
	e.For, e.Behind, e.Topics, e.Err = d, uint64(lag), s.names(), err
	s.l.event(e)
	s.suppressed.Store(true)
	s.fail(err)
	s.l.evicted = append(s.l.evicted, s)
}

// endEvicted frees the memory of evicted subscriptions once no reader uses it. A message that a reader holds stays
// valid, as after Close. Loop only.
func (l *Loop) endEvicted() {
	l.evicted = slices.DeleteFunc(l.evicted, func(s *Subscription) bool {
		if s.closed.Load() {
			return true // Close frees it
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
