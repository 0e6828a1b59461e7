package reliable

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A publisher restarts repeatedly while a subscription does not read: the oldest of its streams lose their unread
// packets, except for the packet being read, and another publisher gets their window. docs/protocol §12.2.
func TestReceiverRestartsTakeNoMemoryFromOthers(t *testing.T) {
	l := &attaching{}
	mem := &heap{}
	r := newReceiver(t, &l.log, func(c *ReceiverConfig) {
		c.MaxStreams, c.WindowBytes, c.MemoryBytes, c.Memory = 4, 16*512, 128*512, mem
	})
	r.sink = l
	r.SetAsync(true)
	const restarts = 50
	now := Instant(1)
	for epoch := range events.ID(restarts) {
		if epoch > 0 {
			now = now.Add(2*lostFloor + supersededKeep) // until the previous one is removed
			replies(r, now)
		}
		for seq := range uint64(3) {
			r.Handle(now, 5, data(1+epoch, seq, 0))
		}
		if epoch == 0 {
			if _, _, ok := l.cursors[0].Lease(); !ok {
				t.Fatal("no packet to read")
			}
		}
	}
	for i := range 10 {
		now = now.Add(time.Second)
		r.Handle(now, 5, heartbeatOf(restarts, 0, wire.Heartbeat{Lead: 3, SentAt: uint64(1 + i), Interval: time.Second}))
		replies(r, now)
	}
	other := data(3, 0, 0)
	binary.LittleEndian.PutUint64(other[16:], 8) // another publisher
	r.Handle(now, 5, other)
	if len(r.Streams()) != 2 || len(l.cursors) != restarts+1 {
		t.Fatalf("%d streams, %d cursors, %+v", len(r.Streams()), len(l.cursors), r.Stats())
	}
	for _, st := range r.Streams() {
		if st.Span() != 16 {
			t.Errorf("publisher %d has a window of %d packets", st.Publisher, st.Span())
		}
	}
	if most := 64*512 + len(r.Streams())*16*512; r.Memory() > most || mem.bytes > r.Memory() {
		t.Errorf("windows use %d bytes, %d of them allocated; want at most %d", r.Memory(), mem.bytes, most)
	}
	whole, given := 0, 0
	for i, c := range l.cursors[:restarts-1] {
		if i == 0 {
			c.Return() // of the packet being read
		}
		var kinds []EventKind
		for len(kinds) == 0 || kinds[len(kinds)-1] != EventEnd {
			it, b, ok := c.Lease()
			if !ok {
				t.Fatalf("epoch %d has no end: %v", i+1, kinds)
			}
			if it.Note == nil {
				kinds = append(kinds, EventPacket)
				if d, err := wire.ParseData(b); err != nil || d.Seq != it.Seq {
					t.Errorf("epoch %d: packet %d is %v, %v", i+1, it.Seq, d.Seq, err)
				}
			} else if kinds = append(kinds, it.Note.(*Event).Kind); it.Seq != 3 { // unread packets before it: a gap
				t.Errorf("epoch %d: %+v", i+1, it)
			}
			c.Return()
		}
		switch {
		case i == 0 && len(kinds) != 4: // two packets, the loss of the publisher, the end
			t.Errorf("a stream with a packet being read has lost the rest: %v", kinds)
		case i > 0 && len(kinds) == 1:
			given++
		case i > 0 && len(kinds) == 5:
			whole++
		}
	}
	if whole == 0 || given == 0 || whole+given != restarts-2 {
		t.Errorf("%d streams were kept completely, %d were given up", whole, given)
	}
	for i, st := range l.streams {
		detach(st, l.cursors[i])
	}
	r.Free()
	if r.memory != 0 || r.windows != 0 || mem.bytes != 0 {
		t.Errorf("%d bytes, %d windows remain", r.memory, r.windows)
	}
}

// attaching attaches a cursor to each stream, like a subscription that reads later.
type attaching struct {
	log
	streams []*Stream
	cursors []*ring.Cursor
}

func (a *attaching) StreamUp(st *Stream) {
	a.log.StreamUp(st)
	a.streams, a.cursors = append(a.streams, st), append(a.cursors, attach(st, true))
}
