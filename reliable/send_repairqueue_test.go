package reliable

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// A receiver that requests the oldest packets repeatedly, because no repair reaches it or as an attack, delays no
// repair of another one, whatever flow control is used and whatever id it claims. docs/protocol §6.6.
func TestRepeatedRequestsDelayNoMember(t *testing.T) {
	const window = 4096
	for name, c := range map[string]struct {
		flow     FlowControl
		members  bool
		pretends func(i uint64) uint64 // id of the requesting receiver
	}{
		"not a member":         {NoFlow{}, false, func(uint64) uint64 { return 666 }},
		"min":                  {MinFlow{}, true, func(uint64) uint64 { return 666 }},
		"another id each time": {NoFlow{}, true, func(i uint64) uint64 { return 1000 + i }},
		"as the victim":        {NoFlow{}, true, func(uint64) uint64 { return 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c2 *SenderConfig) {
				c2.PacketSize, c2.MaxTrain, c2.MaxTrainBytes, c2.WindowPackets, c2.Flow = 1472, 44, 65000, window, c.flow
			})
			x := b.topic("a.b")
			for range window {
				b.put(x, 1300)
				b.s.Assign(b.now, b.w, true)
				b.next()
				b.now = b.now.Add(10 * time.Microsecond)
			}
			b.now = b.now.Add(time.Second) // the budget is the minimum
			wanted := b.s.win.sent - 1
			if c.members {
				b.status(1, wanted, wanted+window, 0)
			}
			start, repairs := b.now, 0
			for i := uint64(0); ; i++ {
				if i%20 == 0 {
					b.nak(c.pretends(i), [2]uint64{b.s.win.trail, 500})
				}
				if i%200 == 10 {
					b.nak(1, [2]uint64{wanted, 1})
				}
				for _, p := range of(wire.TypeData, b.next()) {
					repairs++
					if p.seq() == wanted {
						// All first repairs may be sent before, at half the budget each.
						if d, most := b.now.Sub(start), 2*500*1472*startRTT/repairBurst; d > most {
							t.Errorf("repaired after %v and %d other repairs, want at most %v", d, repairs, most)
						}
						return
					}
				}
				if b.now = b.now.Add(100 * time.Microsecond); b.now.Sub(start) > 2*time.Second {
					t.Fatalf("not repaired within the deadline, after %d other repairs", repairs)
				}
			}
		})
	}
}

// A subscriber that loses nearly everything requests more than the budget. Another one, which loses one packet in a
// hundred and one repair in ten, gets all repairs before they leave the window. docs/protocol §6.6.
func TestBrokenSubscriberGetsItsShareOfRepairs(t *testing.T) {
	const window = 1024
	b := newBench(t, func(c *SenderConfig) {
		c.PacketSize, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets, c.Flow = 1472, 4, 4*1472, window, NoFlow{}
	})
	rng := rand.New(rand.NewPCG(1, 1))
	b.status(1, 0, window, 0)
	b.status(666, 0, window, 0)
	x := b.topic("a.b")
	missing := make(map[uint64]bool)
	got, gone, bytes, start := 0, 0, 0, b.now
	for b.now.Sub(start) < 2*time.Second { // 30 MB/s, half of it for repairs
		b.put(x, 1300)
		b.s.Assign(b.now, b.w, true)
		b.now = b.now.Add(50 * time.Microsecond)
		for _, p := range of(wire.TypeData, b.next()) {
			switch seq := p.seq(); {
			case p.Flags&wire.FlagRepair == 0:
				if rng.IntN(100) == 0 {
					missing[seq] = true
				}
			default:
				bytes += len(p.b)
				if missing[seq] && rng.IntN(10) > 0 {
					delete(missing, seq)
					got++
				}
			}
		}
		for seq := range missing {
			if seq < b.s.win.trail {
				delete(missing, seq)
				gone++
			} else if b.s.win.sent%20 == 0 {
				b.nak(1, [2]uint64{seq, 1})
			}
		}
		if b.s.win.sent%20 == 10 { // everything, each millisecond
			b.nak(666, [2]uint64{b.s.win.trail, b.s.win.sent - b.s.win.trail})
		}
	}
	if gone > 0 || got < 200 {
		t.Errorf("%d repairs arrived, %d packets were gone before", got, gone)
	}
	if bytes < 20<<20 {
		t.Errorf("%d bytes of repairs: the budget was not exhausted", bytes)
	}
}

// Each subscriber has a queue of its own as long as there are enough. docs/protocol §6.6.
func TestSubscribersShareFewQueues(t *testing.T) {
	b := newBench(t, nil)
	const own = repairQueues - memberQueues
	have := func() (most int) {
		var n [repairQueues]int
		for _, m := range b.s.members.list {
			n[m.queue]++
			most = max(most, n[m.queue])
		}
		if n != b.s.members.queued {
			t.Fatalf("the queues have %v subscribers, counted %v", n, b.s.members.queued)
		}
		return most
	}
	id := uint64(0)
	for range own {
		id++
		b.status(id, 0, 100, 0)
	}
	for range 100 { // one leaves, another one joins
		b.status(id, 0, 100, wire.FlagLeaving)
		id++
		b.status(id, 0, 100, 0)
		if n := have(); n != 1 {
			t.Fatalf("%d share a queue", n)
		}
	}
	for range own {
		id++
		b.status(id, 0, 100, 0)
	}
	if n := have(); n != 2 {
		t.Errorf("%d share a queue, want 2", n)
	}
}

// With random requests, transmissions, and packets that leave the window, the queues know what
// waits in them, and nothing waits while there is budget.
func TestRandomRepairs(t *testing.T) {
	first, last := uint64(1), uint64(300)
	if env := os.Getenv("FANFARE_SEED"); env != "" {
		seed, err := strconv.ParseUint(env, 0, 64)
		if err != nil {
			t.Fatalf("FANFARE_SEED: %v", err)
		}
		first, last = seed, seed
	}
	for seed := first; seed <= last; seed++ {
		if randomRepairs(t, seed); t.Failed() {
			t.Fatalf("FANFARE_SEED=%d go test ./reliable -run TestRandomRepairs", seed)
		}
	}
}

func randomRepairs(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x5e9d))
	b := newBench(t, func(c *SenderConfig) { c.WindowPackets, c.Flow = 16<<rng.IntN(5), NoFlow{} })
	for id := range uint64(40) {
		b.status(id, 0, 1000, 0)
	}
	var tr transport.Outbound
	for range 500 {
		switch k := rng.IntN(11); {
		case k < 1:
			x := b.s.repairs.budget.bus
			x.window, x.burst, x.tokens, x.earned = 1<<20, 1<<20, 1<<20, 1<<20
			b.next()
			if b.s.repairs.count > 0 {
				t.Errorf("%d packets wait without a reason", b.s.repairs.count)
			}
		case k < 4:
			b.assign(1 + rng.IntN(4))
		case k < 7:
			seq := b.s.win.sent - min(b.s.win.sent, rng.Uint64N(uint64(len(b.s.win.index))))
			b.nak(rng.Uint64N(50), [2]uint64{seq, 1 + rng.Uint64N(6)})
		case k < 8:
			b.s.repairs.budget.bus.tokens = float64(rng.IntN(4 * 512)) // often too low
			b.s.repairs.budget.bus.earned = float64(rng.IntN(4 * 512))
		case k < 9:
			b.now = b.now.Add(time.Duration(rng.IntN(400)) * time.Microsecond)
		default:
			for b.s.Next(b.now, &tr) {
				n := tr.Count
				if rng.IntN(5) == 0 {
					n = rng.IntN(n + 1)
				}
				taken := n == tr.Count
				if b.s.Sent(b.now, n, b.s.out.posted+uint64(n)); !taken {
					break
				}
			}
		}
		var count [repairQueues]int
		all := 0
		for seq := b.s.win.next - min(b.s.win.next, uint64(len(b.s.win.index))); seq < b.s.win.next; seq++ {
			q := b.s.win.index[seq&b.s.win.mask].queues
			if q == 0 {
				continue
			}
			if seq < b.s.win.trail || seq >= b.s.win.sent {
				t.Errorf("packet %d waits, the window is %d to %d", seq, b.s.win.trail, b.s.win.sent)
			}
			all++
			for ; q != 0; q &= q - 1 {
				count[bits.TrailingZeros32(q)]++
			}
		}
		if all != b.s.repairs.count {
			t.Errorf("%d packets wait, counted %d", all, b.s.repairs.count)
		}
		for i := range count {
			if q := &b.s.repairs.queues[i]; q.count != count[i] || b.s.repairs.active>>i&1 != uint32(min(1, count[i])) {
				t.Errorf("%d packets wait in queue %d, counted %d, active %b", count[i], i, q.count, b.s.repairs.active)
			}
		}
		if t.Failed() {
			return
		}
	}
}
