package web

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// The lines from a lost publisher to its subscription are red, and the bus has a note. A restarted
// publisher is not lost.
func TestPublisherLost(t *testing.T) {
	seen := func(streams ...inspect.Stream) []inspect.Seen {
		s := app(1, start, 0, 0)
		b := &s.Snapshot.Buses[0]
		b.Publications, b.Groups[0].Streams = nil, streams
		b.Subscriptions = []inspect.Subscription{{Topics: []string{"md.a"}}}
		for _, x := range streams {
			b.Subscriptions[0].Publishers = append(b.Subscriptions[0].Publishers, inspect.SubscriptionFeed{Publisher: x.Publisher, Group: "g2", Relevant: true, LostFor: x.LostFor})
		}
		return []inspect.Seen{s}
	}
	for _, c := range []struct {
		streams      []inspect.Stream
		style, state string
		note         string
	}{
		{[]inspect.Stream{{Publisher: "a", LostFor: 5}}, "lost", "publisher lost", "publisher a of md.a was lost 5 s ago, and no other is detected"},
		{[]inspect.Stream{{Publisher: "a", LostFor: 5}, {Publisher: "a"}}, "idle", "", ""},
	} {
		f := newModel().update(start, seen(c.streams...), nil)
		if len(f.Map.Links) != 2 || len(f.Map.Publishers) != 1 || f.Map.Publishers[0].State != c.state {
			t.Fatalf("map %+v, want 2 links and 1 publisher of state %q", f.Map, c.state)
		}
		for _, l := range f.Map.Links {
			if l.Style != c.style {
				t.Errorf("from %s to %s it is %s, want %s", l.From, l.To, l.Style, c.style)
			}
		}
		if note := f.Processes[0].Buses[0].Note; !strings.HasPrefix(note, c.note) || c.note == "" && note != "" {
			t.Errorf("note %q, want %q", note, c.note)
		}
	}
}
