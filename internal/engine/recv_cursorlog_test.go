package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/reliable"
)

// What closed cursors were reading is kept for a while, if they say nothing, and an
// eighth of the window at most.
func TestClosedCursorsHoldSlotsForAWhile(t *testing.T) {
	const span = 32
	slots := ring.NewSlots(span, 64, func(n int, _ bool) ([]byte, error) { return make([]byte, n), nil })
	l := newCursorLog(slots, span)
	seq := uint64(0)
	closed := func(n int) (all []*ring.Cursor) {
		for range n {
			c := l.log.Attach(true)
			p := make([]byte, 64)
			slot, ok := slots.Put(p)
			if !ok || !l.room() || !l.deliver(&reliable.Event{Kind: reliable.EventPacket, Seq: seq, Slot: slot, Packet: p}) {
				t.Fatal("no room for a packet")
			}
			c.Wake()
			if it, _, ok := c.Lease(); !ok || it.Seq != seq {
				t.Fatalf("the cursor reads %+v, %v; want packet %d", it, ok, seq)
			}
			seq++
			l.log.Detach(c)
			all = append(all, c)
		}
		return all
	}
	free := func(now reliable.Instant, want int) {
		t.Helper()
		l.tend(now, span)
		if slots.Free() != want || l.log.Held() != span-want {
			t.Errorf("%d slots are free, %d held; want %d free", slots.Free(), l.log.Held(), want)
		}
	}
	now := reliable.Instant(1)
	all := closed(3)
	free(now, span-3)
	all[0].Return()
	free(now, span-2)
	free(now.Add(heldFor-1), span-2)
	free(now.Add(heldFor), span)
	closed(10)
	free(now.Add(heldFor), span-span/8)
	if l.room(); l.deliver(&reliable.Event{Kind: reliable.EventPacket, Seq: seq, Slot: ring.NoSlot}) {
		t.Error("a packet is kept that no cursor will read")
	}
}
