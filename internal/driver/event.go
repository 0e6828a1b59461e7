package driver

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// EventKind says what happened. Package pubsub has a constant of the same name for each
// and says what it means.
type EventKind uint8

const (
	PublisherUp EventKind = iota
	PublisherEnded
	PublisherLost
	PublisherRestarted
	SubscriberSilent
	GroupFailed
	GroupLost
	GroupBack
	TopicCollision
	PublisherRefused
	DuplicateName
	PublisherStalled
	PublisherResumed
	SubscriberReleased
	HoldsPublishersUp
	SubscriptionNotRead
	HandlerSlow
	HandlerReturned
	ReleasedByPublisher
	ConfigMismatch
	SlowSubscriber
	PublisherFault
	LegDown
	LegBack
	SubscriptionEvicted
	SubscriberUp
	SubscriberLeft
	BadPackets
	DictionaryMissing
	PacketsUnreadable
	PacketsDropped
	StoodStill

	numEvents // stays the last
)

var eventTexts = [...]string{
	PublisherUp:         "publisher up",
	PublisherEnded:      "publisher ended",
	PublisherLost:       "publisher lost",
	PublisherRestarted:  "publisher restarted",
	SubscriberSilent:    "subscriber silent",
	GroupFailed:         "group failed",
	GroupLost:           "group lost",
	GroupBack:           "group back",
	TopicCollision:      "topic collision",
	PublisherRefused:    "publisher refused",
	DuplicateName:       "duplicate name",
	PublisherStalled:    "publisher stalled",
	PublisherResumed:    "publisher resumed",
	SubscriberReleased:  "subscriber released",
	HoldsPublishersUp:   "holds publishers up",
	SubscriptionNotRead: "subscription not read",
	HandlerSlow:         "handler slow",
	HandlerReturned:     "handler returned",
	ReleasedByPublisher: "released by a publisher",
	ConfigMismatch:      "config mismatch",
	SlowSubscriber:      "slow subscriber",
	PublisherFault:      "publisher fault",
	LegDown:             "leg down",
	LegBack:             "leg back",
	SubscriptionEvicted: "subscription evicted",
	SubscriberUp:        "subscriber up",
	SubscriberLeft:      "subscriber left",
	BadPackets:          "bad packets",
	DictionaryMissing:   "dictionary missing",
	PacketsUnreadable:   "packets unreadable",
	PacketsDropped:      "packets dropped",
	StoodStill:          "stood still",
}

func (k EventKind) String() string {
	if int(k) < len(eventTexts) {
		return eventTexts[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is something that happened to a peer or a group. Its fields are those of
// pubsub.Event, where they are described.
type Event struct {
	Kind                  EventKind
	Group                 string
	Publisher             uint64
	Name                  string // fit to be shown
	Epoch                 uint64
	Subscriber            uint64
	Relevant              bool
	Err                   error
	OtherEpoch            uint64
	Address, OtherAddress string
	For                   time.Duration
	Behind                uint64
	Topics                []string
	Leg                   string
	Cause                 string
}

func (l *Loop) event(e Event) {
	l.counters.events[e.Kind].Add(1)
	l.recent.add(e, l.cfg.RecentEvents)
	l.recordEvent(&e)
	if l.cfg.Events == nil {
		return
	}
	l.watchdog.telling.Lock()
	defer l.watchdog.telling.Unlock()
	l.watchdog.called.Set(onEvent)
	l.watchdog.arm()
	l.cfg.Events(e)
}

func streamEvent(cause reliable.Cause) EventKind {
	switch cause {
	case reliable.CausePublisherLost:
		return PublisherLost
	case reliable.CauseRestart:
		return PublisherRestarted
	}
	return PublisherEnded
}
