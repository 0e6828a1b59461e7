package sim

import (
	"testing"
	"time"
)

// Packets that lie unread in the receive buffer are not requested: with a subscriber at nine tenths of its capacity,
// after it was stopped with much left to read, and with more data than it can read. In that case its buffer is never
// empty; it still requests lost packets, and loses nothing. docs/protocol §6.15.
func TestUnreadPacketsAreNotRequested(t *testing.T) {
	for _, c := range []struct {
		name    string
		service time.Duration // a packet arrives every 20 µs
		pauses  int
	}{
		{"nine tenths of the capacity", 18 * time.Microsecond, 0},
		{"repeatedly stopped", 18 * time.Microsecond, 5},
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
			t.Logf("%.2f repairs for each of %d lost packets; repair time p50 %v p99 %v", r.RepairsPerLoss(), r.LostPackets, r.RepairTime(50), r.RepairTime(99))
			if r.RepairsPerLoss() > 1.05 {
				t.Error("want at most 1.05 repairs for each lost packet")
			}
			if r.Receiver.Lost+r.Net.Overflowed > 0 || r.Messages != 400_000 {
				t.Errorf("%d packets lost permanently, %d overflowed the buffer, %d messages delivered, want none, none and 400,000", r.Receiver.Lost, r.Net.Overflowed, r.Messages)
			}
		})
	}
}

// Half of the receive buffer is reserved for repairs and heartbeats, even with one group: data up
// to the advertised window of a slow subscriber never overflows it. docs/protocol §7.3.
func TestReceiveBufferHasRoomForRepairs(t *testing.T) {
	o := Simple(3, 1, 100_000)
	o.Net.Loss, o.Publishers[0].Window = 5*Percent, 4096
	s := &o.Subscribers[0]
	s.Buffer, s.Batch, s.Window, s.Memory, s.Service = 256, 16, 8<<20, 8<<20, 50*time.Microsecond
	for i := range 20 {
		s.Pauses = append(s.Pauses, Pause{At: time.Duration(10+15*i) * time.Millisecond, For: 5 * time.Millisecond})
	}
	r := mustRun(t, o)
	t.Logf("%d packets overflowed the buffer, %.2f repairs for each lost packet", r.Net.Overflowed, r.RepairsPerLoss())
	if r.Net.Overflowed > 0 || r.Receiver.Lost > 0 {
		t.Errorf("%d packets overflowed the buffer, %d lost permanently, want none", r.Net.Overflowed, r.Receiver.Lost)
	}
}
