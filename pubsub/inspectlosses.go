package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// shownLossRecord is the loss record for other processes on this host. Its counters are as of the last sample on the
// bus's goroutine.
func (b *Bus) shownLossRecord() *inspect.LossRecord {
	now := time.Now()
	r := publicLossRecord(now, b.losses.Snapshot(now))
	x := &inspect.LossRecord{From: r.From, To: r.To, Older: r.Older, Unrecorded: r.Unrecorded}
	for i := range r.Losses {
		x.Losses = append(x.Losses, shownLoss(&r.Losses[i]))
	}
	for i := range r.Minutes {
		x.Minutes = append(x.Minutes, shownLossMinute(&r.Minutes[i]))
	}
	return x
}

func shownLoss(l *stats.LossEntry) inspect.Loss {
	x := inspect.Loss{
		First: l.First, Last: l.Last, Cause: l.Cause, Event: l.Event,
		Topic: l.Topic, Subscription: l.Subscription, Group: l.Group, Leg: l.Leg,
		Epoch: l.Epoch, Address: l.Address,
		Times: l.Times, Number: l.Number, Messages: l.Messages,
		Unknown: l.Unknown, For: l.For.Seconds(), Behind: l.Behind, Error: l.Err,
	}
	if l.Publisher != 0 {
		x.Publisher = l.Publisher.String()
	}
	if l.Subscriber != 0 {
		x.Subscriber, x.SubscriberName = l.Subscriber.String(), l.Name
	} else {
		x.PublisherName = l.Name
	}
	return x
}

func shownLossMinute(m *stats.LossMinute) inspect.LossMinute {
	x := inspect.LossMinute{Start: m.Start, Missing: m.Missing, Repaired: m.Repaired, Late: m.Late,
		OtherRepaired: m.OtherRepaired, OtherLost: m.OtherLost}
	for _, c := range m.Causes {
		x.Causes = append(x.Causes, inspect.Cause(c))
	}
	for _, w := range m.Ways {
		x.Ways = append(x.Ways, inspect.LossWay{Publisher: w.Publisher.String(), Name: w.Name,
			Address: w.Address, Group: w.Group, Repaired: w.Repaired, Lost: w.Lost})
	}
	return x
}
