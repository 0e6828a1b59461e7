package engine

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// The loop yields its processor once to goroutines that it has woken, before its thread blocks. Otherwise it does not
// yield.
func TestGiveWay(t *testing.T) {
	_, l := newLoop(t, Config{})
	s := subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	if err := l.do(func() {
		l.readied = false
		for _, asleep := range []bool{false, true} {
			s.sleep.Store(asleep)
			l.woken = append(l.woken, s)
			l.wakeSubscriptions()
			if l.processors = 1; l.giveWay() {
				t.Error("giveWay returned true with one processor, want false")
			}
			s.sleep.Store(asleep)
			l.woken = append(l.woken, s)
			l.wakeSubscriptions()
			if l.processors = 2; l.giveWay() != asleep {
				t.Errorf("giveWay returned %v, want %v, as a reader sleeps", !asleep, asleep)
			}
			if l.giveWay() {
				t.Error("giveWay returned true without a woken goroutine, want false")
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// calls is a transport that records the loop's polls, with or without packets, and waits.
type calls struct {
	transport.Transport
	mu  sync.Mutex
	all []string // under mu
}

func (c *calls) record(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

func (c *calls) Poll(b *transport.Batch) error {
	err := c.Transport.Poll(b)
	if len(b.Trains) > 0 {
		c.record("packets")
	} else {
		c.record("nothing")
	}
	return err
}

func (c *calls) Wait(d time.Duration) error {
	c.record("wait")
	return c.Transport.Wait(d)
}

// A loop that has woken a reader polls once more before it sleeps.
func TestPollsAfterGivingWay(t *testing.T) {
	defer runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	c := new(calls)
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	_, l := newLoopOver(t, Config{Wait: WaitPark}, func(tr transport.Transport) transport.Transport { c.Transport = tr; return c })
	_, from := newLoop(t, Config{})
	s := subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	p, topic := publication(t, from, "x")
	if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); ; {
		for !s.sleep.Load() { // until the reader sleeps
			go func() { var d Delivery; s.Next(t.Context(), &d) }()
			time.Sleep(time.Millisecond)
		}
		c.mu.Lock()
		c.all = nil
		c.mu.Unlock()
		if err := p.Publish(t.Context(), topic, []byte("x"), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		c.mu.Lock()
		all := c.all
		c.mu.Unlock()
		if i := slices.Index(all, "packets"); i >= 0 && i+2 < len(all) && all[i+1] == "nothing" && all[i+2] == "wait" {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("calls %v, want packets, nothing and wait in a row", all)
		}
	}
}

// Consecutive commands share turns of the loop, because a turn takes longer than most commands.
func TestCommandsShareATurn(t *testing.T) {
	defer runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	c := new(calls)
	_, l := newLoopOver(t, Config{Wait: WaitPark}, func(tr transport.Transport) transport.Transport { c.Transport = tr; return c })
	const n = 2000
	for range n {
		if err := l.do(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	polls := 0
	for _, what := range c.all {
		if what != "wait" {
			polls++
		}
	}
	if polls > n/2 {
		t.Errorf("%d polls for %d commands, want at most %d", polls, n, n/2)
	}
	t.Logf("%d polls for %d commands", polls, n)
}
