package reliable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Each row has the streams of one publisher id, and the decisions about the first one.
func TestInstances(t *testing.T) {
	const s = Instant(time.Second)
	up := func(upAt, heard Instant) *Stream {
		return &Stream{Instance: events.Instance{Publisher: 7, Epoch: 0}, life: liveness{upAt: upTime(upAt), heard: upTime(heard)}}
	}
	lost := func(heard, downAt Instant) *Stream {
		return &Stream{Instance: events.Instance{Publisher: 7, Epoch: 0}, life: liveness{heard: upTime(heard), down: true, downAt: upTime(downAt)}}
	}
	ended := func(st *Stream) *Stream { st.life.ended = true; return st }
	finished := func(st *Stream) *Stream { st.life.finished = true; return st }
	reported := func(st *Stream) *Stream { st.duplicates.other = true; return st }
	for _, c := range []struct {
		name      string
		of        []*Stream
		silence   events.Cause
		expired   bool // after 100 s
		duplicate bool
	}{
		{"alone", []*Stream{up(0, 99*s)}, events.CausePublisherLost, false, false},
		{"lost, alone", []*Stream{lost(10*s, 12*s)}, events.CausePublisherLost, false, false},
		{"lost, another received before", []*Stream{lost(10*s, 12*s), lost(9*s, 11*s)}, events.CausePublisherLost, false, false},
		{"lost, another received since", []*Stream{lost(10*s, 12*s), lost(11*s, 13*s)}, events.CauseRestart, false, false},
		{"lost, another live", []*Stream{lost(10*s, 12*s), up(8*s, 99*s)}, events.CauseRestart, true, false},
		{"just lost, another live", []*Stream{lost(93*s, 95*s), up(8*s, 99*s)}, events.CauseRestart, false, false},
		{"finished, another live", []*Stream{finished(lost(10*s, 12*s)), up(8*s, 99*s)}, events.CauseRestart, false, false},
		{"both live", []*Stream{up(0, 98*s), up(50*s, 99*s)}, events.CauseRestart, false, true},
		{"both live for a moment", []*Stream{up(0, 54*s), up(50*s, 99*s)}, events.CauseRestart, false, false},
		{"the other one just up", []*Stream{up(0, 99*s), up(96*s, 98*s)}, events.CausePublisherLost, false, false},
		{"the old one ends", []*Stream{up(60*s, 98*s), ended(up(0, 99*s))}, events.CauseRestart, false, false},
		{"it ends", []*Stream{ended(up(0, 98*s)), up(60*s, 99*s)}, events.CauseRestart, false, false},
		{"the other is lost", []*Stream{up(0, 98*s), lost(90*s, 92*s)}, events.CausePublisherLost, false, false},
		{"both reported", []*Stream{reported(up(0, 98*s)), reported(up(50*s, 99*s))}, events.CauseRestart, false, false},
		{"the other reported", []*Stream{up(0, 98*s), reported(up(50*s, 99*s))}, events.CauseRestart, false, true},
		{"a third", []*Stream{reported(up(0, 98*s)), reported(up(50*s, 99*s)), up(60*s, 97*s)}, events.CauseRestart, false, true},
	} {
		x := newInstances()
		for i, st := range c.of {
			st.Epoch = events.ID(i)
			x.add(st)
		}
		st := c.of[0]
		if got := x.silence(st); got != c.silence {
			t.Errorf("%s: cause of silence %v, want %v", c.name, got, c.silence)
		}
		if got := x.expired(st, upTime(100*s)); got != c.expired {
			t.Errorf("%s: expired: %v", c.name, got)
		}
		if got := x.duplicate(st) != nil; got != c.duplicate {
			t.Errorf("%s: a duplicate: %v", c.name, got)
		}
		for _, st := range c.of {
			x.remove(st)
		}
		if len(x.of)+len(x.streams) > 0 {
			t.Errorf("%s: state remains: %+v", c.name, x)
		}
	}
}

// instanceRig is a receiver of instances of publisher 7, with their deliveries.
type instanceRig struct {
	log
	r    *Receiver
	now  Instant
	got  map[events.ID][]uint64 // by epoch
	sent uint64
}

func newInstanceRig(t *testing.T, change func(*ReceiverConfig)) *instanceRig {
	x := &instanceRig{now: Instant(time.Hour), got: make(map[events.ID][]uint64)}
	x.onPacket = func(st *Stream, runs []byte) {
		run, _, _ := wire.NextRun(runs)
		x.got[st.Epoch] = append(x.got[st.Epoch], run.Number)
	}
	x.r = newReceiver(t, &x.log, func(c *ReceiverConfig) {
		c.MaxStreams = 8
		if change != nil {
			change(c)
		}
	})
	return x
}

func (x *instanceRig) data(epoch events.ID, seq uint64) { x.r.Handle(x.now, 5, data(epoch, seq, 0)) }

// heartbeat delivers a heartbeat of an instance that has sent lead packets.
func (x *instanceRig) heartbeat(epoch events.ID, lead uint64, flags wire.Flags) {
	x.sent++
	x.r.Handle(x.now, 5, heartbeatOf(epoch, flags, wire.Heartbeat{Lead: lead, SentAt: uint64(x.now) + x.sent, Interval: 100 * time.Millisecond, Name: []byte("feed")}))
}

// pass lets time pass, with heartbeats of the given instances, which have sent lead packets.
func (x *instanceRig) pass(d time.Duration, lead uint64, epochs ...events.ID) {
	for end := x.now.Add(d); x.now < end; {
		x.now = x.now.Add(100 * time.Millisecond)
		for _, e := range epochs {
			x.heartbeat(e, lead, 0)
		}
		replies(x.r, x.now)
	}
}

// Concurrent instances, whatever the order of their epochs, are all delivered completely. docs/protocol §3.5.
func TestInstancesAreAllDelivered(t *testing.T) {
	for _, epochs := range [][]events.ID{{3, 4}, {4, 3}, {5, 1, 9}} {
		x := newInstanceRig(t, nil)
		for seq := range uint64(20) {
			for _, e := range epochs {
				x.data(e, seq)
			}
			replies(x.r, x.now)
		}
		x.pass(30*time.Second, 20, epochs...)
		for _, e := range epochs {
			x.data(e, 20)
			if n := len(x.got[e]); n != 21 {
				t.Errorf("epochs %v: %d messages of %d", epochs, n, e)
			}
		}
		if len(x.gaps)+len(x.down) > 0 || x.r.Stats().Stale > 0 {
			t.Errorf("epochs %v: gaps %v, down %v, %d stale", epochs, x.gaps, x.down, x.r.Stats().Stale)
		}
		if st := x.r.Streams()[0]; *st.Origin() != (Origin{Instance: events.Instance{Publisher: 7, Epoch: epochs[0]}, Name: "feed", Address: "host5", raw: "feed"}) {
			t.Errorf("origin %+v", *st.Origin())
		}
	}
}

// A single forged packet with a newer epoch has no effect on a publisher. docs/protocol §19.3.
func TestForgedEpochSilencesNoPublisher(t *testing.T) {
	x := newInstanceRig(t, nil)
	x.data(3, 0)
	x.data(1<<63, 0)
	x.pass(time.Minute, 1, 3)
	x.data(3, 1)
	if n := len(x.got[3]); n != 2 || len(x.gaps) > 0 {
		t.Errorf("%d messages, gaps %v", n, x.gaps)
	}
	if len(x.r.Streams()) != 1 {
		t.Errorf("%d streams", len(x.r.Streams()))
	}
}

// A silent instance is lost, or restarted if another one was received since. It continues where it stopped, even after
// its stream was removed; an ended one does not. docs/protocol §3.5, §4.4, §11.3.
func TestInstancesReturn(t *testing.T) {
	x := newInstanceRig(t, func(c *ReceiverConfig) { c.Deadline = time.Hour })
	x.data(3, 0)
	x.pass(10*time.Second, 1)
	x.data(2, 0) // its clock was set back
	x.data(2, 2) // packet 1 is missing
	x.pass(time.Second, 1, 3)
	x.pass(10*time.Second, 0)
	if want := []events.Cause{events.CausePublisherLost, events.CausePublisherLost, events.CauseRestart}; !slices.Equal(x.down, want) {
		t.Fatalf("down %v, want %v", x.down, want)
	}
	if len(x.up) != 3 || len(x.gaps) != 1 || x.gaps[0] != [3]uint64{1, 1, uint64(events.CauseRestart)} {
		t.Fatalf("%d up, gaps %v", len(x.up), x.gaps)
	}
	// One is live, the other's stream is removed.
	x.pass(10*time.Second, 3, 2)
	if st := x.r.Streams(); len(st) != 1 || st[0].Epoch != 2 {
		t.Fatalf("%d streams", len(st))
	}
	// It continues where it stopped: the packets sent meanwhile are requested.
	x.data(3, 5)
	x.r.Tick(x.now)
	if st := x.r.Streams(); len(st) != 2 || st[1].Start() != 1 || len(of(wire.TypeNAK, replies(x.r, x.now))) != 1 {
		t.Fatalf("%d streams, %+v", len(st), x.r.Stats())
	}
	// The other one ends, permanently.
	x.heartbeat(2, 3, wire.FlagEnd)
	x.pass(10*time.Second, 6, 3)
	x.data(2, 3)
	x.heartbeat(2, 4, 0)
	if st := x.r.Streams(); len(st) != 1 || st[0].Epoch != 3 || x.r.Stats().Stale != 2 {
		t.Errorf("%d streams, %d stale", len(st), x.r.Stats().Stale)
	}
	for p, n := range x.peers {
		if n != len(x.r.Streams()) {
			t.Errorf("peer %d has %d references left", p, n)
		}
	}
}

// Two concurrent instances are reported once, after some seconds. A restart, a rolling update, and
// an instance that was lost and returned are not reported. docs/protocol §3.7.
func TestDuplicateNameIsReported(t *testing.T) {
	pairs := func(x *instanceRig) string {
		s := ""
		for _, d := range x.duplicates {
			if s += fmt.Sprintf(" %d", d[0].Epoch); d[1] != nil {
				s += fmt.Sprintf("+%d", d[1].Epoch)
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		run  func(x *instanceRig)
		want string
	}{
		"both live": {func(x *instanceRig) {
			x.pass(time.Second, 0, 3)
			x.pass(time.Minute, 0, 3, 2)
		}, " 2+3"},
		"three": {func(x *instanceRig) {
			x.pass(time.Second, 0, 3)
			x.pass(time.Minute, 0, 3, 4)
			x.pass(time.Minute, 0, 3, 4, 5)
		}, " 4+3 5+3"},
		"restart": {func(x *instanceRig) {
			x.pass(time.Minute, 0, 3)
			x.pass(time.Minute, 0, 4)
			x.pass(time.Minute, 0, 5)
		}, ""},
		"rolling update": {func(x *instanceRig) {
			x.pass(time.Minute, 0, 3)
			x.pass(4*time.Second, 0, 3, 4)
			x.heartbeat(3, 0, wire.FlagEnd)
			x.pass(time.Minute, 0, 4)
		}, ""},
		"rolled back": {func(x *instanceRig) {
			x.pass(time.Minute, 0, 3)
			x.pass(4*time.Second, 0, 3, 4)
			x.pass(time.Minute, 0, 3)
		}, ""},
		"cut off temporarily": {func(x *instanceRig) {
			x.pass(time.Minute, 0, 3)
			x.pass(time.Minute, 0, 4)
			x.pass(4*time.Second, 0, 3, 4)
			x.pass(time.Minute, 0, 4)
		}, ""},
		"an instance of our own publisher": {func(x *instanceRig) {
			x.r.cfg.Own = events.Instance{Publisher: 7, Epoch: 9}
			x.pass(4*time.Second, 0, 9, 3)
			if len(x.duplicates) > 0 {
				t.Error("reported at once")
			}
			x.pass(time.Minute, 0, 9, 3)
		}, " 3"},
	} {
		x := newInstanceRig(t, nil)
		if c.run(x); pairs(x) != c.want {
			t.Errorf("%s: reported%s, want%s", name, pairs(x), c.want)
		}
	}
}

// A service that is killed and restarted every second for hours, or a thousand instances of one
// name, leave streams and memory for other publishers. docs/protocol §12.1.
func TestInstancesLeaveRoomForOthers(t *testing.T) {
	for name, run := range map[string]func(x *instanceRig){
		"restarts": func(x *instanceRig) {
			for epoch := range events.ID(3600) {
				x.data(epoch, 0)
				x.data(epoch, 2) // needs a window
				x.pass(time.Second, 3, epoch)
			}
			if st := x.r.Stats(); st.StreamsRefused > 0 || st.Streams != 3600 {
				t.Errorf("restarts: %d started, %d refused", st.Streams, st.StreamsRefused)
			}
		},
		"a thousand alive": func(x *instanceRig) {
			for range 100 {
				for epoch := range events.ID(1000) {
					x.heartbeat(epoch, 0, 0)
				}
				x.pass(100*time.Millisecond, 0)
			}
		},
		"a thousand that died": func(x *instanceRig) {
			for epoch := range events.ID(1000) {
				x.data(epoch, 0)
				x.data(epoch, 2)
			}
			x.pass(10*time.Second, 0)
		},
	} {
		x := newInstanceRig(t, func(c *ReceiverConfig) { c.MaxStreams = 32; c.WindowBytes, c.MemoryBytes = 16*512, 1024*512 })
		run(x)
		refused := x.r.Stats().StreamsRefused
		for p := range events.ID(16) {
			b := data(1, 0, 0)
			wire.PutDataHeader(b, wire.Header{GroupTag: 9, Publisher: 100 + p, Epoch: 1}, 512)
			x.r.Handle(x.now, 5, b)
			wire.SetSeq(b, 2)
			x.r.Handle(x.now, 5, b)
		}
		n := 0
		for _, st := range x.r.Streams() {
			if st.Publisher >= 100 && st.win.slots != nil {
				n++
			}
		}
		if n != 16 || x.r.Stats().StreamsRefused != refused {
			t.Errorf("%s: %d of 16 other publishers have a stream and a window", name, n)
		}
		x.r.Free()
		if x.r.memory != 0 || x.r.windows != 0 || len(x.r.instances.of)+len(x.r.instances.streams) > 0 {
			t.Errorf("%s: %d bytes, %d windows remain", name, x.r.memory, x.r.windows)
		}
	}
}

// A bus does not receive what it publishes, unless configured to; it receives other instances of
// its publisher id. docs/protocol §3.4.
func TestOwnPackets(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		x := newInstanceRig(t, func(c *ReceiverConfig) { c.Own, c.Loopback = events.Instance{Publisher: 7, Epoch: 3}, loopback })
		x.data(3, 0)
		x.data(4, 0)
		want := 0
		if loopback {
			want = 1
		}
		if len(x.got[3]) != want || len(x.got[4]) != 1 || x.r.Stats().Own != uint64(1-want) || x.r.Stats().Namesakes != 1 {
			t.Errorf("loopback %v: %v, %+v", loopback, x.got, x.r.Stats())
		}
	}
}

// docs/protocol §4.5: streams that were left start again, those that ended do not.
func TestTombstonesOfAReceiverThatLeft(t *testing.T) {
	x := formerStreams()
	ended, lost := events.Instance{Publisher: 1, Epoch: 1}, events.Instance{Publisher: 2, Epoch: 1}
	x.remember(ended, formerStream{next: 5})
	x.remember(lost, formerStream{evicted: true, next: 7})
	x.drop(func(x formerStream) bool { return x.evicted })
	if _, ok := x.find(ended); !ok {
		t.Error("an ended stream was forgotten")
	}
	if _, ok := x.find(lost); ok {
		t.Error("a stream that was left is not forgotten")
	}
	if len(x.order) != 1 {
		t.Errorf("%d in the list, want 1", len(x.order))
	}
}

// upLog records the names of publishers when they come up.
type upLog struct {
	log
	names []string
}

func (l *upLog) StreamUp(st *Stream) { l.names = append(l.names, st.Origin().Name) }

// A publisher first received by a heartbeat comes up with its name. docs/protocol §5.6.
func TestPublisherComesUpWithItsName(t *testing.T) {
	l := new(upLog)
	r, err := NewReceiver(receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, Memory: &heap{}, Rand: newReceiver(t, new(log), nil).cfg.Rand}), l, l)
	if err != nil {
		t.Fatal(err)
	}
	r.SetWanted(true)
	r.Handle(1, 1, heartbeatOf(1, 0, wire.Heartbeat{SentAt: 1, Name: []byte("feed-a")}))
	r.Handle(1, 1, heartbeatOf(2, 0, wire.Heartbeat{SentAt: 1, Name: []byte("\x1b[31m")}))
	r.Handle(1, 1, data(3, 0, 0))
	want := []string{"feed-a", `"\x1b[31m"`, ""}
	if len(l.names) != len(want) {
		t.Fatalf("up: %q", l.names)
	}
	for i := range want {
		if l.names[i] != want[i] {
			t.Errorf("publisher %d comes up as %q, want %q", i, l.names[i], want[i])
		}
	}
}
