package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Output with a reader is written even after the command is to end; without a reader writing is
// abandoned a little later. The goroutine ends in both cases.
func TestOutWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		end, cancel := context.WithCancel(t.Context())
		o := newOutWriter(end, w)
		read := func(n int) string {
			b := make([]byte, n)
			if _, err := io.ReadFull(r, b); err != nil {
				t.Error(err)
			}
			return string(b)
		}
		write := func(text string) chan error {
			done := make(chan error, 1)
			go func() { _, err := o.Write([]byte(text)); done <- err }()
			synctest.Wait()
			return done
		}
		done := write("slow")
		time.Sleep(time.Hour)
		if got := read(4); got != "slow" || <-done != nil {
			t.Errorf(`read %q, want "slow", written without error`, got)
		}
		cancel()
		done = write("late")
		time.Sleep(outGrace / 2)
		if got := read(4); got != "late" || <-done != nil {
			t.Errorf(`read %q, want "late", written without error`, got)
		}
		began := time.Now()
		if _, err := o.Write([]byte("never")); !errors.Is(err, errUnread) || time.Since(began) != outGrace {
			t.Errorf("the write failed with %v after %v, want %v after %v", err, time.Since(began), errUnread, outGrace)
		}
		if _, err := o.Write([]byte("more")); !errors.Is(err, errUnread) || time.Since(began) != outGrace {
			t.Errorf("again: %v after %v", err, time.Since(began))
		}
		o.close()
		r.Close()
		synctest.Wait() // otherwise the test fails because of the goroutine
	})
}

// unreadOutput blocks writes until the test ends. tried is closed by the first write.
type unreadOutput struct {
	end   context.Context
	once  sync.Once
	tried chan struct{}
}

func (o *unreadOutput) Write([]byte) (int, error) {
	o.once.Do(func() { close(o.tried) })
	<-o.end.Done()
	return 0, io.ErrClosedPipe
}

// A sub whose output has no reader ends by its -until or a signal, and reports the reason.
func TestSubEndsThoughOutputIsUnread(t *testing.T) {
	t.Parallel() // the test mostly waits
	for name, args := range map[string][]string{
		"until": {"-json", "-until", "15s"}, "until, lines": {"-until", "15s"}, "signal": {"-json"}, // long enough to receive something on a busy host
	} {
		t.Run(name, func(t *testing.T) {
			if name != "signal" {
				testenv.Slow(t)
			}
			t.Parallel() // the test mostly waits
			url := loopbackURL(t)
			ctx, cancel := context.WithCancelCause(testContext(t))
			defer cancel(nil)
			var stderr syncBuffer
			code := make(chan int, 1)
			pub := start(t, strings.NewReader("one\ntwo\n"), "pub", "-t", url, "-wait", "1", "-linger", "0s", "x")
			out := &unreadOutput{end: t.Context(), tried: make(chan struct{})}
			go func() {
				code <- Run(ctx, append(append([]string{"sub", "-until", "end", "-t", url}, args...), "x"), nil, out, &stderr)
			}()
			<-pub.done
			if name == "signal" {
				select {
				case <-out.tried: // or there is nothing to read yet, and only the signal ends it
				case <-time.After(testTimeout):
					t.Fatal("it wrote nothing")
				}
				cancel(&signalError{syscall.SIGTERM})
			}
			select {
			case c := <-code:
				if text := stderr.String(); c == 0 || !strings.Contains(text, "has stopped reading") {
					t.Errorf("exit code %d, want a failure because the reader has stopped:\n%s", c, text)
				}
			case <-time.After(testTimeout):
				t.Error("it does not end")
			}
		})
	}
}
