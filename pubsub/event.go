package pubsub

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/driver"
)

// EventKind says what happened.
type EventKind uint8

// Kinds of events.
const (
	// PublisherUp: a publisher was heard for the first time, or again after
	// it fell silent.
	PublisherUp EventKind = EventKind(driver.PublisherUp)
	// PublisherEnded: a publisher closed, and everything was delivered.
	PublisherEnded EventKind = EventKind(driver.PublisherEnded)
	// PublisherLost: a publisher fell silent. It may come up again.
	PublisherLost EventKind = EventKind(driver.PublisherLost)
	// PublisherRestarted: a publisher fell silent after another instance of the same
	// name came up, which was heard since: most likely it was restarted. As after
	// PublisherLost it may come up again.
	PublisherRestarted EventKind = EventKind(driver.PublisherRestarted)
	// SubscriberSilent: a subscriber said nothing through all solicitations
	// and is not waited for any more.
	SubscriberSilent EventKind = EventKind(driver.SubscriberSilent)
	// GroupFailed: a group could not be joined.
	GroupFailed EventKind = EventKind(driver.GroupFailed)
	// GroupLost: the membership of a group was lost, because the interface or the
	// fabric lost it; the bus joins it again. Err says why.
	GroupLost EventKind = EventKind(driver.GroupLost)
	// GroupBack: a group that was lost is joined again.
	GroupBack EventKind = EventKind(driver.GroupBack)
	// TopicCollision: a publisher uses the id of a subscribed topic for another
	// name. Err is a *TopicCollisionError.
	TopicCollision EventKind = EventKind(driver.TopicCollision)
	// PublisherRefused: a publisher is not heard. Err is a *PublisherRefusedError.
	PublisherRefused EventKind = EventKind(driver.PublisherRefused)
	// DuplicateName: two buses of one Config.Name have published side by side for more
	// than 5 s, which restarts and most rolling updates do not. Messages of both are
	// delivered; Message.Epoch tells them apart. Epoch and Address are those of the
	// bus that came up later, OtherEpoch and OtherAddress of the other.
	DuplicateName EventKind = EventKind(driver.DuplicateName)
)

func (k EventKind) String() string { return driver.EventKind(k).String() }

// Event is something that happened on the bus.
type Event struct {
	Kind       EventKind
	Group      string      // address of the group
	Publisher  PublisherID // for publisher events
	Name       string      // of the publisher, its Config.Name; empty if it has none, or was not heard yet
	Epoch      uint64      // for publisher events
	Subscriber uint64      // random id, for SubscriberSilent
	// Relevant says of a publisher that it has announced a topic which is
	// subscribed here: it announces all its topics when it ends. Others in the
	// same group are none of ours.
	Relevant bool
	Err      error // for GroupFailed, GroupLost, TopicCollision and PublisherRefused
	// For DuplicateName. Addresses are the fabric's own text, empty where it has none.
	OtherEpoch            uint64
	Address, OtherAddress string
}

func (e Event) String() string {
	switch e.Kind {
	case SubscriberSilent:
		return fmt.Sprintf("%s: %016x (group %s)", e.Kind, e.Subscriber, e.Group)
	case GroupFailed, GroupLost, TopicCollision, PublisherRefused:
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Group, e.Err)
	}
	if e.Kind == GroupBack {
		return fmt.Sprintf("%s: %s", e.Kind, e.Group)
	}
	publisher := e.Publisher.String()
	if e.Name != "" {
		publisher = e.Name + " " + publisher
	}
	if e.Kind == DuplicateName {
		return fmt.Sprintf("%s: two buses publish as %s, epoch %d%s and epoch %d%s: give each a Config.Name of its own (group %s)",
			e.Kind, publisher, e.Epoch, at(e.Address), e.OtherEpoch, at(e.OtherAddress), e.Group)
	}
	return fmt.Sprintf("%s: %s (group %s)", e.Kind, publisher, e.Group)
}

func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}

// PublisherEvent is an Event in a subscription's stream (option
// PublisherEvents), where it takes the place of an error.
type PublisherEvent Event

func (e *PublisherEvent) Error() string { return Event(*e).String() }

func publicEvent(e driver.Event) Event {
	return Event{Kind: EventKind(e.Kind), Group: e.Group, Publisher: PublisherID(e.Publisher), Name: e.Name, Epoch: e.Epoch, Subscriber: e.Receiver, Relevant: e.Relevant, Err: publicError(e.Err),
		OtherEpoch: e.OtherEpoch, Address: e.Address, OtherAddress: e.OtherAddress}
}
