package cli

import (
	"context"
	"time"
)

// schedule spreads messages over time. The zero value does not.
type schedule struct {
	perSecond float64
	began     time.Time // when message 0 would have been due
	sent      float64   // messages since
}

// catchUp bounds what is sent at once after a pause.
const catchUp = 50 * time.Millisecond

// take waits until at least one message is due and returns how many are, of want.
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
		// Rounding may say that it is due already.
		if err := sleep(ctx, max(s.at(s.sent).Sub(now), time.Microsecond)); err != nil {
			return 0, err
		}
	}
}

// sleep returns nil after d, or why ctx has ended before.
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

// due is how many of want messages may go at now.
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
