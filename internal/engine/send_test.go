package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// refusing is a transport whose senders accept no packets.
type refusing struct {
	transport.Transport
	err   error
	calls atomic.Int64
}

type refusingSender struct {
	transport.Sender
	t *refusing
}

func (t *refusing) NewSender(group int) (transport.Sender, error) {
	s, err := t.Transport.NewSender(group)
	return refusingSender{s, t}, err
}

func (s refusingSender) Send(*transport.Outbound) (int, error) {
	s.t.calls.Add(1)
	return 0, s.t.err
}

// If a transport accepts no packets, for any reason, sends are retried at intervals of busyRetry, without a spin.
func TestRefusedSendsAreRetriedInTime(t *testing.T) {
	for _, reason := range []error{transport.ErrBusy, syscall.ENETUNREACH} {
		inner, err := mem.Open(mem.Config{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		tr := &refusing{Transport: inner, err: reason}
		l := start(tr, Config{})
		p, err := l.Publication(0)
		if err != nil {
			t.Fatal(err)
		}
		topic, err := p.Topic("x")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 100 {
			if err := p.Publish(context.Background(), topic, []byte("message"), true); err != nil {
				t.Fatal(err)
			}
		}
		for tr.calls.Load() < 200 { // so that sends are retried
			time.Sleep(time.Millisecond)
		}
		calls, limit := tr.calls.Load(), int64(time.Since(begin)/busyRetry)+200
		if calls > limit {
			t.Errorf("%v: %d sends, want at most %d in that time", reason, calls, limit)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := l.Close(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Close with unsent messages returned %v, want %v", err, context.Canceled)
		}
	}
}
