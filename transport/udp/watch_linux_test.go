//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"net"
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// After the kernel dropped messages because its buffer was full, the interface is checked. Nothing is reported if it
// has not changed.
func TestLinkMessagesLost(t *testing.T) {
	tr, err := Open(Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	before := tr.at.Load()
	check, why := tr.changed(sys.LinkChange{Kind: sys.LinkUnknown})
	if !check || why != nil {
		t.Errorf("change of an unknown kind: check %v, error %v, want true and none", check, why)
	}
	l, err := tr.link().current(&tr.cfg)
	if err != nil || l != before.link {
		t.Errorf("the interface was %+v, now %+v, error %v, want no change", before.link, l, err)
	}
	if err := tr.attach(&l); err != nil || tr.at.Load() != before || tr.events.Pending() {
		t.Errorf("attach to the same interface: error %v, or it changed the state", err)
	}
	tr.Close()
	if err := tr.Poll(transport.NewBatch(1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll: error %v, want %v", err, net.ErrClosed)
	}
}
