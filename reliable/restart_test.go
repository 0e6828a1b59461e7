package reliable

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// A publisher restarts again and again while a subscription does not read: the oldest
// of its streams lose what is unread, but for the packet in the reader's hand, and
// another publisher has its window.
func TestReceiverRestartsTakeNoMemoryFromOthers(t *testing.T) {
	l := &attaching{}
	mem := &heap{}
	r := newReceiver(t, &l.log, func(c *ReceiverConfig) {
		c.MaxStreams, c.WindowBytes, c.MemoryBytes, c.Memory = 4, 16*512, 128*512, mem
	})
	r.sink = l
	r.SetAsync(true)
	const restarts = 50
	for epoch := range uint64(restarts) {
		for seq := range uint64(3) {
			r.Handle(1, 5, data(1+epoch, seq, 0))
		}
		if epoch == 0 {
			if _, _, ok := l.cursors[0].Lease(); !ok {
				t.Fatal("nothing to read")
			}
		}
		replies(r, 1)
	}
	other := data(3, 0, 0)
	binary.LittleEndian.PutUint64(other[16:], 8) // another publisher
	r.Handle(1, 5, other)
	if len(r.Streams()) != 2 || len(l.cursors) != restarts+1 {
		t.Fatalf("%d streams, %d cursors, %+v", len(r.Streams()), len(l.cursors), r.Stats())
	}
	for _, st := range r.Streams() {
		if st.Span() != 16 {
			t.Errorf("publisher %d has a window of %d packets", st.Publisher, st.Span())
		}
	}
	if most := 64*512 + len(r.Streams())*16*512; r.Memory() > most || mem.bytes != r.Memory() {
		t.Errorf("windows take %d bytes, %d of them allocated; at most %d should", r.Memory(), mem.bytes, most)
	}
	whole, given := 0, 0
	for i, c := range l.cursors[:restarts-1] {
		if i == 0 {
			c.Return() // of the packet that was in hand
		}
		var kinds []ring.Kind
		for len(kinds) == 0 || kinds[len(kinds)-1] != ring.KindEnd {
			it, b, ok := c.Lease()
			if !ok {
				t.Fatalf("epoch %d has no end: %v", i+1, kinds)
			}
			kinds = append(kinds, it.Kind)
			if it.Kind == ring.KindPacket {
				if d, err := wire.ParseData(b); err != nil || d.Seq != it.Seq {
					t.Errorf("epoch %d: packet %d is %v, %v", i+1, it.Seq, d.Seq, err)
				}
			} else if it.Seq != 3 { // what is unread is before it: a gap
				t.Errorf("epoch %d: %+v", i+1, it)
			}
			c.Return()
		}
		switch {
		case i == 0 && len(kinds) != 3:
			t.Errorf("a stream of which a packet was in hand has lost the rest: %v", kinds)
		case i > 0 && len(kinds) == 1:
			given++
		case i > 0 && len(kinds) == 4:
			whole++
		}
	}
	if whole == 0 || given == 0 || whole+given != restarts-2 {
		t.Errorf("%d streams were kept whole, %d were given up", whole, given)
	}
	for i, st := range l.streams {
		st.Detach(l.cursors[i])
	}
	r.Free()
	if r.memory != 0 || r.windows != 0 || mem.bytes != 0 {
		t.Errorf("%d bytes, %d windows are left", r.memory, r.windows)
	}
}

// attaching gives each stream a cursor, as a subscription does that reads later.
type attaching struct {
	log
	streams []*Stream
	cursors []*ring.Cursor
}

func (a *attaching) StreamUp(st *Stream) {
	a.log.StreamUp(st)
	a.streams, a.cursors = append(a.streams, st), append(a.cursors, st.Attach(true))
}

// A false packet that comes first starts a stream of another size, or from nowhere: when
// that is down the true one starts.
func TestReceiverStartsAnewAfterAnInvention(t *testing.T) {
	other := wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &wire.Heartbeat{PacketSize: 513, SentAt: 1})
	for name, c := range map[string]struct {
		first [][]byte
		heals bool
	}{
		"size":                 {[][]byte{other}, true},
		"heartbeat":            {[][]byte{beat(3, 0, wire.Heartbeat{Lead: 1 << 61, SentAt: 1})}, true},
		"data":                 {[][]byte{data(3, 1<<61, 0)}, true},
		"a stream, not a lie":  {[][]byte{data(3, 1000, 0), data(3, 1001, 0)}, false},
		"a stream and a size":  {[][]byte{data(3, 0, 0), data(3, 1, 0), other}, true}, // which does no harm
		"a size while it runs": {[][]byte{data(3, 0, 0), other}, true},
	} {
		for _, quiet := range []bool{false, true} { // whether the true publisher's data or its heartbeats come first
			l := &log{}
			r := newReceiver(t, l, nil)
			now := Instant(1)
			for _, b := range c.first {
				r.Handle(now, 6, b)
			}
			lead := uint64(5)
			for range 100 {
				now = now.Add(100 * time.Millisecond)
				if !quiet || now > Instant(8*time.Second) {
					r.Handle(now, 5, data(3, lead, 0))
					lead++
				}
				r.Handle(now, 5, beat(3, 0, wire.Heartbeat{Lead: lead, Trail: lead, SentAt: uint64(now)}))
				replies(r, now)
			}
			if got := len(l.packets) > 15; got != c.heals {
				t.Errorf("%s, quiet %v: %d packets are delivered: up %d times, down %v, %+v", name, quiet, len(l.packets), len(l.up), l.down, r.Stats())
			}
		}
	}
}

// A stream that was evicted, has come back and is down again has delivered what was
// before: a packet that is replayed does not start it anew.
func TestReceiverTakesNoResumedStreamForAnInvention(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.MaxStreams = 1 })
	now := Instant(1)
	down := func() {
		t.Helper()
		for n := len(l.down); len(l.down) == n; replies(r, now) {
			if now = now.Add(100 * time.Millisecond); now > Instant(time.Minute) {
				t.Fatal("not lost")
			}
		}
	}
	for seq := range uint64(5) {
		r.Handle(now, 5, data(3, seq, 0))
	}
	down()
	other := data(3, 0, 0)
	binary.LittleEndian.PutUint64(other[16:], 8) // another publisher
	r.Handle(now, 5, other)
	down()
	r.Handle(now, 5, beat(3, 0, wire.Heartbeat{Lead: 5, SentAt: 1}))
	down()
	before, up := len(l.packets), len(l.up)
	if up != 3 || r.streams[7] == nil {
		t.Fatalf("up %d times", up)
	}
	for seq := range uint64(5) {
		r.Handle(now, 5, data(3, seq, 0))
	}
	if len(l.packets) != before || len(l.up) != up {
		t.Errorf("%d packets are delivered twice, up %d times", len(l.packets)-before, len(l.up)-up)
	}
}
