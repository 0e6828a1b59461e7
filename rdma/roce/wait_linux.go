package roce

import (
	"cmp"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
)

// There are three ways to learn that something has come:
//
//   - poll: CQ.Poll receives when the queue is empty;
//   - a waiter: the goroutine that polls blocks in epoll_wait itself;
//   - an armed completion queue: as long as there is one the device's watch
//     goroutine blocks in epoll_wait, and receives.
//
// All use the device's epoll descriptor, over all sockets, which tells of what
// was not read yet however often it is asked.

// waiter implements rdma.Waiter. Its timeout is a timerfd because epoll's own is
// 1 ms coarse.
type waiter struct {
	d      *device
	poll   *poller
	sig    signal
	timer  int
	evs    [4]unix.EpollEvent
	closed atomic.Bool
	parked atomic.Bool // in Wait, or about to be
	woken  atomic.Bool // since the last Wait

	start time.Time
	armed time.Duration // since start: when the timer rings, or rang
}

// NewWaiter implements soft.Parker.
func (d *device) NewWaiter() (rdma.Waiter, error) {
	const op = "create waiter"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.start(); err != nil {
		return nil, err
	}
	w := &waiter{d: d, timer: -1, start: time.Now()}
	var err error
	if w.poll, err = newPoller(); err != nil {
		return nil, failed(op, err)
	}
	if err = w.sig.open(); err != nil {
		w.poll.close()
		return nil, failed(op, err)
	}
	w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	err = cmp.Or(os.NewSyscallError("timerfd", err),
		w.poll.add(w.sig.fd, 0, unix.EPOLLIN|unix.EPOLLET),
		w.poll.add(w.timer, 0, unix.EPOLLIN|unix.EPOLLET),
		w.poll.add(d.watched.fd, 0, unix.EPOLLIN))
	if err != nil {
		w.free()
		return nil, failed(op, err)
	}
	d.waiters[w] = struct{}{}
	return w, nil
}

func (w *waiter) free() {
	w.sig.close()
	w.poll.close()
	if w.timer >= 0 {
		unix.Close(w.timer)
	}
}

// Wait implements rdma.Waiter.
func (w *waiter) Wait(timeout time.Duration) error {
	if w.closed.Load() {
		return rdma.ClosedError("wait", "waiter")
	}
	w.parked.Store(true)
	w.d.parked.Add(1)
	if !w.woken.Swap(false) && timeout != 0 && !w.d.gone.Load() {
		if timeout > 0 {
			w.arm(timeout)
		}
		w.poll.block(w.evs[:], forever)
		w.woken.Store(false)
	}
	w.d.parked.Add(-1)
	w.parked.Store(false)
	return nil
}

// arm sets the timer to ring after timeout, unless it will ring before that
// anyway: Wait may return early, and callers mostly ask for the same deadline
// again.
func (w *waiter) arm(timeout time.Duration) {
	now := time.Since(w.start)
	due := now + timeout
	if w.armed > now && w.armed <= due {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(timeout))}
	_ = unix.TimerfdSettime(w.timer, 0, &spec, nil) // fails for bad arguments only
	w.armed = due
}

// Wake implements rdma.Waiter.
func (w *waiter) Wake() {
	w.woken.Store(true)
	// Wait sets parked before it looks at woken for the last time, so one of
	// the two sees the other.
	if w.parked.Load() {
		w.sig.raise()
	}
}

// Close implements rdma.Waiter.
func (w *waiter) Close() error {
	if w.closed.Swap(true) {
		return rdma.ClosedError("close waiter", "waiter")
	}
	w.d.mu.Lock()
	delete(w.d.waiters, w)
	w.d.mu.Unlock()
	w.free()
	return nil
}

// wake ends the waiting of those who wait.
func (d *device) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiters {
		w.Wake()
	}
}
