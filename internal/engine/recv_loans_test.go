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

// shelf is a transport that only notes which trains come back.
type shelf struct {
	transport.Transport
	back []uint64
}

func (s *shelf) Capabilities() transport.Capabilities { return transport.Capabilities{LendMax: 2} }
func (s *shelf) Release(tr *transport.Train)          { s.back = append(s.back, tr.Lease) }

// handle lets l keep the packets at, of train number lease.
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
	s := &shelf{}
	l := newLoans(s)
	check := func(want ...uint64) {
		t.Helper()
		if !slices.Equal(s.back, want) {
			t.Fatalf("trains %d have come back, want %d", s.back, want)
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
			t.Errorf("packet %#x is %d, want %d", c.loan, got, c.want)
		}
	}
	// LendMax is 2: no third train stays, but of the two more packets could.
	if kept := handle(t, l, 4, 0); len(kept) > 0 {
		t.Errorf("a third train is kept")
	}
	check(1, 4)
	l.Return(two[1])
	check(1, 4)
	l.Return(two[0])
	check(1, 4, 2)
	if kept := handle(t, l, 5, 1); len(kept) != 1 {
		t.Errorf("there is room, and no train is kept")
	}
	l.Return(three[0])
	check(1, 4, 2, 3)

	// A position that is returned while its train is still being handled waits for the end.
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

	// A loan has no room for more packets of a train.
	l.begin(&tr)
	l.at = 1 << packetBits
	if _, ok := l.Keep(); ok {
		t.Error("packet 65536 of a train is kept")
	}
	l.end()
}

// counted notes how many trains its user has.
type counted struct {
	transport.Transport
	out, most atomic.Int64 // most: kept past a Poll
}

func (c *counted) Poll(b *transport.Batch) error {
	c.most.Store(max(c.most.Load(), c.out.Load()))
	err := c.Transport.Poll(b)
	c.out.Add(int64(len(b.Trains)))
	return err
}

func (c *counted) Release(tr *transport.Train) {
	c.out.Add(-1)
	c.Transport.Release(tr)
}

// pause stops a loop until goOn is called.
func pause(l *Loop) (goOn func()) {
	gate := make(chan struct{})
	l.post(func() { <-gate })
	return sync.OnceFunc(func() { close(gate) })
}

// With losses trains stay lent, not more of them than may, and all come back.
func TestTrainsWaitWhereTheyAre(t *testing.T) {
	ctx := t.Context()
	_, from := newLoop(t, Config{})
	p, topic := publication(t, from, "x")
	c := &counted{}
	_, to := newLoopOver(t, Config{Receiver: reliable.ReceiverConfig{WindowBytes: 1 << 20, MaxMessage: 1000}}, func(tr transport.Transport) transport.Transport {
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
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
			for {
				m, rest, ok := topics.NextMessage(body, step, most)
				if !ok {
					return body, number
				}
				message(number, m)
				body = rest
				number++
			}
		},
		other: func(d *Delivery) { fault("%+v", *d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	m := make([]byte, 100)
	goOn := func() {}
	for i := range uint64(n) {
		if i%(n/20) == 0 {
			// Now and then many trains come at once, and wait for one of them that is lost.
			goOn()
			if err := p.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			goOn = pause(to)
		}
		binary.LittleEndian.PutUint64(m, i)
		m[99] = byte(i)
		err := p.Publish(ctx, topic, m, false)
		if errors.As(err, new(*events.BackPressureError)) {
			goOn()
			err = p.Publish(ctx, topic, m, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	goOn()
	if err := p.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if next.Load() != n {
		t.Errorf("%d messages came, want %d", next.Load(), n)
	}
	caps := to.Capabilities()
	if most := c.most.Load(); most < 2 || most > int64(caps.LendMax) {
		t.Errorf("up to %d trains were kept; LendMax is %d", most, caps.LendMax)
	}
	if s := to.t.Stats(); s.LendRefused > 0 {
		t.Errorf("%d polls could not lend what they should", s.LendRefused)
	}
	for c.out.Load() > 0 { // of the batch in which the last message was
		if err := to.do(func() {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Subscriptions that are closed while their user looks at a message, with another that
// stays: none of them is short of memory, and nothing is lost.
func TestSubscriptionsComeAndGo(t *testing.T) {
	_, from := newLoop(t, Config{})
	p, topic := publication(t, from, "x")
	_, to := newLoopOver(t, Config{Receiver: reliable.ReceiverConfig{WindowBytes: 256 << 10, MaxMessage: 1000}}, func(tr transport.Transport) transport.Transport {
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
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
			for {
				_, rest, ok := topics.NextMessage(body, step, most)
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
			t.Fatalf("subscription %d: %v, %d bytes", i, err, len(d.Data))
		}
		s.Close()
		if i%2 == 0 { // it asks for the next one, and hears that it is over
			if err := s.Next(limit, &d); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Next of a closed subscription: %v", err)
			}
			s.current.c.Lease() // panics while the message is held
		}
	}
	stop()
	<-done
	if faults.Load() > 0 || next.Load() == 0 {
		t.Errorf("of %d messages %d were out of order", next.Load(), faults.Load())
	}
}
