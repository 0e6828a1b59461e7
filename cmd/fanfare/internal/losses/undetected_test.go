package losses

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// onInterface is a process with one bus on an interface that has detected no peer for so many seconds.
func onInterface(pid int, iface, topic string, publishes bool, seconds float64) inspect.Seen {
	b := inspect.Bus{Identity: inspect.Identity{ID: "b", Name: map[bool]string{true: "feed", false: "desk"}[publishes]}, Fabric: inspect.Fabric{Interfaces: []string{iface}}, Losses: new(inspect.LossRecord)}
	if publishes {
		b.NoSubscriber, b.Publications, b.Topics = seconds, []inspect.Publication{{Address: "g"}}, []inspect.Topic{{Name: topic, Group: "g"}}
	} else {
		b.NoPublisher, b.Groups, b.Subscriptions = seconds, []inspect.Group{{Address: "g", Topics: 1}}, []inspect.Subscription{{Topics: []string{topic}}}
	}
	return inspect.Seen{Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: pid, Program: "app"}, Buses: []inspect.Bus{b}}}
}

// A bus without a peer yields a hint, not a loss. If the peer is on another interface of this host,
// the hint names both interfaces.
func TestUndetected(t *testing.T) {
	for _, c := range []struct {
		name string
		seen []inspect.Seen
		want []string // texts, in order
		do   string   // advice of the first
	}{
		{"all detected", []inspect.Seen{onInterface(1, "d0", "x", true, 0), onInterface(2, "d1", "x", false, 0)}, nil, ""},
		{"no subscriber", []inspect.Seen{onInterface(1, "d0", "x", true, 9)}, []string{"no subscriber of x was detected on d0 for 9 s"}, "Nothing if no subscriber exists yet."},
		{"no publisher", []inspect.Seen{onInterface(2, "d1", "x", false, 8)}, []string{"no publisher of x was detected on d1 for 8 s"}, "Nothing if no publisher exists yet."},
		{"on two interfaces", []inspect.Seen{onInterface(1, "d0", "md.a", true, 9), onInterface(2, "d1", "md.>", false, 8)}, []string{
			"no subscriber of md.a was detected on d0 for 9 s; desk in app[2] subscribes on d1: the two cannot reach each other",
			"no publisher of md.> was detected on d1 for 8 s; feed in app[1] publishes on d0: the two cannot reach each other",
		}, "Use the same interface on both sides: iface=d0 or iface=d1 in the URLs of app[1] and of desk in app[2]."},
		{"on two interfaces, of other topics", []inspect.Seen{onInterface(1, "d0", "x", true, 9), onInterface(2, "d1", "y", false, 0)}, []string{"no subscriber of x was detected on d0 for 9 s"}, "Nothing"},
		{"on one interface", []inspect.Seen{onInterface(1, "d0", "x", true, 9), onInterface(2, "d0", "x", false, 9)}, []string{"no subscriber of x was detected on d0 for 9 s", "no publisher of x was detected on d0 for 9 s"}, "Nothing"},
	} {
		r := Make(c.seen, time.Time{}, noon)
		hints := r.Of(Hint)
		if len(hints) != len(c.want) {
			t.Errorf("%s: %d hints, want %d: %+v", c.name, len(hints), len(c.want), hints)
			continue
		}
		for i, want := range c.want {
			if got := hints[i].Why; !strings.EqualFold(got, want+".") {
				t.Errorf("%s: reason %q, want %q", c.name, got, want+".")
			}
		}
		if len(hints) > 0 && !strings.HasPrefix(hints[0].Do, c.do) {
			t.Errorf("%s: do %q, want %q", c.name, hints[0].Do, c.do)
		}
		if !strings.HasPrefix(r.Verdict(), "Nothing was lost permanently") {
			t.Errorf("%s: verdict %q, want that nothing was lost permanently", c.name, r.Verdict())
		}
	}
}

// A persisting hint is reported once, also if it was absent for a moment.
func TestHintsAreNewsOnce(t *testing.T) {
	n := NewNews([]inspect.Seen{onInterface(1, "d0", "x", true, 0)}, noon)
	for i, c := range []struct {
		at      time.Duration
		seconds float64
		want    int
	}{{1, 0, 0}, {2, 9, 1}, {3, 10, 0}, {4, 0, 0}, {5, 11, 0}, {6, 0, 0}, {70, 0, 0}, {71, 12, 1}, {200, 130, 0}} {
		seen := onInterface(1, "d0", "x", true, c.seconds)
		if got := len(n.Take([]inspect.Seen{seen}, noon.Add(c.at*time.Second))); got != c.want {
			t.Errorf("round %d: %d findings, want %d", i, got, c.want)
		}
	}
}
