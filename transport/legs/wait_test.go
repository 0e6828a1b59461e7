package legs_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// descriptor is a leg that waits by a descriptor, as far as it says.
type descriptor struct {
	transport.Transport
	fd     int
	most   time.Duration // that it may be waited for; negative: without end
	refuse error         // of WaitFor
	hosts  []int         // descriptors that it waits for
	waits  []time.Duration
	begun  int // BeginWait without EndWait
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
	if d.most >= 0 && (timeout < 0 || d.most < timeout) {
		return d.most
	}
	return timeout
}

func (d *descriptor) EndWait() { d.begun-- }

func (d *descriptor) Wait(timeout time.Duration) error {
	d.waits = append(d.waits, timeout)
	return nil
}

// The first leg that can hosts those that can, for as long as the least of them lets it; the
// others have a goroutine each.
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
		{"two", []*descriptor{{fd: 3, most: forever}, {fd: 4, most: forever}}, time.Second, 0, []int{4}, time.Second, 0},
		{"one that has something", []*descriptor{{fd: 3, most: forever}, {fd: 4}}, forever, 0, []int{4}, 0, 0},
		{"one that has a time", []*descriptor{{fd: 3, most: forever}, {fd: 4, most: time.Millisecond}, {fd: 5, most: time.Minute}}, forever, 0, []int{4, 5}, time.Millisecond, 0},
		{"one without a descriptor", []*descriptor{{fd: -1}, {fd: 4, most: forever}, {fd: 5, most: forever}}, forever, 1, []int{5}, forever, 1},
		{"one that cannot be a host", []*descriptor{{fd: 3, most: forever, refuse: errors.New("no")}, {fd: 4, most: forever}}, forever, 0, nil, forever, 1},
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
				t.Errorf("the host waits for %v, want %v", host.hosts, c.hosts)
			}
			if want := []time.Duration{c.waits, c.waits}; !slices.Equal(host.waits, want) {
				t.Errorf("the host waits %v, want %v", host.waits, want)
			}
			for i, d := range c.legs {
				if d.begun != 0 {
					t.Errorf("leg %d has begun %d waits that have not ended", i, d.begun)
				}
			}
			x.Close()
			for b := transport.NewBatch(1); x.Poll(b) == nil; {
				runtime.Gosched()
			}
		})
	}
}
