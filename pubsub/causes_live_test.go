package pubsub

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// Lost packets are counted for the right cause, and for no other: on the way, in the buffer of a socket, in a receive
// queue, or on purpose.
func TestDropsAreCountedByCause(t *testing.T) {
	for _, c := range []struct {
		cause, url, faults string
		asleep             bool // the subscriber's loop does not run while a burst arrives
	}{
		{"fabric", simURL(t) + "fabric?loss=0.05", "", false},
		{"injected", memURL(t), "loss=0.05", false},
		{"receive_queue_empty", simURL(t) + "rq?rq=16&groups=1", "", true},
		{"socket_overflow", "udp", "", true},
	} {
		t.Run(c.cause, func(t *testing.T) {
			if c.url == "udp" {
				c.url = udpURL(t) + "&rcvbuf=16K"
			}
			ctx := testContext(t)
			a, b := openBus(t, Config{FlowControl: FlowNone}, c.url), openBus(t, Config{Faults: c.faults}, c.url)
			p := publisher(t, a, "x")
			asleep, awake := make(chan bool), make(chan bool)
			sub, err := b.Handle("x", func(m Message, _ error) {
				if string(m.Data) == "sleep" {
					asleep <- true
					<-awake
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			wait(t, ctx, p, 1)
			dropped := func() map[string]uint64 {
				st, all := b.Stats(), make(map[string]uint64)
				for _, cause := range Causes() {
					if n, _ := cause.Dropped(&st); n > 0 {
						all[cause.Label] = n
					}
				}
				return all
			}
			for dropped()[c.cause] == 0 {
				if ctx.Err() != nil {
					t.Fatalf("no packet was dropped for cause %s, but %v", c.cause, dropped())
				}
				if c.asleep {
					publish(t, ctx, p, "sleep")
					if err := p.Flush(ctx); err != nil {
						t.Fatal(err)
					}
					<-asleep
				}
				for range 200 {
					publish(t, ctx, p, strings.Repeat("m", 1000))
				}
				if err := p.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				if c.asleep {
					awake <- true
				}
				time.Sleep(10 * time.Millisecond)
			}
			for settled := false; !settled && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				g := b.Stats().Groups[0]
				settled = g.Missing > 0 && g.Missing == g.Repaired+g.Late+g.Lost
			}
			all := dropped()
			for n := droppedInMinutes(b, c.cause); n != all[c.cause]; n = droppedInMinutes(b, c.cause) {
				if ctx.Err() != nil {
					t.Fatalf("the loss record has %d packets of cause %s, the counter %d", n, c.cause, all[c.cause])
				}
				all = dropped() // a heartbeat may have been dropped meanwhile
			}
			t.Logf("packets dropped by cause: %v", all)
			for cause := range maps.Keys(all) {
				if cause != c.cause && cause != "overrun" {
					t.Errorf("%d packets are counted as %s, and %d as %s, want only the latter", all[cause], cause, all[c.cause], c.cause)
				}
			}
		})
	}
}

// droppedInMinutes is the number of packets in the loss record with a cause.
func droppedInMinutes(b *Bus, cause string) (n uint64) {
	for _, m := range b.Losses().Minutes {
		for _, c := range m.Causes {
			if c.Cause == cause {
				n += c.Dropped
			}
		}
	}
	return n
}
