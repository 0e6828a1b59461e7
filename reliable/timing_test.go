package reliable

import (
	"reflect"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A publisher announces the packet that it will time, records when it first passes the packet to the
// transport, whether accepted or not, and sends the time in the next heartbeat. docs/protocol §5.11.
func TestSenderTimesPackets(t *testing.T) {
	var wall uint64 = 5000
	b := newBench(t, func(c *SenderConfig) {
		c.Flow = NoFlow{}
	})
	b.s.SetClock(Clock{ID: 77, Now: func() uint64 { return wall }})
	beat := func() wire.Timing {
		t.Helper()
		b.now = b.now.Add(slowHeartbeat)
		hb, err := wire.ParseHeartbeat(of(wire.TypeHeartbeat, b.next())[0].b)
		if err != nil {
			t.Fatal(err)
		}
		return hb.Timing
	}
	if got, want := beat(), (wire.Timing{Clock: 77}); got != want {
		t.Errorf("initially %+v, want %+v", got, want)
	}
	b.publish(1)
	wall = 6000
	b.publish(2)
	got := beat()
	if got.Clock != 77 || got.Packet != 0 || got.At != 5000 || got.Next < 3 || got.Next > 3+uint64(b.s.heartbeat.rate.value*timingAhead.Seconds()) {
		t.Errorf("after packets 0 to 2 %+v, want packet 0 at 5000, and next 3 or slightly more", got)
	}
	if again := beat(); again != got && again.Next > got.Next {
		t.Errorf("without new packets %+v, want %+v, or less far ahead", again, got)
	}
	b = newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	if got := beat(); got != (wire.Timing{}) {
		t.Errorf("without a clock %+v", got)
	}
}

// A packet announced far ahead is announced again when packets are slow. docs/protocol §5.11.
func TestTimingAhead(t *testing.T) {
	x := sendTimer{clock: Clock{ID: 1, Now: func() uint64 { return 9 }}}
	x.said.Next = 1 << 20
	if got := x.timing(12345, 100, 1000); got.Next < 100 || got.Next > 105 {
		t.Errorf("next is %d, want 100 to 105", got.Next)
	}
	before := x.said.Next
	if got := x.timing(99999, 100, 1000); got.Next != before {
		t.Errorf("next is %d, want %d again", got.Next, before)
	}
	x.leaves(100, 5)
	if x.at != 9 && before < 105 {
		t.Error("the packet was sent, but not timed")
	}
	if got := x.timing(99999, 100, 1000); got.Next != before || got.At != 0 {
		t.Errorf("a packet not yet accepted by the transport: %+v", got)
	}
	if got := x.timing(99999, 103, 1000); before < 103 && got.Next < 105 {
		t.Errorf("next is %d, but up to 104 packets were sent before it was announced", got.Next)
	}
	x = sendTimer{clock: x.clock, said: wire.Timing{Next: before}, at: 9, handed: 105}
	if got := x.timing(99999, 110, 1000); got.Packet != before || got.At != 9 || got.Next < 110 {
		t.Errorf("a packet that was sent: %+v", got)
	}
}

// timingStep is an input of a receiver in a test of timings.
type timingStep struct {
	wall   uint64       // time
	data   int          // number of packets from seq on, one message each
	seq    uint64       // the first of them
	timing *wire.Timing // or a heartbeat with this timing
}

// lead is the lead of the step's heartbeat: the timed packet exists.
func (s *timingStep) lead() uint64 {
	if s.timing.At == 0 || s.timing.Packet == ^uint64(0) {
		return 0
	}
	return s.timing.Packet + 1
}

// Delivery times are reported between equal clocks. docs/protocol §5.12.
func TestDeliveriesAreTimed(t *testing.T) {
	const ms = uint64(time.Millisecond)
	type step = timingStep
	beat := func(wall uint64, clock, packet, at, next uint64) step {
		return step{wall: wall, timing: &wire.Timing{Clock: clock, Packet: packet, At: at, Next: next}}
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  []time.Duration
		apart uint64
	}{
		{"reported after the delivery", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 1*ms, 1)}, []time.Duration{2 * time.Millisecond}, 0},
		{"reported before it", []step{beat(1*ms, 7, 0, 0, 1), {wall: 2 * ms, data: 1, seq: 1}, beat(4*ms, 7, 1, 2*ms, 2), {wall: 9 * ms, data: 1, seq: 0}}, []time.Duration{7 * time.Millisecond}, 0},
		{"reported twice", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 1*ms, 1), beat(5*ms, 7, 0, 1*ms, 1)}, []time.Duration{2 * time.Millisecond}, 0},
		{"another clock", []step{beat(1*ms, 8, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 8, 0, 1*ms, 1)}, nil, 0},
		{"not announced before", []step{{wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 1*ms, 1)}, nil, 0},
		{"not timed", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 0, 1)}, nil, 0},
		{"the heartbeat with the time is lost", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 2}, beat(4*ms, 7, 1, 2*ms, 2), {wall: 5 * ms, data: 1, seq: 2}, beat(6*ms, 7, 2, 3*ms, 3)}, []time.Duration{2 * time.Millisecond}, 0},
		{"another one is announced instead", []step{beat(1*ms, 7, 0, 0, 9), beat(2*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 1*ms, 1)}, []time.Duration{2 * time.Millisecond}, 0},
		{"the clock goes backwards", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 5*ms, 1)}, nil, 1},
		{"immediate", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3 * ms, data: 1}, beat(4*ms, 7, 0, 3*ms, 1)}, []time.Duration{0}, 0},
		{"longest", []step{beat(1*ms, 7, 0, 0, 0), {wall: 3*ms + uint64(maxDelivery), data: 1}, beat(4*ms, 7, 0, 3*ms, 1)}, []time.Duration{maxDelivery}, 0},
		{"too long", []step{beat(1*ms, 7, 0, 0, 0), {wall: 4*ms + uint64(maxDelivery), data: 1}, beat(4*ms, 7, 0, 3*ms, 1)}, nil, 1},
		{"the highest sequence", []step{beat(1*ms, 7, 0, 0, ^uint64(0)), {wall: 3 * ms, data: 3}, beat(4*ms, 7, 0, ^uint64(0), 3), {wall: 5 * ms, data: 1, seq: 3}, beat(6*ms, 7, 3, 5*ms, 4)}, []time.Duration{0}, 0},
	} {
		l, wall, sentAt := new(log), uint64(0), uint64(0)
		r := newReceiver(t, l, nil)
		r.SetClock(Clock{ID: 7, Now: func() uint64 { return wall }})
		r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: 1}))
		for _, s := range c.steps {
			wall, sentAt = s.wall, sentAt+2
			if s.timing != nil {
				r.Handle(Instant(sentAt), 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: s.lead(), SentAt: sentAt, Interval: time.Second, Timing: *s.timing}))
			}
			for i := range s.data {
				r.Handle(Instant(sentAt), 5, data(3, s.seq+uint64(i), 0))
			}
		}
		if !reflect.DeepEqual(l.timed, c.want) || r.Stats().ClocksApart != c.apart {
			t.Errorf("%s: %v, %d apart; want %v, %d", c.name, l.timed, r.Stats().ClocksApart, c.want, c.apart)
		}
	}
}

// A stalled stream stores a limited number of timed packets, and reports the first ones when it continues.
func TestTimingsAreBounded(t *testing.T) {
	l, wall := new(log), uint64(1000)
	r := newReceiver(t, l, nil)
	r.SetClock(Clock{ID: 7, Now: func() uint64 { return wall }})
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: 1, Timing: wire.Timing{Clock: 7, Next: 1}}))
	for seq := uint64(1); seq < 30; seq++ {
		r.Handle(Instant(seq+1), 5, data(3, seq, 0))
		r.Handle(Instant(seq+1), 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: seq + 1, SentAt: seq + 1, Interval: time.Second, Timing: wire.Timing{Clock: 7, Packet: seq, At: seq, Next: seq + 1}}))
	}
	if len(l.timed) > 0 {
		t.Fatalf("%v before packet 0 has arrived", l.timed)
	}
	r.Handle(40, 5, data(3, 0, 0))
	if len(l.timed) != timingsKept || l.timed[0] != 999 {
		t.Errorf("%d deliveries are reported, the first took %d ns; want %d and 999", len(l.timed), l.timed[0], timingsKept)
	}
}

// Forged timings of nonexistent packets do not prevent the timing of existing ones. docs/protocol §5.12.
func TestForgedTimings(t *testing.T) {
	const far = uint64(1) << 60
	for name, forged := range map[string][]wire.Heartbeat{
		"sent, but nonexistent":                  {{Timing: wire.Timing{Next: far}}, {Timing: wire.Timing{Packet: far, At: 1, Next: far + 1}}},
		"the packet at the lead":                 {{Timing: wire.Timing{Next: 50}}, {Lead: 50, Timing: wire.Timing{Packet: 50, At: 1, Next: 51}}},
		"next is one that exists already":        {{Lead: 40, Timing: wire.Timing{Next: 39}}, {Lead: 40, Timing: wire.Timing{Packet: 39, At: 1, Next: 38}}},
		"next is far ahead, and announced again": {{Timing: wire.Timing{Next: far}}, {Timing: wire.Timing{Next: far}}},
	} {
		l, wall, sentAt := new(log), uint64(1000), uint64(1)
		r := newReceiver(t, l, nil)
		r.SetClock(Clock{ID: 7, Now: func() uint64 { return wall }})
		beat := func(hb wire.Heartbeat) {
			sentAt++
			hb.SentAt, hb.Interval, hb.Timing.Clock = sentAt, time.Second, 7
			r.Handle(Instant(sentAt), 5, heartbeatOf(3, 0, hb))
		}
		beat(wire.Heartbeat{})
		for _, hb := range forged {
			beat(hb)
		}
		beat(wire.Heartbeat{Timing: wire.Timing{Next: 0}})
		for seq := range uint64(60) {
			wall++
			r.Handle(Instant(sentAt), 5, data(3, seq, 0))
			beat(wire.Heartbeat{Lead: seq + 1, Timing: wire.Timing{Packet: seq, At: wall - 1, Next: seq + 1}})
		}
		if len(l.timed) != 60 {
			t.Errorf("%s: %d of 60 deliveries were timed", name, len(l.timed))
		}
	}
}
