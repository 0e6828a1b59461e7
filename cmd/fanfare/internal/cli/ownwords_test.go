package cli

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/logline"
)

// A warning is left out by the commands that say it otherwise, and by no others.
func TestOwnWords(t *testing.T) {
	commands := map[string]ownWords{
		"pub": pubWords, "sub": subWords, "ping": mismatchWords, "ls": mismatchWords, "reply": replyWords, "request": mismatchWords, "dict": dictWords,
	}
	left := make(map[string]ownWords) // that are not in the table
	for name, own := range commands {
		left[name] = maps.Clone(own)
	}
	const all = "dict ls ping pub reply request sub"
	for _, c := range []struct {
		line *logline.Line
		own  string
	}{
		{&logline.GroupLost, all}, {&logline.LegDown, all}, {&logline.LegSilent, all}, {&logline.Unfindable, all}, {&logline.CannotSend, all},
		{&logline.PacketsUnreadable, all}, {&logline.HandlerSlow, all}, {&logline.HandlerReturned, all},
		{&logline.Mismatch, "ls ping pub request sub"},
		{&logline.PacketsLost, "dict reply sub"},
		{&logline.PublisherRefused, "reply sub"},
		{&logline.PublisherLost, "sub"}, {&logline.PublisherFault, "sub"}, {&logline.DuplicateName, "sub"}, {&logline.TopicRefused, "sub"},
		{&logline.SubscriptionNotRead, "sub"}, {&logline.SubscriptionEvicted, "sub"}, {&logline.HoldsByReading, "sub"}, {&logline.HoldsByHandling, "sub"},
		{&logline.ReleasedForReading, "sub"}, {&logline.ReleasedForHandling, "sub"}, {&logline.HoldsByLoss, "sub"}, {&logline.ReleasedForLoss, "sub"},
		{&logline.SubscriberSilent, "pub"}, {&logline.SubscriberReleased, "pub"}, {&logline.SlowSubscriber, "pub"},
		{&logline.PublisherStalled, "pub"}, {&logline.PublisherResumed, "pub"},
		{&logline.StoodStill, "pub sub"},
		{&logline.PacketsDropped, ""}, {&logline.SendFailed, ""}, {&logline.CannotReply, ""}, {&logline.ReceiveBufferCapped, ""},
	} {
		for name, own := range commands {
			if want := strings.Contains(" "+c.own+" ", " "+name+" "); own[c.line.Text] != want {
				t.Errorf("%s leaves %q out: %v", name, c.line.Text, !want)
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
