package pubsub

import (
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Errors of lower packages are converted to those of this one here.

// callError adds the call and the topic to an error. Error makes the text only when called: TryPublish may fail often.
type callError struct {
	call, topic string
	err         error
}

func (e *callError) Error() string {
	if e.topic == "" {
		return "pubsub: " + e.call + ": " + e.err.Error()
	}
	return "pubsub: " + e.call + ` "` + e.topic + `": ` + e.err.Error()
}

func (e *callError) Unwrap() error { return e.err }

// closedError names the closed object, and matches net.ErrClosed.
type closedError struct{ what string }

func (e *closedError) Error() string { return e.what + " is closed" }
func (e *closedError) Unwrap() error { return net.ErrClosed }

var (
	errBusClosed          = &closedError{"the bus"}
	errPublisherClosed    = &closedError{"the publisher"}
	errSubscriptionClosed = &closedError{"the subscription"}
	errSurveyClosed       = &closedError{"the survey"}
)

// failed is the error of a call that failed with err; nil if err is nil. topic may be empty.
func failed(call, topic string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, topic, publicError(err)}
}

// publicError converts the engine's errors about closed objects and absent publishers to those documented here, and
// returns others unchanged.
func publicError(err error) error {
	var absent *engine.AbsentError
	var unsent *events.UnsentError
	var closed *closedError
	switch {
	case err == nil, errors.As(err, &closed):
		return err
	case errors.As(err, &absent):
		return absentGap(absent)
	case errors.As(err, &unsent):
		return &events.UnsentError{Messages: unsent.Messages, Err: publicError(unsent.Err)}
	case errors.Is(err, net.ErrClosed):
		return errBusClosed
	}
	return err
}
