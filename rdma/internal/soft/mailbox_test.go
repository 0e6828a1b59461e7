package soft

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Each of several waiters gets an item, although there is only one token to wake them.
func TestMailboxWakesAll(t *testing.T) {
	m := newMailbox[int]("box", 0)
	const n = 50
	got := make(chan int, n)
	for range n {
		go func() {
			v, err := await(context.Background(), m, func() (int, error) { return m.pop("test") })
			if err != nil {
				t.Error(err)
			}
			got <- v
		}()
	}
	for i := range n {
		m.push(i)
	}
	seen := map[int]bool{}
	for range n {
		seen[<-got] = true
	}
	if len(seen) != n {
		t.Errorf("%d different items, want %d", len(seen), n)
	}
}

func TestMailboxBoundRemoveClose(t *testing.T) {
	m := newMailbox[int]("box", 3)
	for i := range 5 {
		m.push(i)
	}
	m.remove(func(v int) bool { return v == 3 })
	for _, want := range []int{2, 4} { // the oldest was dropped
		if v, err := m.pop("test"); v != want || err != nil {
			t.Errorf("popped %d, error %v, want %d", v, err, want)
		}
	}
	if _, err := m.pop("test"); err != rdma.ErrNoEvent {
		t.Errorf("pop from an empty mailbox fails with %v, want %v", err, rdma.ErrNoEvent)
	}
	if !m.close() || m.close() {
		t.Error("the first close returned false")
	}
	m.push(9)
	if _, err := m.pop("test"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("pop from a closed mailbox fails with %v, want %v", err, net.ErrClosed)
	}
	var none context.Context // it must not cause a panic
	if _, err := await(none, m, func() (int, error) { return m.pop("test") }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("await on a closed mailbox fails with %v, want %v", err, net.ErrClosed)
	}
}
