package sim

import (
	"testing"
	"time"
)

// The leg within the host brings heartbeats and no data for two seconds, while the other one is muted: that is heard soon,
// and all the time. Nothing is lost while the publisher still has it, and where it does not, no more than until the other leg
// is heard. Repairs of what was kept out wait for their share of the data. docs/protocol.md §6.11, §23.12.
func TestLocalLegBringsNoData(t *testing.T) {
	for _, c := range []struct {
		name   string
		flow   Flow
		window int
		most   uint64        // packets lost at each
		late   time.Duration // the longest that a message takes
	}{
		{"the publisher waits", FlowMin, 1024, 0, 80 * time.Millisecond},
		{"it does not, and has a large window", FlowNone, 1024, 0, 80 * time.Millisecond},
		{"it does not, and has a small window", FlowNone, 16, 10, 80 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := twoLegs(100_000)
			p := &o.Publishers[0]
			p.Gap, p.Flow, p.Window = time.Millisecond, c.flow, c.window // 5 s
			o.Local = 2
			o.Cuts = []Cut{{At: time.Second, For: 2 * time.Second, Leg: 2, Publisher: -1, Subscribers: 3, Down: true, Data: true}}
			r := mustRun(t, o)
			t.Logf("%d packets sent, %d kept out, %d times muted, %d asked for, %d lost, the latest message after %v", r.Sender.PacketsSent, r.KeptOut, r.Muted, r.Asked, r.Receiver.Lost, r.Latency(100))
			if r.Receiver.Lost > 2*c.most || r.Messages+r.GapMessages < 2*100_000 || r.Latency(100) > c.late {
				t.Errorf("%d messages came and %d packets are lost, %d at most; one took %v", r.Messages, r.Receiver.Lost, 2*c.most, r.Latency(100))
			}
			// Each subscriber mutes the leg at first, and again when there is data. What it keeps out then is three fifths.
			if all := 2 * r.Sender.PacketsSent; r.Muted != 4 || r.KeptOut < all/2 || r.LegsDown > 0 {
				t.Errorf("muted %d times, %d packets of %d are kept out, %d legs are told silent", r.Muted, r.KeptOut, all, r.LegsDown)
			}
		})
	}
}
