package reliable

import (
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// docs/protocol §12.1.
func TestTombstones(t *testing.T) {
	x := formerStreams()
	other := events.Instance{Publisher: 8, Epoch: 1}
	x.remember(other, formerStream{evicted: true, next: 5})
	for epoch := range events.ID(1000) {
		x.remember(events.Instance{Publisher: 7, Epoch: epoch}, formerStream{evicted: epoch%2 == 0, next: uint64(epoch)})
	}
	if f, ok := x.find(other); !ok || !f.evicted || f.next != 5 {
		t.Error("an evicted stream is removed because of another publisher's restarts")
	}
	if len(x.of) != 1+tombstonesEach || len(x.order) != len(x.of) {
		t.Errorf("%d, %d are stored", len(x.of), len(x.order))
	}
	for epoch, evicted := range map[events.ID]bool{999: false, 998: true} {
		if f, ok := x.find(events.Instance{Publisher: 7, Epoch: epoch}); !ok || f.evicted != evicted || f.next != uint64(epoch) {
			t.Errorf("tombstone of epoch %d: %+v, %v", epoch, f, ok)
		}
	}
	if _, ok := x.find(events.Instance{Publisher: 7, Epoch: 1}); ok {
		t.Error("the oldest is still stored")
	}
	x.remember(other, formerStream{}) // it returned, and has ended
	if f, ok := x.find(other); !ok || f.evicted {
		t.Error("the latest tombstone is not used")
	}
	for p := range events.ID(1000) {
		x.remember(events.Instance{Publisher: 100 + p, Epoch: 1}, formerStream{})
	}
	_, old := x.find(other)
	_, last := x.find(events.Instance{Publisher: 1099, Epoch: 1})
	if len(x.of) != tombstonesKept || old || !last {
		t.Errorf("%d are stored", len(x.of))
	}
}

// Subscribers belong to no stream: the latest are stored, whatever the stream. docs/protocol §8.5.
func TestTombstonesOfMembers(t *testing.T) {
	x := formerMembers()
	for id := range uint64(3 * farewellsKept) {
		x.remember(id, statusOrder{next: id})
		x.remember(id, statusOrder{next: id + 1})
	}
	if len(x.of) != farewellsKept || len(x.order) != farewellsKept {
		t.Errorf("%d, %d are stored", len(x.of), len(x.order))
	}
	for id := range uint64(3 * farewellsKept) {
		if last, ok := x.find(id); ok != (id >= 2*farewellsKept) || ok && last.next != id+1 {
			t.Fatalf("tombstone of subscriber %d: %+v, %v", id, last, ok)
		}
	}
}
