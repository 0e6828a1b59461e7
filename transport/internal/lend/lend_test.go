package lend

import (
	"sync/atomic"
	"testing"
)

func TestLimit(t *testing.T) {
	var refused atomic.Uint64
	l := New(4, 3, &refused)
	poll := func(want, room int, counted uint64) {
		t.Helper()
		if got := l.Room(want); got != room {
			t.Fatalf("with %d lent, %d of %d may be lent, want %d", l.out, got, want, room)
		}
		if got := refused.Load(); got != counted {
			t.Fatalf("%d polls count as limited, want %d", got, counted)
		}
		l.Lent(room)
	}
	poll(3, 3, 0)
	poll(1, 1, 0)
	poll(3, 3, 0) // 4 were kept, which is the limit
	if !l.Full() {
		t.Error("more may be lent with all lent")
	}
	poll(3, 0, 1)
	poll(1, 0, 1) // counts as the same limit
	l.Released()
	if l.Full() {
		t.Error("none may be lent after one was released")
	}
	poll(3, 1, 2)
	poll(3, 0, 3)
	poll(3, 0, 3)
	for range 3 {
		l.Released()
	}
	poll(3, 3, 3)
	l.Lent(0)
	poll(1, 0, 4)
	l.Lent(0)
	poll(1, 0, 4)
}
