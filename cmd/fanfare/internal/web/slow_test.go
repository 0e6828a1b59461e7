package web

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A subscription that reads too slowly and loses messages permanently is in the list of slow ones
// and has a red line on the map for a minute, even if no packet was lost.
func TestPermanentLosses(t *testing.T) {
	seen := func(last time.Time) []inspect.Seen {
		s := app(1, start, 0, 0)
		b := &s.Snapshot.Buses[0]
		b.Groups[0].Counters = inspect.Counters{"packets": 100}
		b.Losses = &inspect.LossRecord{Losses: []inspect.Loss{{Cause: "slow_consumer", Last: last, Group: "g2", Subscription: "md.a", PublisherName: "feed", Messages: 29930}}}
		return []inspect.Seen{s}
	}
	for _, c := range []struct {
		ago   time.Duration
		style string
		loses int
	}{{time.Second, "lost", 1}, {2 * time.Minute, "idle", 0}} {
		f := newModel().update(start, seen(start.Add(-c.ago)), nil)
		found := 0
		for _, x := range f.Slow {
			if x.State == "loses" && x.Name == "md.a" && x.What == "lost 29930 messages of feed" {
				found++
			}
		}
		if found != c.loses || len(f.Slow) != c.loses {
			t.Errorf("%v ago: slow are %+v, want %d", c.ago, f.Slow, c.loses)
		}
		for _, l := range f.Map.Links {
			if l.To == "shere/1" && l.Style != c.style {
				t.Errorf("%v ago: the line is %s, want %s: %+v", c.ago, l.Style, c.style, l)
			}
		}
	}
}

// A subscriber that was released is in the list for a minute.
func TestGoneSubscribers(t *testing.T) {
	for ago, want := range map[time.Duration]int{5 * time.Second: 1, 2 * time.Minute: 0} {
		s := app(1, start, 0, 0)
		s.Snapshot.Buses[0].Events = []inspect.Event{{Sequence: 1, Kind: "subscriber_silent", Time: start.Add(-ago), Group: "g1", Name: "risk", For: 1.5, Behind: 9}}
		f := newModel().update(start, []inspect.Seen{s}, nil)
		if len(f.Slow) != want || want > 0 && (f.Slow[0].Name != "risk" || f.Slow[0].State != "gone" || f.Slow[0].For != 6.5) {
			t.Errorf("%v after the event: slow %+v, want %d", ago, f.Slow, want)
		}
	}
}
