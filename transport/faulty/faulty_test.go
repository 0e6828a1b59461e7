package faulty_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

// The wrapper satisfies the contract of a transport, both without faults and when all its code runs but no fault is
// visible.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]faulty.Config{
		"none": {},
		// A loss that never happens: trains are scanned and leased again.
		"scanning": {Loss: 1e-300},
		// A delay of 1 ns: every packet is copied and held.
		"holding": {Delay: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "holding" {
				testenv.Slow(t)
			}
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				n := mem.NewNetwork()
				return transporttest.Fabric{Delays: cfg.Delay > 0, Open: func(t testing.TB, o transporttest.Options) transport.Transport {
					tr, err := mem.Open(mem.Config{Network: n, QueueTrains: o.Queue, Peers: o.Peers})
					if err != nil {
						t.Fatal(err)
					}
					return faulty.New(tr, cfg)
				}}
			})
		})
	}
}

// line is a sender and a faulty receiver, with a clock that the test advances.
type line struct {
	t     *testing.T
	rx    *faulty.Transport
	tx    *mem.Transport
	s     transport.Sender
	batch *transport.Batch
	clock time.Duration
	sent  uint32
	got   []uint32
}

func newLine(t *testing.T, cfg faulty.Config) *line {
	t.Helper()
	n := mem.NewNetwork()
	open := func() *mem.Transport {
		tr, err := mem.Open(mem.Config{Network: n})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	l := &line{t: t, tx: open(), batch: transport.NewBatch(32)}
	cfg.Clock = func() time.Duration { return l.clock }
	l.rx = faulty.New(open(), cfg)
	t.Cleanup(func() {
		for _, tr := range []transport.Transport{l.rx, l.tx} {
			tr.Close()
			for tr.Poll(l.batch) == nil {
			}
		}
	})
	if err := l.rx.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := l.tx.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	l.s = s
	return l
}

// send sends count packets as one train. Each is 8 bytes: its number, twice.
func (l *line) send(count int) {
	l.t.Helper()
	out := &transport.Outbound{Data: make([]byte, 8*count), Stride: 8, Count: count, Lens: slices.Repeat([]uint16{8}, count)}
	for i := range count {
		binary.LittleEndian.PutUint32(out.Data[8*i:], l.sent)
		binary.LittleEndian.PutUint32(out.Data[8*i+4:], l.sent)
		l.sent++
	}
	if n, err := l.s.Send(out); n != count {
		l.t.Fatalf("Send: %d packets, error %v, want %d", n, err, count)
	}
}

// poll receives everything that is due now.
func (l *line) poll() {
	l.t.Helper()
	for range 1000 {
		if err := l.rx.Poll(l.batch); err != nil {
			l.t.Fatal(err)
		}
		for i := range l.batch.Trains {
			tr := &l.batch.Trains[i]
			for j := range tr.Count() {
				p := tr.Packet(j)
				if len(p) != 8 || string(p[:4]) != string(p[4:]) {
					l.t.Fatalf("packet %x is damaged, want two equal halves of 4 bytes", p)
				}
				l.got = append(l.got, binary.LittleEndian.Uint32(p))
			}
			l.rx.Release(tr)
		}
		if len(l.batch.Trains) == 0 {
			return
		}
	}
}

// run sends packets in trains of train and returns what arrived.
func (l *line) run(packets, train int) []uint32 {
	l.t.Helper()
	for l.sent < uint32(packets) {
		l.send(train)
		l.poll()
	}
	l.clock += time.Minute
	l.poll()
	return l.got
}

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s is %.4f, want %.4f ± %.4f", what, got, want, tolerance)
	}
}

const many = 200_000

func TestLoss(t *testing.T) {
	for _, c := range []struct{ loss, burst float64 }{
		{0.01, 0}, {0.05, 1}, {0.3, 0}, {0.05, 8}, {0.3, 4}, {0.01, 30}, {1, 0},
	} {
		t.Run(fmt.Sprintf("loss=%v,burst=%v", c.loss, c.burst), func(t *testing.T) {
			l := newLine(t, faulty.Config{Loss: c.loss, Burst: c.burst, Seed: 1})
			got := l.run(many, 44)
			if !slices.IsSorted(got) {
				t.Fatal("loss changed the order")
			}
			sent := float64(l.sent)
			share := 1 - float64(len(got))/sent
			// Four standard deviations; a run's losses count as one event.
			sd := math.Sqrt(c.loss * (1 - c.loss) / sent * max(1, 2*c.burst))
			within(t, "share lost", share, c.loss, 4*sd)
			lost, runs, before := l.rx.Stats().Injected, 0, -1
			for _, n := range append(got, l.sent) {
				if int(n) > before+1 {
					runs++
				}
				before = int(n)
			}
			if lost != uint64(l.sent)-uint64(len(got)) {
				t.Errorf("%d packets counted as lost, %d sent, %d received, want the difference", lost, l.sent, len(got))
			}
			if c.burst > 1 {
				within(t, "mean run", float64(lost)/float64(runs), c.burst, c.burst/10)
			} else if c.loss < 1 {
				within(t, "mean run", float64(lost)/float64(runs), 1/(1-c.loss), 0.05)
			}
		})
	}
}

func TestDuplicate(t *testing.T) {
	l := newLine(t, faulty.Config{Duplicate: 0.02, Seed: 3})
	got := l.run(many, 44)
	if !slices.IsSorted(got) {
		t.Fatal("duplication changed the order")
	}
	if n := len(slices.Compact(slices.Clone(got))); n != int(l.sent) {
		t.Fatalf("%d different packets, want %d", n, l.sent)
	}
	twice := float64(len(got)) - float64(l.sent)
	within(t, "share of duplicates", twice/float64(l.sent), 0.02, 0.0015)
}

func TestReorder(t *testing.T) {
	for _, train := range []int{1, 44} {
		l := newLine(t, faulty.Config{Reorder: 0.05, Seed: 5})
		got := l.run(many, train)
		if len(got) != int(l.sent) {
			t.Fatalf("%d packets, want %d", len(got), l.sent)
		}
		late, deepest := 0, 0
		var highest uint32
		for i, n := range got {
			if n < highest {
				late++
			}
			highest = max(highest, n)
			deepest = max(deepest, i-int(n))
		}
		within(t, "share delayed", float64(late)/float64(l.sent), 0.05, 0.003)
		if deepest < 10 || deepest > 16 {
			t.Errorf("a packet was delayed by %d packets, want 10 to 16", deepest)
		}
		if held := l.rx.Stats().InjectedDelay; math.Abs(float64(held)-0.05*float64(l.sent)) > 1000 {
			t.Errorf("%d counted as reordered, want %d", held, l.sent)
		}
		if all := slices.Sorted(slices.Values(got)); all[0] != 0 || all[len(all)-1] != l.sent-1 || len(slices.Compact(all)) != int(l.sent) {
			t.Error("packets are missing or duplicated")
		}
	}
}

// A packet that no other overtakes is delivered after its delay, and Wait ends at that time.
func TestReorderWithoutTraffic(t *testing.T) {
	l := newLine(t, faulty.Config{Reorder: 1, Seed: 1})
	l.send(1)
	l.poll()
	l.clock = 500*time.Microsecond - 1
	l.poll()
	if len(l.got) != 0 {
		t.Fatal("the packet was not held")
	}
	if err := l.rx.Wait(-1); err != nil { // ends after 1 ns, when the packet is due
		t.Fatal(err)
	}
	l.clock++
	if err := l.rx.Wait(-1); err != nil { // returns immediately
		t.Fatal(err)
	}
	l.poll()
	if len(l.got) != 1 {
		t.Fatal("the packet was not delivered")
	}
}

func TestDelay(t *testing.T) {
	l := newLine(t, faulty.Config{Delay: time.Millisecond, Seed: 1})
	for range 10 {
		l.send(3)
		l.poll()
		l.clock += 100 * time.Microsecond
	}
	if len(l.got) != 0 {
		t.Fatal("a packet was delivered before its time")
	}
	for i := range 10 {
		l.poll()
		if len(l.got) != 3*(i+1) {
			t.Fatalf("%v after the first was sent, %d packets were delivered, want %d", l.clock, len(l.got), 3*(i+1))
		}
		l.clock += 100 * time.Microsecond
	}
	if !slices.IsSorted(l.got) {
		t.Error("a constant delay changed the order")
	}
	if n := l.rx.Stats().InjectedDelay; n != 30 {
		t.Errorf("%d packets counted as delayed, want 30", n)
	}
}

func TestJitter(t *testing.T) {
	l := newLine(t, faulty.Config{Delay: time.Millisecond, Jitter: time.Millisecond, Seed: 1})
	l.send(1000)
	l.poll()
	l.clock = time.Millisecond - 1
	l.poll()
	if len(l.got) != 0 {
		t.Fatal("a packet was delivered before its time")
	}
	l.clock = 1500 * time.Microsecond
	l.poll()
	within(t, "share delivered within half the jitter", float64(len(l.got))/1000, 0.5, 0.07)
	l.clock = 2 * time.Millisecond
	l.poll()
	if len(l.got) != 1000 || slices.IsSorted(l.got) {
		t.Errorf("%d of 1000 packets, in order: %v, want all, not in order", len(l.got), slices.IsSorted(l.got))
	}
}

// A packet that arrives when the hold is full is delivered immediately.
func TestHoldIsBounded(t *testing.T) {
	l := newLine(t, faulty.Config{Delay: time.Second})
	const room, sent = 4096, 4100
	for range sent / 41 {
		l.send(41)
		l.poll()
	}
	if len(l.got) != sent-room || l.rx.Stats().InjectedDelay != room {
		t.Fatalf("%d packets were delivered, want %d; %d counted as delayed", len(l.got), sent-room, l.rx.Stats().InjectedDelay)
	}
	l.clock = time.Second
	l.poll()
	if len(l.got) != sent {
		t.Fatalf("%d packets, want %d", len(l.got), sent)
	}
}

// The same seed gives the same result, another seed another one; and one fault does not change the choices of another.
func TestSeed(t *testing.T) {
	run := func(text string) []uint32 {
		cfg, err := faulty.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return newLine(t, cfg).run(5000, 10)
	}
	const all = "loss=0.1,dup=0.1,reorder=0.1,burst=3,jitter=1ms,seed="
	if !slices.Equal(run(all+"7"), run(all+"7")) {
		t.Error("the same seed gave two results")
	}
	if slices.Equal(run(all+"7"), run(all+"8")) {
		t.Error("two seeds gave the same result")
	}
	plain, more := run("loss=0.1,seed=7"), run("loss=0.1,reorder=0.2,dup=0.1,seed=7")
	slices.Sort(more)
	if !slices.Equal(plain, slices.Compact(more)) {
		t.Error("with other faults added, other packets are lost")
	}
}

// A receiver can reply to the source of a held packet long after the packet's train was released.
func TestReplyToHeldPacket(t *testing.T) {
	l := newLine(t, faulty.Config{Delay: time.Millisecond})
	l.send(2)
	l.poll()
	l.clock = time.Millisecond
	if err := l.rx.Poll(l.batch); err != nil || len(l.batch.Trains) != 2 {
		t.Fatalf("Poll: %d trains, error %v, want 2", len(l.batch.Trains), err)
	}
	var peers []transport.Peer
	for range 2 {
		for i := range l.batch.Trains {
			p, err := l.rx.Retain(l.batch.Trains[i].From)
			if err != nil {
				t.Fatal(err)
			}
			peers = append(peers, p)
		}
	}
	for i := range l.batch.Trains {
		l.rx.Release(&l.batch.Trains[i])
	}
	for i, p := range peers {
		if p != peers[0] {
			t.Fatalf("one source gave peers %v, want one", peers)
		}
		if err := l.rx.Reply(p, []byte("hello")); err != nil {
			t.Fatalf("with %d of 4 references left: %v", 4-i, err)
		}
		l.rx.Forget(p)
	}
	if err := l.rx.Reply(peers[0], []byte("hello")); err == nil {
		t.Error("the peer exists after its last reference was released")
	}
	b := transport.NewBatch(8)
	if err := l.tx.Poll(b); err != nil || len(b.Trains) != 4 {
		t.Errorf("%d replies arrived, want 4 (%v)", len(b.Trains), err)
	}
}
