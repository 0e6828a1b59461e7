package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// answering is a transport whose senders read replies themselves: there are
// none.
type answering struct{ transport.Transport }

func (t answering) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return answeringSender{s}, err
}

type answeringSender struct{ transport.Sender }

func (answeringSender) ReadReplies(func([]byte)) {}
func (answeringSender) ReplyAddress() string     { return "" }

// Send takes as long as a system call, so that however slow a test publishes its
// messages come closer than sends do.
func (s answeringSender) Send(out *transport.Outbound) (int, error) {
	for began := time.Now(); time.Since(began) < 30*time.Microsecond; {
	}
	return s.Sender.Send(out)
}

// saturate publishes until the loop is at rest, and lets trains fill. How fast a test
// publishes depends on the host: so the row of sends is as long as it takes from the beginning. TestRow has that of true ones.
func saturate(t *testing.T, p *Publication, topic *reliable.Topic) {
	t.Helper()
	l, d := p.l, p.l.departure
	for limit := time.Now().Add(time.Minute); ; {
		d.mu.Lock()
		d.row, d.steps = 2*rowSends, 2*busyAfter
		d.mu.Unlock()
		for range 100 { // of 4,000 bytes: several full trains, and the last one is open
			if err := p.Publish(context.Background(), topic, make([]byte, 4000), true); err != nil {
				t.Fatal(err)
			}
		}
		if l.resting.Load() {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("a publisher that does nothing but publish is not saturated")
		}
	}
}

func saturable(t *testing.T) (*Loop, *Publication, *reliable.Topic) {
	t.Helper()
	_, l := newLoopOver(t, Config{FlushAfter: 20 * time.Millisecond}, func(tr transport.Transport) transport.Transport { return answering{tr} })
	p, topic := publication(t, l, "x")
	return l, p, topic
}

// saturated reports whether the publisher does what is due by itself at now.
func saturated(p *Publication, now reliable.Instant) bool {
	parked, saturated := p.l.departure.parked()
	return p.steers() && saturated && now < parked
}

// The loop leaves a saturated publisher alone, and sends what is left when it stops.
func TestSaturated(t *testing.T) {
	l, p, topic := saturable(t)
	for saturate(t, p, topic); ; saturate(t, p, topic) {
		p.mu.Lock()
		parked, _ := l.departure.parked()
		sent := parked.Add(-loopPark)
		still, due := saturated(p, sent), p.deadline().Sub(sent)
		if o := &p.open; o.opened != 0 && o.opened < sent {
			due += sent.Sub(o.opened) // what is open has been since that train began to leave
		}
		p.mu.Unlock()
		if !still {
			continue // we were held up, and the loop has sent for us
		}
		if due < loopPark {
			t.Errorf("the loop is to look %v after the last train, not once in %v", due, loopPark)
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
			t.Fatal("the last messages were not sent")
		}
	}
}

// A command to a loop at rest is executed, and Close ends the loop.
func TestRestIsInterrupted(t *testing.T) {
	l, p, topic := saturable(t)
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
		t.Error(err)
	}
}

// A publisher that has to wait for a subscriber is not saturated: the loop is there
// when the subscriber answers.
func TestBlockedPublisherIsNotSaturated(t *testing.T) {
	l, p, topic := saturable(t)
	saturate(t, p, topic)
	stalled(t, p, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = p.Publish(ctx, topic, make([]byte, 500), true)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); l.resting.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the loop rests although a publisher waits")
		}
	}
}

// Messages that come close behind a send leave at once, as long as they are few. Behind them they wait.
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
	d.cost, d.steps = time.Hour, 0 // from now on all come close
	d.mu.Unlock()
	for i := range busyAfter {
		if publish() {
			t.Fatalf("message %d waits for others", i)
		}
	}
	if !publish() {
		t.Error("more than a few leave at once")
	}
}
