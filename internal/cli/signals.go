package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signalError is why a context ended that a signal ended.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped: %v", e.sig) }

// code is the exit code that shells expect.
func (e *signalError) code() int { return 128 + int(e.sig) }

// withSignals returns a context that the first signal ends, with a
// *signalError as its cause. The second ends the process at once.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of our output that goes away must not end us before we have said
	// farewell to the publishers: the failing write will.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		for s := range signals {
			sig, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			if ctx.Err() != nil {
				os.Exit((&signalError{sig}).code())
			}
			cancel(&signalError{sig})
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
