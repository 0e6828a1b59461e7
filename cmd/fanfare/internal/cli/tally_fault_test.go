package cli

import (
	"testing"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Refused packets of an ended publisher may show that it published on a topic of sub.
func TestTallyFaultAfterTheEnd(t *testing.T) {
	up := &pubsub.PublisherEvent{Kind: events.PublisherUp, Publisher: 7, Epoch: 1, Group: "g"}
	end, fault := *up, *up
	end.Kind, fault.Kind = events.PublisherEnded, events.PublisherFault
	refused := &events.FaultError{Publisher: 7, Topic: "md.x", Count: 2}
	var c tally
	c.init([]string{"md.x"})
	c.event(up)
	if c.fault(&fault, refused) {
		t.Error("done while the publisher is up")
	}
	if _, done := c.event(&end); !done {
		t.Error("the end after the fault does not finish the tally")
	}
	c = tally{}
	c.init([]string{"md.x"})
	c.event(up)
	if _, done := c.event(&end); done {
		t.Error("the end of another publisher finishes the tally")
	}
	if !c.fault(&fault, refused) {
		t.Error("a fault after the end does not finish the tally")
	}
}
