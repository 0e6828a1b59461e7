package driver

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// EventKind says what happened.
type EventKind uint8

const (
	// PublisherUp: a publisher was heard for the first time, or again after
	// it fell silent.
	PublisherUp EventKind = iota
	// PublisherEnded: a publisher closed, and everything was delivered.
	PublisherEnded
	// PublisherLost: a publisher fell silent. It may come up again.
	PublisherLost
	// PublisherRestarted: a publisher fell silent, and another instance of its name
	// was heard since. It may come up again, too.
	PublisherRestarted
	// SubscriberSilent: a subscriber said nothing through all solicitations
	// and is not waited for any more.
	SubscriberSilent
	// GroupFailed: a group could not be joined.
	GroupFailed
	// GroupLost: the membership of a group was lost, to join it again is under
	// way; Err says why. GroupBack: it is joined again.
	GroupLost
	GroupBack
	// TopicCollision: a publisher uses the id of a subscribed topic for another
	// one. Err is a *reliable.TopicCollisionError.
	TopicCollision
	// PublisherRefused: a publisher is not heard. Err is a *RefusedError.
	PublisherRefused
	// DuplicateName: two buses of one name have published side by side for some
	// seconds. Epoch and Address are those of the later one, OtherEpoch and
	// OtherAddress of the other.
	DuplicateName
	// PublisherStalled: a subscriber, that is there, has held this bus's publisher of
	// a group up for For and is Behind packets behind. Told again at twice as long each
	// time.
	PublisherStalled
	// PublisherResumed: nobody holds the publisher up any more, after For; the
	// subscriber is the last that did.
	PublisherResumed
	// SubscriberLetGo: a subscriber has held the publisher up for longer than
	// reliable.SenderConfig.StallLimit and is not waited for until it has caught up.
	SubscriberLetGo
	// HoldsPublishersUp: this bus has held a publisher up for For, as that says: the
	// subscription of Topics does not read, or their handlers take long.
	HoldsPublishersUp
	// SubscriptionNotRead: a subscription of this bus, of Topics, has not been read
	// for For and has no room for more: publishers that wait for it are held up.
	SubscriptionNotRead
	// HandlerSlow: a handler of Topics, or without any of them Config.Events, has run
	// for For and does not return. It is told by another goroutine than all others.
	HandlerSlow
	// HandlerReturned: it has, after For.
	HandlerReturned
	// LetGo: a publisher does not wait for this bus any more, which has held it up
	// for For: what it has no more will be a gap.
	LetGo
	// ConfigMismatch: another bus on the same addresses is configured differently.
	// Err is a *reliable.ConfigMismatchError; Relevant says that it may publish a topic
	// that is subscribed here, or may subscribe to one that is published here.
	ConfigMismatch
	// SlowSubscriber: a subscriber has been behind by more than
	// reliable.SenderConfig.Slow allows for For, and is not waited for until it is at most
	// half as far behind.
	SlowSubscriber
	// PublisherFault: a publisher does not keep the rules of the protocol. Err is a
	// *reliable.FaultError.
	PublisherFault
)

func (k EventKind) String() string {
	switch k {
	case PublisherUp:
		return "publisher up"
	case PublisherEnded:
		return "publisher ended"
	case PublisherLost:
		return "publisher lost"
	case PublisherRestarted:
		return "publisher restarted"
	case SubscriberSilent:
		return "subscriber silent"
	case GroupFailed:
		return "group failed"
	case GroupLost:
		return "group lost"
	case GroupBack:
		return "group back"
	case TopicCollision:
		return "topic collision"
	case PublisherRefused:
		return "publisher refused"
	case DuplicateName:
		return "duplicate name"
	case PublisherStalled:
		return "publisher stalled"
	case PublisherResumed:
		return "publisher resumed"
	case SubscriberLetGo:
		return "subscriber let go"
	case HoldsPublishersUp:
		return "holds publishers up"
	case SubscriptionNotRead:
		return "subscription not read"
	case HandlerSlow:
		return "handler slow"
	case HandlerReturned:
		return "handler returned"
	case SlowSubscriber:
		return "slow subscriber"
	case LetGo:
		return "let go by a publisher"
	case ConfigMismatch:
		return "config mismatch"
	case PublisherFault:
		return "publisher fault"
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is something that happened to a peer or a group.
type Event struct {
	Kind      EventKind
	Group     string // the group's address
	Publisher uint64
	Name      string // of the publisher, or of the subscriber, fit to be shown; empty where it has none, or none was heard yet
	Epoch     uint64
	Receiver  uint64
	// Relevant: the publisher has announced a topic that is subscribed here. It
	// announces all its topics when it ends.
	Relevant bool
	Err      error
	// The instance beside Publisher and Epoch, for DuplicateName, and where replies to
	// both go; an address is empty where the fabric has none to show.
	OtherEpoch            uint64
	Address, OtherAddress string

	For    time.Duration // how long it has lasted
	Behind uint64        // packets that are lacking or were not read
	Topics []string      // of the subscription, or the handlers, of this bus
}

func (l *Loop) event(e Event) {
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
