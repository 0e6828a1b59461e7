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

// TestConformanceWithWaiter runs the suite on devices that have waiters of their
// own (rdma.Waiting). The one here knows nothing of the device and so looks
// every now and then, as it may.
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

// A host whose devices have waiters: everything else is the fabric's.
type (
	waitingHost    struct{ *fabric.Host }
	waitingChannel struct{ rdma.EventChannel }
	waitingID      struct{ rdma.ID }
	waitingDevice  struct{ rdma.Device }
)

func (h waitingHost) NewEventChannel() (rdma.EventChannel, error) {
	c, err := h.Host.NewEventChannel()
	return waitingChannel{c}, err
}

func (c waitingChannel) CreateID(ps rdma.PortSpace, context any) (rdma.ID, error) {
	id, err := c.EventChannel.CreateID(ps, context)
	return waitingID{id}, err
}

func (id waitingID) Device() (rdma.Device, error) {
	d, err := id.ID.Device()
	return waitingDevice{d}, err
}

func (d waitingDevice) NewWaiter() (rdma.Waiter, error) {
	return &pollingWaiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}, nil
}

type pollingWaiter struct {
	wake  chan struct{}
	timer *time.Timer

	mu     sync.Mutex
	closed bool
}

func (w *pollingWaiter) Wait(timeout time.Duration) error {
	if w.isClosed() {
		return net.ErrClosed
	}
	const look = 100 * time.Microsecond
	if timeout < 0 || timeout > look {
		timeout = look
	}
	w.timer.Reset(timeout)
	select {
	case <-w.wake:
		w.timer.Stop()
	case <-w.timer.C:
	}
	return nil
}

func (w *pollingWaiter) Wake() {
	if w.isClosed() {
		panic("wake of a closed waiter")
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *pollingWaiter) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *pollingWaiter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}
