package cli

import (
	"context"
	"time"
)

// pacer spreads messages over time. The zero value does not.
type pacer struct {
	perSecond float64
	began     time.Time // when message 0 would have been due
	sent      float64   // messages since
}

// catchUp bounds what is sent at once after a pause.
const catchUp = 50 * time.Millisecond

// take waits until at least one message is due and returns how many are, of
// want.
func (p *pacer) take(ctx context.Context, want int) (int, error) {
	if p.perSecond == 0 {
		return want, context.Cause(ctx)
	}
	for {
		now := time.Now()
		due := p.due(now, want)
		if due > 0 {
			p.sent += float64(due)
			return due, context.Cause(ctx)
		}
		timer := time.NewTimer(max(p.at(p.sent).Sub(now), time.Microsecond)) // rounding may say that it is due already
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		}
	}
}

// at is when message number n is due.
func (p *pacer) at(n float64) time.Time {
	return p.began.Add(time.Duration(n / p.perSecond * float64(time.Second)))
}

// due is how many of want messages may go at now.
func (p *pacer) due(now time.Time, want int) int {
	if p.began.IsZero() || now.Sub(p.at(p.sent)) > catchUp {
		p.began, p.sent = now, 0
	}
	n := now.Sub(p.began).Seconds()*p.perSecond - p.sent
	if n < 0 {
		return 0
	}
	return int(min(n+1, float64(want)))
}
