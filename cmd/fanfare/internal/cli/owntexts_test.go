package cli

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/report"
)

// Exactly the commands that report a condition in their own words drop the bus's warning of it.
func TestOwnTexts(t *testing.T) {
	commands := map[string]ownTexts{
		"pub": pubWords, "sub": subWords, "ping": mismatchWords, "ls": mismatchWords, "reply": replyWords, "request": mismatchWords, "dict": dictWords,
	}
	left := make(map[string]ownTexts) // not in the table
	for name, own := range commands {
		left[name] = maps.Clone(own)
	}
	const all = "dict ls ping pub reply request sub"
	for _, c := range []struct {
		line *report.Line
		own  string
	}{
		{&report.GroupLost, all}, {&report.LegDown, all}, {&report.LegsDown, all}, {&report.LegSilent, all}, {&report.Unfindable, all}, {&report.CannotSend, all}, {&report.SendsAgain, all},
		{&report.LegBack, all}, {&report.PacketsUnreadable, all}, {&report.HandlerSlow, all}, {&report.HandlerReturned, all},
		{&report.Mismatch, "ls ping pub request sub"},
		{&report.PacketsLost, "dict reply sub"},
		{&report.PublisherRefused, "reply sub"},
		{&report.PublisherLost, "sub"}, {&report.PublisherCutOff, "sub"}, {&report.PublisherBack, "sub"}, {&report.PublisherFault, "sub"}, {&report.DuplicateName, "sub"}, {&report.TopicRefused, "sub"},
		{&report.SubscriptionNotRead, "sub"}, {&report.SubscriptionEvicted, "sub"}, {&report.HoldsByReading, "sub"}, {&report.HoldsByHandling, "sub"},
		{&report.ReleasedForReading, "sub"}, {&report.ReleasedForHandling, "sub"}, {&report.HoldsByLoss, "sub"}, {&report.ReleasedForLoss, "sub"},
		{&report.SubscriberSilent, "pub"}, {&report.SubscriberReleased, "pub"}, {&report.SlowSubscriber, "pub"},
		{&report.PublisherStalled, "pub"}, {&report.PublisherResumed, "pub"}, {&report.SubscriberCutOff, "pub"}, {&report.StalledBySilence, "pub"}, {&report.StalledByLoss, "pub"},
		{&report.StoodStill, "pub sub"},
		{&report.PacketsDropped, ""}, {&report.SendFailed, ""}, {&report.CannotReply, ""}, {&report.ReceiveBufferCapped, ""},
	} {
		for name, own := range commands {
			if want := strings.Contains(" "+c.own+" ", " "+name+" "); own[c.line.Text] != want {
				t.Errorf("%s drops the log line %q: %v, want %v", name, c.line.Text, !want, want)
			}
			delete(left[name], c.line.Text)
		}
	}
	for name, own := range left {
		if len(own) > 0 {
			t.Error("not in the table:", name, fmt.Sprint(own))
		}
	}
}
