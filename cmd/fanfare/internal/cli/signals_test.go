package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The first signal ends the command in order, further ones within the echo time count as the same,
// and a later one ends the process.
func TestSignalTwice(t *testing.T) {
	for _, c := range []struct {
		after []time.Duration // intervals between signals
		exits bool
	}{
		{nil, false},
		{[]time.Duration{0}, false}, // timeout(1)
		{[]time.Duration{time.Millisecond, 100 * time.Millisecond}, false},     // forwarded by a shell
		{[]time.Duration{echo}, true},                                          // the user does not want to wait
		{[]time.Duration{10 * time.Millisecond, 300 * time.Millisecond}, true}, // after an echo
	} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal, 2)
			ctx, cancel := context.WithCancelCause(t.Context())
			exited := 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				heed(signals, cancel, func(code int) { exited = code })
			}()
			signals <- syscall.SIGTERM
			for _, d := range c.after {
				time.Sleep(d)
				signals <- syscall.SIGINT
				synctest.Wait()
			}
			close(signals)
			<-done
			var sig *signalError
			if !errors.As(context.Cause(ctx), &sig) || sig.sig != syscall.SIGTERM {
				t.Errorf("after %v the context ended with %v", c.after, context.Cause(ctx))
			}
			if want := map[bool]int{true: 130}[c.exits]; exited != want {
				t.Errorf("after %v the exit code is %d, want %d", c.after, exited, want)
			}
		})
	}
}
