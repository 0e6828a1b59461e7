package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Output receives the events of one stream: its packets and losses, and between them the events of the message layer.
type Output interface {
	reliable.Output
	// Note takes an event of the message layer. Where there is room for the next event of the packet layer there must be
	// room for an EventListed after it. EventCollision and EventUnnamed come even without room.
	Note(e *Event)
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// EventListed: the packets so far have topic runs of all topics that lost messages in the lost packets of Listing.
	EventListed EventKind = iota
	// EventCollision: the publisher uses the id of a wanted topic for another name. Once per stream and topic, when the
	// receiver learns it. Readers find it in their packets; later ones use Stream.Collided.
	EventCollision
	// EventUnnamed: the name of a topic, which LearnNames needs, exceeds the limit on names.
	EventUnnamed
	// EventState: Runs hold state with which the stream begins. These events come before all others of the stream.
	EventState
	// EventStateEnd: the state is complete, or there is none, for the reason in State.
	EventStateEnd
)

// Event is an event of the message layer.
type Event struct {
	Kind      EventKind
	Seq       uint64 // of the next packet
	Listing   Listing
	Collision *events.TopicCollisionError
	Runs      []byte // EventState: valid during the call
	State     events.StateCause
	Topics    []uint64 // EventStateEnd: wanted topics that the publisher has or may have
	Room      uint64   // EventStateEnd with StateOverrun: bytes of the window
}

// Listing says what a round covers: losses in the packets from Since up to Begun. It does not have topics that the
// publisher has forgotten: they may have had messages in packets before Forgotten.
type Listing struct{ Since, Begun, Forgotten uint64 }
