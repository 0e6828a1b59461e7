package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// slowSends is a transport that takes longer to send than a heartbeat waits behind data, as where trains are signed.
type slowSends struct {
	transport.Transport
	next chan time.Duration // from the end of the first send of data to the beginning of the next send

	mu  sync.Mutex
	end time.Time // under mu: of the first send of data
}

type slowSender struct {
	transport.Sender
	t *slowSends
}

func (t *slowSends) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return slowSender{s, t}, err
}

func (s slowSender) Send(out *transport.Outbound) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if !s.t.end.IsZero() {
		select {
		case s.t.next <- time.Since(s.t.end):
		default:
		}
		return s.Sender.Send(out)
	}
	n, err := s.Sender.Send(out)
	if h, e := wire.ParseHeader(out.Data); e == nil && h.Type == wire.TypeData {
		time.Sleep(300 * time.Microsecond)
		s.t.end = time.Now()
	}
	return n, err
}

// A heartbeat goes 100 µs after data has been sent, not after its sending began: it would follow each train of a
// publisher whose sends take long. docs/protocol §5.8.
func TestSlowSends(t *testing.T) {
	slow := &slowSends{next: make(chan time.Duration, 1)}
	_, l := newLoopOver(t, Config{}, func(tr transport.Transport) transport.Transport {
		slow.Transport = tr
		return slow
	})
	p, topic := publication(t, l, "x")
	// Now and then one goes because the last was 10 ms ago, which is as it should be.
	var early []time.Duration
	for len(early) < 20 {
		if err := p.Publish(context.Background(), topic, []byte("a"), true); err != nil {
			t.Fatal(err)
		}
		d := <-slow.next
		if d >= 90*time.Microsecond {
			return
		}
		early = append(early, d)
		slow.mu.Lock()
		slow.end = time.Time{}
		slow.mu.Unlock()
	}
	t.Errorf("heartbeats went %v after data", early)
}
