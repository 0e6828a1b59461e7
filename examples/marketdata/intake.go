package main

import (
	"context"
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// intake passes what comes on to a receiver, in the goroutine of the bus: no message
// waits for another goroutine to wake up. What may take longer, to tell others of the
// progress, is done elsewhere.
type intake struct {
	r     *receiver
	clock sparseClock
	// A publisher ends group by group.
	groups int
	ended  map[string]bool // of groups

	progress chan *subscriberState // the latest that nobody has taken yet
	over     chan struct{}         // closed when nothing more is taken in
	err      error                 // why; valid when over is closed
	closed   bool
}

func newIntake(topics []string, groups int, paced bool) *intake {
	return &intake{
		r: newReceiver(topics), clock: newClock(paced), groups: groups, ended: map[string]bool{},
		progress: make(chan *subscriberState, 1), over: make(chan struct{}),
	}
}

// take is the handler of the subscription.
func (in *intake) take(msg pubsub.Message, err error) {
	if in.closed {
		return
	}
	now := in.clock.time()
	if err == nil && msg.IsState() {
		err = in.r.begin(msg.Topic, msg.Data, msg.IsStateEnd())
	} else if err == nil {
		err = in.r.message(msg.Topic, msg.Data, now)
	} else {
		err = in.other(err)
	}
	if err != nil || in.r.complete() || len(in.ended) == in.groups {
		in.r.finish(time.Now())
		in.closed, in.err = true, err
		close(in.over)
		return
	}
	if now.Sub(in.r.rateSince) >= progressEvery {
		select {
		case in.progress <- in.r.progress(now):
		default: // the one before is still to be told
		}
	}
}

// other takes what comes in place of a message. It returns what is an end.
func (in *intake) other(err error) error {
	var gap *pubsub.GapError
	var publisher *pubsub.PublisherEvent
	switch {
	case errors.As(err, &gap):
		// Not the end: the stream goes on, and the digests will differ.
		in.r.gap(gap.Topic, gap.Count)
		return nil
	case !errors.As(err, &publisher):
	case publisher.Kind == events.PublisherUp:
		return nil
	case publisher.Kind == events.PublisherEnded:
		in.ended[publisher.Group] = true
		return nil
	}
	return err
}

// wait tells of the progress until nothing more is taken in.
func (in *intake) wait(ctx context.Context, tell func(*subscriberState) error) error {
	for {
		select {
		case s := <-in.progress:
			if err := tell(s); err != nil {
				return err
			}
		case <-in.over:
			return in.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
