package losses

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A subscriber that was given up counts as gone for a minute, unless it returns.
func TestGoneSubscribers(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	event := func(ago int, kind, group, name string) inspect.Event {
		return inspect.Event{Time: now.Add(-time.Duration(ago) * time.Second), Kind: kind, Group: group, Name: name}
	}
	for _, c := range []struct {
		name   string
		events []inspect.Event
		want   []string
	}{
		{"none", []inspect.Event{event(9, "subscriber_up", "g", "a"), event(5, "subscriber_left", "g", "a")}, nil},
		{"one, in two groups", []inspect.Event{event(9, "subscriber_up", "g", "a"), event(5, "subscriber_silent", "g", "a"), event(5, "subscriber_silent", "h", "a"), event(4, "subscriber_up", "g", "b")}, []string{"g a", "h a"}},
		{"it is back", []inspect.Event{event(9, "subscriber_silent", "g", "a"), event(5, "subscriber_up", "g", "a")}, nil},
		{"and gone again", []inspect.Event{event(9, "subscriber_silent", "g", "a"), event(5, "subscriber_up", "g", "a"), event(1, "subscriber_silent", "g", "a")}, []string{"g a"}},
		{"back in one group", []inspect.Event{event(9, "subscriber_silent", "g", "a"), event(9, "subscriber_silent", "h", "a"), event(5, "subscriber_up", "h", "a")}, []string{"g a"}},
		{"long ago", []inspect.Event{event(70, "subscriber_silent", "g", "a")}, nil},
	} {
		var got []string
		for _, e := range GoneSubscribers(&inspect.Bus{Events: c.events}, now) {
			got = append(got, e.Group+" "+e.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: subscribers %q, want %q", c.name, got, c.want)
		}
	}
}
