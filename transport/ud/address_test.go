package ud_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// That the address is gone is told once, with the address, to publishers and
// subscribers, whether the loop spins or waits; a change that leaves it there is
// not told.
func TestLostAddressIsToldOnce(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
		var log bytes.Buffer
		n := r.node(ud.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		other := r.node(ud.Config{})
		r.join(n, 0)
		r.sender(n, 1)
		turn := func() {
			if waits {
				r.quiet(time.Millisecond)
				if err := n.Wait(time.Nanosecond); err != nil {
					t.Fatal(err)
				}
				return
			}
			r.quiet(100 * time.Millisecond)
		}
		port := n.host.Port(0, 1)
		port.SetPKeys(0xffff, 0x8001)
		other.host.Port(0, 1).RemoveGIDs()
		turn()
		if log.Len() != 0 {
			t.Fatalf("waits %v: told without a cause: %s", waits, log.String())
		}
		for range 3 {
			port.RemoveGIDs()
			turn()
		}
		if got := strings.Count(log.String(), "is gone from its network interface"); got != 1 || !strings.Contains(log.String(), n.LocalAddr().String()) {
			t.Errorf("waits %v: told %d times of %v:\n%s", waits, got, n.LocalAddr(), log.String())
		}
	}
}
