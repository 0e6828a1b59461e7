package roce

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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

// poller is an epoll descriptor.
type poller struct{ fd int }

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, named("epoll_create", err)
	}
	return &poller{fd}, nil
}

func (p *poller) add(fd int, id int32, events uint32) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, id, events)
}

// again arms a descriptor with EPOLLONESHOT.
func (p *poller) again(fd int, id int32, events uint32) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, id, events)
}

func (p *poller) ctl(op, fd int, id int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: id}
	return named("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &ev))
}

// remove fails only for what is not there.
func (p *poller) remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// ready returns how many of evs it filled in with what is ready now.
func (p *poller) ready(evs []unix.EpollEvent) int {
	// It cannot block, so the scheduler need not know.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// block waits until something is ready. Interrupted by a signal it returns
// early.
func (p *poller) block(evs []unix.EpollEvent) {
	const forever = ^uintptr(0)
	_, _, _ = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), forever, 0, 0)
}

func (p *poller) close() { unix.Close(p.fd) }

// signal is an eventfd. It is watched edge-triggered: each write is told once,
// and need not be read away.
type signal struct {
	mu     sync.Mutex // held to write, and to close
	fd     int
	closed bool
}

func (s *signal) open() (err error) {
	s.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return named("eventfd", err)
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

func (s *signal) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		unix.Close(s.fd)
	}
}

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
	err = first(named("timerfd", err),
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
		w.poll.block(w.evs[:])
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

// watch is the goroutine that receives as long as a completion queue is armed.
// The first arming starts it and Provider.Close ends it.
type watch struct {
	d    *device
	kick chan struct{}
	quit chan struct{}
	once sync.Once // to stop
	done sync.WaitGroup

	mu      sync.Mutex
	started bool
	stopped bool
	sig     signal
}

func (w *watch) init(d *device) {
	w.d, w.kick, w.quit = d, make(chan struct{}, 1), make(chan struct{})
}

// Arm implements soft.Armer.
func (d *device) Arm() {
	w := &d.watch
	w.mu.Lock()
	if !w.started && !w.stopped && d.running.Load() {
		w.begin()
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// begin starts the goroutine. The caller holds mu.
func (w *watch) begin() {
	p, err := newPoller()
	if err != nil {
		return // out of descriptors: whoever arms again tries again
	}
	if err = w.sig.open(); err == nil {
		err = first(p.add(w.sig.fd, 0, unix.EPOLLIN|unix.EPOLLET), p.add(w.d.watched.fd, 0, unix.EPOLLIN))
		if err != nil {
			w.sig.close()
		}
	}
	if err != nil {
		p.close()
		return
	}
	w.started = true
	w.done.Add(1)
	go w.run(p)
}

func (w *watch) run(p *poller) {
	defer w.done.Done()
	defer p.close()
	var evs [4]unix.EpollEvent
	for {
		select {
		case <-w.quit:
			return
		case <-w.kick:
		}
		for w.d.soft.Armed() {
			p.block(evs[:])
			select {
			case <-w.quit:
				return
			default:
			}
			w.d.rxMu.Lock()
			n := w.d.receive()
			w.d.rxMu.Unlock()
			w.d.received(n)
		}
	}
}

func (w *watch) stop() {
	w.once.Do(func() {
		close(w.quit)
		w.mu.Lock()
		w.stopped = true
		if w.started {
			w.sig.raise()
		}
		w.mu.Unlock()
		w.done.Wait()
		if w.started {
			w.sig.close()
		}
	})
}
