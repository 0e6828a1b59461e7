package driver

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

// ContextError is contextError for the packages that drive a loop.
func ContextError(ctx context.Context) error { return contextError(ctx) }

// endedContext is a context's error beside the cause that was given for it. Its text
// is the cause's: the caller that gave one has said what happened.
type endedContext struct{ err, cause error }

func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap makes errors.Is hold for both.
func (e *endedContext) Unwrap() []error { return []error{e.err, e.cause} }
