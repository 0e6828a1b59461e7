package fanfare

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Watermill's conformance suite. It publishes before it subscribes, so subscriptions begin with the publisher's window.
func TestSuite(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		// One bus publishes and another one subscribes, for the whole suite: each test uses its own topics.
		pubBus, subBus := open(t, windows, url), open(t, windows, url)
		tests.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
			return newPublisher(t, pubBus, PublisherConfig{}), newSubscriber(t, subBus, SubscriberConfig{
				Options: []pubsub.SubscribeOption{pubsub.From(pubsub.Window)},
			})
		}, nil)
	})
}

// windows are large enough for all messages of the suite, 20,000, even if each had a packet of its
// own, at most 1,472 bytes long.
var windows = pubsub.Config{WindowBytes: 48 << 20, PublishMemoryBytes: 128 << 20, ReceiveWindowBytes: 48 << 20, ReceiveMemoryBytes: 256 << 20}

var features = tests.Features{
	// Each message is delivered once, and not again after its ack. This excludes TestContinueAfterSubscribeClose and
	// TestConcurrentClose, which require a broker that stores the messages a subscriber had not acked when it was closed.
	ExactlyOnceDelivery: true,
	// Order holds for each publisher, and the suite has one. TestNoAck is skipped with this.
	GuaranteedOrder:                     true,
	GuaranteedOrderWithSingleSubscriber: true,
	// From the publisher's window: pubsub.From(pubsub.Window).
	NewSubscriberReceivesOldMessages: true,
	// Every subscriber gets every message. The suite's tests with several subscribers expect that they
	// share the messages.
	ConsumerGroups:        false,
	RequireSingleInstance: true,
	// Messages are lost when the publisher's bus is closed.
	Persistent: false,
	// TestReconnect: there is no broker to restart. Package pubsub tests restarts of publishers.
	RestartServiceCommand: nil,
	// A context is not sent over a network.
	ContextPreserved: false,
}
