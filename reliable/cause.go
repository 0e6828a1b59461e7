package reliable

import "fmt"

// Cause says why packets or messages were lost for good, or a stream ended.
type Cause uint8

const (
	// CauseNone: nothing was lost; the stream ended in order.
	CauseNone Cause = iota
	// CauseGone: the publisher's window does not hold them any more, or they are beyond its end.
	CauseGone
	// CauseDeadline: no repair came within the recovery deadline.
	CauseDeadline
	// CauseOverrun: this receiver fell behind by more than its window.
	CauseOverrun
	// CausePublisherLost: the publisher fell silent first.
	CausePublisherLost
	// CauseRestart: the publisher fell silent first, and another instance of it was
	// heard since: most likely it was restarted.
	CauseRestart
	// CauseSlowConsumer: the subscription read too slowly and was overtaken.
	CauseSlowConsumer
	// CauseTooLarge: the message exceeds the subscriber's limit.
	CauseTooLarge
	// CauseReleased: this receiver held its publisher up for longer than that waits
	// (SenderConfig.StallLimit), which went on without it.
	CauseReleased
	// CauseMisnumbered: the publisher numbered messages or fragments wrongly.
	CauseMisnumbered

	// CauseUnnamed: the name of their topic, which may match a pattern, did not come in
	// time.
	CauseUnnamed

	// CauseUnreadable: this receiver cannot read their packets: a dictionary, codec, kind of run or
	// packet size is not known, or the repair of a malformed packet was malformed, too.
	CauseUnreadable

	// CauseTooManyTopics: the name of their topic, which may match a pattern, is beyond those that are
	// kept of a group.
	CauseTooManyTopics

	// NumCauses is how many there are, CauseNone too. It stays the last.
	NumCauses
)

func (c Cause) String() string {
	switch c {
	case CauseNone:
		return "none"
	case CauseGone:
		return "left the publisher's window"
	case CauseDeadline:
		return "not repaired within the recovery deadline"
	case CauseOverrun:
		return "receiver fell behind by more than its window"
	case CausePublisherLost:
		return "publisher was lost"
	case CauseRestart:
		return "publisher restarted"
	case CauseSlowConsumer:
		return "subscription read too slowly"
	case CauseTooLarge:
		return "message exceeds the subscriber's limit"
	case CauseReleased:
		return "subscriber held the publisher up for too long and was released"
	case CauseMisnumbered:
		return "publisher numbered them wrongly"
	case CauseUnnamed:
		return "the name of their topic did not come in time"
	case CauseUnreadable:
		return "their packets cannot be read here: dictionary, codec, kind of run or packet size"
	case CauseTooManyTopics:
		return fmt.Sprintf("the group has more topics than the %d that patterns can know: use more groups (groups= in the URL), or subscribe to topics by their names", maxNames)
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}
