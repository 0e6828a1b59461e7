package fanfare

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Watermill's own suite. It publishes before it subscribes, so subscriptions begin with
// what the publisher's window holds.
func TestSuite(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		// One bus publishes and another subscribes, for all of the suite: topics are of one
		// test each.
		pubBus, subBus := open(t, windows, url), open(t, windows, url)
		tests.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
			return newPublisher(t, pubBus, PublisherConfig{}), newSubscriber(t, subBus, SubscriberConfig{
				Options: []pubsub.SubscribeOption{pubsub.From(pubsub.Window)},
			})
		}, nil)
	})
}

// windows hold all that the suite publishes, 20,000 messages, were each in a packet of its
// own, of 1,472 bytes at most.
var windows = pubsub.Config{WindowBytes: 48 << 20, PublishMemoryBytes: 128 << 20, ReceiveWindowBytes: 48 << 20, ReceiveMemoryBytes: 256 << 20}

var features = tests.Features{
	// Each message comes once, and is not given out again once it is acked. This leaves out
	// TestContinueAfterSubscribeClose and TestConcurrentClose, which want a broker that keeps what
	// a subscriber had not acked when it was closed.
	ExactlyOnceDelivery: true,
	// Of each publisher, and here is one. TestNoAck goes with it.
	GuaranteedOrder:                     true,
	GuaranteedOrderWithSingleSubscriber: true,
	// A publisher's window holds them: pubsub.From(pubsub.Window).
	NewSubscriberReceivesOldMessages: true,
	// Every subscriber gets every message: several do not share the work. The suite's
	// tests with several subscribers take for granted that each message comes to one.
	ConsumerGroups:        false,
	RequireSingleInstance: true,
	// Nothing outlives the publisher's bus.
	Persistent: false,
	// There is no broker that could be restarted: TestReconnect. What becomes of streams
	// whose publisher restarts is tested in package pubsub.
	RestartServiceCommand: nil,
	// A context does not travel over a network.
	ContextPreserved: false,
}
