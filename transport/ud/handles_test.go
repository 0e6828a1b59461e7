package ud_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// slowHandles are address handles that are complete when the test calls finish.
type slowHandles struct{ begun []*slowAH }

type slowPD struct{ *spyPD }

// slowAH is a rdma.PendingAH.
type slowAH struct {
	rdma.Pending // only Done is called
	pd           *slowPD
	attr         rdma.AHAttr
	done         func()
	over         bool
	canceled     bool
	ah           rdma.AH
	err          error
}

func (pd *slowPD) BeginCreateAH(attr rdma.AHAttr, done func()) (rdma.PendingAH, error) {
	a := &slowAH{pd: pd, attr: attr, done: done}
	pd.s.slow.begun = append(pd.s.slow.begun, a)
	return a, nil
}

// finish completes the creation, with an error unless err is nil.
func (a *slowAH) finish(t *testing.T, err error) {
	t.Helper()
	if a.err = err; err == nil {
		if a.ah, a.err = a.pd.CreateAH(a.attr); a.err != nil {
			t.Fatal(a.err)
		}
		if a.canceled {
			a.ah.Close()
		}
	}
	a.over = true
	a.done()
}

func (a *slowAH) Done() bool { return a.over }

func (a *slowAH) Cancel() {
	a.canceled = true
	if a.ah != nil {
		a.ah.Close()
	}
}

func (a *slowAH) AH() (rdma.AH, error) {
	switch {
	case !a.over:
		return nil, rdma.ErrNoEvent
	case a.canceled:
		return nil, errors.New("it was cancelled")
	}
	return a.ah, a.err
}

// slowRig makes a subscriber with slow handles and a publisher that it has retained.
func slowRig(t *testing.T, cfg ud.Config) (r *rig, s *spy, sub, pub *node) {
	r = newRig(t, fabric.Config{})
	s = newSpy(r.f)
	s.slow = &slowHandles{}
	s.waiter = &deafWaiter{}
	cfg.Provider = s
	sub, pub = r.node(cfg), r.node(ud.Config{})
	sub.retain = true
	r.join(sub, 0)
	r.send(r.sender(pub, 0), "hello")
	r.want(sub, 0, "hello")
	if sub.peer == 0 || len(s.slow.begun) != 1 {
		t.Fatalf("peer %d, %d handles begun, want a peer and 1", sub.peer, len(s.slow.begun))
	}
	return r, s, sub, pub
}

// The loop does not wait for the handle to a new sender. The latest replies are queued until it exists; earlier ones
// count as if the send queue were full.
func TestRepliesWaitForTheirHandle(t *testing.T) {
	r, s, sub, pub := slowRig(t, ud.Config{})
	const n, kept = 20, 16
	before := sub.Stats()
	var want []string
	for i := range n {
		text := fmt.Sprintf("reply %02d", i)
		if err := sub.Reply(sub.peer, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if i >= n-kept {
			want = append(want, text)
		}
	}
	r.quiet(time.Second)
	if len(pub.got) != 0 {
		t.Fatalf("%q arrived without a handle, want nothing", pub.got)
	}
	if st := sub.Stats(); st.PacketsSent != before.PacketsSent || st.SendBusy-before.SendBusy != n-kept {
		t.Errorf("while they wait, %d count as sent and %d as refused, want 0 and %d", st.PacketsSent-before.PacketsSent, st.SendBusy-before.SendBusy, n-kept)
	}
	s.waiter.woken = false
	s.slow.begun[0].finish(t, nil)
	if !s.waiter.woken {
		t.Error("the loop is not woken when the handle is ready")
	}
	r.until("the replies arrive", func() bool { return len(pub.got) >= kept })
	r.quiet(time.Millisecond)
	if !slices.Equal(pub.got, want) {
		t.Errorf("%q arrived, want %q", pub.got, want)
	}
	if st := sub.Stats(); st.PacketsSent-before.PacketsSent != kept || st.BytesSent-before.BytesSent != uint64(kept*len(want[0])) {
		t.Errorf("%d packets of %d bytes counted as sent, want %d of %d", st.PacketsSent-before.PacketsSent, st.BytesSent-before.BytesSent, kept, kept*len(want[0]))
	}
	pub.got, pub.groups = nil, nil
	if err := sub.Reply(sub.peer, []byte("immediately")); err != nil {
		t.Fatal(err)
	}
	r.want(pub, transport.Unicast, "immediately")
	if len(s.slow.begun) != 1 {
		t.Errorf("%d handles begun for one sender, want 1", len(s.slow.begun))
	}
}

// Large replies are queued as far as there is memory for them.
func TestLargeRepliesWait(t *testing.T) {
	r, s, sub, pub := slowRig(t, ud.Config{})
	size := sub.Capabilities().MaxPacket
	for i := range 10 {
		p := make([]byte, size)
		p[0] = byte(i)
		if err := sub.Reply(sub.peer, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := sub.Reply(sub.peer, make([]byte, size+1)); !errors.Is(err, transport.ErrPacketTooLarge) {
		t.Errorf("a reply that is too large: error %v, want %v", err, transport.ErrPacketTooLarge)
	}
	s.slow.begun[0].finish(t, nil)
	r.until("replies arrive", func() bool { return len(pub.got) >= 8 })
	r.quiet(time.Millisecond)
	for i, p := range pub.got {
		if len(p) != size || p[0] != byte(i+2) {
			t.Errorf("reply %d has %d bytes and number %d, want %d and %d", i, len(p), p[0], size, i+2)
		}
	}
}

// If a handle cannot be made, later replies retry it after a delay. Until it is made, replies fail with the reason.
func TestHandleThatCannotBeMade(t *testing.T) {
	r, s, sub, pub := slowRig(t, ud.Config{})
	reply := func() error { return sub.Reply(sub.peer, []byte("hello?")) }
	if err := reply(); err != nil {
		t.Fatal(err)
	}
	before := sub.Stats()
	s.slow.begun[0].finish(t, rdma.Errorf("create AH", syscall.ETIMEDOUT, "no answer"))
	r.until("the failure is known", func() bool {
		err := reply()
		return errors.Is(err, transport.ErrBusy) && errors.Is(err, syscall.ETIMEDOUT)
	})
	if st := sub.Stats(); st.PeersRefused != before.PeersRefused+1 || st.SendBusy < before.SendBusy+2 {
		t.Errorf("%d peers counted as refused, %d replies, want 1 and at least 2", st.PeersRefused-before.PeersRefused, st.SendBusy-before.SendBusy)
	}
	if len(s.slow.begun) != 1 {
		t.Fatalf("it is retried immediately")
	}
	r.quiet(2 * time.Second)
	if err := reply(); !errors.Is(err, syscall.ETIMEDOUT) || len(s.slow.begun) != 2 {
		t.Fatalf("reply after a while: error %v, %d handles begun, want %v and 2", err, len(s.slow.begun), syscall.ETIMEDOUT)
	}
	s.slow.begun[1].finish(t, nil)
	r.want(pub, transport.Unicast, "hello?")
	if err := reply(); err != nil {
		t.Error(err)
	}
}

// Forgetting a sender cancels its handle, and the end of the transport waits until the provider has finished.
func TestHandleOfForgottenPeer(t *testing.T) {
	for _, forgotten := range []bool{true, false} {
		r, s, sub, pub := slowRig(t, ud.Config{})
		if err := sub.Reply(sub.peer, []byte("never")); err != nil {
			t.Fatal(err)
		}
		if forgotten {
			sub.Forget(sub.peer)
			if err := sub.Reply(sub.peer, []byte("never")); !errors.Is(err, transport.ErrNoPeer) {
				t.Errorf("Reply to a forgotten peer: error %v, want %v", err, transport.ErrNoPeer)
			}
			r.quiet(time.Millisecond)
			if !s.slow.begun[0].canceled {
				t.Error("the handle of a forgotten peer is not cancelled")
			}
		}
		sub.Close()
		r.quiet(10 * time.Second)
		if !s.slow.begun[0].canceled {
			t.Errorf("forgotten %v: the handle is not cancelled at the end", forgotten)
		}
		if sub.end != nil {
			t.Fatalf("forgotten %v: the transport ended while the provider was making a handle: %v", forgotten, sub.end)
		}
		s.slow.begun[0].finish(t, nil)
		r.close(sub)
		if len(pub.got) != 0 || s.closed != 1 {
			t.Errorf("forgotten %v: %q arrived, %d handles were closed, want nothing and 1", forgotten, pub.got, s.closed)
		}
	}
}

// An attacker that forges senders causes only a bounded number of concurrent handle creations. Known peers are
// unaffected, and new senders are accepted again when fewer are pending.
func TestManyPendingHandles(t *testing.T) {
	r, s, sub, pub := slowRig(t, ud.Config{})
	s.slow.begun[0].finish(t, nil)
	r.quiet(time.Millisecond)
	sub.retain = false
	to := r.sender(pub, 1)
	r.join(sub, 1)
	r.send(to, "x")
	r.until("a packet is lent", func() bool {
		if err := sub.Poll(sub.batch); err != nil {
			t.Fatal(err)
		}
		return len(sub.batch.Trains) > 0
	})
	tr := sub.batch.Trains[0]
	area := slices.Clone(sub.Header(tr.From))
	h, ok := rdma.ParseGRH(rdma.LinkLayerInfiniBand, area)
	if !ok {
		t.Fatal("no header")
	}
	const maximum = 64
	forge := func(i int) (transport.Peer, error) {
		binary.BigEndian.PutUint32(h.Src[12:], 0xbad00000+uint32(i))
		rdma.PutGRH(sub.Header(tr.From), rdma.LinkLayerInfiniBand, &h, 0)
		return sub.Retain(tr.From)
	}
	refused := 0
	var forged []transport.Peer
	for i := range 2 * maximum {
		p, err := forge(i)
		switch {
		case err == nil:
			forged = append(forged, p)
		case errors.Is(err, transport.ErrBusy):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if len(forged) != maximum || refused != maximum || sub.Stats().PeersRefused != maximum {
		t.Errorf("of %d concurrent senders %d were accepted and %d refused; %d counted, want half of each", 2*maximum, len(forged), refused, sub.Stats().PeersRefused)
	}
	if err := sub.Reply(sub.peer, []byte("you")); err != nil {
		t.Fatal(err)
	}
	r.want(pub, transport.Unicast, "you")
	for _, p := range forged[1:] {
		sub.Forget(p) // the provider still creates the handles
	}
	if _, err := forge(1000); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("one sender more: error %v, want %v", err, transport.ErrBusy)
	}
	for _, a := range s.slow.begun[2:] {
		a.finish(t, rdma.Errorf("create AH", syscall.ETIMEDOUT, "no answer"))
	}
	r.quiet(time.Millisecond)
	if _, err := forge(1001); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	copy(sub.Header(tr.From), area)
	sub.Release(&tr)
	for _, a := range s.slow.begun[1:] {
		if !a.over {
			a.finish(t, nil)
		}
	}
	r.close(sub)
}
