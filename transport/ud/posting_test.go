package ud_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// trainOf returns a train of equal packets in memory of the transport.
func trainOf(t *testing.T, n *node, packets int) *transport.Outbound {
	t.Helper()
	mem, err := n.Alloc(packets * 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Free(mem) })
	return &transport.Outbound{Data: mem, Stride: 64, Count: packets, Lens: slices.Repeat([]uint16{64}, packets)}
}

// A train is posted as one list, in which only the last request asks for a completion.
func TestTrainsAreLists(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	pub := r.node(ud.Config{Provider: s})
	to := r.sender(pub, 0)
	maxTrain := pub.Capabilities().MaxTrain
	packets := 2*maxTrain + 10
	if n, err := to.Send(trainOf(t, pub, packets)); n != packets || err != nil {
		t.Fatalf("Send: %d packets, error %v, want %d", n, err, packets)
	}
	if !slices.Equal(s.sends, []int{maxTrain, maxTrain, 10}) || s.signaled != 3 {
		t.Errorf("%d packets posted in lists of %v, with %d completions requested", packets, s.sends, s.signaled)
	}
}

// Receives are posted again in long lists. Before the loop sleeps, all are posted.
func TestReceivesArePostedInLists(t *testing.T) {
	for _, own := range []bool{false, true} {
		r := newRig(t, fabric.Config{})
		s := newSpy(r.f)
		if own {
			s.waiter = &deafWaiter{}
		}
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{Provider: s, ReceiveQueue: 64})
		r.join(sub, 0)
		to := r.sender(pub, 0)
		s.recvs = nil
		const packets = 40
		for range packets { // each is polled separately
			r.send(to, "x")
			r.want(sub, 0, "x")
		}
		if n := len(s.recvs); n == 0 || n > packets/8 {
			t.Errorf("own waiter %v: receives of %d packets were posted in lists of %v", own, packets, s.recvs)
		}
		r.send(to, "another packet")
		r.want(sub, 0, "another packet")
		if s.posted == 64 {
			t.Fatal("no receive is missing: the test proves nothing")
		}
		if err := sub.Wait(time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		if s.posted != 64 {
			t.Errorf("own waiter %v: %d receives of 64 are posted while the loop sleeps, want all", own, s.posted)
		}
	}
}

// A handle is not closed before the sends that use it are completed: when a group is lost or left, a peer is forgotten,
// or the transport ends.
func TestHandlesOutliveSends(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: time.Millisecond})
	s := newSpy(r.f)
	n, other := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	n.retain = true
	r.join(n, 1)
	r.send(r.sender(other, 1), "a peer")
	r.want(n, 1, "a peer")
	a, b := r.sender(n, 0), r.sender(n, 2)
	for range 3 {
		r.send(a, "x")
	}
	n.host.Port(0, 1).Reregister()
	r.event(n, 0, transport.RoleSender, transport.Lost)
	r.until("all is joined again", func() bool { return len(n.events) >= 5 })
	if s.closed != 2 {
		t.Errorf("%d handles of lost groups closed, want 2", s.closed)
	}
	for range 3 {
		r.send(a, "x")
		r.send(b, "y")
	}
	if err := n.Reply(n.peer, []byte("z")); err != nil {
		t.Fatal(err)
	}
	n.Forget(n.peer)
	b.Close()
	n.poll()
	if s.closed != 2 {
		t.Errorf("%d handles closed while sends were pending, want the 2 closed before", s.closed)
	}
	r.quiet(20 * time.Millisecond)
	if s.closed != 4 {
		t.Errorf("%d handles closed, want 4: of two lost groups, a peer and a left group", s.closed)
	}
	r.send(a, "last")
	r.close(n)
	if s.closed != 5 {
		t.Errorf("%d of 5 handles closed", s.closed)
	}
	for _, f := range s.faults {
		t.Error(f)
	}
}

// A provider that accepts fewer requests than the queue's size, so that some have no completion, does not block sending
// forever.
func TestListAcceptedInPart(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	pub, sub := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	r.join(sub, 0)
	to := r.sender(pub, 0)
	full := false
	s.postSend = func(wrs []rdma.SendWR) []rdma.SendWR {
		if full {
			return nil
		}
		full = true
		return wrs[:3]
	}
	if n, err := to.Send(trainOf(t, pub, 8)); n != 3 || !errors.Is(err, transport.ErrBusy) {
		t.Fatalf("Send: %d packets, error %v, want 3 and %v", n, err, transport.ErrBusy)
	}
	completed := uint64(3)
	r.until("the queue pair is reset", func() bool {
		if _, err := to.Send(one("x")); !errors.Is(err, transport.ErrBusy) {
			t.Fatal(err)
		}
		return to.Completed() == completed
	})
	s.postSend = nil
	sub.got, sub.groups = nil, nil
	r.send(to, "again")
	r.want(sub, 0, "again")
}

// A packet with a group or nothing as its source gets no reply: all members would receive the reply. docs/protocol
// §17.5.
func TestRetainOfForgedSource(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
		r.join(sub, 0)
		to := r.sender(pub, 0)
		r.send(to, "x")
		r.until("a packet is lent", func() bool {
			if err := sub.Poll(sub.batch); err != nil {
				t.Fatal(err)
			}
			return len(sub.batch.Trains) > 0
		})
		tr := sub.batch.Trains[0]
		defer sub.Release(&tr)
		layer := rdma.LinkLayerInfiniBand
		if flavor == fabric.RoCE {
			layer = rdma.LinkLayerEthernet
		}
		h, ok := rdma.ParseGRH(layer, sub.Header(tr.From))
		if !ok {
			t.Fatal("no header")
		}
		honest := h.Src
		h.Src = h.Dst // the group
		rdma.PutGRH(sub.Header(tr.From), layer, &h, 0)
		if p, err := sub.Retain(tr.From); p != 0 || err == nil {
			t.Errorf("Retain of a source that is the group: peer %v, error %v, want none and an error", p, err)
		}
		if n := sub.Stats().PeersRefused; n != 1 {
			t.Errorf("%d peers counted as refused, want 1", n)
		}
		h.Src = honest
		rdma.PutGRH(sub.Header(tr.From), layer, &h, 0)
		if p, err := sub.Retain(tr.From); p == 0 || err != nil {
			t.Errorf("Retain of a valid source: peer %v, error %v, want a peer", p, err)
		}
	})
}
