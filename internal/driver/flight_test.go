package driver

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

// fly publishes until the loop is at rest, and lets trains fill.
func fly(t *testing.T, l *Loop, x *Exclusive) {
	t.Helper()
	msg := make([]byte, 4000) // few make a train, however slow a test publishes them
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
	_, l := newLoopOver(t, Config{FlushAfter: 20 * time.Millisecond}, func(tr transport.Transport) transport.Transport { return answering{tr} })
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
		if x.opened != 0 && x.opened < p.lastSend {
			due += p.lastSend.Sub(x.opened) // what is open has been since that train began to leave
		}
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

// A pause ends a flight, but for one in which subscribers held the publisher up.
func TestPausesInFlight(t *testing.T) {
	const now = reliable.Instant(time.Minute)
	for _, c := range []struct {
		name      string
		gap       time.Duration
		all, held bool
		want      int
	}{
		{"no pause", steadyGap - 1, true, false, flightSends + 1},
		{"full trains, apart", flightPatience - 1, false, false, flightSends + 1},
		{"a short pause", flightPatience - 1, true, false, flightSends - pausePrice},
		{"a long pause", flightPatience, false, false, flightSends / 2},
		{"held up", time.Second, false, true, flightSends - pausePrice},
	} {
		p := Publication{steady: flightSends, lastSend: now.Add(-c.gap)}
		if p.sending(now, c.all, c.held); p.steady != c.want {
			t.Errorf("%s: %d sends in a row, want %d", c.name, p.steady, c.want)
		}
	}
}

// Who fills trains is busy, however long each takes.
func TestPaceOfABusyPublisher(t *testing.T) {
	const cost = 10 * time.Microsecond
	now := reliable.Instant(time.Minute)
	p := Publication{sendCost: cost, lookedAt: now}
	for range 100 {
		now = now.Add(8 * cost)
		p.paced(now, true)
	}
	if p.pace < 2*cost {
		t.Errorf("single messages come %v apart by its account, they come %v", p.pace, 8*cost)
	}
	for range 100 {
		now = now.Add(8 * cost)
		p.paced(now, false)
	}
	if p.pace > cost {
		t.Errorf("who fills trains is taken for idle: a pace of %v", p.pace)
	}
}

// What has waited too long ends the row of full trains, but for a train that is
// filled slowly.
func TestLateTrains(t *testing.T) {
	_, l := newLoop(t, Config{WindowBytes: 1 << 20})
	p, topic := publication(t, l, "x")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeShared()
	most := p.block / p.s.PacketSize()
	o := &p.shared
	o.fulls = flightSends
	for i := range most {
		for before := o.w.Begun(); o.w.Begun() == before; {
			if !o.w.Append(topic, make([]byte, 500)) {
				t.Fatal("no room")
			}
		}
		o.fulls = flightSends
		o.overdue(most)
		want := 0
		if i+1 >= max(2, most/2) {
			want = flightSends - pausePrice
		}
		if o.fulls != want {
			t.Errorf("%d of %d packets: %d trains in a row, want %d", i+1, most, o.fulls, want)
		}
	}
}

// A publisher in flight that stops is looked after, and is in flight again as soon
// as it goes on: it may only have been held up.
func TestPausedFlight(t *testing.T) {
	l, p, x := flying(t)
	fly(t, l, x)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		paused, flies := p.paused, p.inFlight()
		p.mu.Unlock()
		if paused {
			if flies {
				t.Error("it is in flight although it pauses")
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the loop does not see that nothing is sent")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steady = 2 * flightSends
	p.sending(p.lastSend.Add(flightPatience), true, false)
	if !p.inFlight() {
		t.Error("one pause has ended a long flight")
	}
}

// Messages that come close behind a send leave at once, as long as they are few and
// the publisher is mostly idle.
func TestCloseMessagesLeaveAtOnce(t *testing.T) {
	_, l := newLoopOver(t, Config{FlushAfter: time.Hour}, func(tr transport.Transport) transport.Transport { return tr })
	p, topic := publication(t, l, "x")
	x := ownWriter(t, p, topic)
	publish := func() (waits bool) {
		if err := x.Publish(context.Background(), []byte("close"), true); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.seize(x) && x.w.Pending()
	}
	p.mu.Lock()
	p.sendCost, p.pace = time.Hour, 0 // from now on all come close
	p.lastSend = l.now()
	p.mu.Unlock()
	if !publish() {
		t.Error("a message that came close did not wait for company, although its publisher is busy")
	}
	if err := x.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.sendCost, p.pace, p.lastSend = time.Hour, 4*time.Hour, l.now()
	p.mu.Unlock()
	for i := range mostClose {
		if publish() {
			t.Fatalf("message %d waits for company", i)
		}
	}
	p.mu.Lock()
	waited := x.close == mostClose
	p.mu.Unlock()
	if !waited {
		t.Error("a few are not counted")
	}
}
