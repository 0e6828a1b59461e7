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

// Packets for which no receive is posted are counted exactly, and all others are delivered.
func TestReceiveQueueOverflows(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{ReceiveQueue: 16})
		r.join(sub, 0)
		s := r.sender(pub, 0)
		for i := range 100 {
			r.send(s, fmt.Sprint(i))
		}
		r.f.AdvanceTo(r.f.Now() + time.Millisecond) // without a Poll
		r.quiet(time.Millisecond)
		if len(sub.got) != 16 || sub.Stats().ReceiveOverflow != 84 {
			t.Errorf("of 100 packets into a queue of 16, %d arrived and %d were counted as lost, want 16 and 84", len(sub.got), sub.Stats().ReceiveOverflow)
		}
		for i, p := range sub.got {
			if p != fmt.Sprint(i) {
				t.Errorf("packet %d is %q, want its number", i, p)
			}
		}
		sub.got, sub.groups = nil, nil
		r.send(s, "after")
		r.want(sub, 0, "after")
	})
}

// When LendMax trains are lent, as many receives are posted as before.
func TestLentTrainsKeepReceiveQueueFull(t *testing.T) {
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
		t.Errorf("%d of %d arrived with %d trains lent; %d overflowed, want all and none", len(sub.got), n, len(lent), sub.Stats().ReceiveOverflow)
	}
	for i := range lent {
		if string(lent[i].Data) != "lent" {
			t.Fatalf("lent train %d changed to %q", i, lent[i].Data)
		}
		sub.Release(&lent[i])
	}
}

// The device reads memory of Alloc after Send has returned: Completed reports when it has done so, and Send returns
// ErrBusy while the send queue is full.
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
		t.Fatalf("Send: %d packets, error %v, want 1", n, err)
	}
	if s.Completed() != 0 {
		t.Error("completed before the device has read it")
	}
	copy(mem, "after!") // the contract forbids this; it shows that the device reads late
	r.want(sub, 0, "after!")
	r.until("it is completed", func() bool { return s.Completed() == 1 })

	heap := []byte("heaps") // Send copies heap memory, which may change immediately
	if n, err := s.Send(&transport.Outbound{Data: heap, Stride: 5, Count: 1, Lens: []uint16{5}}); n != 1 || err != nil {
		t.Fatalf("Send: %d packets, error %v, want 1", n, err)
	}
	copy(heap, "XXXXX")
	r.want(sub, 0, "heaps")

	many := &transport.Outbound{Data: make([]byte, 40), Stride: 1, Count: 40, Lens: make([]uint16, 40)}
	for i := range many.Lens {
		many.Lens[i], many.Data[i] = 1, byte('a'+i)
	}
	n, err := s.Send(many)
	if n != 16 || !errors.Is(err, transport.ErrBusy) {
		t.Fatalf("40 packets into a send queue of 16: %d sent, error %v, want 16 and %v", n, err, transport.ErrBusy)
	}
	if err := pub.Reply(0, []byte("x")); !errors.Is(err, transport.ErrNoPeer) {
		t.Errorf("Reply: error %v, want %v", err, transport.ErrNoPeer)
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

// The sends of two transports on one port share the device's time.
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
		t.Errorf("packets completed: %d and %d, want 50 each", sa.Completed(), sb.Completed())
	}
}

// Memory that is freed and allocated again at the same address has another key: senders do not use the old one.
func TestMemoryAtSameAddress(t *testing.T) {
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

// A publisher with a new LID of its port is a new peer: a reply to the old one is lost, a reply to the new one arrives.
func TestPeerChangesLID(t *testing.T) {
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
		t.Fatal("the peer is the same with another LID")
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

// Retain works only for lent trains.
func TestRetainOfReleased(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	r.send(r.sender(pub, 0), "x")
	r.until("it arrives", func() bool { return sub.Poll(sub.batch) == nil && len(sub.batch.Trains) > 0 })
	tr := sub.batch.Trains[0]
	sub.Release(&tr)
	if p, err := sub.Retain(tr.From); p != 0 || err == nil {
		t.Errorf("Retain of a released train: peer %v, error %v, want none and an error", p, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second Release does not panic")
		}
	}()
	sub.Release(&tr)
}

// In virtual time and in one goroutine nothing is allocated.
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
		receive := func(n *node) int {
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
					t.Fatalf("Send: %d packets, error %v, want 8", n, err)
				}
			}
			if err := sub.Reply(sub.peer, reply); err != nil {
				t.Fatal(err)
			}
			r.f.AdvanceTo(r.f.Now() + time.Millisecond)
			before := mallocs()
			if n := receive(sub); n != 16 {
				t.Fatalf("%d packets received, want 16", n)
			}
			if n := receive(pub); n != 1 {
				t.Fatalf("%d replies received, want 1", n)
			}
			if accepted := pub.Stats().PacketsSent; s.Completed() != accepted {
				t.Fatalf("%d packets completed, want %d", s.Completed(), accepted)
			}
			polling += mallocs() - before
		}
		for range 20 {
			round()
		}
		// A delayed send uses a timer of the fabric, which allocates. Polling for its packets and completions does not.
		polling = 0
		if n := testing.AllocsPerRun(200, round); n != 0 && delay == 0 {
			t.Errorf("%v allocations per round, want none", n)
		}
		if polling >= 200 {
			t.Errorf("delay %v: %d allocations in 200 rounds of polling, want fewer than 200", delay, polling)
		}
		pub.Free(mem)
	}
}

// mallocs returns the total number of allocations of the process.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// Messages of other programs in the group cause no failure: empty ones are counted as errors, others are passed on to
// the reliable layer.
func TestForeignMessages(t *testing.T) {
	r := newRig(t, fabric.Config{})
	sub := r.node(ud.Config{})
	r.join(sub, 0)
	s := r.foreignProgram(r.f.AddHost(fabric.HostConfig{}), sub.GroupAddr(0))
	for _, text := range []string{"", "strange"} {
		s.send(text, rdma.UDPQKey)
	}
	r.want(sub, 0, "strange")
	if st := sub.Stats(); st.ReceiveErrors != 1 || st.PacketsReceived != 1 {
		t.Errorf("statistics %+v, want 1 receive error and 1 packet", st)
	}
}
