package driver

import (
	"context"
	"errors"
	"testing"
	"time"

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

// fly publishes until the loop is at rest, and lets trains fill.
func fly(t *testing.T, l *Loop, x *Exclusive) {
	t.Helper()
	msg := make([]byte, 500)
	full := func() bool {
		x.p.mu.Lock()
		defer x.p.mu.Unlock()
		return x.fulls >= flightSends
	}
	for limit := time.Now().Add(time.Minute); !l.resting.Load() || !full(); {
		if time.Now().After(limit) {
			t.Fatal("a publisher that does nothing but publish is not in full flight")
		}
		for range 100 {
			if err := x.Publish(context.Background(), msg, true); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func flying(t *testing.T) (*Loop, *Publication, *Exclusive) {
	t.Helper()
	_, l := newLoopOver(t, Config{}, func(tr transport.Transport) transport.Transport { return answering{tr} })
	p, topic := publication(t, l, "x")
	return l, p, ownWriter(t, p, topic)
}

// The loop leaves a publisher in full flight alone, and sends what is left when
// it stops.
func TestFullFlight(t *testing.T) {
	l, p, x := flying(t)
	for fly(t, l, x); ; fly(t, l, x) {
		p.mu.Lock()
		still, due := p.inFlight(), p.deadline().Sub(p.lastSend)
		p.mu.Unlock()
		if !still {
			continue // we were held up, and the loop has sent for us
		}
		if due < flightPatience {
			t.Errorf("the loop is to look %v after the last train, not once in %v", due, flightPatience)
		}
		break
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		sealed := p.seize(x) && !x.w.Pending()
		sent := p.s.Transmitted() == p.s.Lead()
		p.mu.Unlock()
		if sealed && sent {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the last messages of a flight were not sent")
		}
	}
}

// Who wants something of a loop at rest gets it, and Close ends it.
func TestRestIsInterrupted(t *testing.T) {
	l, _, x := flying(t)
	for range 3 {
		fly(t, l, x)
		if err := l.do(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	fly(t, l, x)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

// A publisher that has to wait for a subscriber is not in flight: the loop is
// there when the subscriber answers.
func TestBlockedPublisherEndsFlight(t *testing.T) {
	l, p, x := flying(t)
	fly(t, l, x)
	topic, _ := p.Topic("x")
	stalled(t, p, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = x.Publish(ctx, make([]byte, 500), true)
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
