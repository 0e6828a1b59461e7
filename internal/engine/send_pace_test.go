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

// readingReplies is a transport whose senders read replies themselves, of which there are none. While deaf is set nothing comes
// through.
type readingReplies struct {
	transport.Transport
	deaf *atomic.Bool
}

func (t readingReplies) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return readingSender{s, t.deaf}, err
}

type readingSender struct {
	transport.Sender
	deaf *atomic.Bool
}

func (readingSender) ReadReplies(func([]byte)) {}
func (readingSender) ReplyAddress() string     { return "" }

func (s readingSender) Send(out *transport.Outbound) (int, error) {
	if s.deaf.Load() {
		return out.Count, nil
	}
	return s.Sender.Send(out)
}

// pacedLoop is a loop whose publishers take replies on their way.
func pacedLoop(t *testing.T) (tr *watched, l *Loop, deaf *atomic.Bool) {
	deaf = new(atomic.Bool)
	tr, l = newLoopOver(t, Config{FlushAfter: 50 * time.Microsecond}, func(tr transport.Transport) transport.Transport { return readingReplies{tr, deaf} })
	return tr, l, deaf
}

// Messages that keep a pace as short as a heartbeat waits are not followed by one each, and the loop sleeps meanwhile. When they end
// one comes soon. Those further apart are, so that a loss does not wait for the next message. docs/protocol §5.1, §5.2.
func TestHeartbeatsBesidePace(t *testing.T) {
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
			tr, l, _ := pacedLoop(t)
			p, topic := publication(t, l, "x")
			publish := func() {
				for range messages {
					if err := p.Publish(context.Background(), topic, make([]byte, 64), true); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.apart)
				}
			}
			publish() // until it counts as one that keeps a pace
			heartbeats, polls := heartbeatsOf(p), tr.polls.Load()
			publish()
			heartbeats, polls = heartbeatsOf(p)-heartbeats, tr.polls.Load()-polls
			switch {
			case c.each && heartbeats < messages*9/10:
				t.Errorf("%d messages %v apart were followed by %d heartbeats", messages, c.apart, heartbeats)
			case !c.each && heartbeats > 5+uint64(messages*c.apart/loopPark): // of a look each
				t.Errorf("beside %d messages %v apart %d heartbeats were sent", messages, c.apart, heartbeats)
			case !c.each && polls > 10+3*int64(messages*c.apart/loopPark): // a look is up to three polls
				t.Errorf("beside %d messages %v apart the loop has polled %d times", messages, c.apart, polls)
			}
			heartbeats = heartbeatsOf(p)
			if time.Sleep(2 * loopPark); heartbeatsOf(p) == heartbeats {
				t.Errorf("%v behind the last of messages %v apart none has followed", 2*loopPark, c.apart)
			}
		})
	}
}

// Drain asks at once, also behind messages that keep a pace, in which the loop is left alone. docs/protocol §5.8.
func TestDrainBesidePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := pacedLoop(t)
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
					t.Errorf("behind message %d it took %v, on a network that takes no time", i, took)
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
		// By the goroutine that waits, while the loop is busy.
		busy := make(chan struct{})
		l.post(func() { <-busy })
		synctest.Wait()
		p.Publish(t.Context(), topic, make([]byte, 64), true)
		before, done := heartbeatsOf(p), make(chan error)
		go func() { done <- p.Drain(t.Context()) }()
		synctest.Wait()
		if asked := heartbeatsOf(p) - before; asked != 1 {
			t.Errorf("beside a busy loop it has asked %d times", asked)
		}
		close(busy)
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiters.answers != 0 {
			t.Errorf("%d wait for answers behind the last Drain", p.waiters.answers)
		}
	})
}

// When the last message of a row is lost, it is there soon after the loop has looked.
func TestLastOfPaceIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, deaf := pacedLoop(t)
		_, there := newLoop(t, Config{})
		var came atomic.Int64
		handler := quiet
		handler.message = func(*reliable.Origin, *topics.Track, uint64, []byte) { came.Add(1) }
		handler.run = func(o *reliable.Origin, t *topics.Track, number uint64, body []byte, step, size int) ([]byte, uint64) {
			came.Add(int64(len(body) / step))
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
				deaf.Store(i == 4*rowSends-1)
				if err := p.Publish(t.Context(), topic, make([]byte, 64), true); err != nil {
					t.Fatal(err)
				}
			}
			deaf.Store(false)
			synctest.Wait()
			if n := came.Load(); n != int64((row+1)*4*rowSends-1) {
				t.Fatalf("%d messages have come, before the last one of row %d", n, row)
			}
			const most = loopPark + 200*time.Microsecond
			began := time.Now()
			for came.Load() != int64((row+1)*4*rowSends) && time.Since(began) < time.Second {
				time.Sleep(10 * time.Microsecond)
			}
			if took := time.Since(began); took > most {
				t.Errorf("the last one of row %d came %v late, not %v", row, took, most)
			}
		}
	})
}

// Publishers steer while nothing holds them up and no goroutine waits for answers of subscribers.
func TestSteers(t *testing.T) {
	_, l := newLoop(t, Config{})
	p, _ := publication(t, l, "x")
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range map[string]struct{ begin, end func() }{
		"a wait for answers": {func() { p.waiters.answers++ }, func() { p.waiters.answers-- }},
		"a request":          {func() { p.inquiries[nil] = struct{}{} }, func() { delete(p.inquiries, nil) }},
		"a busy transport":   {func() { p.out.busy = true }, func() { p.out.busy = false }},
	} {
		if !p.steers() {
			t.Fatal("publishers do not steer, with nothing in the way")
		}
		if c.begin(); p.steers() {
			t.Errorf("publishers steer beside %s", name)
		}
		c.end()
	}
}

func heartbeatsOf(p *Publication) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Stats().HeartbeatsSent
}
