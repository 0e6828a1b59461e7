package transporttest

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// Idle checks that an endpoint in no group, to which replies alone come, parks while it waits, and that one in a group
// blocks, which is woken quickest. settle ends a Wake of before; parked reports how its last Wait has slept.
func Idle(t *testing.T, tr transport.Transport, settle func(), parked func() bool) {
	wait := func(parks bool, when string) {
		t.Helper()
		if err := tr.Poll(transport.NewBatch(16)); err != nil {
			t.Fatal(err)
		}
		settle()
		if err := tr.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := parked(); got != parks {
			t.Errorf("%s: it parks: %v", when, got)
		}
	}
	change := func(f func(group int) error, group int) {
		t.Helper()
		for range 2 { // the second one changes nothing
			if err := f(group); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait(true, "in no group")
	for group := range 2 {
		change(tr.Join, group)
		wait(false, "in a group")
	}
	change(tr.Leave, 0)
	wait(false, "in the other one")
	change(tr.Leave, 1)
	wait(true, "in none any more")
}
