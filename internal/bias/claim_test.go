package bias

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A claim becomes one goroutine's that enters it for long: others may take it, but not while that one is inside, and the first
// that enters makes it everybody's.
func TestClaim(t *testing.T) {
	for name, b := range map[string]bool{"everybody's": false, "of one": true} {
		t.Run(name, func(t *testing.T) {
			setBiases(t, b)
			var c Claim
			other := func(f func()) {
				done := make(chan struct{})
				go func() { defer close(done); f() }()
				<-done
			}
			reads := func() {
				if !c.Take() {
					t.Error("a free claim cannot be taken")
				}
				c.Used()
				c.Leave()
			}
			reads()
			for range leastUse {
				if !c.Enter() {
					t.Fatal("a free claim is not entered")
				}
				c.Exit()
			}
			reads()
			if one := c.one.Load() != nil; one != b {
				t.Fatalf("the claim is one goroutine's: %v", one)
			}
			if !c.Enter() {
				t.Error("its goroutine does not enter")
			}
			other(func() {
				if c.Enter() || c.Take() {
					t.Error("another goroutine has it, and its own is inside")
				}
			})
			c.Exit()
			other(func() { // one that borrows
				if !c.Take() {
					t.Error("another goroutine cannot take it, and nobody is inside")
				}
				var inside bool
				other(func() { inside = c.Enter() || c.Take() })
				if inside {
					t.Error("two have it")
				}
			})
			if c.Enter() || c.Take() {
				t.Error("its goroutine has it while somebody else does")
			}
			other(c.Leave)
			if !c.Enter() {
				t.Error("its goroutine does not enter again")
			}
			c.Exit()
			if one := c.one.Load() != nil; one != b {
				t.Error("who only takes it has changed whose it is")
			}
			other(reads)
			if c.one.Load() != nil {
				t.Error("it is still one goroutine's, and another one reads")
			}
			reads()
			if !c.Enter() {
				t.Error("everybody's claim is not entered")
			}
			c.Exit()
		})
	}
}

// Several count with the claim; whose it is changes all the time, or not at all.
func TestClaimExclusion(t *testing.T) {
	for name, b := range map[string]bool{"everybody's": false, "of one": true} {
		t.Run(name, func(t *testing.T) {
			setBiases(t, b)
			const each = 100_000
			var (
				c       Claim
				a, b    int // under c
				owners  int // under c: times that it was one goroutine's
				entered atomic.Int64
				wg      sync.WaitGroup
			)
			counting := func() {
				a++
				if a != b+1 {
					t.Error("two have it")
				}
				b++
			}
			for who := range 3 {
				wg.Go(func() {
					for i := 0; i < each; {
						switch {
						case i%100 != who && c.Enter():
							counting()
							c.Exit()
							entered.Add(1)
						case c.Take():
							counting()
							if i%3 > 0 { // else as one who borrows
								c.least, c.entered = 0, leastUse
								c.Used()
							}
							if c.one.Load() != nil {
								owners++
							}
							c.Leave()
						default:
							continue
						}
						i++
					}
				})
			}
			wg.Wait()
			if a != 3*each || entered.Load() == 0 || (owners > 0) != biases {
				t.Errorf("%d counted, want %d; %d entered, of one %d times", a, 3*each, entered.Load(), owners)
			}
		})
	}
}

func BenchmarkClaim(b *testing.B) {
	for name, one := range map[string]bool{"everybody's": false, "of one": true} {
		b.Run(name, func(b *testing.B) {
			setBiases(b, one)
			var c Claim
			c.Used()
			c.entered = leastUse
			c.Used()
			for b.Loop() {
				if c.Enter() {
					c.Exit()
				}
			}
		})
	}
}
