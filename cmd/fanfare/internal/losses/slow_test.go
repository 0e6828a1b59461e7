package losses

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// When a subscriber counts as slow. One that reads as fast as messages arrive is some packets
// behind; one that is constantly too slow has most of its window unread, although it never stops.
func TestSubscriberState(t *testing.T) {
	for _, c := range []struct {
		name string
		m    inspect.Subscriber
		want string
	}{
		{"up to date", inspect.Subscriber{Room: 5698}, ""},
		{"behind a burst", inspect.Subscriber{Behind: 2000, Room: 3698}, ""},
		{"constantly too slow", inspect.Subscriber{Behind: 5698}, Behind},
		{"nearly", inspect.Subscriber{Behind: 4300, Room: 1398}, Behind},
		{"a small window", inspect.Subscriber{Behind: 16}, ""},
		{"holds", inspect.Subscriber{Behind: 5698, Holds: true}, Holds},
		{"released", inspect.Subscriber{Behind: 5698, Holds: true, Released: true}, Released},
		{"just silent", inspect.Subscriber{Heard: 2.5}, ""},
		{"silent", inspect.Subscriber{Heard: 3.5}, Silent},
		{"asked a moment ago", inspect.Subscriber{Heard: 0.5, Unanswered: 0.2}, ""},
		{"does not answer", inspect.Subscriber{Heard: 0.8, Unanswered: 0.5}, Silent},
		{"does not answer, and its window is full", inspect.Subscriber{Heard: 0.8, Unanswered: 0.5, Behind: 5698, Holds: true}, Silent},
	} {
		if got := SubscriberState(&c.m); got != c.want {
			t.Errorf("%s: state %q, want %q", c.name, got, c.want)
		}
	}
}

// The publisher does not wait for more than a window.
func TestNotRead(t *testing.T) {
	for _, c := range []struct {
		lag, window int
		wantText    string
	}{{5000, 5698, "5,000 packets of a window of 5698"}, {8032, 5698, "more than the 5698 of its window"}, {300, 0, "of a window of 0"}} {
		if got := notRead(Behind, &inspect.SubscriptionFeed{Lag: c.lag, Window: c.window}); !strings.Contains(got, c.wantText) {
			t.Errorf("lag %d of window %d: text %q lacks %q", c.lag, c.window, got, c.wantText)
		}
	}
}

func TestSubscriptionState(t *testing.T) {
	feeds := func(all ...inspect.SubscriptionFeed) inspect.Subscription {
		return inspect.Subscription{Publishers: all}
	}
	for _, c := range []struct {
		name string
		s    inspect.Subscription
		want string
		of   string
	}{
		{"up to date", feeds(inspect.SubscriptionFeed{Lag: 10, Window: 5698}), "", ""},
		{"constantly too slow", feeds(inspect.SubscriptionFeed{Name: "a", Lag: 300, Window: 5698}, inspect.SubscriptionFeed{Name: "b", Lag: 5600, Window: 5698}), Behind, "b"},
		{"not read", feeds(inspect.SubscriptionFeed{Name: "a", Lag: 5698, Window: 5698}, inspect.SubscriptionFeed{Name: "b", Lag: 300, Window: 5698, Unread: 1.5}), Unread, "b"},
		{"stopped for a moment", feeds(inspect.SubscriptionFeed{Lag: 300, Window: 5698, Unread: 0.5}), "", ""},
		{"ended", inspect.Subscription{Ended: "evicted", Publishers: []inspect.SubscriptionFeed{{Unread: 9}}}, Ended, ""},
	} {
		got, of := SubscriptionState(&c.s)
		name := ""
		if of != nil {
			name = of.Name
		}
		if got != c.want || name != c.of {
			t.Errorf("%s: %q with %q, want %q with %q", c.name, got, name, c.want, c.of)
		}
	}
}

// Slow subscribers are reported by loss as in top and web, and do not count as losses.
func TestSlowIsReported(t *testing.T) {
	b := inspect.Bus{
		Identity:      inspect.Identity{ID: "b", Name: "desk"},
		Subscriptions: []inspect.Subscription{{Topics: []string{"md.a"}, Publishers: []inspect.SubscriptionFeed{{Name: "feed", Lag: 5698, Window: 5698}}}},
		Publications:  []inspect.Publication{{Address: "g", Subscribers: []inspect.Subscriber{{Name: "risk", Behind: 5698}, {Name: "far", Behind: 5698, Unreached: true}, {Name: "book", Room: 5698}}}},
	}
	r := Make([]inspect.Seen{{Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: 1, Program: "app"}, Buses: []inspect.Bus{b}}}}, time.Time{}, noon)
	f := r.Of(Hint)
	if len(f) != 3 || f[0].Subscription != "md.a" || f[1].Subscriber != "risk" || f[1].Group != "g" || f[1].Cause != "slow_reader" || f[2].Cause != "unreached" || !strings.Contains(f[2].Do, "why packets do not reach far") {
		t.Errorf("findings %+v, want hints for subscription md.a, subscriber risk in group g, and subscriber far, which packets do not reach", f)
	}
	if gaps, _, _ := r.Messages(); gaps != 0 {
		t.Errorf("%d gaps, want none", gaps)
	}
}

// Permanent losses count as recent for a minute; events and older losses do not.
func TestLostLately(t *testing.T) {
	b := &inspect.Bus{Losses: &inspect.LossRecord{
		Losses: []inspect.Loss{
			{Cause: "slow_consumer", Last: noon.Add(-2 * time.Minute), Messages: 9}, {Cause: "gone", Last: noon.Add(-time.Second), Messages: 3},
			{Cause: "slow_consumer", Last: noon.Add(-59 * time.Second), Messages: 5}, {Cause: "leg_down", Event: true, Last: noon},
		},
		Older: []stats.OlderLosses{{Cause: "deadline", Last: noon, Messages: 4}, {Cause: "subscriber_silent", Last: noon}},
	}}
	got := LostLately(b, noon)
	if len(got) != 3 || got[0].Cause != "slow_consumer" || got[1].Cause != "deadline" || got[2].Cause != "gone" {
		t.Errorf("losses %+v, want slow_consumer, deadline and gone", got)
	}
	if len(LostLately(&inspect.Bus{}, noon)) != 0 {
		t.Error("a bus without a record has losses")
	}
}
