package cli

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Of groups that are lost together the first is said, and when all are back.
func TestMembershipsAreSaidOnce(t *testing.T) {
	down := errors.New("interface eth0 is down")
	lost := func(group string) events.Event { return events.Event{Kind: events.GroupLost, Group: group, Err: down} }
	back := func(group string) events.Event { return events.Event{Kind: events.GroupBack, Group: group} }
	var m memberships
	for round := range 2 { // again, when it is over
		now := time.Unix(1000, 0)
		var said []string
		for _, e := range []events.Event{
			back("b"), lost("a"), lost("a"), lost("b"), back("a"), back("b"), {Kind: events.LegDown}, back("a"), back("a"),
			lost("c"), back("c"),
		} {
			now = now.Add(time.Second)
			if text := m.event(e, now); text != "" {
				said = append(said, text)
			}
		}
		if want := []string{
			"group a is lost: interface eth0 is down: nothing comes or goes by it until it is joined again",
			"all 2 groups are joined again, after 6s",
			"group c is lost: interface eth0 is down: nothing comes or goes by it until it is joined again",
			"group c is joined again, after 1s",
		}; !slices.Equal(said, want) {
			t.Errorf("round %d: %q", round, said)
		}
	}
}
