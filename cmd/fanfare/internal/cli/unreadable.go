package cli

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// unreadable is why a command's bus cannot open packets that come: as of the first of them.
type unreadable struct {
	first atomic.Pointer[pubsub.UnreadableError]
	clock atomic.Uint64 // the publisher that was lost because the times of its heartbeats did not grow
}

// event says so when it is told.
func (u *unreadable) event(e *env, ev events.Event) {
	var err *pubsub.UnreadableError
	if ev.Kind == events.PacketsUnreadable && errors.As(ev.Err, &err) {
		u.first.CompareAndSwap(nil, err)
		e.console.heard("%v", err)
	}
	var fault *pubsub.FaultError
	if ev.Kind == events.PublisherFault && errors.As(ev.Err, &fault) && fault.Fault == pubsub.FaultClock {
		u.clock.Store(uint64(fault.Publisher))
	}
}

// lost says why a publisher may have been lost.
func (u *unreadable) lost(publisher pubsub.PublisherID) string {
	if u.clock.Load() == uint64(publisher) {
		return "heartbeats of it come, but their times do not grow: its clock stands still or goes back, or old ones are played back"
	}
	err := u.first.Load()
	if err == nil {
		return "it was killed, or cut off"
	}
	switch err.Reason {
	case transport.UnreadableKey, transport.UnreadableExpired:
		return fmt.Sprintf("it may be sealing with key %v now, which is not here, or not valid", pubsub.KeyID(err.Key))
	}
	return "it was killed or cut off, or is one of those whose packets cannot be opened"
}

// instead is the error of a command that has heard nothing else, nil if that is not why.
func (u *unreadable) instead(heard string) error {
	if err := u.first.Load(); err != nil {
		return &exitError{exitMismatch, fmt.Errorf("%s: %w", heard, err)}
	}
	return nil
}
