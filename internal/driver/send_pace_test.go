package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// readingReplies is a transport whose senders read replies themselves, of which there are none.
type readingReplies struct{ transport.Transport }

func (t readingReplies) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return struct {
		transport.Sender
		noReplies
	}{s, noReplies{}}, err
}

type noReplies struct{}

func (noReplies) ReadReplies(func([]byte)) {}
func (noReplies) ReplyAddress() string     { return "" }

// Messages that keep a pace as short as a heartbeat waits are not followed by one each, and the loop sleeps meanwhile. When they end
// one comes soon. Those further apart are, so that a loss does not wait for the next message. docs/protocol.md §5.1, §5.2.
func TestHeartbeatsBesidePace(t *testing.T) {
	const messages = 4 * saturatedSends
	for _, c := range []struct {
		apart time.Duration
		each  bool
	}{
		{20 * time.Microsecond, false},
		{50 * time.Microsecond, false},
		{100 * time.Microsecond, false},
		{200 * time.Microsecond, false},
		{shortPause - 10*time.Microsecond, false},
		{2 * shortPause, true},
		{time.Millisecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, l := newLoopOver(t, Config{FlushAfter: 50 * time.Microsecond}, func(tr transport.Transport) transport.Transport { return readingReplies{tr} })
			p, topic := publication(t, l, "x")
			x := ownWriter(t, p, topic)
			publish := func() {
				for range messages {
					if err := x.Publish(context.Background(), make([]byte, 64), true); err != nil {
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

// Who waits until all have everything asks at once, also behind messages that keep a pace, in which the loop is left alone.
// docs/protocol.md §5.8.
func TestDrainBesidePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := newLoopOver(t, Config{FlushAfter: 50 * time.Microsecond}, func(tr transport.Transport) transport.Transport { return readingReplies{tr} })
		_, there := newLoop(t, Config{})
		if _, err := there.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, quiet); err != nil {
			t.Fatal(err)
		}
		p, topic := publication(t, l, "x")
		if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		x := ownWriter(t, p, topic)
		for i := range 4 * saturatedSends {
			if err := x.Publish(t.Context(), make([]byte, 64), true); err != nil {
				t.Fatal(err)
			}
			if began := time.Now(); i%32 == 31 {
				if err := x.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took >= 100*time.Microsecond {
					t.Errorf("behind message %d it took %v, on a network that takes no time", i, took)
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
}

func heartbeatsOf(p *Publication) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Stats().HeartbeatsSent
}
