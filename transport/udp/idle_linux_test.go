//go:build !fanfare_plainudp

package udp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// Who has joined no group waits for replies alone, and parks; who has blocks, and is woken quickest.
func TestIdleWithoutGroups(t *testing.T) {
	tr, err := Open(Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.22.0.16/28"), Groups: 4, Port: testenv.Port(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		tr.Close()
		for tr.Poll(transport.NewBatch(1)) == nil {
		}
	}()
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
