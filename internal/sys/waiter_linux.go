package sys

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter lets one goroutine wait for descriptors, a timeout, or a wake-up by another goroutine:
//
//	woken := w.Begin()
//	if !woken {
//		w.Sleep(timeout) // or Park
//	}
//	w.End()
//
// There are two ways to sleep. The thread may block in epoll_pwait itself, which wakes fastest. Measured on two cores
// over loopback multicast, one-way latency from another process (median of 8 runs of 5000 packets, p50/p90, µs):
//
//	                                        Sleep      Park
//	idle process, a packet every 1 ms        34/62      38/65
//	idle process, a packet every 50 µs       23/43      24/42
//	other goroutine busy, every 1 ms         10/23      28/57
//	other goroutine busy, every 50 µs        16/36      16/31
//
// But while a goroutine blocks in a system call the scheduler's monitor wakes every 20 µs to check whether to retake
// its P: with each train some six context switches and two timers more. So a goroutine that sleeps often may park
// instead, on the epoll descriptor in Go's poller: with 16 subscribers on two cores the throughput of each was 1.5
// times as high.
//
// The timeout is a timerfd because Go's timers, and epoll's own timeout, are 1 ms coarse, and epoll_pwait2 adds the
// thread's timer slack of 50 µs (select_estimate_accuracy in fs/select.c), which a timerfd does not have.
type Waiter struct {
	Poller *Poller // of the descriptors
	signal *Signal
	timer  timer

	file   *os.File           // the epoll descriptor's duplicate, while it is in Go's poller
	conn   syscall.RawConn    // file's
	ready  func(uintptr) bool // Ready, for conn
	seen   []unix.EpollEvent  // by ready
	noPark bool               // Go's poller does not support it

	counted    bool // it is included in waiters
	processors int  // GOMAXPROCS when it was made

	evs     [64]unix.EpollEvent
	waiting atomic.Bool // between Begin and End
	woken   atomic.Bool // Wake was called since the last End
}

// Ids of the Waiter's descriptors.
const (
	idSignal = minID - 1
	idTimer  = minID - 2
)

// NewWaiter makes a Waiter.
func NewWaiter() (*Waiter, error) {
	p, err := NewPoller()
	if err != nil {
		return nil, err
	}
	w := &Waiter{Poller: p}
	w.ready = func(uintptr) bool {
		w.seen = w.Ready()
		return len(w.seen) > 0
	}
	if w.signal, err = NewSignal(p, idSignal); err == nil {
		err = w.timer.open(p)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	w.counted, w.processors = true, runtime.GOMAXPROCS(0)
	waiters.Add(1)
	return w, nil
}

// Begin begins a wait: a Wake from here on ends the following Sleep or Park. It reports whether Wake was called since
// the last End: then the caller must not sleep.
func (w *Waiter) Begin() (woken bool) {
	w.waiting.Store(true)
	return w.woken.Swap(false)
}

// End ends the wait and clears a pending wake-up.
func (w *Waiter) End() {
	w.woken.Swap(false) // not Store: the caller must see all writes before a Wake
	w.waiting.Store(false)
}

// Wake ends the current wait or the next one. Any goroutine may call it; it makes a system call only during a wait.
func (w *Waiter) Wake() {
	w.woken.Store(true)
	// Begin sets waiting before it reads woken, so one of the two sees the other.
	if w.waiting.Load() {
		w.signal.Raise()
	}
}

// Ready returns the descriptors that are ready now; the slice is valid until the next call.
func (w *Waiter) Ready() []unix.EpollEvent { return w.Poller.Ready(w.evs[:]) }

// Sleep blocks the thread until descriptors are ready, which it returns, or at most for the timeout; a negative timeout
// means no limit. A signal ends it early.
func (w *Waiter) Sleep(timeout time.Duration) []unix.EpollEvent {
	if evs := w.yield(); len(evs) > 0 {
		return evs
	}
	w.timer.arm(timeout)
	return w.block()
}

func (w *Waiter) block() []unix.EpollEvent {
	w.Unpark()
	return w.Poller.Block(w.evs[:], Forever)
}

// waiters is the number of Waiters in this process.
var waiters atomic.Int64

const (
	// waitersEach is the number of Waiters per processor from which on they yield.
	waitersEach = 2
	// maxYields is how often a Waiter yields, and polls again, before it blocks.
	maxYields = 2
)

// yield lets other goroutines run before the thread blocks, if this process has many Waiters, and returns descriptors
// that have become ready meanwhile. A thread that blocks keeps its P until the scheduler's monitor retakes it, 20 µs
// later at the earliest, even if other goroutines are runnable: with 64 publishers on two processors they waited for a
// third of the time (docs/decisions, 24).
func (w *Waiter) yield() []unix.EpollEvent {
	if waiters.Load() < int64(waitersEach*w.processors) {
		return nil
	}
	for range maxYields {
		runtime.Gosched()
		if evs := w.Ready(); len(evs) > 0 {
			return evs
		}
	}
	return nil
}

// Park sleeps as Sleep does, but in Go's poller, which has a small cost for senders. Goroutines that never block may
// keep the scheduler from checking the poller for 10 ms; crowded reports whether that may have happened.
func (w *Waiter) Park(timeout time.Duration) (evs []unix.EpollEvent, crowded bool) {
	w.timer.arm(timeout)
	if !w.noPark && w.file == nil {
		w.noPark = w.enlist() != nil
	}
	if w.noPark {
		return w.block(), false
	}
	start, busy := time.Now(), processTime()
	if w.conn.Read(w.ready) != nil {
		w.noPark = true
		return w.block(), false
	}
	elapsed := time.Since(start)
	return w.seen, elapsed > crowdedAfter && processTime()-busy > elapsed*3/4
}

// crowdedAfter is the minimum duration of a park that counts as crowded if the process was busy during it: the
// scheduler's monitor checks the poller every 10 ms in any case. It is longer than a kernel tick, 4 ms at 250 Hz, for
// which a thread may delay its own process.
const crowdedAfter = 7 * time.Millisecond

// processTime returns the processor time that this process has used.
func processTime() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// enlist adds the epoll descriptor to Go's poller.
func (w *Waiter) enlist() error {
	fd, err := unix.FcntlInt(uintptr(w.Poller.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else os treats it as a blocking file
		unix.Close(fd)
		return err
	}
	w.file = os.NewFile(uintptr(fd), "epoll")
	w.conn, err = w.file.SyscallConn()
	return err
}

// Unpark removes the descriptor from Go's poller, because there it costs senders time.
func (w *Waiter) Unpark() {
	if w.file != nil {
		w.file.Close()
		w.file, w.conn = nil, nil
	}
}

// Parked reports whether the descriptor is in Go's poller.
func (w *Waiter) Parked() bool { return w.file != nil }

// Close closes the Waiter. A later Wake does nothing.
func (w *Waiter) Close() {
	if w.counted {
		w.counted = false
		waiters.Add(-1)
	}
	w.Unpark()
	w.Poller.Close()
	if w.signal != nil {
		w.signal.Close()
	}
	w.timer.close()
}

// timer is a timerfd (timerfd_create(2)).
type timer struct {
	fd    int
	start time.Time     // zero: not open
	armed time.Duration // since start: when it expires, or expired
}

func (t *timer) open(p *Poller) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	t.fd, t.start = fd, time.Now()
	// Edge-triggered: each expiry is reported once, and need not be read.
	return p.Add(fd, idTimer, unix.EPOLLIN|unix.EPOLLET)
}

// arm sets the timer to expire after timeout. It does nothing if timeout is not positive, or if the timer expires
// earlier anyway: a wait may end early, and callers mostly ask for the same deadline again.
func (t *timer) arm(timeout time.Duration) {
	now := time.Since(t.start)
	due := now + timeout
	if timeout <= 0 || t.armed > now && t.armed <= due {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(timeout))}
	_ = unix.TimerfdSettime(t.fd, 0, &spec, nil) // fails only for bad arguments
	t.armed = due
}

func (t *timer) close() {
	if !t.start.IsZero() {
		unix.Close(t.fd)
		t.start = time.Time{}
	}
}
