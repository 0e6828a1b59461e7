package cli

import "github.com/fanfaremq/fanfare/internal/logline"

// ownWords are the warnings of a bus that a command says in its own words, as events or at the end.
// What is not here is written as it comes.
type ownWords map[string]bool

// What commands say in their own words: all that have a bus, by fabricEvent, and some beside.
var (
	fabricWords = owned(nil,
		&logline.PacketsUnreadable, &logline.LegDown, &logline.LegSilent, &logline.Unfindable, &logline.GroupLost, &logline.CannotSend,
		&logline.HandlerSlow, &logline.HandlerReturned) // of events: it waits for the output, which takes no more
	mismatchWords = owned(fabricWords, &logline.Mismatch) // ping, request, ls
	pubWords      = owned(mismatchWords, &logline.StoodStill,
		&logline.SubscriberSilent, &logline.SubscriberReleased, &logline.SlowSubscriber, &logline.PublisherStalled, &logline.PublisherResumed)
	subWords = owned(mismatchWords, &logline.StoodStill,
		&logline.PublisherLost, &logline.PublisherRefused, &logline.PublisherFault, &logline.DuplicateName, &logline.TopicRefused, &logline.PacketsLost,
		&logline.SubscriptionNotRead, &logline.SubscriptionEvicted,
		&logline.HoldsByReading, &logline.HoldsByHandling, &logline.HoldsByLoss, &logline.ReleasedForReading, &logline.ReleasedForHandling, &logline.ReleasedForLoss)
	replyWords = owned(fabricWords, &logline.PublisherRefused, &logline.PacketsLost) // it complains of them, as of gaps
	dictWords  = owned(fabricWords, &logline.PacketsLost)                            // it takes samples
)

func owned(base ownWords, lines ...*logline.Line) ownWords {
	own := make(ownWords)
	for text := range base {
		own[text] = true
	}
	for _, l := range lines {
		own[l.Text] = true
	}
	return own
}
