package bias

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRevokeAndRestore(t *testing.T) {
	var l Lock
	if !l.Enter() {
		t.Fatal("the owner of a new lock cannot enter")
	}
	if l.Revoke() {
		t.Fatal("revoked while the owner is inside")
	}
	l.Exit()
	if !l.Revoke() {
		t.Fatal("not revoked when the owner is outside")
	}
	if l.Enter() {
		t.Fatal("the owner entered a revoked lock")
	}
	if !l.Revoke() {
		t.Fatal("an attempt to enter took the lock back")
	}
	l.Restore()
	if !l.Enter() {
		t.Fatal("the owner cannot enter after Restore")
	}
	l.Exit()
}

// The owner and another count together, without a lock but this one: what is
// lost, or found half done, shows that two were inside at once.
func TestMutualExclusion(t *testing.T) {
	const revocations = 200_000
	var (
		l    Lock
		mu   sync.Mutex // of all but the owner's fast path
		a, b int        // under l
		done atomic.Bool
		n    int // counted by the other
	)
	in := func() {
		a++
		if a != b+1 {
			t.Error("two are inside")
		}
		b++
	}
	go func() {
		defer done.Store(true)
		for n < revocations {
			mu.Lock()
			if l.Revoke() {
				in()
				n++
			}
			mu.Unlock()
		}
	}()
	byOwner := 0
	for ; !done.Load(); byOwner++ {
		if l.Enter() {
			in()
			l.Exit()
		} else {
			mu.Lock()
			l.Restore()
			in()
			mu.Unlock()
		}
	}
	if a != byOwner+n || b != a {
		t.Errorf("%d and %d rounds counted, %d were made", a, b, byOwner+n)
	}
}

func BenchmarkEnterExit(b *testing.B) {
	var l Lock
	for b.Loop() {
		if l.Enter() {
			l.Exit()
		}
	}
}

func BenchmarkRevoke(b *testing.B) {
	var l Lock
	for b.Loop() {
		l.Revoke()
		l.Restore()
	}
}

func TestGate(t *testing.T) {
	var g Gate
	if g.Enter() {
		t.Fatal("a new gate is open")
	}
	g.Open()
	if !g.Enter() || g.Enter() {
		t.Fatal("an open gate lets one in")
	}
	g.Exit()
	g.Shut()
	g.Shut()
	if g.Enter() {
		t.Fatal("a shut gate lets somebody in")
	}
}

// setBiases has gates become one goroutine's, or not, until the test ends: also where that is not worth it, as under the race
// detector, which does not know the barrier.
func setBiases(t testing.TB, v bool) {
	before := biases
	biases = v
	t.Cleanup(func() { biases = before })
}

// A gate becomes one goroutine's that uses it for long, and everybody's again when another one comes: then it takes
// longer the next time.
func TestGateOfOne(t *testing.T) {
	setBiases(t, true)
	var g Gate
	other := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	enters := func() bool {
		ok := g.Enter()
		if ok {
			g.Exit()
		}
		return ok
	}
	used := func(times uint64) { g.Shut(); g.Used(times); g.Open() }
	used(mostUse)
	if g.one.Load() != nil {
		t.Error("a gate is that of who comes first")
	}
	used(leastUse - 1)
	other(func() {
		if !enters() {
			t.Error("everybody's gate is open to one only")
		}
	})
	for least := uint64(leastUse); least < 8*leastUse; least *= 2 {
		used(least - 1 - g.row)
		if g.one.Load() != nil {
			t.Errorf("the gate is one goroutine's after %d times, want %d", least-1, least)
		}
		used(1)
		if g.one.Load() == nil || !enters() {
			t.Errorf("the gate is not that of who used it %d times", least)
		}
		g.Enter()
		other(func() {
			if enters() {
				t.Error("another one enters the gate of one")
			}
			if g.shut() {
				t.Error("the gate is shut, and its owner inside")
			}
		})
		g.Exit()
		if g.Enter() {
			t.Error("the owner enters a gate that somebody shuts")
		}
		other(func() { g.Shut(); g.Open() }) // who does not use it takes nothing away
		if g.one.Load() == nil || !enters() {
			t.Error("who shut the gate and opened it has taken it away")
		}
		g.Shut()
		if enters() {
			t.Error("the owner enters a gate that it has shut")
		}
		g.Open()
		other(func() { used(0) })
		if g.one.Load() != nil || !enters() {
			t.Error("the gate is not everybody's after another one used it")
		}
		used(0)
	}
	g.least = mostUse
	used(mostUse)
	other(func() { used(0) })
	if g.least != mostUse {
		t.Errorf("it takes %d times to have the gate, want %d at most", g.least, mostUse)
	}
}

// Who shuts a gate that somebody is inside of waits until he is outside, however long that takes, and lets him get there.
func TestShutWaits(t *testing.T) {
	for name, b := range map[string]bool{"everybody's": false, "of one": true} {
		t.Run(name, func(t *testing.T) {
			setBiases(t, b)
			synctest.Test(t, func(t *testing.T) {
				var g Gate
				g.Used(0)
				g.Used(leastUse)
				g.Open()
				if !g.Enter() {
					t.Fatal("an open gate is shut")
				}
				var shut atomic.Bool
				go func() { g.Shut(); shut.Store(true) }()
				time.Sleep(10 * time.Millisecond) // of the bubble: none of it passes unless who waits sleeps
				if shut.Load() {
					t.Error("the gate is shut, and somebody inside")
				}
				g.Exit()
				time.Sleep(time.Millisecond)
				if !shut.Load() || g.Enter() {
					t.Error("the gate is not shut, and nobody inside")
				}
			})
		})
	}
}

// Several count at the gate, and one shuts it now and then to count by itself; whose gate it is changes all the time, or not at all.
func TestGateExclusion(t *testing.T) {
	for name, b := range map[string]bool{"everybody's": false, "of one": true} {
		t.Run(name, func(t *testing.T) {
			setBiases(t, b)
			testGateExclusion(t)
		})
	}
}

func testGateExclusion(t *testing.T) {
	const each = 200_000
	var (
		g        Gate
		mu       sync.Mutex
		a, b     int // under g, or mu with g shut
		atGate   atomic.Int64
		byMutex  int // under mu
		owners   int // under mu: times that it was one goroutine's
		wg       sync.WaitGroup
		counting = func() {
			a++
			if a != b+1 {
				t.Error("two are inside")
			}
			b++
		}
	)
	for who := range 3 {
		wg.Go(func() {
			for i := range each {
				if i%100 != who && g.Enter() {
					counting()
					g.Exit()
					atGate.Add(1)
					continue
				}
				mu.Lock()
				g.Shut()
				counting()
				byMutex++
				if i%3 > 0 { // else as one who does not go through it
					g.least = 0
					g.Used(leastUse)
				}
				if g.one.Load() != nil {
					owners++
				}
				g.Open()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if a != 3*each || atGate.Load() == 0 || byMutex == 0 || (owners > 0) != biases {
		t.Errorf("%d counted, want %d; %d at the gate, %d by the mutex, of one %d times", a, 3*each, atGate.Load(), byMutex, owners)
	}
}

func BenchmarkGate(b *testing.B) {
	for name, one := range map[string]bool{"everybody's": false, "of one": true} {
		b.Run(name, func(b *testing.B) {
			setBiases(b, one)
			var g Gate
			g.Used(0)
			g.Used(leastUse)
			g.Open()
			for b.Loop() {
				if g.Enter() {
					g.Exit()
				}
			}
		})
	}
}
