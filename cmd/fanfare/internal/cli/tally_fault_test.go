package cli

import (
	"testing"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// That a publisher is one of ours may be known only behind its end: from what was refused of it.
func TestTallyFaultBehindTheEnd(t *testing.T) {
	up := &pubsub.PublisherEvent{Kind: events.PublisherUp, Publisher: 7, Epoch: 1, Group: "g"}
	end, fault := *up, *up
	end.Kind, fault.Kind = events.PublisherEnded, events.PublisherFault
	refused := &events.FaultError{Publisher: 7, Topic: "md.x", Count: 2}
	var c tally
	c.init([]string{"md.x"})
	c.event(up)
	if c.fault(&fault, refused) {
		t.Error("done while it is up")
	}
	if _, done := c.event(&end); !done {
		t.Error("its end, told behind the fault, does not end it")
	}
	c = tally{}
	c.init([]string{"md.x"})
	c.event(up)
	if _, done := c.event(&end); done {
		t.Error("the end of somebody else ends it")
	}
	if !c.fault(&fault, refused) {
		t.Error("a fault behind the end does not end it")
	}
}
