package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/test/virtual"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// world steps loops in virtual time. It is their Virtual.
type world struct {
	virtual.Tasks
	now    reliable.Instant
	rng    *rand.Rand
	net    *mem.Network
	loops  []*Loop
	timers []worldTimer
	moved  bool // a packet was sent, or a loop was woken
	still  int  // steps since the time was advanced
	loss   float64
	trace  func(format string, args ...any)
}

type worldTimer struct {
	at reliable.Instant
	f  func()
}

func newWorld(seed uint64) *world {
	return &world{now: 1, rng: rand.New(rand.NewPCG(seed, 1)), net: mem.NewNetwork(), trace: func(string, ...any) {}}
}

func (w *world) Now() reliable.Instant { return w.now }
func (w *world) Rand() uint64          { return w.rng.Uint64() }

func (w *world) After(d time.Duration, f func()) {
	w.timers = append(w.timers, worldTimer{w.now.Add(d), f})
}

// maxStill bounds the steps at one time.
const maxStill = 10_000

// step runs what is due, and advances the time if nothing more is due.
func (w *world) step() {
	if w.still++; w.still > maxStill {
		panic("the loops never sleep")
	}
	w.moved = w.Run()
	next := reliable.Never
	for i := 0; i < len(w.timers); {
		if t := w.timers[i]; t.at <= w.now {
			w.timers, w.moved = slices.Delete(w.timers, i, i+1), true
			t.f()
			continue
		}
		next = min(next, w.timers[i].at)
		i++
	}
	for _, l := range w.loops {
		next = min(next, l.Step())
	}
	if !w.moved && next > w.now {
		w.now, w.still = next, 0
	}
}

// lossy is an endpoint that loses some of the trains that it sends.
type lossy struct {
	transport.Transport
	w *world
}

func (t *lossy) Wake() { t.w.moved = true }

func (t *lossy) Reply(p transport.Peer, packet []byte) error {
	if t.w.moved = true; t.w.rng.Float64() < t.w.loss {
		return nil
	}
	return t.Transport.Reply(p, packet)
}

func (t *lossy) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return &lossySender{Sender: s, w: t.w}, err
}

type lossySender struct {
	transport.Sender
	w    *world
	lost uint64
}

func (s *lossySender) Send(out *transport.Outbound) (int, error) {
	if s.w.moved = true; s.w.rng.Float64() < s.w.loss {
		s.lost += uint64(out.Count)
		return out.Count, nil
	}
	return s.Sender.Send(out)
}

func (s *lossySender) Completed() uint64 { return s.Sender.Completed() + s.lost }

// open opens a loop in the world. Its packets are traced.
func (w *world) open(t *testing.T, name string) *Loop {
	inner, err := mem.Open(mem.Config{Network: w.net, PacketSize: 512, Groups: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := Open(&lossy{inner, w}, testConfig(Config{
		Virtual: w, Name: name, WindowBytes: 64 << 10, Receiver: reliable.ReceiverConfig{WindowBytes: 64 << 10},
		Trace:  func(x *Trace) { w.trace("%s: %+v", name, *x) },
		Events: func(e events.Event) { w.trace("%s: %v", name, e.Kind) },
	}))
	w.loops = append(w.loops, l)
	return l
}

// recorder is a handler that records the messages' numbers.
type recorder struct{ got []uint64 }

func (h *recorder) Message(_ *reliable.Origin, _ *topics.Track, _ uint64, data []byte) {
	h.got = append(h.got, binary.LittleEndian.Uint64(data))
}

func (h *recorder) Run(from *reliable.Origin, t *topics.Track, n uint64, body []byte, step, most int) ([]byte, uint64) {
	for {
		m, rest, ok := topics.NextMessage(body, step, most)
		if !ok {
			return body, n
		}
		h.Message(from, t, n, m)
		body, n = rest, n+1
	}
}

func (h *recorder) Other(*Delivery) {}

// runWorld publishes to a handler and to a cursor, with losses, and closes all loops. It returns a hash of the trace.
func runWorld(t *testing.T, seed uint64) uint64 {
	const messages = 2000
	hash := fnv.New64a()
	w := newWorld(seed)
	w.loss = 0.1
	w.trace = func(format string, args ...any) {
		fmt.Fprintf(hash, "%v "+format+"\n", append([]any{w.now}, args...)...)
	}
	a, b := w.open(t, "publisher"), w.open(t, "subscriber")
	h := new(recorder)
	var read []uint64
	ctx := context.Background()
	w.Go(func() {
		subscribeTo(t, b, TopicName{Name: "x"}, policyBlock, h)
		cursor := subscribeTo(t, b, TopicName{Name: "x"}, policyBlock, nil)
		for {
			var d Delivery
			if cursor.Next(ctx, &d) != nil {
				return
			}
			read = append(read, binary.LittleEndian.Uint64(d.Data))
		}
	})
	w.Go(func() {
		p, topic := publication(t, a, "x")
		if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(messages) {
			if err := p.Publish(ctx, topic, binary.LittleEndian.AppendUint64(nil, i), true); err != nil {
				t.Fatal(err)
			}
			if i%7 == 0 {
				a.pause(ctx, 20*time.Microsecond)
			}
		}
		if err := p.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		if st, err := b.Stats(); err != nil || st.Groups[0].Receiver.Repaired == 0 {
			t.Errorf("no packet was repaired: %v", err)
		}
		for _, l := range w.loops {
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	for !a.Ended() || !b.Ended() {
		w.step()
	}
	w.Stop()
	for i := range uint64(messages) {
		if len(h.got) != messages || len(read) != messages || h.got[i] != i || read[i] != i {
			t.Fatalf("message %d of %d: the handler got %d, and the cursor %d, or in another order", i, messages, len(h.got), len(read))
		}
	}
	if w.now > reliable.Instant(time.Minute) {
		t.Errorf("the run took %v of virtual time, want less than a minute", time.Duration(w.now))
	}
	w.trace("end")
	return hash.Sum64()
}

// The same seed gives the same run in virtual time, and another seed another one.
func TestVirtual(t *testing.T) {
	x, again, other := runWorld(t, 1), runWorld(t, 1), runWorld(t, 2)
	if x != again || x == other {
		t.Errorf("seed 1 gives the traces %x and %x, seed 2 %x: want equal ones of equal seeds only", x, again, other)
	}
}

// While a publication ends it makes no state. Its loop sleeps nevertheless, though a subscriber waits for state.
func TestStateWhileClosing(t *testing.T) {
	w := newWorld(1)
	a, b, c := w.open(t, "publisher"), w.open(t, "subscriber"), w.open(t, "joiner")
	ctx := context.Background()
	w.Go(func() {
		subscribeTo(t, b, TopicName{Name: "x"}, policyBlock, new(recorder))
		p, topic := publication(t, a, "x")
		if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := p.KeepState(topic, func(w *StateWriter) error { return w.Write(make([]byte, 200_000)) }); err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(ctx, topic, make([]byte, 8), true); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Subscribe([]TopicName{{Name: "x"}}, policyBlock, From{State: true}, false, new(recorder)); err != nil {
			t.Fatal(err)
		}
		w.Wait(func() bool { return p.states.s.Open() && p.states.s.Due() != reliable.Never }) // the round waits for its budget
		w.loss = 1
		closed := false
		w.Go(func() {
			if err := a.Close(ctx); err != nil {
				t.Error(err)
			}
			closed = true
		})
		a.pause(ctx, 50*time.Millisecond)
		w.loss = 0
		w.Wait(func() bool { return closed })
	})
	for !a.Ended() {
		w.step()
	}
	w.Stop()
}
