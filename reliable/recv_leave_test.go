package reliable

import (
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// docs/protocol §4.5: streams that were left start again, those that ended do not.
func TestTombstonesOfAReceiverThatLeft(t *testing.T) {
	x := formerStreams()
	ended, lost := events.Instance{Publisher: 1, Epoch: 1}, events.Instance{Publisher: 2, Epoch: 1}
	x.remember(ended, formerStream{next: 5})
	x.remember(lost, formerStream{evicted: true, next: 7})
	x.drop(func(x formerStream) bool { return x.evicted })
	if _, ok := x.find(ended); !ok {
		t.Error("an ended stream was forgotten")
	}
	if _, ok := x.find(lost); ok {
		t.Error("a stream that was left is not forgotten")
	}
	if len(x.order) != 1 {
		t.Errorf("%d in the list, want 1", len(x.order))
	}
}
