//go:build !fanfare_plainudp

package udp

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiter is how a loop sleeps: one epoll descriptor over all sockets of the
// transport, an eventfd for Wake and a timerfd for timeouts.
//
// It sleeps in one of two ways. The thread may block in epoll_pwait itself, which
// is the quickest to wake: measured on two cores over loopback multicast, one way,
// another process sending (median of 8 runs of 5000 packets, p50/p90, µs):
//
//	                                        blocked    parked
//	idle process, a packet every 1 ms        34/62      38/65
//	idle process, a packet every 50 µs       23/43      24/42
//	other goroutine busy, every 1 ms         10/23      28/57
//	other goroutine busy, every 50 µs        16/36      16/31
//
// But as long as a goroutine blocks in a system call the scheduler's monitor looks
// every 20 µs whether to take its P away, and has to be woken for that: with each
// train some six switches of context and two timers more. So in a flood (type flood)
// the goroutine may park instead, on the epoll descriptor in Go's poller: of 16
// subscribers on two cores each got half as much again.
//
// The timeout is a timerfd because Go's timers, and epoll's own timeout, are 1
// ms coarse, and epoll_pwait2 adds the thread's timer slack of 50 µs
// (select_estimate_accuracy in fs/select.c), which a timerfd does not have.
type waiter struct {
	epoll, event, timer int

	file *os.File           // epoll's duplicate, while it is in Go's poller
	conn syscall.RawConn    // file's
	look func(uintptr) bool // poll, for conn
	seen []unix.EpollEvent  // by look
	deaf bool               // Go's poller does not take it

	evs    [64]unix.EpollEvent
	parked atomic.Bool // the loop is in Wait, or about to be
	woken  atomic.Bool // Wake was called since the last Wait

	start time.Time
	armed time.Duration // since start: when the timer rings, or rang

	mu     sync.Mutex // held to write event, and to close it
	closed bool
}

// Marks of descriptors in epoll events, beside group numbers and
// transport.Unicast.
const (
	markEvent = -2
	markTimer = -3
	markLink  = -4
)

func newWaiter() (*waiter, error) {
	w := &waiter{epoll: -1, event: -1, timer: -1, start: time.Now()}
	w.look = func(uintptr) bool {
		w.seen = w.poll()
		return len(w.seen) > 0
	}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
			w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		}
	}
	if err == nil {
		// Edge-triggered: each write and each expiry is told once, and need not
		// be read away.
		err = cmp.Or(w.watch(w.event, markEvent, unix.EPOLLET), w.watch(w.timer, markTimer, unix.EPOLLET))
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("udp: set up waiting: %w", err)
	}
	return w, nil
}

// add watches a socket. Level-triggered: a socket that was not read empty is
// named again.
func (w *waiter) add(s *socket) error { return w.watch(s.fd, s.group, 0) }

// remove ends that. It fails only for what is not there.
func (w *waiter) remove(s *socket) { _ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, s.fd, nil) }

func (w *waiter) watch(fd, mark int, flags uint32) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | flags, Fd: int32(mark)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

// poll returns what is ready now.
func (w *waiter) poll() []unix.EpollEvent {
	// It cannot block, so the scheduler need not know.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.evs)), uintptr(len(w.evs)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return w.evs[:n]
}

// park is wait by Go's poller. Goroutines that run on and on may keep the scheduler
// from asking the poller for 10 ms; it reports whether that may have happened.
func (w *waiter) park() (evs []unix.EpollEvent, crowded bool) {
	if w.deaf {
		return w.wait(), false
	}
	if w.file == nil {
		if w.enlist() != nil {
			w.deaf = true
			return w.wait(), false
		}
	}
	start, busy := time.Now(), processTime()
	if w.conn.Read(w.look) != nil {
		w.deaf = true
		return w.wait(), false
	}
	took := time.Since(start)
	return w.seen, took > starving && processTime()-busy > took*3/4
}

// starving is how long a park takes in which the process was busy instead of seeing
// what has come: the scheduler's monitor asks the poller every 10 ms in any case. It
// is longer than a tick of the kernel's, 4 ms at 250 Hz, for which a thread may be in
// the way of its own process.
const starving = 7 * time.Millisecond

// processTime is how much processor time the process has had.
func processTime() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// enlist has Go's poller watch the epoll descriptor, until delist.
func (w *waiter) enlist() error {
	fd, err := unix.FcntlInt(uintptr(w.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os takes it for a file that blocks
		unix.Close(fd)
		return err
	}
	w.file = os.NewFile(uintptr(fd), "epoll")
	w.conn, err = w.file.SyscallConn()
	return err
}

// delist ends that: who sends would pay for it.
func (w *waiter) delist() {
	if w.file != nil {
		w.file.Close()
		w.file, w.conn = nil, nil
	}
}

// wait blocks until something is ready and returns it. Interrupted by a signal,
// it returns early.
func (w *waiter) wait() []unix.EpollEvent {
	w.delist()
	const forever = ^uintptr(0)
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.evs)), uintptr(len(w.evs)), forever, 0, 0)
	if errno != 0 {
		return nil
	}
	return w.evs[:n]
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
	unix.TimerfdSettime(w.timer, 0, &spec, nil)
	w.armed = due
}

func (w *waiter) wake() {
	w.woken.Store(true)
	// The loop sets parked before it looks at woken for the last time, so one of
	// the two sees the other.
	if !w.parked.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(w.event), uintptr(unsafe.Pointer(&one)), 8)
	}
}

func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.delist()
	for _, fd := range []int{w.epoll, w.event, w.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Wait implements transport.Transport. Its timeout is as exact as the kernel's
// timers and the scheduler: some 50 µs. Parked among goroutines that run on and on
// it may be 10 ms late, after which it does not park for a while.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	w := t.waiter
	w.parked.Store(true)
	defer w.parked.Store(false)
	if w.woken.Swap(false) || timeout == 0 || t.closing.Load() || t.events.Pending() {
		return nil
	}
	// Ask epoll about all sockets: those that were ready may be empty by now.
	for _, s := range t.ready {
		s.ready = false
	}
	t.ready, t.polls = t.ready[:0], 0
	if timeout > 0 {
		w.arm(timeout)
	}
	start := time.Now()
	if t.flood.wait() {
		evs, crowded := w.park()
		if t.harvest(evs); crowded {
			t.flood.crowd()
		}
	} else {
		t.harvest(w.wait())
	}
	if time.Since(start) >= asleep {
		t.flood.slept()
	}
	w.woken.Store(false)
	return nil
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.waiter.wake() }
