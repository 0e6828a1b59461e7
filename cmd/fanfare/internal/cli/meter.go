package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

// meterEvery is how often the status line changes.
const meterEvery = 250 * time.Millisecond

// meter keeps a status line up to date while a command runs.
type meter struct {
	stopped chan struct{}
	done    chan struct{}
}

// startMeter shows what text returns, on a terminal, until stop. elapsed is the
// time since the last call.
func startMeter(c *console, show bool, text func(elapsed time.Duration) string) *meter {
	m := &meter{stopped: make(chan struct{}), done: make(chan struct{})}
	if !show || !c.tty {
		close(m.done)
		return m
	}
	go func() {
		defer close(m.done)
		ticker := time.NewTicker(meterEvery)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case now := <-ticker.C:
				c.status(text(now.Sub(last)))
				last = now
			case <-m.stopped:
				c.clear()
				return
			}
		}
	}()
	return m
}

// stop takes the status line away. It must be called once.
func (m *meter) stop() {
	close(m.stopped)
	<-m.done
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
func count[T ~int | ~int64 | ~uint64](n T, noun string) string {
	return plural.N(n, noun)
}

// took writes how long messages took, and their rate if it means anything.
func took(text string, d time.Duration, msgs, bytes uint64) string {
	if d < 10*time.Millisecond {
		return text
	}
	return fmt.Sprintf("%s in %s (%s)", text, short(d), rates(perSecond(msgs, d), perSecond(bytes, d)))
}

// rates writes messages and bytes a second.
func rates(msgs, bytes float64) string {
	return fmt.Sprintf("%s/s, %.1f MB/s", si(msgs), bytes/1e6)
}

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
