package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A call that makes a topic's state is reported after 1 s, 2 s, 4 s, … and when it returns. A shorter call is not
// reported.
func TestSlowState(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  []string
	}{
		{firstReport - time.Millisecond, nil},
		{firstReport + time.Millisecond, []string{"topic=x so_far=1s", "topic=x after=1.001s"}},
		{5 * time.Second, []string{"topic=x so_far=1s", "topic=x so_far=2s", "topic=x so_far=4s", "topic=x after=5s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			l := &Loop{clock: newClock()}
			w := l.watchState("x")
			l.log = slog.New(unlocked{t, w, slog.NewTextHandler(&out, nil)})
			w.begin()
			time.Sleep(c.takes)
			synctest.Wait()
			w.end()
			w.stop()
			time.Sleep(time.Minute)
			synctest.Wait()
			l.commands.run()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.want) {
				t.Fatalf("%v: lines %q, want %q", c.takes, lines, c.want)
			}
			for i, want := range c.want {
				if !strings.HasSuffix(lines[i], want) {
					t.Errorf("%v: line %q, want suffix %q", c.takes, lines[i], want)
				}
			}
		})
	}
}

// unlocked is a log handler that fails the test if a line is logged under the lock of w.
type unlocked struct {
	t *testing.T
	w *callWatch
	slog.Handler
}

func (u unlocked) Handle(ctx context.Context, r slog.Record) error {
	if !u.w.mu.TryLock() {
		u.t.Errorf("%q is logged under the lock, want it logged without", r.Message)
	} else {
		u.w.mu.Unlock()
	}
	return u.Handler.Handle(ctx, r)
}

// Only long calls are reported. The reported time is at most watchEvery shorter than the call. Without calls no timer
// runs.
func TestCallWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		w := &callWatch{
			clock: newClock(),
			slow:  func(d time.Duration) { reported = append(reported, fmt.Sprint("slow ", d)) },
			fast:  func(d time.Duration) { reported = append(reported, fmt.Sprint("fast ", d)) },
		}
		calls := func(n int, each time.Duration, want ...string) {
			t.Helper()
			for range n {
				w.begin()
				time.Sleep(each)
				synctest.Wait()
				w.end()
			}
			if !slices.Equal(reported, want) {
				t.Errorf("%d calls of %v: reports %q, want %q", n, each, reported, want)
			}
			reported = nil
		}
		calls(10_000, time.Millisecond)
		calls(3, firstReport-time.Millisecond)
		time.Sleep(watchEvery / 2) // the next call begins between two checks
		calls(1, 3*time.Second, "slow 1s", "slow 2s", "fast 2.872s")
		calls(1, 3*time.Second, "slow 1s", "slow 2s", "fast 2.75s")
		time.Sleep(10 * firstReport)
		if w.watching.Load() || w.timer.Stop() {
			t.Error("a timer runs without calls, want none")
		}
		calls(1, 2*time.Second+time.Millisecond, "slow 1s", "slow 2s", "fast 2.001s")
		w.stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer.Stop() {
			t.Error("a timer runs after stop, want none")
		}
	})
}

// stopped simulates a stop of the process for d: the clock advances, timers do not.
func (w *callWatch) stopped(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.start = w.clock.start.Add(-d)
}

// The time in which the process is stopped during a call is not reported.
func TestCallWatchAcrossAStop(t *testing.T) {
	for _, c := range []struct {
		before, after time.Duration
		want          []string
	}{
		{5 * time.Millisecond, 5 * time.Millisecond, nil},
		{700 * time.Millisecond, 5 * time.Millisecond, nil},
		{5 * time.Millisecond, 1100 * time.Millisecond, nil},
		{1600 * time.Millisecond, 5 * time.Millisecond, []string{"slow 1s", "fast 1.5s"}},
		{1600 * time.Millisecond, 2 * time.Second, []string{"slow 1s", "slow 2s", "fast 3.35s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var reported []string
			w := &callWatch{
				clock: newClock(),
				slow:  func(d time.Duration) { reported = append(reported, fmt.Sprint("slow ", d)) },
				fast:  func(d time.Duration) { reported = append(reported, fmt.Sprint("fast ", d)) },
			}
			defer w.stop()
			w.begin()
			time.Sleep(c.before)
			synctest.Wait()
			w.stopped(2 * time.Minute)
			time.Sleep(c.after)
			synctest.Wait()
			w.end()
			if !slices.Equal(reported, c.want) {
				t.Errorf("%v before and %v after the stop: reports %q, want %q", c.before, c.after, reported, c.want)
			}
		})
	}
}
