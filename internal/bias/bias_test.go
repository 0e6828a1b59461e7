package bias

import (
	"sync"
	"sync/atomic"
	"testing"
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

// Several count at the gate, and one shuts it now and then to count by itself.
func TestGateExclusion(t *testing.T) {
	const each = 200_000
	var (
		g        Gate
		mu       sync.Mutex
		a, b     int // under g, or mu with g shut
		atGate   atomic.Int64
		byMutex  int // under mu
		wg       sync.WaitGroup
		counting = func() {
			a++
			if a != b+1 {
				t.Error("two are inside")
			}
			b++
		}
	)
	for range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				if g.Enter() {
					counting()
					g.Exit()
					atGate.Add(1)
					continue
				}
				mu.Lock()
				g.Shut()
				counting()
				byMutex++
				g.Open()
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	if a != 3*each || atGate.Load() == 0 || byMutex == 0 {
		t.Errorf("%d counted, want %d; %d at the gate, %d by the mutex", a, 3*each, atGate.Load(), byMutex)
	}
}

func BenchmarkGate(b *testing.B) {
	var g Gate
	g.Open()
	for b.Loop() {
		if g.Enter() {
			g.Exit()
		}
	}
}
