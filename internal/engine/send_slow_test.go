package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// slowSends is a transport whose sends take longer than the delay of a heartbeat after data, as if trains were signed.
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

// A heartbeat is sent 100 µs after the end of a send of data. Measured from its beginning, a heartbeat would follow each
// train of a publisher with slow sends. docs/protocol §5.8.
func TestSlowSends(t *testing.T) {
	slow := &slowSends{next: make(chan time.Duration, 1)}
	_, l := newLoopOver(t, Config{}, func(tr transport.Transport) transport.Transport {
		slow.Transport = tr
		return slow
	})
	p, topic := publication(t, l, "x")
	// Some heartbeats are due because the last one was 10 ms ago.
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
	t.Errorf("heartbeats were sent %v after data, want one after at least 90µs", early)
}
