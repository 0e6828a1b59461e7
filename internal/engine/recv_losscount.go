package engine

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// losses counts the gaps delivered to users, by cause. Any goroutine may use it: gaps are rare.
type losses [events.NumCauses]struct{ gaps, messages atomic.Uint64 }

// count counts a gap that is being delivered. One of unknown size counts no messages.
func (x *losses) count(it *topics.Item) {
	c := min(it.Cause, events.NumCauses-1)
	x[c].gaps.Add(1)
	x[c].messages.Add(it.Lost)
}

func (x *losses) snapshot() []stats.Loss {
	all := make([]stats.Loss, 0, len(x)-1)
	for c := events.CauseNone + 1; c < events.NumCauses; c++ {
		all = append(all, stats.Loss{Cause: c, Gaps: x[c].gaps.Load(), Messages: x[c].messages.Load()})
	}
	return all
}

// lost records a gap that is being delivered to the subscription. group is the group's address.
func (s *Subscription) lost(it *topics.Item, group string, from *reliable.Origin) {
	s.l.counters.losses.count(it)
	s.losses.count(it)
	s.recordLoss(it, group, from)
}
