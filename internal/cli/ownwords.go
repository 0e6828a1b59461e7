package cli

import "github.com/fanfaremq/fanfare/internal/logline"

// ownWords are the warnings of a bus that commands say in their own words, as events or at the
// end, or leave to those that are about them: what is not here is written as it comes.
var ownWords = textsOf(
	&logline.PublisherLost, &logline.PublisherRefused, &logline.PublisherFault, &logline.DuplicateName, &logline.Mismatch, &logline.TopicRefused,
	&logline.PacketsLost, &logline.PacketsUnreadable,
	&logline.SubscriberSilent, &logline.SubscriberReleased, &logline.SlowSubscriber, &logline.PublisherStalled, &logline.PublisherResumed,
	&logline.SubscriptionNotRead, &logline.SubscriptionEvicted, &logline.StoodStill,
	&logline.HoldsByReading, &logline.HoldsByHandling, &logline.ReleasedForReading, &logline.ReleasedForHandling,
	&logline.HandlerSlow, &logline.HandlerReturned, // of ours, which wait for the output and are told as HoldsByHandling
	&logline.LegDown, &logline.LegSilent, &logline.Unfindable, &logline.GroupLost, &logline.CannotSend,
)

func textsOf(lines ...*logline.Line) map[string]bool {
	m := make(map[string]bool)
	for _, l := range lines {
		m[l.Text] = true
	}
	return m
}
