package transporttest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

func testWaitAndWake(t *testing.T, f *fabric) { waitAndWake(t, f, false) }

// The same during a flood of packets, in which a transport may wait differently.
func testWaitInFlood(t *testing.T, f *fabric) { waitAndWake(t, f, true) }

func waitAndWake(t *testing.T, f *fabric, flooded bool) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	s := a.firstSender(0)
	f.drain()
	flood := func() {
		if !flooded {
			return
		}
		c := a.Capabilities()
		out, want := train(1, c.PacketSize, equal(min(c.MaxTrain, c.ReceiveCapacity, 16), c.PacketSize, c.PacketSize)...)
		a.send(s, out)
		b.want(0, want)
	}
	flood()
	// A timeout ends Wait.
	for _, d := range []time.Duration{0, 1, 50 * time.Microsecond, 3 * time.Millisecond} {
		if err := b.Wait(d); err != nil {
			t.Fatalf("Wait(%v): %v", d, err)
		}
	}
	// An earlier Wake ends the next Wait without limit.
	b.Wake()
	if err := b.Wait(-1); err != nil {
		t.Fatal(err)
	}
	// Wakes, trains and events end the current Wait. Wait may return early, so the test calls it in a loop, as callers do.
	for range 200 {
		flood()
		var woken atomic.Bool
		go func() {
			woken.Store(true)
			b.Wake()
		}()
		for !woken.Load() {
			if err := b.Wait(-1); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.Send(one([]byte("wake up")))
			done <- err
		}()
		for len(b.got) == 0 {
			if err := b.Wait(-1); err != nil {
				t.Fatal(err)
			}
			b.poll()
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.want(0, [][]byte{[]byte("wake up")})
	}
	// If a Poll has not returned everything, Wait returns immediately, without new arrivals.
	flood()
	for range 3 {
		a.send(s, one([]byte("left over")))
	}
	b.batch = transport.NewBatch(1)
	for len(b.got) < 3 {
		if err := b.Wait(-1); err != nil {
			t.Fatal(err)
		}
		b.poll()
	}
	if err := b.Join(1); err != nil {
		t.Fatal(err)
	}
	for len(b.events) == 0 {
		if err := b.Wait(-1); err != nil {
			t.Fatal(err)
		}
		b.poll()
	}
}

// Close from another goroutine wakes a Wait without limit, and Poll then reports the end.
func testCloseWakesWait(t *testing.T, f *fabric) {
	for range 20 {
		e := f.endpoint(t)
		e.join(0)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if err := e.Wait(-1); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("Wait: error %v, want none or %v", err, net.ErrClosed)
				}
				if err := e.Poll(e.batch); err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("Poll: error %v, want none or %v", err, net.ErrClosed)
					}
					return
				}
			}
		}()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := e.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
		select {
		case <-ended:
		case <-time.After(testTimeout):
			t.Fatal("Close did not end the loop")
		}
		e.closed = true
	}
}

func testClosed(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	peers := b.retain()
	s := a.firstSender(0)
	a.send(s, one([]byte("hello")))
	b.want(0, [][]byte{[]byte("hello")})
	sb := b.firstSender(0)
	b.hold, b.onRecv = true, nil
	a.send(s, one([]byte("kept")))
	b.want(0, [][]byte{[]byte("kept")})
	mem, err := b.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	stats := b.Stats()

	closed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s on a closed transport: error %v, want %v", what, err, net.ErrClosed)
		}
	}
	calls := func() {
		t.Helper()
		n, err := sb.Send(one([]byte("too late")))
		if n != 0 {
			t.Errorf("Send accepted %d packets, want none", n)
		}
		closed("Send", err)
		_, err = b.NewSender(0)
		closed("NewSender", err)
		closed("Join", b.Join(1))
		closed("Leave", b.Leave(0))
		_, err = b.Alloc(100)
		closed("Alloc", err)
		closed("Reply", b.Reply((*peers)[0], []byte("too late")))
		if err := b.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		b.Wake()
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	calls()
	b.end()
	calls()
	closed("Poll", b.Poll(b.batch))
	closed("Wait", b.Wait(-1))
	b.Release(&b.held[0]) // does nothing, as its memory is freed
	b.Free(mem)
	b.Forget((*peers)[0])
	if err := sb.Close(); err != nil {
		t.Errorf("Close of a sender: %v", err)
	}
	if got := b.Stats(); got.PacketsReceived != stats.PacketsReceived {
		t.Errorf("PacketsReceived was %d before Close and is %d after", stats.PacketsReceived, got.PacketsReceived)
	}
	if b.Capabilities().Name == "" {
		t.Error("capabilities are gone")
	}

	s.Close()
	n, err := s.Send(one([]byte("too late")))
	if n != 0 {
		t.Errorf("a closed sender accepted %d packets, want none", n)
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send of a closed sender: error %v, want %v", err, net.ErrClosed)
	}
	// Other endpoints still work, and packets to the closed one are lost.
	a.send(a.sender(0), one([]byte("hello?")))
}

// A transport is closed during Send of its own Senders, and of others to it: they return an error or succeed.
func testCloseWhileSending(t *testing.T, f *fabric) {
	for range 10 {
		a, b := f.endpoint(t), f.endpoint(t)
		b.join(0)
		var wg sync.WaitGroup
		var stop atomic.Bool
		for _, s := range []transport.Sender{b.sender(0), b.sender(0), a.sender(0)} {
			wg.Go(func() {
				out, _ := train(1, 100, equal(4, 100, 100)...)
				for !stop.Load() {
					if _, err := s.Send(out); errors.Is(err, net.ErrClosed) {
						return
					} else if err != nil && !errors.Is(err, transport.ErrBusy) && !errors.Is(err, transport.ErrNotReady) {
						t.Errorf("Send: error %v, want none, %v or %v", err, transport.ErrBusy, transport.ErrNotReady)
						return
					}
				}
			})
		}
		for range 20 {
			b.poll()
		}
		b.end()
		stop.Store(true)
		wg.Wait()
		a.end()
	}
}

// Many goroutines call the methods that any goroutine may call, while the loop runs.
func testConcurrency(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for i := range 4 {
		wg.Go(func() {
			// Fewer if each takes long, such as with a device emulated in a slow machine.
			for n := 0; !stop.Load() && n < 500 && time.Since(began) < testTimeout/4; n++ {
				s, err := a.NewSender(i)
				if err != nil {
					t.Errorf("NewSender: %v", err)
					return
				}
				s.Send(one([]byte("from anywhere")))
				_, _ = a.Stats(), b.Stats()
				_, _ = a.Capabilities(), b.GroupAddress(i)
				a.Wake()
				b.Wake()
				if mem, err := a.Alloc(4096); err == nil {
					a.Free(mem)
				}
				s.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	f.until(t, "the goroutines end", func() bool {
		b.got, a.events = b.got[:0], a.events[:0]
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	stop.Store(true)
	for _, e := range f.all {
		e.end()
	}
}

// Closed transports leave no goroutine, file descriptor or memory.
func testLeaks(t *testing.T, f *fabric) {
	const rounds, large = 10, 64 << 20
	use := func() {
		f.all = nil
		a, b := f.endpoint(t), f.endpoint(t)
		mem, err := a.Alloc(large)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Free(mem) // after the end
		b.join(0, 1, 2)
		b.leave(1)
		s := a.firstSender(0)
		f.settle(t, a, s, 0, b)
		a.end()
		b.end()
	}
	use() // after this the runtime has opened what it opens once, such as its poller
	runtime.GC()
	goroutines, files, memory := runtime.NumGoroutine(), openFiles(), mapped()
	for range rounds {
		use()
	}
	if grown := mapped() - memory; grown > rounds*large/2 {
		t.Errorf("%d MiB more are mapped after %d transports were opened and closed", grown>>20, 2*rounds)
	}
	for limit := time.Now().Add(testTimeout); ; runtime.Gosched() {
		g, n := runtime.NumGoroutine(), openFiles()
		if g <= goroutines && n <= files {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("before: %d goroutines, %d open files; after %d transports were opened and closed: %d and %d", goroutines, files, 2*rounds, g, n)
		}
	}
}

// openFiles is the number of open file descriptors, or 0 if the system does not report it.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// mapped is the size of the address space in bytes, or 0 if the system does not report it.
func mapped() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var pages int
	fmt.Sscan(string(text), &pages)
	return pages * os.Getpagesize()
}
