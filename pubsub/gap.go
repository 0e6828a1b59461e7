package pubsub

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// GapError is delivered in place of messages that were lost permanently. The stream continues after it. It matches
// ErrGap.
type GapError struct {
	// Topic that lost messages; empty if the publisher was lost before it could report which.
	Topic string
	// First is the number, within its topic and publisher, of the first message lost, and Count how many were. If Count
	// is 0, this bus cannot know whether and how many messages were lost: before message First or, if Open is set, from
	// First on.
	First, Count uint64
	// Open: the publisher with the epoch in Positions has ended or is lost: no packet of it arrives. If it comes up
	// later its messages follow, from First on.
	Open  bool
	Cause events.Cause
	// Publisher published the lost messages; PublisherName and Epoch are as in Message.
	Publisher     PublisherID
	PublisherName string
	Epoch         events.ID

	events bool // if Open is set: a *PublisherEvent reports when the publisher comes up
}

func (e *GapError) Error() string {
	name := e.PublisherName
	if name == "" {
		name = e.Publisher.String()
	}
	switch {
	case e.Topic == "":
		return fmt.Sprintf("publisher %s: packets were lost, and it is not known of which topics: %s", name, e.Cause)
	case e.Open:
		return fmt.Sprintf("topic %s of publisher %s: messages from number %d on may be lost, and it is not known how many: no packet of its run with epoch %s arrives", e.Topic, name, e.First, e.Epoch)
	case e.Count == 0:
		return fmt.Sprintf("topic %s of publisher %s: messages before number %d may be lost, and it is not known how many: %s", e.Topic, name, e.First, e.Cause)
	case e.Count == 1:
		return fmt.Sprintf("topic %s of publisher %s: message %d is lost: %s", e.Topic, name, e.First, e.Cause)
	}
	return fmt.Sprintf("topic %s of publisher %s: %d messages from number %d on are lost: %s", e.Topic, name, e.Count, e.First, e.Cause)
}

// Is makes errors.Is(err, ErrGap) true.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// gapError is the error for a delivery that reports lost messages.
func gapError(d *engine.Delivery) *GapError {
	e := &GapError{First: d.Number, Count: d.Lost, Cause: d.Cause, Publisher: d.From.Publisher,
		PublisherName: d.From.Name, Epoch: d.From.Epoch}
	if d.Topic != nil {
		e.Topic = d.Topic.Name
	}
	return e
}

// absentGap is the gap for a position of an absent publisher.
func absentGap(err *engine.AbsentError) *GapError {
	return &GapError{Topic: err.Topic, First: err.Next, Open: true, Cause: events.CausePublisherLost,
		Publisher: err.Publisher, Epoch: err.Epoch, events: err.Events}
}
