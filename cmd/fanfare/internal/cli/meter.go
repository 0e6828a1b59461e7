package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

const meterEvery = 250 * time.Millisecond

// startMeter shows what text returns, on a terminal, until it is stopped. elapsed is since the last call.
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

// every calls f again and again until stop, which waits for its end.
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

// flow turns two readings of a counter into a rate.
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

// count writes a number with its noun: "1 gap", "2 gaps".
func count[T ~int | ~int64 | ~uint64](n T, noun string) string { return plural.N(n, noun) }

// took writes how long messages took, and their rate if it means anything.
func took(text string, d time.Duration, msgs, bytes uint64) string {
	if d < 10*time.Millisecond {
		return text
	}
	return fmt.Sprintf("%s in %s (%s)", text, short(d), rates(perSecond(msgs, d), perSecond(bytes, d)))
}

func rates(msgs, bytes float64) string { return fmt.Sprintf("%s/s, %.1f MB/s", si(msgs), bytes/1e6) }

// si writes a number in three digits: 812 k, 1.23 M.
func si(x float64) string {
	switch {
	case x >= 999.5e3:
		return fmt.Sprintf("%.2f M", x/1e6)
	case x >= 9995:
		return fmt.Sprintf("%.0f k", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// list joins what is there with commas.
func list(parts ...string) string {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	return strings.Join(there, ", ")
}

// some is count, but empty for none.
func some[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 0 {
		return ""
	}
	return count(n, noun)
}

// short writes a time to three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
