package legs_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// descriptor is a leg that waits with a descriptor. Its fields say what it can do.
type descriptor struct {
	transport.Transport
	fd      int
	maxWait time.Duration // longest wait; negative: no limit
	refuse  error         // error of WaitFor
	hosts   []int         // descriptors that it waits for in addition
	waits   []time.Duration
	begun   int // calls of BeginWait without EndWait
}

func (d *descriptor) WaitDescriptor() int { return d.fd }

func (d *descriptor) WaitFor(fd int) error {
	if d.refuse == nil {
		d.hosts = append(d.hosts, fd)
	}
	return d.refuse
}

func (d *descriptor) BeginWait(timeout time.Duration) time.Duration {
	d.begun++
	if d.maxWait >= 0 && (timeout < 0 || d.maxWait < timeout) {
		return d.maxWait
	}
	return timeout
}

func (d *descriptor) EndWait() { d.begun-- }

func (d *descriptor) Wait(timeout time.Duration) error {
	d.waits = append(d.waits, timeout)
	return nil
}

// The first leg that is able to waits for all legs with a descriptor, at most for the shortest of their limits. Every
// other leg has a goroutine.
func TestOneWaitForAll(t *testing.T) {
	const forever = time.Duration(-1)
	for _, c := range []struct {
		name       string
		legs       []*descriptor
		timeout    time.Duration
		host       int
		hosts      []int
		waits      time.Duration
		goroutines int
	}{
		{"two", []*descriptor{{fd: 3, maxWait: forever}, {fd: 4, maxWait: forever}}, time.Second, 0, []int{4}, time.Second, 0},
		{"one that has a train", []*descriptor{{fd: 3, maxWait: forever}, {fd: 4}}, forever, 0, []int{4}, 0, 0},
		{"two that limit the wait", []*descriptor{{fd: 3, maxWait: forever}, {fd: 4, maxWait: time.Millisecond}, {fd: 5, maxWait: time.Minute}}, forever, 0, []int{4, 5}, time.Millisecond, 0},
		{"one without a descriptor", []*descriptor{{fd: -1}, {fd: 4, maxWait: forever}, {fd: 5, maxWait: forever}}, forever, 1, []int{5}, forever, 1},
		{"one that cannot be a host", []*descriptor{{fd: 3, maxWait: forever, refuse: errors.New("no")}, {fd: 4, maxWait: forever}}, forever, 0, nil, forever, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []transport.Transport
			for _, d := range c.legs {
				l, err := mem.Open(mem.Config{Network: mem.NewNetwork(), Groups: 4})
				if err != nil {
					t.Fatal(err)
				}
				if d.Transport = l; d.fd < 0 {
					all = append(all, l)
					continue
				}
				all = append(all, d)
			}
			x, err := legs.New(all, []string{"A", "B", "C"}[:len(all)])
			if err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			for range 2 {
				if err := x.Wait(c.timeout); err != nil {
					t.Fatal(err)
				}
			}
			if n := runtime.NumGoroutine() - before; c.goroutines == 0 && n > 0 || c.goroutines > 0 && n > c.goroutines {
				t.Errorf("%d goroutines wait, want %d", n, c.goroutines)
			}
			host := c.legs[c.host]
			if !slices.Equal(host.hosts, c.hosts) {
				t.Errorf("the first leg waits for descriptors %v, want %v", host.hosts, c.hosts)
			}
			if want := []time.Duration{c.waits, c.waits}; !slices.Equal(host.waits, want) {
				t.Errorf("the first leg waits %v, want %v", host.waits, want)
			}
			for i, d := range c.legs {
				if d.begun != 0 {
					t.Errorf("leg %d began %d waits that have not ended", i, d.begun)
				}
			}
			x.Close()
			for b := transport.NewBatch(1); x.Poll(b) == nil; {
				runtime.Gosched()
			}
		})
	}
}

// If a goroutine waits for a leg, Wait lasts as long as requested, even after a Poll, which interrupts the goroutine: a
// loop of both is idle while nothing arrives. A packet on either leg ends Wait.
func TestWaitLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all, others []transport.Transport
		for range 2 {
			network := mem.NewNetwork()
			for _, to := range []*[]transport.Transport{&all, &others} {
				l, err := mem.Open(mem.Config{Network: network, Groups: 1})
				if err != nil {
					t.Fatal(err)
				}
				*to = append(*to, l)
			}
		}
		x, err := legs.New(all, []string{"A", "B"})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Join(0); err != nil {
			t.Fatal(err)
		}
		b := transport.NewBatch(8)
		poll := func() (packets int) {
			if err := x.Poll(b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Trains {
				packets += b.Trains[i].Count()
				x.Release(&b.Trains[i])
			}
			return packets
		}
		poll()
		const waits, each = 100, 10 * time.Millisecond
		began := time.Now()
		for range waits {
			if err := x.Wait(each); err != nil {
				t.Fatal(err)
			}
			poll()
		}
		if d := time.Since(began); d < (waits-3)*each { // the first ones return earlier events
			t.Errorf("%d waits of %v took %v, want at least %v", waits, each, d, (waits-3)*each)
		}
		for leg, other := range others {
			s, err := other.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				sent := make(chan struct{})
				time.AfterFunc(each, func() {
					defer close(sent)
					if _, err := s.Send(&transport.Outbound{Data: make([]byte, 64), Stride: 64, Lens: []uint16{64}, Count: 1}); err != nil {
						t.Error(err)
					}
				})
				began, got := time.Now(), 0
				for got == 0 && time.Since(began) < time.Second {
					if err := x.Wait(time.Second); err != nil {
						t.Fatal(err)
					}
					got = poll()
				}
				<-sent
				if d := time.Since(began); got != 1 || d != each {
					t.Errorf("leg %d: %d packets after %v, want 1 after %v", leg, got, d, each)
				}
			}
		}
		for _, o := range append(others, x) {
			o.Close()
			for b := transport.NewBatch(1); o.Poll(b) == nil; {
				o.Wait(-1)
			}
		}
	})
}
