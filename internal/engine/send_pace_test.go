package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// readingReplies is a transport whose senders read replies themselves. There are no replies. While drops is set, senders
// drop all packets.
type readingReplies struct {
	transport.Transport
	drops *atomic.Bool
}

func (t readingReplies) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return readingSender{s, t.drops}, err
}

type readingSender struct {
	transport.Sender
	drops *atomic.Bool
}

func (readingSender) ReadReplies(func([]byte)) {}
func (readingSender) ReplyAddress() string     { return "" }

func (s readingSender) Send(out *transport.Outbound) (int, error) {
	if s.drops.Load() {
		return out.Count, nil
	}
	return s.Sender.Send(out)
}

// replyReadingLoop opens a loop whose publishers read replies.
func replyReadingLoop(t *testing.T) (tr *watched, l *Loop, drops *atomic.Bool) {
	drops = new(atomic.Bool)
	tr, l = newLoopOver(t, Config{FlushAfter: 50 * time.Microsecond}, func(tr transport.Transport) transport.Transport { return readingReplies{tr, drops} })
	return tr, l, drops
}

// Steady messages less than rowPause apart are not followed by a heartbeat each, and the loop sleeps. A heartbeat follows
// the last one soon. Messages further apart are followed by one each, to show losses early. docs/protocol §5.1, §5.2.
func TestHeartbeatsAtSteadyRate(t *testing.T) {
	const messages = 4 * rowSends
	for _, c := range []struct {
		apart time.Duration
		each  bool
	}{
		{20 * time.Microsecond, false},
		{50 * time.Microsecond, false},
		{100 * time.Microsecond, false},
		{200 * time.Microsecond, false},
		{rowPause - 10*time.Microsecond, false},
		{2 * rowPause, true},
		{time.Millisecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, l, _ := replyReadingLoop(t)
			p, topic := publication(t, l, "x")
			publish := func() {
				for range messages {
					if err := p.Publish(context.Background(), topic, make([]byte, 64), true); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.apart)
				}
			}
			publish() // until the loop leaves the bus to its publishers
			heartbeats, polls := heartbeatsOf(p), tr.polls.Load()
			publish()
			heartbeats, polls = heartbeatsOf(p)-heartbeats, tr.polls.Load()-polls
			switch {
			case c.each && heartbeats < messages*9/10:
				t.Errorf("%d messages %v apart: %d heartbeats, want one for nearly each", messages, c.apart, heartbeats)
			case !c.each && heartbeats > 5+uint64(messages*c.apart/loopPark): // one for each check of the loop
				t.Errorf("%d messages %v apart: %d heartbeats, want one in %v", messages, c.apart, heartbeats, loopPark)
			case !c.each && polls > 10+3*int64(messages*c.apart/loopPark): // each check has up to three polls
				t.Errorf("%d messages %v apart: %d polls, want three in %v", messages, c.apart, polls, loopPark)
			}
			heartbeats = heartbeatsOf(p)
			if time.Sleep(2 * loopPark); heartbeatsOf(p) == heartbeats {
				t.Errorf("messages %v apart: no heartbeat within %v of the last one, want one", c.apart, 2*loopPark)
			}
		})
	}
}

// Drain requests statuses at once, also while the loop leaves the bus to its publishers. docs/protocol §5.8.
func TestDrainAtSteadyRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := replyReadingLoop(t)
		_, there := newLoop(t, Config{})
		subscribeTo(t, there, TopicName{Name: "x", Group: 0}, policyAuto, quiet)
		p, topic := publication(t, l, "x")
		if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		for i := range 4 * rowSends {
			if err := p.Publish(t.Context(), topic, make([]byte, 64), true); err != nil {
				t.Fatal(err)
			}
			if began := time.Now(); i%32 == 31 {
				if err := p.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took >= 100*time.Microsecond {
					t.Errorf("Drain after message %d took %v, want less than 100µs on a network without delay", i, took)
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
		// While the loop is busy, the goroutine that waits sends the request.
		busy := make(chan struct{})
		l.post(func() { <-busy })
		synctest.Wait()
		p.Publish(t.Context(), topic, make([]byte, 64), true)
		before, done := heartbeatsOf(p), make(chan error)
		go func() { done <- p.Drain(t.Context()) }()
		synctest.Wait()
		if requests := heartbeatsOf(p) - before; requests != 1 {
			t.Errorf("%d requests while the loop is busy, want 1", requests)
		}
		close(busy)
		if err := <-done; err != nil {
			t.Errorf("Drain returned %v, want nil", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiters.answers != 0 {
			t.Errorf("%d goroutines wait for answers after Drain, want 0", p.waiters.answers)
		}
	})
}

// The last message of a row, if lost, is delivered soon after the next check of the loop.
func TestLastOfRowIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, drops := replyReadingLoop(t)
		_, there := newLoop(t, Config{})
		var delivered atomic.Int64
		handler := quiet
		handler.message = func(*reliable.Origin, *topics.Track, uint64, []byte) { delivered.Add(1) }
		handler.run = func(o *reliable.Origin, t *topics.Track, number uint64, body []byte, step, size int) ([]byte, uint64) {
			delivered.Add(int64(len(body) / step))
			return quiet.run(o, t, number, body, step, size)
		}
		subscribeTo(t, there, TopicName{Name: "x", Group: 0}, policyAuto, handler)
		p, topic := publication(t, l, "x")
		if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		for row := range 3 {
			for i := range 4 * rowSends {
				time.Sleep(100 * time.Microsecond)
				drops.Store(i == 4*rowSends-1)
				if err := p.Publish(t.Context(), topic, make([]byte, 64), true); err != nil {
					t.Fatal(err)
				}
			}
			drops.Store(false)
			synctest.Wait()
			if n := delivered.Load(); n != int64((row+1)*4*rowSends-1) {
				t.Fatalf("%d messages delivered before the last one of row %d, want %d", n, row, (row+1)*4*rowSends-1)
			}
			const limit = loopPark + 200*time.Microsecond
			began := time.Now()
			for delivered.Load() != int64((row+1)*4*rowSends) && time.Since(began) < time.Second {
				time.Sleep(10 * time.Microsecond)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("the last message of row %d was delivered after %v, want at most %v", row, took, limit)
			}
		}
	})
}

// Publishers do what is due themselves, unless the transport is busy or a goroutine waits for answers of subscribers.
func TestSteers(t *testing.T) {
	_, l := newLoop(t, Config{})
	p, topic := publication(t, l, "x")
	r := &topics.Request{Ready: func() {}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range map[string]struct{ begin, end func() }{
		"a wait for answers": {func() { p.waiters.answers++ }, func() { p.waiters.answers-- }},
		"a request":          {func() { p.m.Write(p.open.w, topic, nil, r) }, func() { r.Close() }},
		"a busy transport":   {func() { p.out.busy = true }, func() { p.out.busy = false }},
	} {
		if !p.steers() {
			t.Fatal("steers returned false, want true")
		}
		if c.begin(); p.steers() {
			t.Errorf("steers returned true with %s, want false", name)
		}
		c.end()
	}
}

func heartbeatsOf(p *Publication) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Stats().HeartbeatsSent
}
