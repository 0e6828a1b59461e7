package reliable

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// joiner is a message layer that joins its stream at a packet.
type joiner struct {
	opaque
	st   *Stream
	at   uint64
	read []string // packets that waited
}

func (j *joiner) Join(now, _ Instant) bool {
	j.read = j.read[:0]
	for seq := j.st.Reached(); ; seq++ {
		p := j.st.Waiting(now, seq)
		if !p.Arrived && p.Lost == 0 {
			return false
		}
		if j.read = append(j.read, fmt.Sprint(p.Arrived, p.Lost, p.Cause)); seq == j.at {
			j.st.BeginAt(now, seq)
			return true
		}
	}
}

// A stream that its message layer joins delivers nothing before, and asks publishers not to wait for it until the
// packets that waited are delivered.
func TestJoining(t *testing.T) {
	j := &joiner{at: 9}
	l := &log{contents: func(st *Stream) Contents { j.st = st; return j }}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Joins = true })
	var order []uint64
	l.onPacket = func(st *Stream, _ []byte) { order = append(order, st.Next()) }
	joining := func(at Instant) bool {
		s := of(wire.TypeStatus, replies(r, at))
		return s[len(s)-1].Flags&wire.FlagJoining != 0
	}
	for _, seq := range []uint64{5, 7, 8} { // 6 is missing
		r.Handle(1, 5, data(3, seq, 0))
	}
	if !joining(1) || !j.st.Joining() || j.st.Stalled() || !slices.Equal(j.read, []string{"true 0 none"}) {
		t.Errorf("read %q, stalled %v", j.read, j.st.Stalled())
	}
	var b wire.RangesBuilder
	b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeGone, 0, 6, wire.ReasonOverwritten, 0, 512)
	b.Add(6, 1)
	r.Handle(2, 5, b.Finish())
	if len(order) > 0 || len(l.gaps) > 0 || len(j.read) != 4 || j.read[1] != fmt.Sprint(false, 7, events.CauseGone) {
		t.Errorf("delivered %v, gaps %v, read %q", order, l.gaps, j.read)
	}
	r.Handle(3, 5, data(3, 9, 0))
	r.Handle(3, 5, data(3, 10, 0))
	if joining(Instant(20*ms)) || j.st.Joining() || j.st.Start() != 9 || !slices.Equal(order, []uint64{9, 10}) || len(l.gaps) > 0 {
		t.Errorf("starts at %d, delivered %v, gaps %v", j.st.Start(), order, l.gaps)
	}
}
