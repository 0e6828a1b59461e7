package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// An interface that goes takes all memberships with it: that is a line, and another one
// when the last is back.
func TestMembershipsAreLoggedOnceABus(t *testing.T) {
	var text strings.Builder
	l := newJournal(slog.New(slog.NewTextHandler(&text, nil)), newClock())
	for range 2 {
		text.Reset()
		for i := range 16 {
			l.memberLost(&transport.Event{Group: i, Role: transport.RoleReceiver, Err: errors.New("gone")}, fmt.Sprint(i))
		}
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || strings.Count(text.String(), "\n") != 1 {
			t.Errorf("%d warnings:\n%s", n, &text)
		}
		one, before := membership{3, transport.RoleReceiver}, l.clock.now()
		if err := l.memberships.cutOff(one, before); err == nil || !strings.Contains(err.Error(), "this bus was cut off: gone") {
			t.Errorf("while they are away: %v", err)
		}
		text.Reset()
		for i := range 16 {
			l.memberBack(membership{i, transport.RoleReceiver}, fmt.Sprint(i))
		}
		if strings.Count(text.String(), "\n") != 1 || !strings.Contains(text.String(), "memberships=16") {
			t.Errorf("when they are back:\n%s", &text)
		}
		if l.memberships.cutOff(one, before) == nil || l.memberships.cutOff(one, l.clock.now()) != nil {
			t.Error("it is not known until when they were away")
		}
	}
}
