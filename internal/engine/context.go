package engine

import (
	"context"
	"errors"
)

// contextError is why ctx ended, for a call that ends by its context. It matches
// context.Canceled or context.DeadlineExceeded, and context.Cause(ctx) too.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return &endedContext{err, cause}
}

// ErrNilContext: a call got a nil context.
var ErrNilContext = errors.New("the context is nil: pass context.Background() if there is none")

// liveContext returns the error of a context that is nil or has ended: then a call does not begin. The methods of a
// context are the user's code: they are called before there is anything to undo.
func liveContext(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}

// ContextError is contextError for the packages that drive a loop.
func ContextError(ctx context.Context) error { return contextError(ctx) }

// endedContext is a context's error beside the cause that was given for it. Its text
// is the cause's: the caller that gave one has said what happened.
type endedContext struct{ err, cause error }

func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap makes errors.Is hold for both.
func (e *endedContext) Unwrap() []error { return []error{e.err, e.cause} }
