package ud_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// TestConformanceWithWaiter runs the suite on devices with a waiter (rdma.Waiting) that wakes only for new events: an
// event that was not polled is not reported again.
func TestConformanceWithWaiter(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		f := fabric.New(fabric.Config{Live: true})
		t.Cleanup(func() { f.Close() })
		return transporttest.Fabric{Open: func(_ testing.TB, o transporttest.Options) transport.Transport {
			queue := 128
			if o.Queue > 0 {
				queue = o.Queue
			}
			tr, err := ud.Open(ud.Config{Provider: waitingHost{f.AddHost(fabric.HostConfig{})}, ReceiveQueue: queue, Peers: o.Peers})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}}
	})
}

// A host of the simulated fabric with devices that have waiters.
type (
	waitingHost    struct{ *fabric.Host }
	waitingChannel struct {
		rdma.EventChannel
		w          *strictWaiter
		ready      chan struct{}
		stop, done chan struct{}
	}
	waitingID struct {
		rdma.ID
		w *strictWaiter
	}
	waitingDevice struct {
		rdma.Device
		w *strictWaiter
	}
	waitingCQ struct{ rdma.CQ }
)

func (h waitingHost) NewEventChannel() (rdma.EventChannel, error) {
	ch, err := h.Host.NewEventChannel()
	if err != nil {
		return nil, err
	}
	c := &waitingChannel{
		EventChannel: ch, w: &strictWaiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)},
		ready: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go c.forward()
	return c, nil
}

// forward passes an event to both the loop and the waiter. It ends with Close.
func (c *waitingChannel) forward() {
	defer close(c.done)
	for {
		select {
		case <-c.EventChannel.Ready():
			signal(c.ready)
			signal(c.w.wake)
		case <-c.stop:
			return
		}
	}
}

func (c *waitingChannel) Ready() <-chan struct{} { return c.ready }

func (c *waitingChannel) Close() error {
	err := c.EventChannel.Close()
	if err == nil {
		close(c.stop)
		<-c.done
	}
	return err
}

func (c *waitingChannel) CreateID(ps rdma.PortSpace, context any) (rdma.ID, error) {
	id, err := c.EventChannel.CreateID(ps, context)
	return waitingID{id, c.w}, err
}

func (id waitingID) Device() (rdma.Device, error) {
	d, err := id.ID.Device()
	return waitingDevice{d, id.w}, err
}

func (id waitingID) CreateQP(pd rdma.PD, attr rdma.QPInitAttr) (rdma.QP, error) {
	attr.SendCQ, attr.RecvCQ = attr.SendCQ.(waitingCQ).CQ, attr.RecvCQ.(waitingCQ).CQ
	return id.ID.CreateQP(pd, attr)
}

func (d waitingDevice) NewWaiter() (rdma.Waiter, error) { return d.w, nil }

func (d waitingDevice) NewCompChannel() (rdma.CompChannel, error) {
	c, err := d.Device.NewCompChannel()
	d.w.comp = c
	return c, err
}

func (d waitingDevice) CreateCQ(entries int, c rdma.CompChannel, context any) (rdma.CQ, error) {
	q, err := d.Device.CreateCQ(entries, c, context)
	return waitingCQ{q}, err
}

// Poll arms the queue only when it finds it empty.
func (q waitingCQ) Poll(batch []rdma.WorkCompletion) (int, error) {
	n, err := q.CQ.Poll(batch)
	if n > 0 || err != nil {
		return n, err
	}
	if err := q.CQ.RequestNotify(false); err != nil {
		return 0, err
	}
	return q.CQ.Poll(batch) // completions before arming are not reported
}

// strictWaiter returns only for notifications of armed queues, for events and for Wake.
type strictWaiter struct {
	comp  rdma.CompChannel
	wake  chan struct{}
	timer *time.Timer

	mu     sync.Mutex
	closed bool
}

func (w *strictWaiter) Wait(timeout time.Duration) error {
	if w.isClosed() {
		return net.ErrClosed
	}
	var late <-chan time.Time
	if timeout >= 0 {
		w.timer.Reset(timeout)
		defer w.timer.Stop()
		late = w.timer.C
	}
	select {
	case <-w.wake:
	case <-late:
	case <-w.comp.Ready():
		for {
			if _, err := w.comp.TryWait(); err != nil {
				break
			}
		}
	}
	return nil
}

func (w *strictWaiter) Wake() {
	if w.isClosed() {
		panic("wake of a closed waiter")
	}
	signal(w.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *strictWaiter) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *strictWaiter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}
