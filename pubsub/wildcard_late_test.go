package pubsub

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// arrivals checks the messages of a topic: numbers in order from the first on, and their delays.
type arrivals struct {
	mu      sync.Mutex
	first   uint64        // under mu
	n       uint64        // under mu
	last    time.Time     // under mu: time of the latest
	longest time.Duration // under mu: longest time between two
	late    time.Duration // under mu: the longest from publishing to delivery
	fault   error         // under mu
}

func (a *arrivals) take(m Message, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	switch {
	case a.fault != nil:
	case err != nil:
		a.fault = err
	case a.n > 0 && m.Number != a.first+a.n:
		a.fault = fmt.Errorf("%s: message %d instead of %d", m.Topic, m.Number, a.first+a.n)
	case a.n == 0:
		a.first = m.Number
	default:
		a.longest = max(a.longest, now.Sub(a.last))
	}
	a.n++
	a.last = now
	a.late = max(a.late, now.Sub(time.Unix(0, int64(binary.LittleEndian.Uint64(m.Data)))))
}

// A new pattern on a running stream with 10,000 topics in the group delays no one: a subscription by name gets a
// message every millisecond throughout, and the pattern gets every message from its beginning on without delay.
// docs/protocol §9.9.
func TestLatePatternBlocksNoPublisher(t *testing.T) {
	for _, handled := range []bool{false, true} {
		for _, added := range []bool{false, true} {
			t.Run(fmt.Sprintf("handled %v, added %v", handled, added), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { latePattern(t, handled, added) })
			})
		}
	}
}

// long is the beginning of long names: sending all of them takes a while.
var long = strings.Repeat("name.", 40)

func latePattern(t *testing.T, handled, added bool) {
	const every = time.Millisecond
	topics := fewer(10_000)
	lastName := fmt.Sprint(long, topics-1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	url := memURL(t) + "?groups=1&size=1472"
	pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark}, url)
	var neighbour, wild, other arrivals
	follow := func(topic string, take func(Message, error)) *Subscription {
		t.Helper()
		if handled {
			s, err := subBus.Handle(topic, take)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := subscribe(t, subBus, topic)
		go func() {
			for m, err := range s.Messages(ctx) {
				take(m, err)
			}
		}()
		return s
	}
	follow("x", neighbour.take)
	more := follow(long+"0", func(m Message, err error) {
		if err != nil || m.Topic == "x" {
			wild.take(m, err)
		} else if m.Topic == lastName {
			other.take(m, err)
		}
	})
	x := publisher(t, pubBus, "x")
	wait(t, ctx, x, 1)
	var all []*Publisher
	for i := range topics {
		p := publisher(t, pubBus, fmt.Sprint(long, i))
		publish(t, ctx, p, "12345678")
		all = append(all, p)
	}
	last := all[topics-1]
	if err := last.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	say := func(p *Publisher) {
		if err := p.Publish(ctx, binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))); err != nil {
			t.Error(err)
		}
		if err := p.Flush(ctx); err != nil {
			t.Error(err)
		}
	}
	const n = 2000
	var said atomic.Uint64 // messages of x published, or being published
	began := make(chan uint64, 1)
	beginAt := func() {
		if added {
			if err := more.Add(">"); err != nil {
				t.Error(err)
			}
		} else {
			more = follow(">", wild.take2(lastName, &other))
		}
		began <- said.Load() // messages published from now on must arrive
	}
	for i := range n {
		if i == n/4 {
			go beginAt()
		}
		said.Add(1)
		say(x)
		say(all[topics-2-i]) // its name is sent late, and its messages hold up those of x until then
		if i >= n*3/4 {
			say(last) // of a topic with a known name
		}
		time.Sleep(every)
	}
	synctest.Wait()
	at := <-began
	for name, a := range map[string]*arrivals{"neighbour": &neighbour, "pattern": &wild, "pattern, another topic": &other} {
		a.mu.Lock()
		t.Logf("%s: %d messages from %d on, longest pause %v, longest delay %v", name, a.n, a.first, a.longest, a.late)
		if a.fault != nil {
			t.Errorf("%s: wrong message: %v", name, a.fault)
		}
		if a.longest > every+every/2 || a.late > every/2 {
			t.Errorf("%s: a pause of %v, a delay of %v, want at most %v and %v", name, a.longest, a.late, every+every/2, every/2)
		}
		a.mu.Unlock()
	}
	if neighbour.n != n || wild.first > at || wild.first+wild.n != n || other.n != n/4 {
		t.Errorf("the neighbour got %d, the pattern began at message %d, subscribed at %d, and got %d; of another topic %d", neighbour.n, wild.first, at, wild.n, other.n)
	}
}

// take2 is a handler that passes messages of topic last to other, and the rest to a.
func (a *arrivals) take2(last string, other *arrivals) func(Message, error) {
	return func(m Message, err error) {
		switch {
		case err != nil || m.Topic == "x":
			a.take(m, err)
		case m.Topic == last:
			other.take(m, err)
		}
	}
}
