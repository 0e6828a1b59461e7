package cli

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Of groups that are lost together only the first is reported, and later that all are joined again.
func TestLostGroupsAreReportedOnce(t *testing.T) {
	down := errors.New("interface eth0 is down")
	lost := func(group string) events.Event { return events.Event{Kind: events.GroupLost, Group: group, Err: down} }
	back := func(group string) events.Event { return events.Event{Kind: events.GroupBack, Group: group} }
	var m memberships
	for round := range 2 { // the second round begins after the end of the first
		now := time.Unix(1000, 0)
		var output []string
		for _, e := range []events.Event{
			back("b"), lost("a"), lost("a"), lost("b"), back("a"), back("b"), {Kind: events.LegDown}, back("a"), back("a"),
			lost("c"), back("c"),
		} {
			now = now.Add(time.Second)
			if text := m.event(e, now); text != "" {
				output = append(output, text)
			}
		}
		if want := []string{
			"group a is lost: interface eth0 is down: it receives and sends nothing until it is joined again",
			"all 2 groups are joined again, after 6s",
			"group c is lost: interface eth0 is down: it receives and sends nothing until it is joined again",
			"group c is joined again, after 1s",
		}; !slices.Equal(output, want) {
			t.Errorf("round %d: lines %q, want the lines of 2 losses and 2 rejoins", round, output)
		}
	}
}
