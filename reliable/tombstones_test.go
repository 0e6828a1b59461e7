package reliable

import "testing"

// docs/protocol §12.1.
func TestTombstones(t *testing.T) {
	x := formerStreams()
	other := Instance{8, 1}
	x.remember(other, formerStream{evicted: true, next: 5})
	for epoch := range uint64(1000) {
		x.remember(Instance{7, epoch}, formerStream{evicted: epoch%2 == 0, next: epoch})
	}
	if f, ok := x.find(other); !ok || !f.evicted || f.next != 5 {
		t.Error("an evicted stream is removed because of another publisher's restarts")
	}
	if len(x.of) != 1+tombstonesEach || len(x.order) != len(x.of) {
		t.Errorf("%d, %d are stored", len(x.of), len(x.order))
	}
	for epoch, evicted := range map[uint64]bool{999: false, 998: true} {
		if f, ok := x.find(Instance{7, epoch}); !ok || f.evicted != evicted || f.next != epoch {
			t.Errorf("tombstone of epoch %d: %+v, %v", epoch, f, ok)
		}
	}
	if _, ok := x.find(Instance{7, 1}); ok {
		t.Error("the oldest is still stored")
	}
	x.remember(other, formerStream{}) // it returned, and has ended
	if f, ok := x.find(other); !ok || f.evicted {
		t.Error("the latest tombstone is not used")
	}
	for p := range uint64(1000) {
		x.remember(Instance{100 + p, 1}, formerStream{})
	}
	_, old := x.find(other)
	_, last := x.find(Instance{1099, 1})
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
