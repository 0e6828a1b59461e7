package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// If the transport fails while goroutines wait for room, each of them gets the error, and none writes into freed packet
// memory.
func TestFailureUnderWaiters(t *testing.T) {
	ctx := context.Background()
	for name, publish := range map[string]func(*Publication, *topics.Topic) error{
		"batch": func(p *Publication, topic *topics.Topic) error {
			msgs := make([][]byte, 10_000)
			for i := range msgs {
				msgs[i] = make([]byte, 1000)
			}
			n, err := p.PublishBatch(ctx, topic, msgs)
			if n == 0 || n == len(msgs) {
				t.Errorf("%d messages of a failed batch, want 1 to %d", n, len(msgs)-1)
			}
			return err
		},
		"large": func(p *Publication, topic *topics.Topic) error {
			return p.Publish(ctx, topic, make([]byte, 10<<20), true)
		},
		"one by one": func(p *Publication, topic *topics.Topic) error {
			for {
				if err := p.Publish(ctx, topic, make([]byte, 1000), true); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr, l := newLoop(t, Config{WindowBytes: 64 << 10})
			p, topic := publication(t, l, "x")
			stalled(t, p, topic)
			done := make(chan error)
			go func() { done <- publish(p, topic) }()
			awaitBlocked(p)
			p.mu.Lock() // so that the loop ends before the waiter continues
			tr.fail.Store(true)
			tr.Wake()
			time.Sleep(150 * time.Millisecond) // by then a heartbeat is due
			p.mu.Unlock()
			if err := <-done; !errors.Is(err, errGone) {
				t.Errorf("publishing ended with %v, want %v", err, errGone)
			}
			if _, err := l.Publication(1); !errors.Is(err, errGone) {
				t.Errorf("Publication on an ended loop returned %v, want %v", err, errGone)
			}
		})
	}
}

// Flush waits for messages published before it, not for later ones.
func TestFlushEndsUnderLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, l := newLoop(t, Config{})
	p, topic := publication(t, l, "x")
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				p.Publish(ctx, topic, make([]byte, 500), true)
			}
		}
	}()
	written := func() (begun, assigned uint64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open.take()
		defer p.giveOpen()
		return p.open.w.Begun(), p.open.w.Packets.Assigned()
	}
	for range 100 {
		if err := p.Publish(ctx, topic, []byte("a"), true); err != nil {
			t.Fatal(err)
		}
		begun, _ := written()
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if _, assigned := written(); assigned < begun { // the other goroutine continues to publish
			t.Fatalf("after Flush %d packets are assigned, want at least %d", assigned, begun)
		}
	}
	close(stop)
	<-ended
}

// While a subscriber that does not read blocks a goroutine, heartbeats keep their increasing intervals.
func TestHeartbeatsWhileBlocked(t *testing.T) { synctest.Test(t, testHeartbeatsWhileBlocked) }

func testHeartbeatsWhileBlocked(t *testing.T) {
	ctx := context.Background()
	_, l := newLoop(t, Config{WindowBytes: 64 << 10})
	p, topic := publication(t, l, "x")
	stalled(t, p, topic)
	full, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	for p.Publish(full, topic, make([]byte, 1000), true) == nil {
	}
	before, _ := l.Stats()
	flush, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := p.Flush(flush); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Flush with a blocking subscriber returned %v, want %v", err, context.DeadlineExceeded)
	}
	after, _ := l.Stats()
	// The interval rises to 100 ms in a dozen steps.
	if n := after.Publications[0].HeartbeatsSent - before.Publications[0].HeartbeatsSent; n > 40 {
		t.Errorf("%d heartbeats in half a second, want at most 40", n)
	}
}

// TryPublish of a large message does not begin a message that it would have to wait for.
func TestTryLarge(t *testing.T) {
	ctx := context.Background()
	_, l := newLoop(t, Config{WindowBytes: 1 << 20})
	p, topic := publication(t, l, "x")
	p.mu.Lock()
	other := p.m.NewWriter()
	p.s.Grant(other.Packets)
	other.AppendFragment(topic, make([]byte, 100_000), 0, 0) // another writer has begun
	p.m.Assign(p.l.now(), other, false)
	p.mu.Unlock()
	var bp *events.BackPressureError
	if err := p.Publish(ctx, topic, make([]byte, 660_000), false); !errors.As(err, &bp) || bp.Reason != events.ReasonOther {
		t.Fatalf("a large message during another writer's returned %v, want %v", err, events.ReasonOther)
	}
	p.mu.Lock()
	p.m.Abandon(other)
	p.mu.Unlock()
	if err := p.Publish(ctx, topic, make([]byte, 660_000), false); err != nil {
		t.Errorf("a large message with enough room returned %v, want nil", err)
	}
}
