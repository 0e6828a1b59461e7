package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A bounded number of refused publishers is stored, however many are forged. A publisher that is accepted later is removed.
func TestRefusals(t *testing.T) {
	var r refusals
	for p := range events.ID(3 * maxRefusals) {
		now := reliable.Instant(p)
		if r.seen(now, p) {
			t.Fatalf("seen returned true for new publisher %d, want false", p)
		}
		r.remember(now, &events.PublisherRefusedError{Publisher: p})
		if !r.seen(now, p) || len(r.reported) > maxRefusals || len(r.reported) != len(r.order) {
			t.Fatalf("after publisher %d: %d reported, %d in order, want the same number, at most %d", p, len(r.reported), len(r.order), maxRefusals)
		}
	}
	if r.seen(0, 0) || !r.seen(0, 3*maxRefusals-1) {
		t.Error("want the first publisher removed, and the last one stored")
	}
	r.heard(3*maxRefusals - 1)
	if r.seen(0, 3*maxRefusals-1) || len(r.reported) != len(r.order) {
		t.Error("an accepted publisher is still stored, want it removed")
	}
	r.heard(1 << 40)
}

// Forged publishers fill neither a subscription nor the log.
func TestForgedPublishersRefused(t *testing.T) {
	_, l := newLoop(t, Config{})
	s := subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	l.do(func() {
		now := l.now()
		for p := range events.ID(10_000) {
			l.groups[0].Refused(now.Add(time.Duration(p)*time.Millisecond), events.Instance{Publisher: p, Epoch: 1}, events.RefusedMemory)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.up.len(); n < linesAtOnce || n > linesAtOnce+11 {
		t.Errorf("%d publishers reported in 10 s, want %d and one a second", n, linesAtOnce)
	}
}
