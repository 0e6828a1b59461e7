package ud_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Packets that find no receive are counted exactly, and the others are delivered.
func TestReceiveQueueRunsDry(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{ReceiveQueue: 16})
		r.join(sub, 0)
		s := r.sender(pub, 0)
		for i := range 100 {
			r.send(s, fmt.Sprint(i))
		}
		r.f.AdvanceTo(r.f.Now() + time.Millisecond) // without a Poll meanwhile
		r.quiet(time.Millisecond)
		if len(sub.got) != 16 || sub.Stats().ReceiveOverflow != 84 {
			t.Errorf("%d packets arrived and %d were counted, of 100 into a queue of 16", len(sub.got), sub.Stats().ReceiveOverflow)
		}
		for i, p := range sub.got {
			if p != fmt.Sprint(i) {
				t.Errorf("packet %d is %q", i, p)
			}
		}
		sub.got, sub.groups = nil, nil
		r.send(s, "after")
		r.want(sub, 0, "after")
	})
}

// As many trains as may be lent leave the receive queue as long as it was.
func TestLentDoesNotStarve(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{ReceiveQueue: 64})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	var lent []transport.Train
	for len(lent) < sub.Capabilities().LendMax {
		r.send(s, "lent")
		r.f.AdvanceTo(r.f.Now() + tick)
		if err := sub.Poll(sub.batch); err != nil {
			t.Fatal(err)
		}
		lent = append(lent, sub.batch.Trains...)
	}
	sub.poll()
	n := sub.Capabilities().ReceiveCapacity
	for range n {
		r.send(s, "more")
	}
	r.f.AdvanceTo(r.f.Now() + time.Millisecond)
	r.quiet(time.Millisecond)
	if len(sub.got) != n || sub.Stats().ReceiveOverflow != 0 {
		t.Errorf("%d of %d arrived with %d trains lent; overflow %d", len(sub.got), n, len(lent), sub.Stats().ReceiveOverflow)
	}
	for i := range lent {
		if string(lent[i].Data) != "lent" {
			t.Fatalf("lent train %d is %q now", i, lent[i].Data)
		}
		sub.Release(&lent[i])
	}
}

// The device reads memory of Alloc after Send has returned: Completed reports when it has, and a full
// send queue is ErrBusy.
func TestAsynchronousSends(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: time.Millisecond})
	pub, sub := r.node(ud.Config{SendQueue: 16}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	mem, err := pub.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem, "before")
	out := &transport.Outbound{Data: mem[:6], Stride: 6, Count: 1, Lens: []uint16{6}}
	if n, err := s.Send(out); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if s.Completed() != 0 {
		t.Error("completed before the device has read it")
	}
	copy(mem, "after!") // what the contract forbids, to see that it is read late
	r.want(sub, 0, "after!")
	r.until("it is completed", func() bool { return s.Completed() == 1 })

	heap := []byte("heaps") // is copied: may change at once
	if n, err := s.Send(&transport.Outbound{Data: heap, Stride: 5, Count: 1, Lens: []uint16{5}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	copy(heap, "XXXXX")
	r.want(sub, 0, "heaps")

	many := &transport.Outbound{Data: make([]byte, 40), Stride: 1, Count: 40, Lens: make([]uint16, 40)}
	for i := range many.Lens {
		many.Lens[i], many.Data[i] = 1, byte('a'+i)
	}
	n, err := s.Send(many)
	if n != 16 || !errors.Is(err, transport.ErrBusy) {
		t.Fatalf("40 packets into a send queue of 16: %d, %v", n, err)
	}
	if err := pub.Reply(0, []byte("x")); !errors.Is(err, transport.ErrNoPeer) {
		t.Errorf("Reply: %v", err)
	}
	for sent := n; sent < 40; {
		rest := &transport.Outbound{Data: many.Data[sent:], Stride: 1, Count: 40 - sent, Lens: many.Lens[sent:]}
		n, err := s.Send(rest)
		if err != nil && !errors.Is(err, transport.ErrBusy) {
			t.Fatal(err)
		}
		sent += n
		r.quiet(tick)
	}
	for i := range 40 {
		r.want(sub, 0, string([]byte{byte(0x61 + i)}))
	}
	r.until("all are completed", func() bool { return s.Completed() == 42 })
	pub.Free(mem)
}

// Two transports of one port wait in line for the device to read their sends.
func TestTwoQueuePairsOfAPort(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: 10 * time.Microsecond})
	host := r.f.AddHost(fabric.HostConfig{})
	a, b, sub := r.node(ud.Config{Provider: host}), r.node(ud.Config{Provider: host}), r.node(ud.Config{})
	r.join(sub, 0)
	sa, sb := r.sender(a, 0), r.sender(b, 0)
	counts := map[byte]int{}
	for range 10 {
		for range 5 {
			r.send(sa, "a")
			r.send(sb, "b")
		}
		r.quiet(time.Millisecond)
	}
	for _, p := range sub.got {
		counts[p[0]]++
	}
	if counts['a'] != 50 || counts['b'] != 50 {
		t.Errorf("arrived: %v, want 50 of each", counts)
	}
	if sa.Completed() != 50 || sb.Completed() != 50 {
		t.Errorf("completed: %d and %d", sa.Completed(), sb.Completed())
	}
}

// Memory that was freed and comes again at the same address has another key:
// senders look again.
func TestMemoryComesAgain(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	for i := range 20 {
		mem, err := pub.Alloc(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("round %02d", i)
		n := copy(mem[1<<16-len(text):], text)
		if n, err := s.Send(&transport.Outbound{Data: mem[1<<16-n:], Stride: n, Count: 1, Lens: []uint16{uint16(n)}}); n != 1 {
			t.Fatal(err)
		}
		r.want(sub, 0, text)
		pub.Free(mem)
	}
}

// A publisher whose port gets another LID is another peer: a reply to the old
// one is lost, to the new one arrives.
func TestPeerMoves(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	sub.retain = true
	r.join(sub, 0)
	s := r.sender(pub, 0)
	r.send(s, "here")
	r.want(sub, 0, "here")
	old := sub.peer
	pub.host.Port(0, 1).ChangeLID()
	r.event(pub, 0, transport.RoleSender, transport.Lost)
	r.event(pub, 0, transport.RoleSender, transport.Joined)
	r.send(s, "there")
	r.want(sub, 0, "there")
	if sub.peer == old {
		t.Fatal("the same peer at another LID")
	}
	if err := sub.Reply(old, []byte("lost")); err != nil {
		t.Error(err)
	}
	if err := sub.Reply(sub.peer, []byte("found")); err != nil {
		t.Error(err)
	}
	r.want(pub, transport.Unicast, "found")
	sub.Forget(old)
	sub.Forget(sub.peer)
}

// Retain is for lent trains only.
func TestRetainOfReleased(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	r.send(r.sender(pub, 0), "x")
	r.until("it arrives", func() bool { return sub.Poll(sub.batch) == nil && len(sub.batch.Trains) > 0 })
	tr := sub.batch.Trains[0]
	sub.Release(&tr)
	if p, err := sub.Retain(tr.From); p != 0 || err == nil {
		t.Errorf("Retain of a released train: %v, %v", p, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second Release does not panic")
		}
	}()
	sub.Release(&tr)
}

// In virtual time and in one goroutine: nothing at all is allocated.
func TestNothingIsAllocated(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Microsecond} {
		r := newRig(t, fabric.Config{SendDelay: delay})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
		sub.retain = true
		r.join(sub, 0)
		s := r.sender(pub, 0)
		r.send(s, "hello")
		r.want(sub, 0, "hello")
		mem, err := pub.Alloc(8 * 1024)
		if err != nil {
			t.Fatal(err)
		}
		registered := &transport.Outbound{Data: mem, Stride: 1024, Count: 8, Lens: []uint16{1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024}}
		copied := &transport.Outbound{Data: make([]byte, 8*1024), Stride: 1024, Count: 8, Lens: registered.Lens}
		reply := []byte("a reply")
		var polling uint64
		take := func(n *node) int {
			got := 0
			if err := n.Poll(n.batch); err != nil {
				t.Fatal(err)
			}
			for i := range n.batch.Trains {
				got++
				n.Release(&n.batch.Trains[i])
			}
			return got
		}
		round := func() {
			for _, out := range []*transport.Outbound{registered, copied} {
				if n, err := s.Send(out); n != 8 {
					t.Fatal(n, err)
				}
			}
			if err := sub.Reply(sub.peer, reply); err != nil {
				t.Fatal(err)
			}
			r.f.AdvanceTo(r.f.Now() + time.Millisecond)
			before := mallocs()
			if n := take(sub); n != 16 {
				t.Fatalf("%d packets of 16", n)
			}
			if n := take(pub); n != 1 {
				t.Fatalf("%d replies of 1", n)
			}
			if taken := pub.Stats().PacketsSent; s.Completed() != taken {
				t.Fatalf("%d completed of %d", s.Completed(), taken)
			}
			polling += mallocs() - before
		}
		for range 20 {
			round()
		}
		// A delayed send is a timer of the fabric's, which allocates. Its effects, packets and
		// completions, do not.
		polling = 0
		if n := testing.AllocsPerRun(200, round); n != 0 && delay == 0 {
			t.Errorf("%v allocations a round", n)
		}
		if polling >= 200 {
			t.Errorf("delay %v: %d allocations in 200 rounds of polling", delay, polling)
		}
		pub.Free(mem)
	}
}

// mallocs is how many objects were ever allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// Messages of other programs in the group do no harm: empty ones are counted
// as errors, foreign ones are the reliable layer's business.
func TestForeignMessages(t *testing.T) {
	r := newRig(t, fabric.Config{})
	sub := r.node(ud.Config{})
	r.join(sub, 0)
	s := r.stranger(r.f.AddHost(fabric.HostConfig{}), sub.GroupAddr(0))
	for _, text := range []string{"", "strange"} {
		s.send(text, rdma.UDPQKey)
	}
	r.want(sub, 0, "strange")
	if st := sub.Stats(); st.ReceiveErrors != 1 || st.PacketsReceived != 1 {
		t.Errorf("counters: %+v", st)
	}
}
