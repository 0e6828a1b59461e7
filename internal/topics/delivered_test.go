package topics

import (
	"math/rand/v2"
	"testing"

	"github.com/fanfaremq/fanfare/reliable"
)

// The number of delivered messages of a topic follows the subscribers' statuses, and never
// decreases, however often it is queried.
func TestDeliveredOn(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) { c.WindowPackets = 64 })
	x, y := b.topic("x"), b.topic("y")
	want := func(next, nx, ny uint64) {
		t.Helper()
		b.status(1, next, next+64, 0)
		for range 2 {
			if gx, gy := b.m.DeliveredOn(x), b.m.DeliveredOn(y); gx != nx || gy != ny {
				t.Fatalf("up to packet %d: %d of x, %d of y, want %d and %d", next, gx, gy, nx, ny)
			}
		}
	}
	send := func() { b.m.Assign(b.now, b.w, true); b.next() }
	want(0, 0, 0)
	b.put(x, 10)
	b.put(x, 10)
	b.put(y, 10)
	send() // packet 0: x 0 and 1, y 0
	want(0, 0, 0)
	b.put(x, 10)
	send() // packet 1: x 2
	b.put(y, 10)
	send() // packet 2: y 1
	want(1, 2, 1)
	want(2, 3, 1)
	want(3, 3, 2)
	b.put(x, 10)
	want(3, 3, 2) // in an open packet
	send()        // packet 3: x 3
	want(3, 3, 2)
	want(4, 4, 2)

	// A message of several packets counts once it is complete.
	large := make([]byte, 1500)
	for off := 0; off < len(large); {
		n := b.w.AppendFragment(x, large, off, 0)
		if n == off {
			send()
			b.s.Grant(b.w.Packets)
		}
		off = n
	}
	send()
	last := b.s.Lead()
	want(last-1, 4, 2)
	want(last, 5, 2)
}

// docs/protocol §7.5: what members have only increases; the count by topic follows the count by
// packets, in any order of queries.
func TestDeliveredOnRandomly(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	b := newBench(t, func(c *reliable.SenderConfig) { c.WindowPackets = 64 })
	topics := []*Topic{b.topic("x"), b.topic("y"), b.topic("z")}
	var ends [][]uint64 // for each packet: messages of each topic up to its end
	have := uint64(0)
	b.status(1, 0, 64, 0)
	for range 5000 {
		switch {
		case rng.IntN(3) > 0 && b.s.Room() > 0:
			for range rng.IntN(4) + 1 {
				b.put(topics[rng.IntN(3)*rng.IntN(2)], 10)
			}
			b.m.Assign(b.now, b.w, true)
			b.next()
			var end []uint64
			for _, t := range topics {
				end = append(end, t.Next())
			}
			ends = append(ends, end)
		case have < b.s.Lead():
			have += rng.Uint64N(b.s.Lead()-have) + 1
			b.status(1, have, have+64, 0)
		}
		if int(b.s.Lead()) != len(ends) {
			t.Fatalf("%d packets, want %d", b.s.Lead(), len(ends))
		}
		if i := rng.IntN(5); i < 3 && have > 0 {
			if got, want := b.m.DeliveredOn(topics[i]), ends[have-1][i]; got != want {
				t.Fatalf("%d of topic %d delivered with %d packets, want %d", got, i, have, want)
			}
		}
	}
}

// Appended messages that were not sent are counted, at any stage. docs/protocol §11.1.
func TestUnsentMessages(t *testing.T) {
	b := newBench(t, nil)
	x, y := b.topic("x"), b.topic("y")
	b.s.Grant(b.w.Packets)
	check := func(when string, want uint64) {
		t.Helper()
		if n := b.m.UnsentMessages() + b.w.UnsentMessages(); n != want {
			t.Errorf("%s: %d messages, want %d", when, n, want)
		}
	}
	check("nothing", 0)
	for range 3 {
		b.put(x, 10)
	}
	b.put(y, 0)
	b.put(x, 10)
	check("in the open packet", 5)
	b.put(y, 400) // in the next packet
	check("in two packets", 6)
	b.m.Assign(b.now, b.w, true)
	if n := b.w.UnsentMessages(); n != 0 {
		t.Errorf("%d messages remain in the writer", n)
	}
	check("with sequences", 6)
	b.next()
	check("sent", 0)
	b.s.Grant(b.w.Packets)
	msg := make([]byte, 600)
	at := b.w.AppendFragment(x, msg, 0, 0)
	check("a fragment", 0)
	if at = b.w.AppendFragment(x, msg, at, 0); at < len(msg) {
		t.Fatalf("%d bytes of %d were written", at, len(msg))
	}
	check("the last one", 1)
	b.m.Assign(b.now, b.w, true)
	check("with its sequence", 1)
	b.next()
	check("sent, too", 0)
}
