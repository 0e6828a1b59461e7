package sys

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var sleeps = map[string]func(*Waiter, time.Duration) []unix.EpollEvent{
	"blocked": (*Waiter).Sleep,
	"parked":  func(w *Waiter, d time.Duration) []unix.EpollEvent { evs, _ := w.Park(d); return evs },
}

func newWaiter(t *testing.T) *Waiter {
	t.Helper()
	w, err := NewWaiter()
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// until sleeps until a descriptor is reported, without a time limit.
func until(w *Waiter, sleep func(*Waiter, time.Duration) []unix.EpollEvent, id int32, timeout time.Duration) {
	for {
		for _, ev := range sleep(w, timeout) {
			if ev.Fd == id {
				return
			}
		}
		timeout = Forever
	}
}

// Timeouts come from a timerfd, which is more exact than Go's timers. Only outcomes are checked: it expires, also when
// it is set again, earlier and later.
func TestTimer(t *testing.T) {
	for name, sleep := range sleeps {
		t.Run(name, func(t *testing.T) {
			w := newWaiter(t)
			for _, d := range []time.Duration{1, 10 * time.Microsecond, time.Millisecond, 50 * time.Microsecond} {
				until(w, sleep, idTimer, d)
				if now := time.Since(w.timer.start); now < w.timer.armed {
					t.Errorf("a timer of %v expired %v early", d, w.timer.armed-now)
				}
			}
			w.timer.arm(time.Hour)
			until(w, sleep, idTimer, time.Millisecond) // an earlier deadline replaces the first
			w.timer.arm(-1)
			w.timer.arm(0)
			if now := time.Since(w.timer.start); w.timer.armed > now {
				t.Error("a timeout of 0 or less has set the timer")
			}
		})
	}
}

// A wake-up at any time ends both ways of waiting, without allocations. A parked goroutine holds no thread: another one
// runs on the only P.
func TestSleepAndWake(t *testing.T) {
	for name, sleep := range sleeps {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			w := newWaiter(t)
			requests := make(chan bool)
			go func() {
				for range requests {
					w.Wake()
				}
			}()
			defer close(requests)
			if n := testing.AllocsPerRun(200, func() {
				if w.Begin() {
					t.Error("woken before a call of Wake")
				}
				requests <- true
				until(w, sleep, idSignal, Forever)
				w.End()
			}); n != 0 {
				t.Errorf("%v allocations a wait, want none", n)
			}
		})
	}
}

// A wake-up before the wait is not lost, one during the wait ends only this wait, and one after Close does nothing.
func TestWake(t *testing.T) {
	w := newWaiter(t)
	w.Wake()
	if len(w.Ready()) != 0 {
		t.Error("Wake makes a system call although no goroutine waits")
	}
	if !w.Begin() {
		t.Error("the earlier wake-up is lost")
	}
	w.Wake()
	w.End()
	if w.Begin() {
		t.Error("one wake-up has ended two waits")
	}
	w.End()
	w.Close()
	w.Begin()
	w.Wake()
	w.Close()
}

// A socket is reported by its id until all is read, and not after Remove; a Poller watched by another one is ready when
// one of its descriptors is.
func TestPoller(t *testing.T) {
	w := newWaiter(t)
	outer := newWaiter(t)
	rx, to := open(t, "127.0.0.1")
	tx, _ := open(t, "127.0.0.1")
	must(t, w.Poller.Add(rx, 7, unix.EPOLLIN))
	must(t, outer.Poller.AddPoller(w.Poller, 8))
	if evs := w.Ready(); len(evs) != 0 {
		t.Errorf("events before a packet arrived: %v, want none", evs)
	}
	sa := NewSockaddr(to, 1)
	for range 2 {
		if errno := SendTo(tx, []byte("x"), &sa); errno != 0 {
			t.Fatalf("SendTo: %v", errno)
		}
	}
	in, _ := newBatch(1, 64)
	for range 2 {
		until(outer, (*Waiter).Sleep, 8, Forever)
		until(w, (*Waiter).Sleep, 7, Forever)
		if n, errno := in.Recv(rx, 1); n != 1 {
			t.Fatalf("Recv: %d packets, %v, want 1", n, errno)
		}
	}
	if evs := w.Ready(); len(evs) != 0 {
		t.Errorf("events after all was read: %v, want none", evs)
	}
	if errno := SendTo(tx, []byte("x"), &sa); errno != 0 {
		t.Fatalf("SendTo: %v", errno)
	}
	w.Poller.Remove(rx)
	if evs := w.Ready(); len(evs) != 0 {
		t.Errorf("events although no descriptor is watched: %v, want none", evs)
	}
	// EPOLLONESHOT: once, until Rearm.
	must(t, w.Poller.Add(tx, 9, unix.EPOLLOUT|unix.EPOLLONESHOT))
	if evs := w.Ready(); len(evs) != 1 || evs[0].Fd != 9 {
		t.Errorf("events of a socket with room: %v, want one of descriptor 9", evs)
	}
	if evs := w.Ready(); len(evs) != 0 {
		t.Errorf("events of a socket with room, read again: %v, want none", evs)
	}
	must(t, w.Poller.Rearm(tx, 9, unix.EPOLLOUT|unix.EPOLLONESHOT))
	if evs := w.Ready(); len(evs) != 1 || evs[0].Fd != 9 {
		t.Errorf("events of a socket with room, after Rearm: %v, want one of descriptor 9", evs)
	}
	var evs [1]unix.EpollEvent
	if got := w.Poller.Block(evs[:], 1); len(got) != 0 {
		t.Errorf("events of Block with a timeout of 1 ns: %v, want none", got)
	}
	w.Poller.Close()
	w.Poller.Close()
	if err := w.Poller.Add(rx, 1, unix.EPOLLIN); err == nil || len(w.Ready()) != 0 {
		t.Error("a closed Poller accepts a descriptor")
	}
}

// In a process with many Waiters a runnable goroutine runs before the thread blocks, and an event that it causes ends
// the wait. With few Waiters none yields.
func TestYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before := waiters.Load()
	w := newWaiter(t)
	w.processors = int(before) + 10
	if evs := w.yield(); evs != nil {
		t.Errorf("%d events with few Waiters, want none", len(evs))
	}
	for waiters.Load() < int64(waitersEach*w.processors) {
		newWaiter(t)
	}
	if evs := w.yield(); len(evs) != 0 {
		t.Errorf("%d events without a wake-up, want none", len(evs))
	}
	w.Begin()
	defer w.End()
	go w.Wake() // which runs on the only P after a yield
	if evs := w.yield(); len(evs) != 1 {
		t.Errorf("%d events, after a wake-up by another goroutine, want 1", len(evs))
	}
}

// Waiters are counted until Close.
func TestWaitersAreCounted(t *testing.T) {
	before := waiters.Load()
	w, err := NewWaiter()
	must(t, err)
	if n := waiters.Load(); n != before+1 {
		t.Errorf("%d waiters, want %d", n, before+1)
	}
	w.Close()
	w.Close()
	if n := waiters.Load(); n != before {
		t.Errorf("%d are left, want %d", n, before)
	}
}
