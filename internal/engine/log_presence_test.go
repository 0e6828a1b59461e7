package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A change of a publisher with several groups is logged once.
func TestPresences(t *testing.T) {
	const lost, ended = events.CausePublisherLost, events.CauseNone
	type step struct {
		up    bool
		epoch events.ID
		cause events.Cause
		log   bool
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
			log := false
			if s.up {
				log = p.came(events.Instance{Publisher: 7, Epoch: s.epoch})
			} else {
				log = p.went(events.Instance{Publisher: 7, Epoch: s.epoch}, s.cause)
			}
			if log != s.log {
				t.Errorf("%s, step %d: logged %v, want %v", c.name, i, log, s.log)
			}
		}
	}
	var p presences
	for i := range events.ID(100) {
		p.came(events.Instance{Publisher: i, Epoch: 1})
		p.went(events.Instance{Publisher: i, Epoch: 1}, ended)
	}
	if len(p.of) != 0 {
		t.Errorf("%d publishers that are down are stored, want 0", len(p.of))
	}
}

// An event of a subscriber in all groups is logged once, and again if it still lasts after sameRemark.
func TestRepeats(t *testing.T) {
	var r repeats
	now := reliable.Instant(time.Hour)
	for i, c := range []struct {
		after time.Duration
		peer  events.ID
		line  *report.Line
		log   bool
	}{
		{0, 1, &report.SubscriberSilent, true}, {time.Millisecond, 1, &report.SubscriberSilent, false}, {time.Second, 1, &report.SubscriberSilent, false},
		{0, 1, &report.SubscriberReleased, true}, {0, 2, &report.SubscriberSilent, true},
		{sameRemark, 1, &report.SubscriberSilent, true}, {0, 1, &report.SubscriberSilent, false},
	} {
		now = now.Add(c.after)
		if log := r.say(now, c.peer, c.line); log != c.log {
			t.Errorf("step %d: logged %v, want %v", i, log, c.log)
		}
	}
	for i := range events.ID(3 * remarksKept) {
		if r.say(now, i, &report.GroupLost); len(r.at) > remarksKept {
			t.Fatalf("%d lines are stored, want at most %d", len(r.at), remarksKept)
		}
	}
}
