package pubsub

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
)

// ErrPublisherRefused: a publisher is not heard. *PublisherRefusedError says which.
var ErrPublisherRefused = errors.New("a publisher is not heard")

// PublisherRefusedError says that nothing of a publisher is delivered. It stands in the
// stream of each subscription in the publisher's group, once a publisher, also where that
// has none of the subscription's topics: nobody can know. The stream goes on with the
// other publishers. When the publisher is heard after all, it is delivered from there on.
// It matches ErrPublisherRefused.
type PublisherRefusedError struct {
	Publisher PublisherID
	Epoch     uint64 // of the publisher
	Group     string // address of the group
	Reason    Refusal
}

func (e *PublisherRefusedError) Error() string {
	return fmt.Sprintf("publisher %s is not heard in group %s: %s; raise %s", e.Publisher, e.Group, e.Reason, e.Reason.Raise())
}

// Is makes errors.Is(err, ErrPublisherRefused) true.
func (e *PublisherRefusedError) Is(target error) bool { return target == ErrPublisherRefused }

// Refusal says why a publisher is not heard.
type Refusal uint8

// Reasons of a PublisherRefusedError.
const (
	// RefusedPublishers: the group has Config.MaxPublishers already.
	RefusedPublishers Refusal = Refusal(reliable.RefusedPublishers)
	// RefusedMemory: Config.ReceiveMemoryBytes is used up, or the system gives none.
	RefusedMemory Refusal = Refusal(reliable.RefusedMemory)
	// RefusedPeers: the transport can reply to no further publisher.
	RefusedPeers Refusal = Refusal(reliable.RefusedPeers)
)

func (r Refusal) String() string { return reliable.Refusal(r).String() }

// Raise names the limit to raise so that the publisher is heard.
func (r Refusal) Raise() string {
	switch r {
	case RefusedMemory:
		return "Config.ReceiveMemoryBytes, or the host's memory"
	case RefusedPeers:
		return "the transport's limit on peers (peers= in its URL)"
	}
	return "Config.MaxPublishers"
}

func publicRefusal(e *engine.RefusedError) *PublisherRefusedError {
	return &PublisherRefusedError{Publisher: PublisherID(e.Publisher), Epoch: e.Epoch, Group: e.Group, Reason: Refusal(e.Reason)}
}
