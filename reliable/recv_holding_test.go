package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// heartbeatOfTurn is the receiver that a heartbeat names: the holder of the publisher, or with released one of those
// that were released.
type heartbeatOfTurn struct {
	who      uint64
	released bool
}

// A receiver is released from the heartbeat that says so until one shows that it is not among the released ones, when
// it has everything. That is reported once for each release, however many others were released too. docs/protocol §8.7.
func TestReleaseIsReportedOnce(t *testing.T) {
	const me = 42
	out, hold := func(id uint64) heartbeatOfTurn { return heartbeatOfTurn{id, true} }, func(id uint64) heartbeatOfTurn { return heartbeatOfTurn{id, false} }
	noReceiver := heartbeatOfTurn{}
	for _, c := range []struct {
		name     string
		said     []heartbeatOfTurn // by turns, ten times
		then     []heartbeatOfTurn
		behind   bool // it has not everything meanwhile
		released bool // in the end
		reported int
	}{
		{"alone", []heartbeatOfTurn{out(me)}, nil, false, true, 1},
		{"caught up", []heartbeatOfTurn{out(me)}, []heartbeatOfTurn{noReceiver}, false, false, 1},
		{"not caught up", []heartbeatOfTurn{out(me)}, []heartbeatOfTurn{noReceiver, noReceiver}, true, true, 1},
		{"two at once", []heartbeatOfTurn{out(me), out(7)}, nil, false, true, 1},
		{"two, and one that holds", []heartbeatOfTurn{out(me), hold(3), out(7), hold(3)}, nil, false, true, 1},
		{"one, and one that holds", []heartbeatOfTurn{out(me), hold(3)}, nil, false, true, 1},
		{"five", []heartbeatOfTurn{out(me), out(7), out(8), out(9), out(10)}, nil, false, true, 1},
		{"another out of turn", []heartbeatOfTurn{out(me), out(7), out(7)}, nil, false, true, 1},
		{"a heartbeat is lost", []heartbeatOfTurn{out(me), out(7)}, []heartbeatOfTurn{out(7), out(me)}, false, true, 1},
		{"the other stays", []heartbeatOfTurn{out(me), out(7)}, []heartbeatOfTurn{out(7), out(7), out(7)}, false, false, 1},
		{"the other stays, and one holds", []heartbeatOfTurn{out(me), hold(3), out(7), hold(3)}, []heartbeatOfTurn{out(7), hold(3), out(7), hold(3), out(7)}, false, false, 1},
		{"one holds", []heartbeatOfTurn{out(me), hold(3)}, []heartbeatOfTurn{hold(3), hold(3), hold(3)}, false, false, 1},
		{"released again", []heartbeatOfTurn{out(me)}, []heartbeatOfTurn{noReceiver, out(me), out(7), out(me)}, false, true, 2},
		{"holds again", []heartbeatOfTurn{out(me), out(7)}, []heartbeatOfTurn{hold(me), out(me)}, false, true, 2},
	} {
		var h holding
		var reported int
		was := false
		hear := func(x heartbeatOfTurn) {
			news := h.heard(&wire.Heartbeat{Holder: x.who, Released: x.released, Held: time.Second}, me, !c.behind)
			if h.released && !was {
				reported++
			}
			if h.released != was && !news {
				t.Errorf("%s: released is %v, and no event reports it", c.name, h.released)
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
