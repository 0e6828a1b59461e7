package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// releases is a transport that records the leases of released trains.
type releases struct {
	transport.Transport
	released []uint64
}

func (s *releases) Capabilities() transport.Capabilities { return transport.Capabilities{LendMax: 2} }
func (s *releases) Release(tr *transport.Train)          { s.released = append(s.released, tr.Lease) }

// handle passes a train with that lease to l, which keeps the packets whose indexes are in at.
func handle(t *testing.T, l *loans, lease uint64, at ...int) (kept []uint32) {
	t.Helper()
	tr := transport.Train{Data: []byte{byte(lease), 0, byte(lease), 1, byte(lease)}, SegmentSize: 2, Lease: lease}
	l.begin(&tr)
	for i := range tr.Count() {
		if l.at = i; slices.Contains(at, i) {
			if n, ok := l.Keep(); ok {
				kept = append(kept, n)
			}
		}
	}
	l.end()
	return kept
}

func TestLoans(t *testing.T) {
	s := &releases{}
	l := newLoans(s)
	check := func(want ...uint64) {
		t.Helper()
		if !slices.Equal(s.released, want) {
			t.Fatalf("released trains %d, want %d", s.released, want)
		}
	}
	handle(t, l, 1)
	check(1)
	two := handle(t, l, 2, 0, 2)
	three := handle(t, l, 3, 1)
	check(1)
	for _, c := range []struct {
		loan uint32
		want []byte
	}{{two[0], []byte{2, 0}}, {two[1], []byte{2}}, {three[0], []byte{3, 1}}} {
		if got := l.Packet(c.loan); !slices.Equal(got, c.want) {
			t.Errorf("the packet of loan %#x is %d, want %d", c.loan, got, c.want)
		}
	}
	// LendMax is 2, so no third train can be kept.
	if kept := handle(t, l, 4, 0); len(kept) > 0 {
		t.Errorf("%d packets of a third train are kept, want 0", len(kept))
	}
	check(1, 4)
	l.Return(two[1])
	check(1, 4)
	l.Return(two[0])
	check(1, 4, 2)
	if kept := handle(t, l, 5, 1); len(kept) != 1 {
		t.Errorf("%d packets are kept after a train was released, want 1", len(kept))
	}
	l.Return(three[0])
	check(1, 4, 2, 3)

	// If all loans of a train are returned while it is handled, it is released only at the end.
	tr := transport.Train{Data: make([]byte, 4), SegmentSize: 2, Lease: 6}
	l.begin(&tr)
	l.at = 0
	n, _ := l.Keep()
	l.Return(n)
	check(1, 4, 2, 3)
	l.at = 1
	n, _ = l.Keep()
	l.end()
	check(1, 4, 2, 3)
	l.Return(n)
	check(1, 4, 2, 3, 6)

	// A loan has 16 bits for the index of a packet.
	l.begin(&tr)
	l.at = 1 << packetBits
	if _, ok := l.Keep(); ok {
		t.Error("packet 65536 of a train is kept, want it refused")
	}
	l.end()
}

// lendCounter is a transport that counts the trains that are lent.
type lendCounter struct {
	transport.Transport
	lent, peak atomic.Int64 // peak: largest number still lent at a Poll
}

func (c *lendCounter) Poll(b *transport.Batch) error {
	c.peak.Store(max(c.peak.Load(), c.lent.Load()))
	err := c.Transport.Poll(b)
	c.lent.Add(int64(len(b.Trains)))
	return err
}

func (c *lendCounter) Release(tr *transport.Train) {
	c.lent.Add(-1)
	c.Transport.Release(tr)
}

// pause blocks a loop until resume is called.
func pause(l *Loop) (resume func()) {
	gate := make(chan struct{})
	l.post(func() { <-gate })
	return sync.OnceFunc(func() { close(gate) })
}

// With losses, trains stay lent, at most LendMax of them, and all are released.
func TestLentTrainsAreReleased(t *testing.T) {
	ctx := t.Context()
	_, from := newLoop(t, Config{})
	p, topic := publication(t, from, "x")
	c := &lendCounter{}
	_, to := newLoopOver(t, Config{MaxMessage: 1000, Receiver: reliable.ReceiverConfig{WindowBytes: 1 << 20}}, func(tr transport.Transport) transport.Transport {
		c.Transport = faulty.New(tr, faulty.Config{Loss: 0.05, Duplicate: 0.01, Reorder: 0.02, Seed: 7})
		return c
	})
	const n = 200_000
	var next, faults atomic.Uint64
	fault := func(format string, args ...any) {
		if faults.Add(1) <= 10 {
			t.Errorf(format, args...)
		}
	}
	message := func(number uint64, m []byte) {
		if len(m) != 100 || binary.LittleEndian.Uint64(m) != number || number != next.Load() || m[99] != byte(number) {
			fault("message %d is %d bytes, %x…, want message %d", number, len(m), m[:min(len(m), 9)], next.Load())
		}
		next.Add(1)
	}
	_, err := to.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, handlerFuncs{
		message: func(_ *reliable.Origin, _ *topics.Track, number uint64, m []byte) { message(number, m) },
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, maxBytes int) ([]byte, uint64) {
			for {
				m, rest, ok := topics.NextMessage(body, step, maxBytes)
				if !ok {
					return body, number
				}
				message(number, m)
				body = rest
				number++
			}
		},
		other: func(d *Delivery) { fault("delivery %+v, want only messages", *d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	m := make([]byte, 100)
	resume := func() {}
	for i := range uint64(n) {
		if i%(n/20) == 0 {
			// While the loop is blocked, many trains arrive, and some are lost.
			resume()
			if err := p.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			resume = pause(to)
		}
		binary.LittleEndian.PutUint64(m, i)
		m[99] = byte(i)
		err := p.Publish(ctx, topic, m, false)
		if errors.As(err, new(*events.BackPressureError)) {
			resume()
			err = p.Publish(ctx, topic, m, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	resume()
	if err := p.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if next.Load() != n {
		t.Errorf("%d messages delivered, want %d", next.Load(), n)
	}
	caps := to.Capabilities()
	if peak := c.peak.Load(); peak < 2 || peak > int64(caps.LendMax) {
		t.Errorf("up to %d trains were kept, want 2 to LendMax, which is %d", peak, caps.LendMax)
	}
	if s := to.t.Stats(); s.LendRefused > 0 {
		t.Errorf("%d polls could not lend all trains, want 0", s.LendRefused)
	}
	for c.lent.Load() > 0 { // trains of the last batch
		if err := to.do(func() {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Subscriptions that are closed while their user reads a message return its memory, and another subscription of the bus
// loses nothing.
func TestSubscriptionsCloseWithMessage(t *testing.T) {
	_, from := newLoop(t, Config{})
	p, topic := publication(t, from, "x")
	_, to := newLoopOver(t, Config{MaxMessage: 1000, Receiver: reliable.ReceiverConfig{WindowBytes: 256 << 10}}, func(tr transport.Transport) transport.Transport {
		return faulty.New(tr, faulty.Config{Loss: 0.05, Seed: 7})
	})
	var next, faults atomic.Uint64
	message := func(number uint64) {
		if next.Swap(number+1) != number {
			faults.Add(1)
		}
	}
	_, err := to.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, handlerFuncs{
		message: func(_ *reliable.Origin, _ *topics.Track, number uint64, _ []byte) { message(number) },
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, maxBytes int) ([]byte, uint64) {
			for {
				_, rest, ok := topics.NextMessage(body, step, maxBytes)
				if !ok {
					return body, number
				}
				message(number)
				body = rest
				number++
			}
		},
		other: func(*Delivery) { faults.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := make([]byte, 900); p.Publish(ctx, topic, m, true) == nil; {
		}
	}()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 100 { // 32 packets fit the window
		s := subscribeTo(t, to, TopicName{Name: "x", Group: 0}, policyAuto, nil)
		var d Delivery
		if err := s.Next(limit, &d); err != nil || len(d.Data) != 900 {
			t.Fatalf("subscription %d: Next returned %v and %d bytes, want 900 bytes", i, err, len(d.Data))
		}
		s.Close()
		if i%2 == 0 { // half of the users call Next again
			if err := s.Next(limit, &d); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Next of a closed subscription returned %v, want %v", err, net.ErrClosed)
			}
			s.current.c.Lease() // panics while the message is held
		}
	}
	stop()
	<-done
	if faults.Load() > 0 || next.Load() == 0 {
		t.Errorf("%d messages delivered, %d faults, want some messages and no fault", next.Load(), faults.Load())
	}
}
