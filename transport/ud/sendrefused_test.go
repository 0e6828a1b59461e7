package ud_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// If the system refuses to send, Send and Reply return an error with the system's errno, as over UDP. If it refuses
// part of a list, that part is counted.
func TestRefusedBySystem(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	pub, sub := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	pub.retain = true
	r.join(pub, 0)
	r.send(r.sender(sub, 0), "hello")
	r.want(pub, 0, "hello")
	tx := r.sender(pub, 0)
	out := &transport.Outbound{Data: []byte("abc"), Stride: 1, Count: 3, Lens: []uint16{1, 1, 1}}
	for _, c := range []struct {
		refuse, posted int
		errors, failed uint64 // packets counted in SendErrors, and failed calls
	}{{1 << 10, 0, 1, 1}, {1 << 10, 0, 2, 2}, {2, 3, 4, 2}, {0, 3, 4, 2}} {
		s.unsent = c.refuse
		n, err := tx.Send(out)
		if n != c.posted || (err == nil) != (c.posted == 3) || err != nil && (!errors.Is(err, syscall.ENETUNREACH) || !strings.Contains(err.Error(), "send: network is unreachable")) {
			t.Errorf("%+v: Send: %d packets, error %v, want %d and %v unless all are sent", c, n, err, c.posted, syscall.ENETUNREACH)
		}
		if st := pub.Stats(); st.SendErrors != c.errors {
			t.Errorf("%+v: %d send errors counted, want %d", c, st.SendErrors, c.errors)
		}
	}
	r.until("the accepted packets are completed", func() bool { return tx.Completed() == 6 })

	before := pub.Stats()
	s.unsent = 1
	if err := pub.Reply(pub.peer, []byte("x")); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("Reply: error %v, want %v", err, syscall.ENETUNREACH)
	}
	if st := pub.Stats(); st.SendErrors != before.SendErrors || st.PacketsSent != before.PacketsSent {
		t.Errorf("statistics after a reply: %+v, want no change from %+v", st, before)
	}
	s.unsent = 0
	if err := pub.Reply(pub.peer, []byte("y")); err != nil {
		t.Errorf("Reply: %v", err)
	}
}
