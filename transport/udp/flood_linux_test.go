//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// During a flood, a loop that often sleeps parks. A loop that does not sleep, or receives only single packets, blocks.
func TestFlood(t *testing.T) {
	rounds := func(f *flood, n, bytes, waits int) {
		for range n {
			f.received(bytes)
			for range waits {
				f.wait()
				f.slept()
			}
		}
	}
	for _, c := range []struct {
		name         string
		bytes, waits int // of each receive
		parks        bool
	}{
		{"single packets", 1472, 1, false},
		{"trains, never asleep", 60000, 0, false},
		{"trains, asleep once for each", 60000, 1, true},
		{"trains, asleep twice for each", 20000, 2, true},
	} {
		var f flood
		if rounds(&f, 3*floodSample, c.bytes, c.waits); f.wait() != c.parks {
			t.Errorf("%s: parks %v, want %v", c.name, !c.parks, c.parks)
		}
		// After the flood ends, its state is reset.
		if rounds(&f, floodWaits, 100, 1); f != (flood{}) {
			t.Errorf("%s: after single packets the state is %+v, want %+v", c.name, f, flood{})
		}
	}
	var f flood
	rounds(&f, 2*floodSample, 60000, 1)
	rounds(&f, 2*floodSample, 60000, 0)
	if f.wait() {
		t.Error("still parks, although it no longer sleeps")
	}
	rounds(&f, 2*floodSample, 60000, 1)
	f.crowd()
	if rounds(&f, crowdedFor*floodSample-1, 60000, 1); f.wait() {
		t.Error("parks although other goroutines keep it waiting")
	}
	if rounds(&f, 2*floodSample, 60000, 1); !f.wait() {
		t.Error("does not try to park again")
	}
}

// A parked loop observes its timeouts, and Close ends it.
func TestParkedTransport(t *testing.T) {
	for range 20 {
		tr, err := Open(Config{Interface: "127.0.0.1", Port: testenv.Port(t)})
		if err != nil {
			t.Fatal(err)
		}
		batch := transport.NewBatch(1)
		for _, d := range []time.Duration{1, 20 * time.Microsecond, time.Millisecond} {
			tr.flood = flood{left: floodWaits, parks: true}
			if err := tr.Wait(d); err != nil {
				t.Fatal(err)
			}
		}
		if !tr.waiter.Parked() {
			t.Fatal("the loop was not parked")
		}
		go tr.Close()
		for ended := false; !ended; {
			tr.flood = flood{left: floodWaits, parks: true}
			if err := tr.Wait(-1); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
			ended = tr.Poll(batch) != nil
		}
		if tr.waiter.Parked() {
			t.Error("Go's poller still has the descriptor of an ended transport")
		}
	}
}

// When other goroutines keep running, the loop no longer parks.
func TestParkedAmongBusyGoroutines(t *testing.T) {
	tr, _ := opened(t)
	var stop atomic.Bool
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		})
	}
	for tr.flood.crowded == 0 {
		tr.flood = flood{left: floodWaits, parks: true}
		if err := tr.Wait(100 * time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	if tr.flood.parks {
		t.Error("it still parks")
	}
}

// A transport parks during a flood, and blocks again later.
func TestParksInFlood(t *testing.T) {
	tr, batch := opened(t)
	s := joined(t, tr)
	awaitPacket := func(packets int) {
		t.Helper()
		out := transport.Outbound{Data: make([]byte, packets*1400), Stride: 1400, Count: packets}
		for range packets {
			out.Lens = append(out.Lens, 1400)
		}
		if _, err := s.Send(&out); err != nil {
			t.Fatal(err)
		}
		for packets > 0 {
			if err := tr.Poll(batch); err != nil {
				t.Fatal(err)
			}
			for i := range batch.Trains {
				packets -= batch.Trains[i].Count()
				tr.Release(&batch.Trains[i])
			}
		}
	}
	wait := func() {
		t.Helper()
		if err := tr.Wait(20 * time.Microsecond); err != nil { // long enough to fall asleep
			t.Fatal(err)
		}
	}
	for rounds := 0; !tr.waiter.Parked(); rounds++ {
		if rounds == 100*floodSample {
			t.Fatalf("not parked in a flood: %+v", tr.flood)
		}
		awaitPacket(10)
		wait()
		wait()
	}
	for range floodWaits {
		awaitPacket(1)
		wait()
		wait() // the first may have returned immediately
	}
	if wait(); tr.waiter.Parked() {
		t.Errorf("still parked: %+v", tr.flood)
	}
}
