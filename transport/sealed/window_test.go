package sealed

import (
	"math"
	"slices"
	"testing"
)

// Packets that count as received, and packets that restart the window of a sender. docs/protocol §27.6, §27.9.
func TestWindow(t *testing.T) {
	const far = 1 << 20
	type step struct {
		arrival
		want bool // accepted
	}
	at := func(counter uint64, stated, at int64, want bool) step {
		return step{arrival{counter, stated, at}, want}
	}
	for name, steps := range map[string][]step{
		"in order":                          {at(0, 100, 0, true), at(1, 100, 0, true), at(2, 101, 1, true)},
		"twice":                             {at(7, 100, 0, true), at(7, 100, 0, false), at(7, 100, 9, false)},
		"out of order":                      {at(7, 100, 0, true), at(5, 100, 0, true), at(6, 100, 0, true), at(5, 100, 0, false)},
		"far ahead, and counters before":    {at(7, 100, 0, true), at(far, 100, 0, true), at(8, 100, 0, false), at(far-1, 100, 0, true)},
		"as late as the window allows":      {at(windowPackets, 100, 0, true), at(1, 100, 0, true), at(windowPackets+2, 100, 0, true), at(2, 100, 0, false), at(3, 100, 0, true)},
		"lower, later, of an active sender": {at(far, 100, 0, true), at(far+1, 101, 2, true), at(1, 103, 4, false), at(1, 104, 5, true)},
		"lower, in the same second":         {at(far, 100, 0, true), at(1, 100, 9, false), at(1, 99, 9, false), at(1, 101, 9, true)},
		"from before the restart":           {at(far, 100, 0, true), at(1, 101, 9, true), at(far, 100, 9, false), at(far+1, 100, 9, false), at(0, 100, 9, false), at(2, 101, 9, true), at(0, 101, 9, true)},
		"the same again, later":             {at(5, 100, 0, true), at(6, 100, 0, true), at(5, 103, 3, true), at(6, 103, 3, true), at(6, 103, 3, false)},
		"the highest counter":               {at(7, 100, 0, true), at(math.MaxUint32, 130, 0, true), at(8, 101, 1, false), at(9, 130, 30, false), at(10, 131, 31, true), at(11, 131, 31, true)},
		"two, each with a future time":      {at(math.MaxUint32, 130, 0, true), at(math.MaxUint32-1, 160, 1, true), at(8, 131, 31, false), at(8, 161, 61, true)},
		"the highest, repeatedly":           {at(math.MaxUint32-9, 100, 0, true), at(1, 101, 1, false), at(math.MaxUint32-8, 100, 2, true), at(2, 104, 4, false), at(3, 105, 5, true)},
		"no higher counter is refused":      {at(7, 100, 0, true), at(8, 50, 0, true), at(9, 20, 0, true)},
		"of a restored sender":              {at(100, 100, 0, true), at(101, 101, 1, true), at(50, 110, 10, true), at(51, 110, 10, true), at(100, 111, 11, true), at(101, 111, 11, true)},
	} {
		t.Run(name, func(t *testing.T) {
			var w window
			for i, s := range steps {
				if got := !w.seen(s.arrival); got != s.want {
					t.Fatalf("step %d, %+v: accepted %v, want %v", i, s.arrival, got, s.want)
				}
				if s.want {
					if w.record(s.arrival); !w.seen(s.arrival) {
						t.Fatalf("step %d, %+v: accepted, but does not count as received", i, s.arrival)
					}
				}
			}
		})
	}
}

// The window agrees with a plain list of all received counters.
func TestWindowCounters(t *testing.T) {
	var w window
	received := make(map[uint64]bool)
	next := uint64(0)
	random := newPCG(t)
	for range 200_000 {
		c := next + random.Uint64N(50)
		switch random.IntN(100) {
		case 0:
			c = next + random.Uint64N(3*windowPackets)
		case 1, 2:
			c = next - min(next, random.Uint64N(2*windowPackets))
		default:
			c = c - min(c, 40)
		}
		want := received[c] || c+windowPackets < next
		if got := w.has(c); got != want {
			t.Fatalf("counter %d, next %d: received %v, want %v", c, next, got, want)
		}
		if !want {
			w.add(c)
			received[c] = true
			next = max(next, c+1)
		}
	}
}

// No packet is accepted twice, whether it is from the sender, replayed or made by a key holder, with any counter and
// time, in any order. docs/protocol §27.6.
func TestWindowAcceptsNothingTwice(t *testing.T) {
	random := newPCG(t)
	type packet struct {
		counter uint64
		stated  int64
	}
	for range 60 {
		var w window
		var sent []packet
		received := make(map[packet]bool)
		clock, elapsed, next, twice, begun := int64(1000), int64(0), uint64(0), 0, 0
		for range 20_000 {
			if random.IntN(50) == 0 {
				d := random.Int64N(5)
				clock, elapsed = clock+d, elapsed+d
			}
			var p packet
			switch random.IntN(8) {
			case 0, 1: // a packet sent before
				if len(sent) == 0 {
					continue
				}
				p = sent[len(sent)-1-random.IntN(len(sent))]
			case 2: // made by a key holder
				p = packet{random.Uint64N(2*next + 1), clock + random.Int64N(600) - 300}
				if random.IntN(4) == 0 {
					p.counter = random.Uint64N(1 << 32)
				}
				sent = append(sent, p)
			default:
				p = packet{next, clock}
				next++
				switch random.IntN(2000) {
				case 0: // the sender is restored
					next -= random.Uint64N(next + 1)
				case 1:
					next += random.Uint64N(3 * windowPackets)
				}
				sent = append(sent, p)
			}
			a := arrival{p.counter, p.stated, elapsed}
			if w.seen(a) {
				if received[p] {
					twice++
				}
				continue
			}
			if received[p] {
				t.Fatalf("%+v is accepted twice", p)
			}
			if w.has(p.counter) {
				begun++
			}
			w.record(a)
			received[p] = true
		}
		if twice == 0 || begun == 0 {
			t.Fatalf("%d arrived twice, the window restarted %d times: too few for this test", twice, begun)
		}
	}
}

// Replays by an attacker without a key, in any order and number, cause no packet of the sender to be refused, whichever
// of them are lost, in bursts of any length, reordered, or sent to other receivers (as replies are). docs/protocol
// §27.9.
func TestReplayCausesNoRefusal(t *testing.T) {
	random := newPCG(t)
	for round := range 50 {
		var w window
		clock, elapsed := int64(1000), int64(0)
		var sent, late []arrival
		received, played := 0, 0
		gap, burst := 1+random.IntN(2*windowPackets), 1+random.IntN(64)
		open := func(a arrival) bool {
			a.at = elapsed
			if w.seen(a) {
				return false
			}
			w.record(a)
			return true
		}
		for next := uint64(0); received < 3000; {
			if random.IntN(20) == 0 {
				d := random.Int64N(8)
				clock, elapsed = clock+d, elapsed+d
			}
			for range burst {
				a := arrival{next, clock, 0}
				next++
				sent = append(sent, a)
				if random.IntN(10) == 0 {
					late = append(late, a)
					continue
				}
				if !open(a) {
					t.Fatalf("round %d: packet %d of the sender is refused", round, a.counter)
				}
				received++
			}
			for range gap { // lost, or for others: the attacker has recorded them
				if random.IntN(64) == 0 {
					sent = append(sent, arrival{next, clock, 0})
				}
				next++
			}
			for _, a := range late { // no late packet is replayed before it arrives, because then the replay would count as received
				if a.counter+windowPackets >= w.next && !open(a) {
					t.Fatalf("round %d: the late packet %d of the sender is refused", round, a.counter)
				}
			}
			late = late[:0]
			for range random.IntN(200) {
				if open(sent[random.IntN(len(sent))]) {
					played++
				}
			}
		}
		if round == 0 {
			t.Logf("%d of the sender and %d replays accepted", received, played)
		}
	}
}

// Latest holds exactly the entries that were added last, whichever were added again or dropped in between.
func TestLatest(t *testing.T) {
	random := newPCG(t)
	const maximum = 20
	l := newLatest[int](maximum)
	var want []named[int] // the oldest first
	for i := range 20_000 {
		name := sender{1, byte(random.IntN(40))}
		want = slices.DeleteFunc(want, func(x named[int]) bool { return x.name == name })
		switch random.IntN(1000) {
		case 0:
			l.clear()
			want = nil
		default:
			if i%5 == 0 {
				l.drop(name)
				break
			}
			l.add(name, i)
			want = append(want, named[int]{name, i})
			want = want[max(0, len(want)-maximum):]
		}
		for _, x := range want {
			if got, there := l.get(x.name); !there || got != x.v {
				t.Fatalf("step %d: %v is %d, %v; want %d", i, x.name, got, there, x.v)
			}
		}
		if len(l.all) != len(want) || l.order.Len() != len(want) {
			t.Fatalf("step %d: %d entries, %d in order, want %d", i, len(l.all), l.order.Len(), len(want))
		}
	}
}
