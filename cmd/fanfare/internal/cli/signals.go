package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalError is why a context ended that a signal ended.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped: %v", e.sig) }

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
	go heed(signals, cancel, os.Exit)
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// echo is for how long after the first signal others are taken for the same one: timeout(1)
// sends its signal to the command and then to all of the command's process group, and a
// terminal's Ctrl-C comes from the terminal and from who passes it on.
const echo = 250 * time.Millisecond

// heed ends what cancel ends at the first signal, and the process at the next one that is no
// echo of it.
func heed(signals <-chan os.Signal, cancel context.CancelCauseFunc, exit func(int)) {
	var first time.Time
	for s := range signals {
		sig, ok := s.(syscall.Signal)
		switch {
		case !ok:
		case first.IsZero():
			first = time.Now()
			cancel(&signalError{sig})
		case time.Since(first) >= echo:
			exit((&signalError{sig}).code())
		}
	}
}
