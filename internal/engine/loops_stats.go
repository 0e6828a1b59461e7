package engine

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/fanfaremq/fanfare/internal/histogram"
	"github.com/fanfaremq/fanfare/internal/pattern"
)

// What several loops have counted is one bus's.

// Stats is Loop.Stats: counters are the sums of all loops'.
func (x *Loops) Stats() (st Stats, err error) {
	st, err = x.all[0].Stats()
	for _, l := range x.all[1:] {
		o, oErr := l.Stats()
		st.add(&o)
		err = cmp.Or(err, oErr)
	}
	return st, err
}

// add adds what another loop has counted.
func (st *Stats) add(o *Stats) {
	addCounters(reflect.ValueOf(&st.Transport), reflect.ValueOf(&o.Transport))
	addCounters(reflect.ValueOf(&st.Seal), reflect.ValueOf(&o.Seal))
	addCounters(reflect.ValueOf(&st.Sign), reflect.ValueOf(&o.Sign))
	st.Groups = append(st.Groups, o.Groups...)
	st.Publications = append(st.Publications, o.Publications...)
	st.ForeignReplies += o.ForeignReplies
	st.RepliesFailed += o.RepliesFailed
	st.SlowConsumerPackets += o.SlowConsumerPackets
	st.ReplacedMessages += o.ReplacedMessages
	st.Lost = addLosses(st.Lost, o.Lost)
	st.LostOnWay += o.LostOnWay
	st.LostToQueue += o.LostToQueue
	st.RefusedMessages += o.RefusedMessages
	for i := range st.Events {
		st.Events[i].Count += o.Events[i].Count
	}
	sum, more := reflect.ValueOf(&st.Distributions).Elem(), reflect.ValueOf(&o.Distributions).Elem()
	for i := range sum.NumField() {
		sum.Field(i).Addr().Interface().(*histogram.Snapshot).Add(more.Field(i).Addr().Interface().(*histogram.Snapshot))
	}
	if len(st.Legs) == 0 {
		st.Legs = o.Legs // the loop did not say
		return
	}
	for i := range o.Legs {
		a, b := &st.Legs[i], &o.Legs[i]
		a.Up = a.Up && b.Up
		a.Unsent += b.Unsent
		addCounters(reflect.ValueOf(&a.Leg.Stats), reflect.ValueOf(&b.Leg.Stats))
		a.LegStats.Add(&b.LegStats)
	}
}

// addCounters adds all counters of one struct to those of another.
func addCounters(to, from reflect.Value) {
	to, from = to.Elem(), from.Elem()
	for i := range to.NumField() {
		switch f := to.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(f.Uint() + from.Field(i).Uint())
		case reflect.Struct:
			addCounters(f.Addr(), from.Field(i).Addr())
		}
	}
}

// addLosses adds losses, cause by cause: both have all causes, or none.
func addLosses(to, from []Losses) []Losses {
	if len(to) == 0 {
		return from
	}
	for i := range from {
		to[i].Gaps += from[i].Gaps
		to[i].Messages += from[i].Messages
	}
	return to
}

// LookAt says which subscription is to be looked at. Newest may be nil.
type LookAt struct {
	Subscription Subscribed
	Newest       *Conflation
}

// Look is Loop.Look.
func (x *Loops) Look(ctx context.Context, subs []LookAt, most LookLimits) Look {
	var all Look
	for i, l := range x.all {
		at := make([]*Subscription, len(subs)) // its part in the loop, or nil
		for k, s := range subs {
			if j, ok := s.Subscription.(*Joint); ok {
				at[k] = j.part(l)
			} else {
				at[k] = s.Subscription.(*Subscription)
			}
		}
		o := l.Look(ctx, at, most)
		if i == 0 {
			all = o
			continue
		}
		all.add(&o.Stats)
		all.Topics = append(all.Topics, o.Topics...)
		all.TopicsLeft += o.TopicsLeft
		all.Ended, all.Closing = all.Ended && o.Ended, all.Closing || o.Closing
		all.Err = cmp.Or(all.Err, o.Err)
		for k := range all.Subscriptions {
			all.Subscriptions[k].join(&o.Subscriptions[k])
		}
	}
	slices.SortStableFunc(all.Topics, func(a, b TopicLook) int { return cmp.Compare(b.Messages, a.Messages) })
	n := min(len(all.Topics), most.Topics)
	all.TopicsLeft += len(all.Topics) - n
	all.Topics = all.Topics[:n]
	for k := range subs {
		s := &all.Subscriptions[k]
		if j, ok := subs[k].Subscription.(*Joint); ok {
			s.Topics = len(*j.names.Load())
		}
		if subs[k].Newest != nil {
			subs[k].Newest.count(&s.SubscriptionStats)
		}
	}
	return all
}

// join adds another part of the subscription.
func (s *SubscriptionLook) join(o *SubscriptionLook) {
	s.add(&o.SubscriptionStats)
	if s.Names == nil {
		s.Names = o.Names // each part says all
	}
}

// Surveys is a Survey in each loop that has groups of it.
type Surveys struct{ parts []*Survey }

// Ended is Survey.Ended.
func (s *Surveys) Ended() <-chan struct{} { return s.parts[0].Ended() }

// Heard is Survey.Heard.
func (s *Surveys) Heard(patterns []pattern.Pattern) (h Surveyed, err error) {
	for _, p := range s.parts {
		o, err := p.Heard(patterns)
		if err != nil {
			return h, err
		}
		h.Streams = append(h.Streams, o.Streams...)
		h.For = max(h.For, o.For)
		h.Groups, h.Joined, h.Failed = h.Groups+o.Groups, h.Joined+o.Joined, h.Failed+o.Failed
		h.Err = cmp.Or(h.Err, o.Err)
		h.Counts.Add(o.Counts)
	}
	return h, nil
}

// Close is Survey.Close.
func (s *Surveys) Close() (err error) {
	for _, p := range s.parts {
		err = cmp.Or(err, p.Close())
	}
	return err
}
