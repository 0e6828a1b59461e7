package shm

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// Who has joined no group waits for replies alone, and parks; who has blocks, and is woken quickest.
func TestIdleWithoutGroups(t *testing.T) {
	tr := mustOpen(t, Config{Name: "idle", Dir: ownDir(t)})
	defer end(tr)
	wait := func(parks bool, when string) {
		t.Helper()
		if err := tr.Poll(transport.NewBatch(16)); err != nil {
			t.Fatal(err)
		}
		tr.waiter.Begin() // a Wake of before is over
		tr.waiter.End()
		if err := tr.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := tr.waiter.Parked(); got != parks {
			t.Errorf("%s: it parks: %v", when, got)
		}
	}
	wait(true, "in no group")
	for group := range 2 {
		if err := tr.Join(group); err != nil {
			t.Fatal(err)
		}
		tr.Join(group)
		wait(false, "in a group")
	}
	tr.Leave(0)
	wait(false, "in the other one")
	tr.Leave(1)
	tr.Leave(1)
	wait(true, "in none any more")
}
