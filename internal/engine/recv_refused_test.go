package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that are not heard are remembered within bounds, whatever identities are
// forged, and those that are heard in the end are forgotten.
func TestRefusals(t *testing.T) {
	var r refusals
	for p := range events.ID(3 * maxRefusals) {
		now := reliable.Instant(p)
		if r.seen(now, p) {
			t.Fatalf("publisher %d was reported before", p)
		}
		r.remember(now, &events.PublisherRefusedError{Publisher: p})
		if !r.seen(now, p) || len(r.reported) > maxRefusals || len(r.reported) != len(r.order) {
			t.Fatalf("after %d: %d reported, %d in order", p, len(r.reported), len(r.order))
		}
	}
	if r.seen(0, 0) || !r.seen(0, 3*maxRefusals-1) {
		t.Error("the latest are not those that are remembered")
	}
	r.heard(3*maxRefusals - 1)
	if r.seen(0, 3*maxRefusals-1) || len(r.reported) != len(r.order) {
		t.Error("a publisher that is heard is still remembered")
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
		t.Errorf("%d publishers were reported in 10 s, want %d and one a second", n, linesAtOnce)
	}
}
