package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

const meterEvery = 250 * time.Millisecond

// startMeter shows the result of text on a terminal until stop. elapsed is the time since the last call.
func startMeter(c *console, show bool, text func(elapsed time.Duration) string) (stop func()) {
	if !show || !c.tty {
		return func() {}
	}
	last := time.Now()
	end := every(meterEvery, func(now time.Time) {
		c.status(text(now.Sub(last)))
		last = now
	})
	return func() { end(); c.clear() }
}

// every calls f every d until stop, which waits for the last call to return.
func every(d time.Duration, f func(now time.Time)) (stop func()) {
	done := make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				f(now)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); calls.Wait() }
}

// ranFor is the part of d, an interval that should be at most meterEvery, in which the process ran.
// If it was stopped the result is 0: packets of that time are still unread.
func ranFor(d time.Duration) time.Duration {
	if d >= 2*meterEvery {
		return 0
	}
	return d
}

// whileRunning calls read, with contexts that end with cause, until read returns another error or
// the process has run for limit.
func whileRunning(ctx context.Context, limit time.Duration, cause error, read func(context.Context) error,
) (ran time.Duration, err error) {
	for {
		begun := time.Now()
		step, cancel := context.WithTimeoutCause(ctx, min(meterEvery, limit-ran), cause)
		err = read(step)
		cancel()
		if ran += ranFor(time.Since(begun)); ran >= limit || !errors.Is(err, cause) {
			return ran, err
		}
	}
}

type flow struct{ last uint64 }

func (f *flow) rate(now uint64, elapsed time.Duration) float64 {
	r := perSecond(now-f.last, elapsed)
	f.last = now
	return r
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func count[T ~int | ~int64 | ~uint64](n T, noun string) string { return plural.N(n, noun) }

func summary(text string, d time.Duration, msgs, bytes uint64) string {
	if d < 10*time.Millisecond {
		return text
	}
	return fmt.Sprintf("%s in %s (%s)", text, plural.Duration(d), rates(perSecond(msgs, d), perSecond(bytes, d)))
}

func rates(msgs, bytes float64) string { return fmt.Sprintf("%s/s, %.1f MB/s", si(msgs), bytes/1e6) }

// compressedTo gives the compression ratio; empty without compression.
func compressedTo(wire, raw uint64) string {
	if raw == 0 {
		return ""
	}
	return fmt.Sprintf("compressed to %.2f", float64(wire)/float64(raw))
}

// si formats a number with three digits: 812 k, 1.23 M.
func si(x float64) string {
	switch {
	case x >= 999.5e3:
		return fmt.Sprintf("%.2f M", x/1e6)
	case x >= 9995:
		return fmt.Sprintf("%.0f k", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

func list(parts ...string) string {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	return strings.Join(there, ", ")
}

func some[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 0 {
		return ""
	}
	return count(n, noun)
}

// schedule spreads messages over time. The zero value does not limit the rate.
type schedule struct {
	perSecond float64
	began     time.Time // when message 0 was due
	sent      float64   // messages sent since
}

// catchUp bounds the messages sent at once after a pause.
const catchUp = 50 * time.Millisecond

// take waits until at least one message is due, and returns how many are due, at most want.
func (s *schedule) take(ctx context.Context, want int) (int, error) {
	if s.perSecond == 0 {
		return want, context.Cause(ctx)
	}
	for {
		now := time.Now()
		due := s.due(now, want)
		if due > 0 {
			s.sent += float64(due)
			return due, context.Cause(ctx)
		}
		// at least 1 µs, because rounding may yield 0
		if err := sleep(ctx, max(s.at(s.sent).Sub(now), time.Microsecond)); err != nil {
			return 0, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *schedule) at(n float64) time.Time {
	return s.began.Add(time.Duration(n / s.perSecond * float64(time.Second)))
}

func (s *schedule) due(now time.Time, want int) int {
	if s.began.IsZero() || now.Sub(s.at(s.sent)) > catchUp {
		s.began, s.sent = now, 0
	}
	n := now.Sub(s.began).Seconds()*s.perSecond - s.sent
	if n < 0 {
		return 0
	}
	return int(min(n+1, float64(want)))
}
