package top

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A subscription whose publisher was lost, or which receives none, is marked, also in the first
// line. A lost publisher is not listed as a publisher.
func TestPublishersNotReceived(t *testing.T) {
	observe := func(change func(*inspect.Bus)) *Figures {
		b := inspect.Bus{Identity: inspect.Identity{ID: "b"},
			Groups: []inspect.Group{{Address: "g", Topics: 1, Joined: true}}, Subscriptions: []inspect.Subscription{{Number: 1, Topics: []string{"md.a"}}}}
		change(&b)
		return Between(Observation{}, Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: noon, Process: inspect.Process{PID: 4, Program: "app"}, Buses: []inspect.Bus{b}}}}})
	}
	received := func(lost float64) func(*inspect.Bus) {
		return func(b *inspect.Bus) {
			b.Groups[0].Streams = []inspect.Stream{{Publisher: "a", Name: "feed", LostFor: lost}}
			b.Groups[0].Counters = inspect.Counters{"packets": 9}
			b.Subscriptions[0].Publishers = []inspect.SubscriptionFeed{{Publisher: "a", Name: "feed", Group: "g", Relevant: true, LostFor: lost}}
		}
	}
	for _, c := range []struct {
		name         string
		change       func(*inspect.Bus)
		level        level
		state, peers string
		first        level
		line         string
	}{
		{"all is well", received(0), calm, "ok", "1", calm, ""},
		{"lost", received(5), alarm, "publisher lost 5.0s ago", "0", alarm, "app[4]: publisher feed of md.a was lost 5 s ago, and no other is detected"},
		{"nobody", func(*inspect.Bus) {}, calm, "no publisher", "0", calm, ""},
		{"nobody, for other keys", func(b *inspect.Bus) {
			b.Events = []inspect.Event{{Kind: "packets_unreadable", Text: "packets unreadable: another key"}}
		}, warn, "no publisher", "0", warn, "app[4]: no publisher of md.a is detected; packets unreadable: another key"},
	} {
		f := observe(c.change)
		if r := f.table(0).rows[0]; r.level != c.level || r.cells[7].text != c.state || r.cells[6].text != c.peers {
			t.Errorf("%s: row is %d %q with %s peers, want %d %q with %s", c.name, r.level, r.cells[7].text, r.cells[6].text, c.level, c.state, c.peers)
		}
		if l, text := f.worst(); l != c.first || text != c.line {
			t.Errorf("%s: worst line is %d %q, want %d %q", c.name, l, text, c.first, c.line)
		}
	}
	f := observe(received(5))
	if r := f.table(1).rows[0]; r.level != warn || !strings.HasPrefix(r.cells[7].text, "lost 5.0s ago") {
		t.Errorf("the stream is %d %+v, want %d and a loss 5.0s ago", r.level, r.cells, warn)
	}
	for _, g := range f.Groups {
		if len(g.Publishers) != 0 {
			t.Errorf("group %s is published by %v, want none", g.Group, g.Publishers)
		}
	}
}
