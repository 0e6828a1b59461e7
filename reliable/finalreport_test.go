package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A publisher announces the end of its stream, or that it does not wait for this receiver, and the totals of its
// topics. If it is silent afterwards, the losses are known exactly. docs/protocol §9.2, §9.3.
func TestFinalReportOfAPublisher(t *testing.T) {
	announce := func(asOf, next uint64) []byte {
		b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 1}, asOf, 0, 1)
		b = wire.AppendTopicState(b, wire.TopicID("a.b"), next, "a.b")
		wire.FinishAnnounce(b, 1)
		return b
	}
	for name, c := range map[string]struct {
		flags wire.Flags
		hb    wire.Heartbeat
		tells []uint64 // of announces: as of, which is also the next message
		want  uint64   // in the last total; 0: unknown
	}{
		"the end":          {wire.FlagEnd, wire.Heartbeat{Lead: 20}, []uint64{20}, 20},
		"released":         {0, wire.Heartbeat{Lead: 20, Holder: 42, Released: true, Held: time.Second}, []uint64{20}, 20},
		"reported twice":   {wire.FlagEnd, wire.Heartbeat{Lead: 20}, []uint64{20, 20}, 20},
		"nothing reported": {wire.FlagEnd, wire.Heartbeat{Lead: 20}, nil, 0},
		"reported as of a sequence before the end": {wire.FlagEnd, wire.Heartbeat{Lead: 20}, []uint64{10}, 0},
		"two, the last complete":                   {wire.FlagEnd, wire.Heartbeat{Lead: 20}, []uint64{10, 20}, 20},
		"no end":                                   {0, wire.Heartbeat{Lead: 20}, []uint64{20}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(log)
			r := newReceiver(t, l, nil)
			at := Instant(1)
			r.Handle(at, 1, data(1, 0, 0))
			c.hb.SentAt = 1
			r.Handle(at, 1, heartbeatOf(1, c.flags, c.hb))
			for _, asOf := range c.tells {
				r.Handle(at, 1, announce(asOf, asOf))
			}
			for range 1000 {
				at = at.Add(10 * time.Millisecond)
				replies(r, at)
			}
			var last uint64
			complete := false // before the loss of the publisher is reported
			for _, x := range l.totals {
				if x.Lost != events.CauseNone {
					break
				}
				last, complete = max(last, x.Next), x.Complete
			}
			if last != c.want || complete != (c.want > 0) {
				t.Errorf("totals %+v, want %d", l.totals, c.want)
			}
			if len(l.gaps) == 0 || l.gaps[0][0] != 1 {
				t.Errorf("gaps %v", l.gaps)
			}
		})
	}
}
