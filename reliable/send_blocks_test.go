package reliable

import "testing"

// The oldest block is reused unless a subscriber or the transport needs it. docs/protocol §8.1.
func TestOldestBlockIsUsedAgain(t *testing.T) {
	const last, post = 10, 7 // last packet and post of the block
	for _, c := range []struct {
		name              string
		sent, floor, done uint64
		reusable, missed  bool
	}{
		{"no subscriber", 11, noLimit, 7, true, false},
		{"received by all", 11, 11, 7, true, false},
		{"a subscriber misses its last packet", 11, 10, 7, false, true},
		{"a subscriber misses all of it", 11, 0, 7, false, true},
		{"its last packet was not sent", 10, noLimit, 7, false, false},
		{"not sent, and missed", 10, 5, 7, false, false},
		{"the transport reads it", 11, noLimit, 6, false, false},
	} {
		var x sendBlocks
		if x.reusable(c.sent, c.floor, c.done) != nil || x.missed(c.sent, c.floor) {
			t.Fatal("a block is reusable or missed while there is none")
		}
		x.retired.push(&block{last: last, post: post})
		if got := x.reusable(c.sent, c.floor, c.done) != nil; got != c.reusable {
			t.Errorf("%s: reusable %v", c.name, got)
		}
		if got := x.missed(c.sent, c.floor); got != c.missed || x.short != c.missed {
			t.Errorf("%s: missed %v", c.name, got)
		}
		if x.relieved(last) {
			t.Errorf("%s: relieved although a subscriber lacks its last packet", c.name)
		}
		if x.relieved(last+1) != c.missed || x.relieved(last+1) {
			t.Errorf("%s: not relieved once", c.name)
		}
	}
}

// New blocks get the ids of returned blocks.
func TestBlocksAreReused(t *testing.T) {
	var x sendBlocks
	x.add(make([]byte, 35), 10)
	if x.count() != 3 || len(x.free) != 3 {
		t.Fatalf("%d blocks of 35 bytes", x.count())
	}
	b := x.take()
	if mem := x.giveBack(); len(mem) != 10 || x.count() != 2 {
		t.Errorf("%d bytes returned, %d blocks remain", len(mem), x.count())
	}
	x.add(make([]byte, 20), 10)
	if x.count() != 4 || len(x.all) != 4 || len(x.unused) != 0 || x.all[b.id] != b {
		t.Errorf("%d blocks, %d ids", x.count(), len(x.all))
	}
	for id, b := range x.all {
		if b == nil || int(b.id) != id {
			t.Errorf("block %d is %+v", id, b)
		}
	}
}
