package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// slowSending is a transport with slow senders that read replies themselves. There are no replies.
type slowSending struct{ transport.Transport }

func (t slowSending) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return slowSendingSender{s}, err
}

type slowSendingSender struct{ transport.Sender }

func (slowSendingSender) ReadReplies(func([]byte)) {}
func (slowSendingSender) ReplyAddress() string     { return "" }

// Send takes as long as a system call, so that messages come faster than sends on any host.
func (s slowSendingSender) Send(out *transport.Outbound) (int, error) {
	for began := time.Now(); time.Since(began) < 30*time.Microsecond; {
	}
	return s.Sender.Send(out)
}

// saturate publishes full trains until the loop rests. It sets the length of the row of sends, because the rate of a test
// depends on the host. TestRow tests the row.
func saturate(t *testing.T, p *Publication, topic *topics.Topic) {
	t.Helper()
	l, d := p.l, p.l.departure
	for limit := time.Now().Add(time.Minute); ; {
		d.mu.Lock()
		d.row, d.steps = 2*rowSends, 2*busyAfter
		d.mu.Unlock()
		for range 100 { // several full trains, and an open one
			if err := p.Publish(context.Background(), topic, make([]byte, 4000), true); err != nil {
				t.Fatal(err)
			}
		}
		if l.resting.Load() {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the loop does not rest within a minute of publishing, want it to rest")
		}
	}
}

func newSaturable(t *testing.T) (*Loop, *Publication, *topics.Topic) {
	t.Helper()
	_, l := newLoopOver(t, Config{FlushAfter: 20 * time.Millisecond}, func(tr transport.Transport) transport.Transport { return slowSending{tr} })
	p, topic := publication(t, l, "x")
	return l, p, topic
}

// saturated reports whether the loop leaves p to its publishers at now.
func saturated(p *Publication, now reliable.Instant) bool {
	parked, saturated := p.l.departure.parked()
	return p.steers() && saturated && now < parked
}

// The loop leaves a saturated bus to its publisher, and sends the rest when the publisher stops.
func TestSaturated(t *testing.T) {
	l, p, topic := newSaturable(t)
	for saturate(t, p, topic); ; saturate(t, p, topic) {
		p.mu.Lock()
		parked, _ := l.departure.parked()
		sent := parked.Add(-loopPark)
		still, due := saturated(p, sent), p.deadline().Sub(sent)
		if o := &p.open; o.opened != 0 && o.opened < sent {
			due += sent.Sub(o.opened) // the open train is older than the end of the last send
		}
		p.mu.Unlock()
		if !still {
			continue // the test was delayed, and the loop has sent the train
		}
		if due < loopPark {
			t.Errorf("the loop checks %v after the last train, want at least %v", due, loopPark)
		}
		break
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		p.open.take()
		assigned := !p.open.w.Pending()
		sent := p.s.Transmitted() == p.s.Lead()
		p.mu.Unlock()
		if assigned && sent {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the last messages were not sent within a minute")
		}
	}
}

// A resting loop executes commands, and Close ends it.
func TestRestIsInterrupted(t *testing.T) {
	l, p, topic := newSaturable(t)
	for range 3 {
		saturate(t, p, topic)
		if err := l.do(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	saturate(t, p, topic)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("Close of a resting loop returned %v, want nil", err)
	}
}

// A publisher that waits for a subscriber is not saturated, so that the loop reads the subscriber's statuses.
func TestBlockedPublisherIsNotSaturated(t *testing.T) {
	l, p, topic := newSaturable(t)
	saturate(t, p, topic)
	stalled(t, p, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = p.Publish(ctx, topic, make([]byte, 500), true)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Publish returned %v, want %v", err, context.DeadlineExceeded)
	}
	for limit := time.Now().Add(time.Minute); l.resting.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the loop rests for a minute while a publisher waits, want it to run")
		}
	}
}

// Of messages that follow a send closely, the first busyAfter leave at once and later ones wait.
func TestCloseMessagesLeaveAtOnce(t *testing.T) {
	_, l := newLoopOver(t, Config{FlushAfter: time.Hour}, func(tr transport.Transport) transport.Transport { return tr })
	p, topic := publication(t, l, "x")
	publish := func() (waits bool) {
		if err := p.Publish(context.Background(), topic, []byte("close"), true); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open.take()
		defer p.giveOpen()
		return p.open.w.Pending()
	}
	d := l.departure
	d.mu.Lock()
	d.cost, d.steps = time.Hour, 0 // all later messages are close
	d.mu.Unlock()
	for i := range busyAfter {
		if publish() {
			t.Fatalf("message %d waits, want it sent at once", i)
		}
	}
	if !publish() {
		t.Errorf("message %d was sent at once, want it to wait", busyAfter)
	}
}
