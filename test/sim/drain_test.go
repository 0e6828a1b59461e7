package sim

import (
	"testing"
	"time"
)

// What lies unread in a receive buffer is not asked for, be it that the subscriber works at nine tenths of what it
// can, that it was stopped and has much to read, or that more is published than it can read: then its buffer is never
// empty. It asks nevertheless, and loses nothing.
// docs/protocol §6.15.
func TestWhatLiesUnreadIsNotAskedFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		service time.Duration // a packet comes every 20 µs
		pauses  int
	}{
		{"at nine tenths", 18 * time.Microsecond, 0},
		{"stopped now and then", 18 * time.Microsecond, 5},
		{"saturated", 25 * time.Microsecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Simple(3, 1, 400_000)
			o.Net.Loss, o.Publishers[0].Window = Percent, 4096
			s := &o.Subscribers[0]
			s.Buffer, s.Batch, s.Window, s.Memory, s.Service = 8192, 16, 8<<20, 8<<20, c.service
			for range c.pauses {
				s.Pauses = append(s.Pauses, Pause{At: 10*time.Millisecond + time.Duration(len(s.Pauses))*60*time.Millisecond, For: 30 * time.Millisecond})
			}
			r := mustRun(t, o)
			t.Logf("%.2f repairs a lost packet, of %d; repaired after p50 %v p99 %v", r.RepairsPerLoss(), r.LostPackets, r.RepairTime(50), r.RepairTime(99))
			if r.RepairsPerLoss() > 1.05 {
				t.Error("want at most 1.05 repairs a lost packet")
			}
			if r.Receiver.Lost+r.Net.Overflowed > 0 || r.Messages != 400_000 {
				t.Errorf("%d packets lost permanently, %d came to a full buffer, %d messages delivered", r.Receiver.Lost, r.Net.Overflowed, r.Messages)
			}
		})
	}
}

// Half of a receive buffer is left to repairs and heartbeats, also where there is one group only: a subscriber that is
// slower than its publisher fills what it promises, and loses nothing of the rest.
// docs/protocol §7.3.
func TestReceiveBufferHasRoomForRepairs(t *testing.T) {
	o := Simple(3, 1, 100_000)
	o.Net.Loss, o.Publishers[0].Window = 5*Percent, 4096
	s := &o.Subscribers[0]
	s.Buffer, s.Batch, s.Window, s.Memory, s.Service = 256, 16, 8<<20, 8<<20, 50*time.Microsecond
	for i := range 20 {
		s.Pauses = append(s.Pauses, Pause{At: time.Duration(10+15*i) * time.Millisecond, For: 5 * time.Millisecond})
	}
	r := mustRun(t, o)
	t.Logf("%d came to a full buffer, %.2f repairs a lost packet", r.Net.Overflowed, r.RepairsPerLoss())
	if r.Net.Overflowed > 0 || r.Receiver.Lost > 0 {
		t.Errorf("%d packets came to a full buffer, %d were lost permanently", r.Net.Overflowed, r.Receiver.Lost)
	}
}
