package engine

import (
	"context"
	"errors"
)

// contextError returns why ctx ended. The error matches context.Canceled or context.DeadlineExceeded, and
// context.Cause(ctx).
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return &endedContext{err, cause}
}

// ErrNilContext is returned by a call with a nil context.
var ErrNilContext = errors.New("the context is nil: pass context.Background() if there is none")

// liveContext returns an error if ctx is nil or has ended, so that the call does not begin. The methods of a context
// are user code, so they are called before there is anything to undo.
func liveContext(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}

// ContextError is contextError for other packages.
func ContextError(ctx context.Context) error { return contextError(ctx) }

// endedContext is a context's error with its cause. Its text is the cause's, which says what happened.
type endedContext struct{ err, cause error }

func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap lets errors.Is match both.
func (e *endedContext) Unwrap() []error { return []error{e.err, e.cause} }
