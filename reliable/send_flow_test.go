package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Each case has the limit of a flow control for members with this room and these packets, and the
// position below which everything counts as delivered. docs/protocol §8.1.
func TestFlowControl(t *testing.T) {
	type member struct {
		next, limit uint64
		released    bool
		tag         string
	}
	four := []member{{10, 20, false, ""}, {40, 90, false, ""}, {30, 60, false, ""}, {20, 100, false, ""}}
	one := []member{{10, 20, false, ""}}
	tagged := []member{{10, 20, false, ""}, {40, 90, false, "book"}, {30, 60, false, "book"}, {20, 100, false, "other"}}
	book := func(of FlowControl) FlowControl { return TaggedFlow{"book", of} }
	for _, c := range []struct {
		name      string
		flow      FlowControl
		members   []member
		limit     uint64
		floor     uint64
		delivered uint64
		free      bool
	}{
		{"min, no subscriber", MinFlow{}, nil, noLimit, noLimit, 50, false},
		{"min", MinFlow{}, four, 20, 10, 10, false},
		{"min, the slowest released", MinFlow{}, []member{{10, 20, true, ""}, {40, 90, false, ""}}, 90, 40, 40, false},
		{"min, all released", MinFlow{}, []member{{10, 20, true, ""}}, noLimit, noLimit, 50, false},
		{"none, no subscriber", NoFlow{}, nil, noLimit, noLimit, 50, false},
		{"none", NoFlow{}, four, noLimit, noLimit, 10, true},
		{"max, no subscriber", MaxFlow{}, nil, noLimit, noLimit, 50, false},
		{"max", MaxFlow{}, four, 100, 40, 40, false},
		{"max, one", MaxFlow{}, one, 20, 10, 10, false},
		{"max, the fastest released", MaxFlow{}, []member{{40, 90, true, ""}, {10, 20, false, ""}, {12, 15, false, ""}}, 20, 12, 12, false},
		{"quorum of 1", QuorumFlow{1}, four, 100, 40, 40, false},
		{"quorum of 2", QuorumFlow{2}, four, 90, 30, 30, false},
		{"quorum of 3", QuorumFlow{3}, four, 60, 20, 20, false},
		{"quorum of 4", QuorumFlow{4}, four, 20, 10, 10, false},
		{"quorum of more than the members", QuorumFlow{5}, four, 20, 10, 10, false},
		{"quorum, one released", QuorumFlow{3}, []member{{10, 20, true, ""}, {40, 90, false, ""}, {30, 60, false, ""}, {20, 100, false, ""}}, 60, 20, 20, false},
		{"quorum, no subscriber", QuorumFlow{3}, nil, noLimit, noLimit, 50, false},
		{"tag, no subscriber", book(MinFlow{}), nil, noLimit, noLimit, 50, false},
		{"tag", book(MinFlow{}), tagged, 60, 30, 30, false},
		{"tag without a subscriber", book(MinFlow{}), four, noLimit, noLimit, 50, true},
		{"tag, its subscriber released", book(MinFlow{}), []member{{10, 20, true, "book"}, {5, 10, false, ""}}, noLimit, noLimit, 50, false},
		{"tag and max", book(MaxFlow{}), tagged, 90, 40, 40, false},
		{"tag and quorum", book(QuorumFlow{2}), tagged, 60, 30, 30, false},
		{"tag and a quorum of more than the members", book(QuorumFlow{3}), tagged, 60, 30, 30, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(cfg *SenderConfig) { cfg.Flow, cfg.WindowPackets = c.flow, 128 })
			b.s.win.sent, b.s.win.next = 50, 50
			for i, m := range c.members {
				x := &Member{ID: uint64(i + 1), Next: m.next, Limit: m.limit, Tag: m.tag}
				if m.released {
					x.state = memberReleased
				}
				b.s.members.add(x)
			}
			b.s.flow.recompute(b.s.cfg.Flow, b.s.members.list)
			if f := b.s.flow; f.limit != c.limit || f.floor != c.floor || f.free != c.free {
				t.Errorf("limit %d, floor %d, free %v, want %d, %d, %v", f.limit, f.floor, f.free, c.limit, c.floor, c.free)
			}
			if d := b.s.Delivered(); d != c.delivered {
				t.Errorf("delivered below %d, want %d", d, c.delivered)
			}
			if n := testing.AllocsPerRun(10, func() { b.s.flow.recompute(b.s.cfg.Flow, b.s.members.list) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// With a quorum of two, one subscriber of three that stops does not block the publisher, is not
// named in heartbeats, and learns that packets are gone; a second one that stops blocks the
// publisher until it is released. docs/protocol §8.1, §8.6, §8.7.
func TestQuorumContinuesWithoutOne(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow, c.StallLimit = QuorumFlow{2}, time.Second })
	all := func(next uint64) {
		b.status(2, next, next+16, 0)
		b.status(3, next, next+16, 0)
	}
	b.status(1, 0, 16, 0)
	all(0)
	for i := range uint64(100) {
		if n := len(b.publish(1)); n != 1 {
			t.Fatalf("packet %d was not assigned", i)
		}
		all(i + 1)
	}
	if _, held := b.s.Holder(b.now); held || b.s.Stats().ReceiversReleased != 0 {
		t.Error("a subscriber blocks the publisher")
	}
	if b.s.Delivered() != 100 || !b.s.Drained() {
		t.Errorf("delivered below %d, drained %v", b.s.Delivered(), b.s.Drained())
	}
	b.nak(1, [2]uint64{0, 1})
	if len(of(wire.TypeGone, b.next())) != 1 {
		t.Error("no notice that the packet is gone")
	}
	n := 0
	for b.s.Room() > 0 { // subscriber 3 stops, too
		b.status(2, 100+uint64(n), 116+uint64(n), 0)
		b.publish(1)
		n++
	}
	b.put(b.topic("a.b"), 100)
	if r := b.s.Assign(b.now, b.w, true); n > 17 || r != events.ReasonFlow {
		t.Fatalf("%d further packets; then %v", n, r)
	}
	if h, held := b.s.Holder(b.now); !held || h.Subscriber == 2 {
		t.Errorf("blocked by %+v, %v", h, held)
	}
	if b.s.Drained() {
		t.Error("drained although only one subscriber has everything")
	}
	b.now = b.now.Add(time.Second)
	b.s.releaseHolders(b.now)
	if g := taken(b.s, events.SubscriberReleased); len(g) != 2 {
		t.Errorf("released: %+v", g)
	}
}

// A subscriber without the tag is served, but blocks no publisher, is not released, and does not
// delay the report of deliveries; it counts from its first status with the tag on, and no later
// status reverts that. docs/protocol §8.11, §7.9.
func TestTagCountsFromItsStatus(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow, c.StallLimit = TaggedFlow{"book", MinFlow{}}, time.Second })
	status := func(receiver, next uint64, tag string) {
		st := wire.Status{Receiver: receiver, Next: next, Limit: next + 16, Tag: []byte(tag)}
		b.s.Handle(b.now, wire.AppendStatus(nil, b.header(), &st, nil), nil)
	}
	status(1, 0, "")
	status(1, 0, "other\x1b")
	for i := range 100 {
		if n := len(b.publish(1)); n != 1 {
			t.Fatalf("packet %d was not assigned", i)
		}
	}
	if b.s.Delivered() != 100 || !b.s.Drained() {
		t.Errorf("delivered below %d, drained %v", b.s.Delivered(), b.s.Drained())
	}
	if m := b.s.Members(b.now); len(m) != 1 || m[0].Tag != `"other\x1b"` || m[0].Holds || m[0].Released {
		t.Errorf("members %+v", m)
	}
	status(2, 100, "")
	status(2, 100, "book")
	for range 16 {
		b.publish(1)
	}
	for _, tag := range []string{"", "other"} {
		status(2, 100, tag)
		b.put(b.topic("a.b"), 100)
		if r := b.s.Assign(b.now, b.w, true); r != events.ReasonFlow {
			t.Fatalf("beyond the limit of the tagged one: %v", r)
		}
	}
	if h, held := b.s.Holder(b.now); !held || h.Subscriber != 2 || b.s.Delivered() != 100 {
		t.Errorf("blocked by %+v, %v; delivered below %d", h, held, b.s.Delivered())
	}
}
