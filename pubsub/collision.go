package pubsub

import "github.com/fanfaremq/fanfare/reliable"

// TopicCollisionError names two topics whose names have the same 64-bit id. A
// publisher or a subscription of the second on one bus is refused with it. In a
// subscription's stream it means that a publisher elsewhere has such a topic: it
// is yielded once, nothing more of that publisher is delivered under that id,
// and the stream goes on. It matches ErrTopicCollision.
type TopicCollisionError struct {
	ID        uint64      // of both topics
	Known     string      // the topic that is published or subscribed here
	Other     string      // the other one
	Publisher PublisherID // that has Other; 0: this bus
}

func (e *TopicCollisionError) Error() string {
	r := reliable.TopicCollisionError{ID: e.ID, Known: e.Known, Other: e.Other, Publisher: uint64(e.Publisher)}
	return r.Error()
}

// Is makes errors.Is(err, ErrTopicCollision) true.
func (e *TopicCollisionError) Is(target error) bool { return target == ErrTopicCollision }
