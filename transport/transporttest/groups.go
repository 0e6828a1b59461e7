package transporttest

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

func testGroupAddress(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	seen := make(map[string]int)
	for g := range a.Capabilities().Groups {
		s := a.GroupAddress(g)
		if s == "" || s != b.GroupAddress(g) {
			t.Fatalf("group %d is %q at one endpoint, %q at another", g, s, b.GroupAddress(g))
		}
		if other, ok := seen[s]; ok {
			t.Fatalf("groups %d and %d are both %q", other, g, s)
		}
		seen[s] = g
	}
	for _, g := range []int{-2, -1, a.Capabilities().Groups} {
		if s := a.GroupAddress(g); s != "" {
			t.Errorf("group %d, outside the range, is %q, want none", g, s)
		}
	}
}

func testJoinAndLeave(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	s := a.firstSender(1)
	for range 3 { // joining again after a leave works like the first time
		b.join(1)
		if err := b.Join(1); err != nil {
			t.Fatalf("second Join: %v", err)
		}
		f.settle(t, a, s, 1, b)
		b.leave(1)
		if err := b.Leave(1); err != nil {
			t.Fatalf("second Leave: %v", err)
		}
		f.drain()
		if len(b.events) > 0 {
			t.Fatalf("a second Join or Leave caused events: %+v", b.events)
		}
	}
	if err := b.Leave(2); err != nil {
		t.Fatalf("Leave of a group that was never joined: %v", err)
	}
	again := a.sender(1)
	s.Close()
	f.drain()
	if len(a.events) > 0 {
		t.Fatalf("events after the first of two senders closed: %+v, want none", a.events)
	}
	again.Close()
	again.Close()
	a.awaitEvent(1, transport.RoleSender, transport.Left)
	f.drain()
	if len(a.events)+len(b.events) > 0 {
		t.Fatalf("events %+v and %+v, want none", a.events, b.events)
	}
}

func testNoSuchGroup(t *testing.T, f *fabric) {
	a := f.endpoint(t)
	for _, g := range []int{transport.Unicast, -7, a.Capabilities().Groups, 1 << 30} {
		if err := a.Join(g); !errors.Is(err, transport.ErrNoSuchGroup) {
			t.Errorf("Join(%d): error %v, want %v", g, err, transport.ErrNoSuchGroup)
		}
		if err := a.Leave(g); !errors.Is(err, transport.ErrNoSuchGroup) {
			t.Errorf("Leave(%d): error %v, want %v", g, err, transport.ErrNoSuchGroup)
		}
		if s, err := a.NewSender(g); s != nil || !errors.Is(err, transport.ErrNoSuchGroup) {
			t.Errorf("NewSender(%d): %v, error %v, want %v", g, s, err, transport.ErrNoSuchGroup)
		}
	}
}

// A receiver gets packets of the groups that it has joined, with the right index, and none of other groups, even if
// other endpoints on this host have joined them.
func testIsolation(t *testing.T, f *fabric) {
	a, b, c := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	b.join(1, 3)
	c.join(0, 2)
	senders := make([]transport.Sender, 4)
	for g := range senders {
		senders[g] = a.firstSender(g)
	}
	for round := range 5 {
		for g, s := range senders {
			a.send(s, one([]byte{byte(g), byte(round), 77}))
		}
	}
	f.settle(t, a, senders[1], 1, b)
	f.settle(t, a, senders[3], 3, b)
	f.settle(t, a, senders[0], 0, c)
	f.settle(t, a, senders[2], 2, c)
	for _, r := range []struct {
		e      *endpoint
		groups [2]int
	}{{b, [2]int{1, 3}}, {c, [2]int{0, 2}}} {
		var n [4]int
		for _, p := range r.e.got {
			if p.group != r.groups[0] && p.group != r.groups[1] || len(p.data) != 3 || p.data[0] != byte(p.group) {
				t.Fatalf("member of %v got %v in group %d", r.groups, p.data, p.group)
			}
			n[p.group]++
		}
		if n[r.groups[0]] != 5 || n[r.groups[1]] != 5 {
			t.Errorf("member of %v got %v packets, want 5 of each of its groups", r.groups, n)
		}
	}
}

func testLeaveEndsDelivery(t *testing.T, f *fabric) {
	a, b, c := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	b.join(0, 1)
	c.join(0) // another member keeps the group
	s0, s1 := a.firstSender(0), a.firstSender(1)
	f.settle(t, a, s0, 0, b, c)
	b.leave(0)
	f.drain()
	a.send(s0, one([]byte("only c")))
	c.want(0, [][]byte{[]byte("only c")})
	f.settle(t, a, s1, 1, b)
	b.want(1, nil)
}

// A group can be left, and another one joined, while its packets are waiting: they are delivered with their own group,
// or not at all.
func testLeaveWithBacklog(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0, 1)
	s := []transport.Sender{a.firstSender(0), a.firstSender(1), a.firstSender(2)}
	b.batch = transport.NewBatch(1)
	for g := range 2 {
		for range min(5, b.Capabilities().ReceiveCapacity) {
			a.send(s[g], one([]byte{byte(g)}))
		}
	}
	f.until(t, "a packet arrives", func() bool { return len(b.got) > 0 })
	b.leave(0)
	b.leave(1)
	b.join(2)
	a.send(s[2], one([]byte{2}))
	f.settle(t, a, s[2], 2, b)
	of2 := 0 // at any position, because groups have no order between them
	for _, p := range b.got {
		if p.group == 2 {
			of2++
		}
		if len(p.data) != 1 || int(p.data[0]) != p.group {
			t.Errorf("packet %v was delivered with group %d, want the one it names", p.data, p.group)
		}
	}
	if of2 != 1 {
		t.Errorf("%d packets of the group that was joined later, want one", of2)
	}
	if n := b.Stats().ReceiveErrors; n != 0 {
		t.Errorf("%d receive errors, want none", n)
	}
}

// An endpoint that polls without Wait misses no packet of any group, even if it leaves the group of the latest packet.
func testPollWithoutWait(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t) // the suite waits on the first endpoint only
	b.join(0, 1)
	s := []transport.Sender{a.firstSender(0), a.firstSender(1)}
	mustReceive := func(g int, text string) {
		t.Helper()
		a.send(s[g], one([]byte(text)))
		b.want(g, [][]byte{[]byte(text)})
	}
	mustReceiveNone := func() {
		for range 10_000 {
			b.poll()
		}
		if len(b.got) > 0 {
			t.Fatalf("received %q, which was never sent", b.got[0].data)
		}
	}
	for range 3 {
		mustReceiveNone()
		for i := range 20 {
			mustReceive(i%2, "one after the other")
			mustReceive(i/2%2, "two of the same group")
		}
		mustReceiveNone()
		mustReceive(0, "the last one of its group")
		mustReceiveNone()
		b.leave(0)
		mustReceive(1, "still here")
		mustReceiveNone()
		b.join(0)
		mustReceive(0, "and here again")
	}
	if n := b.Stats().ReceiveErrors; n != 0 {
		t.Errorf("%d receive errors, want none", n)
	}
}

// Events that exceed a batch are reported by later Polls.
func testEventLimit(t *testing.T, f *fabric) {
	a := f.endpoint(t)
	a.batch = &transport.Batch{Trains: make([]transport.Train, 0, 4), Events: make([]transport.Event, 0, 1)}
	for g := range 4 {
		if err := a.Join(g); err != nil {
			t.Fatal(err)
		}
	}
	f.until(t, "four groups are joined", func() bool {
		if cap(a.batch.Events) != 1 {
			t.Fatalf("Poll made the batch's events longer")
		}
		return len(a.events) == 4
	})
}
