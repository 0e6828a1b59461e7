package udp_test

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// A buffer of 1G is a byte more than Linux grants to any process: that does not count as capped, and
// there is nothing to raise.
func TestLargestBuffers(t *testing.T) {
	if plainPath { // which does not know what is granted
		return
	}
	tr := open(t, udp.Config{Interface: "127.0.0.1", ReceiveBuffer: 1 << 30, SendBuffer: 1 << 30})
	defer end(tr)
	if l := tr.SocketLimits(); l.ReceiveAsked != sys.MaxBuffer || l.SendAsked != sys.MaxBuffer || l.ReceiveGranted > l.ReceiveAsked || l.SendGranted > l.SendAsked {
		t.Errorf("limits %+v, and the kernel gives %d at most", l, sys.MaxBuffer)
	}
}
