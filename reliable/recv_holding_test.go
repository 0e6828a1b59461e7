package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// namedReceiver is the receiver named in a heartbeat: the one that blocks the publisher, or, with
// released set, one that was released.
type namedReceiver struct {
	id       uint64
	released bool
}

// A receiver is released from the first heartbeat that reports it until one shows that it is no longer among the
// released ones, and it has everything. Each release is reported once, however many others were released.
// docs/protocol §8.7.
func TestReleaseIsReportedOnce(t *testing.T) {
	const me = 42
	out, hold := func(id uint64) namedReceiver { return namedReceiver{id, true} }, func(id uint64) namedReceiver { return namedReceiver{id, false} }
	noReceiver := namedReceiver{}
	for _, c := range []struct {
		name     string
		said     []namedReceiver // in turn, ten times
		then     []namedReceiver
		behind   bool // it lacks packets
		released bool // at the end
		reported int
	}{
		{"alone", []namedReceiver{out(me)}, nil, false, true, 1},
		{"caught up", []namedReceiver{out(me)}, []namedReceiver{noReceiver}, false, false, 1},
		{"not caught up", []namedReceiver{out(me)}, []namedReceiver{noReceiver, noReceiver}, true, true, 1},
		{"two at once", []namedReceiver{out(me), out(7)}, nil, false, true, 1},
		{"two, and one that blocks", []namedReceiver{out(me), hold(3), out(7), hold(3)}, nil, false, true, 1},
		{"one, and one that blocks", []namedReceiver{out(me), hold(3)}, nil, false, true, 1},
		{"five", []namedReceiver{out(me), out(7), out(8), out(9), out(10)}, nil, false, true, 1},
		{"another out of turn", []namedReceiver{out(me), out(7), out(7)}, nil, false, true, 1},
		{"a heartbeat is lost", []namedReceiver{out(me), out(7)}, []namedReceiver{out(7), out(me)}, false, true, 1},
		{"the other remains released", []namedReceiver{out(me), out(7)}, []namedReceiver{out(7), out(7), out(7)}, false, false, 1},
		{"the other remains released, and one blocks", []namedReceiver{out(me), hold(3), out(7), hold(3)}, []namedReceiver{out(7), hold(3), out(7), hold(3), out(7)}, false, false, 1},
		{"one blocks", []namedReceiver{out(me), hold(3)}, []namedReceiver{hold(3), hold(3), hold(3)}, false, false, 1},
		{"released again", []namedReceiver{out(me)}, []namedReceiver{noReceiver, out(me), out(7), out(me)}, false, true, 2},
		{"blocks again", []namedReceiver{out(me), out(7)}, []namedReceiver{hold(me), out(me)}, false, true, 2},
	} {
		var h holding
		var reported int
		was := false
		hear := func(x namedReceiver) {
			news := h.heard(&wire.Heartbeat{Holder: x.id, Released: x.released, Held: time.Second}, me, !c.behind)
			if h.released && !was {
				reported++
			}
			if h.released != was && !news {
				t.Errorf("%s: released is %v, but no event reports it", c.name, h.released)
			}
			was = h.released
		}
		for range 10 {
			for _, x := range c.said {
				hear(x)
			}
		}
		for _, x := range c.then {
			hear(x)
		}
		if h.released != c.released || reported != c.reported {
			t.Errorf("%s: released %v, want %v; reported %d times, want %d", c.name, h.released, c.released, reported, c.reported)
		}
	}

	var u unnamedRounds
	for id := range uint64(3 * maxOthers) {
		if u.over(&wire.Heartbeat{Holder: id + 100, Released: true}); len(u.others) > maxOthers {
			t.Fatalf("%d others are counted", len(u.others))
		}
	}
}
