//go:build !fanfare_plainudp

package udp

import (
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

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
	transporttest.Idle(t, tr, func() { tr.waiter.Begin(); tr.waiter.End() }, tr.waiter.Parked)
}
