package gid

import (
	"runtime"
	"sync"
	"testing"
)

// A goroutine keeps its number on every thread and when its stack moves, and no two have the same.
func TestSelf(t *testing.T) {
	const goroutines = 100
	var (
		mu   sync.Mutex
		seen = map[uint64]bool{}
		all  sync.WaitGroup // all run at the same time
		done = make(chan struct{})
	)
	all.Add(goroutines)
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			id := Self()
			mu.Lock()
			if id == 0 || seen[id] {
				t.Errorf("number %d is 0 or used twice", id)
			}
			seen[id] = true
			mu.Unlock()
			all.Done()
			<-done
			for range 100 {
				runtime.Gosched()
				if other := deep(i * 10); other != id {
					t.Errorf("number %d changed to %d, want no change", id, other)
				}
			}
		})
	}
	all.Wait()
	close(done)
	wg.Wait()
}

//go:noinline
func deep(n int) uint64 {
	var stack [512]byte
	if n > 0 {
		stack[n%len(stack)] = 1
		return deep(n-1) + uint64(stack[0]) - uint64(stack[0])
	}
	return Self()
}

func BenchmarkSelf(b *testing.B) {
	for b.Loop() {
		Self()
	}
}
