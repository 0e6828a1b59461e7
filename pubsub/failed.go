package pubsub

import (
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How errors of the packages below become those of this one.

// callError is why a call of this package failed: which call, on which topic, and what
// happened. Its text is made when it is asked for: TryPublish may fail often.
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

// closedError says what is closed, and matches net.ErrClosed.
type closedError struct{ what string }

func (e *closedError) Error() string { return e.what + " is closed" }
func (e *closedError) Unwrap() error { return net.ErrClosed }

var (
	errBusClosed          = &closedError{"the bus"}
	errPublisherClosed    = &closedError{"the publisher"}
	errSubscriptionClosed = &closedError{"the subscription"}
	errSurveyClosed       = &closedError{"the survey"}
)

// failed is the error of a call that failed because of err. topic may be empty.
func failed(call, topic string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, topic, publicError(err)}
}

// publicError returns err, with what the engine reports as closed or not heard as the errors that are documented here.
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
