package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

type twoLegs struct{ transport.Legged }

func (twoLegs) Stats() transport.Stats {
	return transport.Stats{Legs: []stats.Leg{{URL: "A"}, {URL: "B"}}}
}

// The loss of the last leg is reported as such.
func TestLastLeg(t *testing.T) {
	var got strings.Builder
	_, l := newLoop(t, Config{Events: func(e events.Event) { fmt.Fprintln(&got, e) }})
	if err := l.do(func() {
		l.inbox.legs = legs{t: twoLegs{}, n: 2}
		for leg := range uint8(2) {
			l.legChanged(&transport.Event{Kind: transport.LegLost, Leg: leg, Err: errors.New("link down")})
		}
		l.inbox.legs = legs{}
	}); err != nil || got.String() != "leg down: A: link down\nleg down: B: link down: no leg is left\n" {
		t.Errorf("events, %v:\n%s", err, &got)
	}
}

// If an interface goes down, all memberships are lost. The log has one line for that, and one when the last is back.
func TestMembershipsAreLoggedOnce(t *testing.T) {
	var text strings.Builder
	l := newJournal(slog.New(slog.NewTextHandler(&text, nil)), newClock())
	for range 2 {
		text.Reset()
		for i := range 16 {
			l.memberLost(&transport.Event{Group: i, Role: transport.RoleReceiver, Err: errors.New("gone")}, fmt.Sprint(i))
		}
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || strings.Count(text.String(), "\n") != 1 {
			t.Errorf("%d warnings, want 1, and no other line:\n%s", n, &text)
		}
		one, before := membership{3, transport.RoleReceiver}, l.clock.now()
		if err := l.memberships.cutOff(one, before); err == nil || !strings.Contains(err.Error(), "this bus was cut off: gone") {
			t.Errorf("cutOff returned %v while memberships are lost, want the cause", err)
		}
		text.Reset()
		for i := range 16 {
			l.memberBack(membership{i, transport.RoleReceiver}, fmt.Sprint(i))
		}
		if strings.Count(text.String(), "\n") != 1 || !strings.Contains(text.String(), "memberships=16") {
			t.Errorf("after all memberships are back, want one line with memberships=16:\n%s", &text)
		}
		if l.memberships.cutOff(one, before) == nil || l.memberships.cutOff(one, l.clock.now()) != nil {
			t.Error("want an error of cutOff for the time of the outage, and none for later")
		}
	}
}
