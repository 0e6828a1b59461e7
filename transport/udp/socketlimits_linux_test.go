package udp_test

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// A buffer of 1G is one byte more than Linux grants to any process. That does not count as capped, because no limit can
// be raised.
func TestLargestBuffers(t *testing.T) {
	if plainPath { // which does not know the granted size
		return
	}
	tr := open(t, udp.Config{Interface: "127.0.0.1", ReceiveBuffer: 1 << 30, SendBuffer: 1 << 30})
	defer end(tr)
	if l := tr.SocketLimits(); l.ReceiveAsked != sys.MaxBuffer || l.SendAsked != sys.MaxBuffer || l.ReceiveGranted > l.ReceiveAsked || l.SendGranted > l.SendAsked {
		t.Errorf("limits %+v, but the kernel grants at most %d", l, sys.MaxBuffer)
	}
}
