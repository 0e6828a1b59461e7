package pubsub

import "github.com/fanfaremq/fanfare/reliable"

// Cause says why messages were lost for good.
type Cause uint8

// Causes of a GapError.
const (
	// CauseGone: the publisher's window does not hold them any more.
	CauseGone Cause = Cause(reliable.CauseGone)
	// CauseDeadline: no repair came within the recovery deadline.
	CauseDeadline Cause = Cause(reliable.CauseDeadline)
	// CauseOverrun: this bus fell behind by more than its window.
	CauseOverrun Cause = Cause(reliable.CauseOverrun)
	// CausePublisherLost: the publisher fell silent first.
	CausePublisherLost Cause = Cause(reliable.CausePublisherLost)
	// CauseRestart: the publisher restarted first.
	CauseRestart Cause = Cause(reliable.CauseRestart)
	// CauseSlowConsumer: this subscription read too slowly.
	CauseSlowConsumer Cause = Cause(reliable.CauseSlowConsumer)
	// CauseTooLarge: a message exceeds Config.MaxMessage.
	CauseTooLarge Cause = Cause(reliable.CauseTooLarge)
	// CauseLetGo: this bus held the publisher up for longer than that waits
	// (Config.StallLimit of the publisher's bus), which went on without it.
	CauseLetGo Cause = Cause(reliable.CauseLetGo)
	// CauseMisnumbered: the publisher numbered messages, or parts of one, wrongly.
	CauseMisnumbered Cause = Cause(reliable.CauseMisnumbered)
)

// causeLabels are words for metrics and scripts: they never change.
var causeLabels = map[Cause]string{
	CauseGone:          "gone",
	CauseDeadline:      "deadline",
	CauseOverrun:       "overrun",
	CausePublisherLost: "publisher_lost",
	CauseRestart:       "restart",
	CauseSlowConsumer:  "slow_consumer",
	CauseTooLarge:      "too_large",
	CauseLetGo:         "let_go",
	CauseMisnumbered:   "misnumbered",
}

// Label is the cause as one short word that never changes, as metrics have it: gone,
// deadline, overrun, publisher_lost, restart, slow_consumer, too_large,
// let_go or misnumbered.
func (c Cause) Label() string { return causeLabels[c] }

func (c Cause) String() string { return reliable.Cause(c).String() }
