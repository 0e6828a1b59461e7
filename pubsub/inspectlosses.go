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
	x := &inspect.LossRecord{From: r.From, To: r.To, Older: r.Older, Minutes: r.Minutes, Unrecorded: r.Unrecorded}
	for i := range r.Losses {
		x.Losses = append(x.Losses, shownLoss(&r.Losses[i]))
	}
	return x
}

func shownLoss(l *stats.LossEntry) inspect.Loss {
	x := inspect.Loss{
		First: l.First, Last: l.Last, Cause: l.Cause, Event: l.Event,
		Topic: l.Topic, Subscription: l.Subscription, Group: l.Group, Leg: l.Leg,
		Publisher: idText(l.Publisher), Epoch: l.Epoch, Address: l.Address, Subscriber: idText(l.Subscriber),
		Times: l.Times, Number: l.Number, Messages: l.Messages,
		Unknown: l.Unknown, For: l.For.Seconds(), Behind: l.Behind, Error: l.Err,
	}
	if l.Subscriber != 0 {
		x.SubscriberName = l.Name
	} else {
		x.PublisherName = l.Name
	}
	return x
}
