package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// What the log says of publishers with several groups.
func TestPresences(t *testing.T) {
	const lost, ended = events.CausePublisherLost, events.CauseNone
	type step struct {
		up    bool
		epoch events.ID
		cause events.Cause
		say   bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"up and ended in three groups", []step{{true, 1, 0, true}, {true, 1, 0, false}, {true, 1, 0, false}, {false, 1, ended, true}, {false, 1, ended, false}, {false, 1, ended, false}}},
		{"lost and back in both", []step{{true, 1, 0, true}, {true, 1, 0, false}, {false, 1, lost, true}, {false, 1, lost, false}, {true, 1, 0, true}, {true, 1, 0, false}}},
		{"lost and back in one of two", []step{{true, 1, 0, true}, {true, 1, 0, false}, {false, 1, lost, true}, {true, 1, 0, true}, {false, 1, ended, true}, {false, 1, ended, false}}},
		{"lost in one, ended in the other", []step{{true, 1, 0, true}, {true, 1, 0, false}, {false, 1, lost, true}, {false, 1, ended, true}}},
		{"restarted", []step{{true, 1, 0, true}, {true, 1, 0, false}, {true, 2, 0, true}, {false, 1, lost, true}, {true, 2, 0, false}, {false, 1, lost, false}}},
		{"down a second time", []step{{true, 1, 0, true}, {false, 1, lost, true}, {false, 1, events.CauseRestart, false}, {true, 2, 0, true}}},
	} {
		var p presences
		for i, s := range c.steps {
			say := false
			if s.up {
				say = p.came(events.Instance{Publisher: 7, Epoch: s.epoch})
			} else {
				say = p.went(events.Instance{Publisher: 7, Epoch: s.epoch}, s.cause)
			}
			if say != s.say {
				t.Errorf("%s: step %d is said: %v", c.name, i, say)
			}
		}
	}
	var p presences
	for i := range events.ID(100) {
		p.came(events.Instance{Publisher: i, Epoch: 1})
		p.went(events.Instance{Publisher: i, Epoch: 1}, ended)
	}
	if len(p.of) != 0 {
		t.Errorf("%d publishers that are gone are remembered", len(p.of))
	}
}

// What happens to a subscriber in all groups is said once, and again when it lasts.
func TestRepeats(t *testing.T) {
	var r repeats
	now := reliable.Instant(time.Hour)
	for i, c := range []struct {
		after time.Duration
		who   events.ID
		what  *report.Line
		say   bool
	}{
		{0, 1, &report.SubscriberSilent, true}, {time.Millisecond, 1, &report.SubscriberSilent, false}, {time.Second, 1, &report.SubscriberSilent, false},
		{0, 1, &report.SubscriberReleased, true}, {0, 2, &report.SubscriberSilent, true},
		{sameRemark, 1, &report.SubscriberSilent, true}, {0, 1, &report.SubscriberSilent, false},
	} {
		now = now.Add(c.after)
		if say := r.say(now, c.who, c.what); say != c.say {
			t.Errorf("%d: said is %v", i, say)
		}
	}
	for i := range events.ID(3 * remarksKept) {
		if r.say(now, i, &report.GroupLost); len(r.at) > remarksKept {
			t.Fatalf("%d are remembered", len(r.at))
		}
	}
}
