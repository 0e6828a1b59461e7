package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/reliable"
)

// Packets that closed cursors have leased stay in their slots until they are returned, for at most heldFor and an eighth
// of the window.
func TestClosedCursorsHoldSlotsForAWhile(t *testing.T) {
	const span = 32
	slots := ring.NewSlots(span, 64, func(n int, _ bool) ([]byte, error) { return make([]byte, n), nil })
	l := newCursorLog(nil, slots, span)
	seq := uint64(0)
	closed := func(n int) (all []*ring.Cursor) {
		for range n {
			c := l.log.Attach(true)
			p := make([]byte, 64)
			slot, ok := slots.Put(p)
			if !ok || !l.room() || !l.deliver(&reliable.Event{Kind: reliable.EventPacket, Seq: seq, Slot: slot, Packet: p}) {
				t.Fatalf("packet %d was not accepted, want it accepted", seq)
			}
			c.Wake()
			if it, _, ok := c.Lease(); !ok || it.Seq != seq {
				t.Fatalf("Lease returned %+v and %v, want packet %d", it, ok, seq)
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
			t.Errorf("%d slots free and %d held, want %d and %d", slots.Free(), l.log.Held(), want, span-want)
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
		t.Error("deliver kept a packet without a cursor to read it, want it not kept")
	}
}
