package events

import "fmt"

// Cause is why messages were lost permanently, or why a stream ended.
type Cause uint8

// Causes of a pubsub.GapError.
const (
	// CauseNone: nothing was lost; the stream ended in order.
	CauseNone Cause = iota
	// CauseGone: the publisher's window no longer holds them, or they are beyond its end.
	CauseGone
	// CauseDeadline: no repair arrived within the recovery deadline.
	CauseDeadline
	// CauseOverrun: this bus fell behind by more than its window.
	CauseOverrun
	// CausePublisherLost: the publisher fell silent first.
	CausePublisherLost
	// CauseRestart: the publisher fell silent first, and another instance of it was received
	// since: most likely it restarted.
	CauseRestart
	// CauseSlowConsumer: this subscription read too slowly.
	CauseSlowConsumer
	// CauseTooLarge: a message exceeds Config.MaxMessage.
	CauseTooLarge
	// CauseReleased: this bus blocked the publisher for longer than the publisher waits (Config.StallLimit of its bus).
	CauseReleased
	// CauseMisnumbered: the publisher numbered messages, or fragments of one, wrongly.
	CauseMisnumbered
	// CauseUnreadable: this bus cannot read their packets: a dictionary (Config.Dictionaries), codec,
	// kind of run or packet size is not known, or the repair of a malformed packet was malformed, too.
	CauseUnreadable
	// CauseTooManyTopics: they are of topics beyond the PatternTopics of a group, and may match one that is subscribed to.
	CauseTooManyTopics

	NumCauses // the number of causes, CauseNone included
)

// PatternTopics is the number of topics of one group that patterns can know by name.
const PatternTopics = 1 << 17

// causes are the label and the text of each cause.
var causes = [NumCauses]struct{ label, text string }{
	CauseNone:          {"", "none"},
	CauseGone:          {"gone", "left the publisher's window"},
	CauseDeadline:      {"deadline", "not repaired within the recovery deadline"},
	CauseOverrun:       {"overrun", "receiver fell behind by more than its window"},
	CausePublisherLost: {"publisher_lost", "publisher was lost"},
	CauseRestart:       {"restart", "publisher restarted"},
	CauseSlowConsumer:  {"slow_consumer", "subscription read too slowly"},
	CauseTooLarge:      {"too_large", "message exceeds the subscriber's limit"},
	CauseReleased:      {"released", "subscriber blocked the publisher for too long and was released"},
	CauseMisnumbered:   {"misnumbered", "publisher numbered messages wrongly"},
	CauseUnreadable:    {"unreadable", "their packets cannot be read here: dictionary, codec, kind of run or packet size"},
	CauseTooManyTopics: {"too_many_topics", fmt.Sprintf("the group has more topics than the %d that patterns can know: use more groups (groups= in the URL), or subscribe to topics by their names", PatternTopics)},
}

// Label is the cause as one short word that never changes, as metrics have it; empty for CauseNone.
// pubsub.Causes explains each.
func (c Cause) Label() string {
	if c < NumCauses {
		return causes[c].label
	}
	return ""
}

func (c Cause) String() string {
	if c < NumCauses {
		return causes[c].text
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}
