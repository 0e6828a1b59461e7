package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// How far each strategy lets a publisher go beside members with this room and these
// packets, and how far it takes everything for delivered.
// docs/protocol.md §8.1.
func TestFlowControl(t *testing.T) {
	type member struct {
		next, limit uint64
		letGo       bool
	}
	four := []member{{10, 20, false}, {40, 90, false}, {30, 60, false}, {20, 100, false}}
	one := []member{{10, 20, false}}
	for _, c := range []struct {
		name      string
		flow      FlowControl
		members   []member
		limit     uint64
		floor     uint64
		delivered uint64
		free      bool
	}{
		{"min, nobody", MinFlow{}, nil, noLimit, noLimit, 50, false},
		{"min", MinFlow{}, four, 20, 10, 10, false},
		{"min, the slowest let go", MinFlow{}, []member{{10, 20, true}, {40, 90, false}}, 90, 40, 40, false},
		{"min, all let go", MinFlow{}, []member{{10, 20, true}}, noLimit, noLimit, 50, false},
		{"none, nobody", NoFlow{}, nil, noLimit, noLimit, 50, false},
		{"none", NoFlow{}, four, noLimit, noLimit, 10, true},
		{"max, nobody", MaxFlow{}, nil, noLimit, noLimit, 50, false},
		{"max", MaxFlow{}, four, 100, 40, 40, false},
		{"max, one", MaxFlow{}, one, 20, 10, 10, false},
		{"max, the fastest let go", MaxFlow{}, []member{{40, 90, true}, {10, 20, false}, {12, 15, false}}, 20, 12, 12, false},
		{"quorum of 1", QuorumFlow{1}, four, 100, 40, 40, false},
		{"quorum of 2", QuorumFlow{2}, four, 90, 30, 30, false},
		{"quorum of 3", QuorumFlow{3}, four, 60, 20, 20, false},
		{"quorum of 4", QuorumFlow{4}, four, 20, 10, 10, false},
		{"quorum of more than there are", QuorumFlow{5}, four, 20, 10, 10, false},
		{"quorum, one let go", QuorumFlow{3}, []member{{10, 20, true}, {40, 90, false}, {30, 60, false}, {20, 100, false}}, 60, 20, 20, false},
		{"quorum, nobody", QuorumFlow{3}, nil, noLimit, noLimit, 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(cfg *SenderConfig) { cfg.Flow, cfg.WindowPackets = c.flow, 128 })
			b.s.win.sent, b.s.win.next = 50, 50
			for i, m := range c.members {
				x := &Member{ID: uint64(i + 1), Next: m.next, Limit: m.limit}
				if m.letGo {
					x.state = memberLetGo
				}
				b.s.members.add(x)
			}
			b.s.flow.recompute(b.s)
			if f := b.s.flow; f.limit != c.limit || f.floor != c.floor || f.free != c.free {
				t.Errorf("limit %d, floor %d, free %v, want %d, %d, %v", f.limit, f.floor, f.free, c.limit, c.floor, c.free)
			}
			if d := b.s.Delivered(); d != c.delivered {
				t.Errorf("delivered below %d, want %d", d, c.delivered)
			}
			if n := testing.AllocsPerRun(10, func() { b.s.flow.recompute(b.s) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// With a quorum of two, one subscriber of three that stops holds nobody up, is named to
// nobody, and is told that packets are gone; a second one that stops holds the publisher
// up until it is let go.
// docs/protocol.md §8.1, §8.6, §8.7.
func TestQuorumGoesOnWithoutOne(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow, c.StallLimit = QuorumFlow{2}, time.Second })
	all := func(next uint64) {
		b.status(2, next, next+16, 0)
		b.status(3, next, next+16, 0)
	}
	b.status(1, 0, 16, 0)
	all(0)
	for i := range uint64(100) {
		if n := len(b.publish(1)); n != 1 {
			t.Fatalf("packet %d did not go", i)
		}
		all(i + 1)
	}
	if _, held := b.s.Holder(b.now); held || b.s.Stats().ReceiversLetGo != 0 {
		t.Error("somebody holds the publisher up")
	}
	if b.s.Delivered() != 100 || !b.s.Drained() {
		t.Errorf("delivered below %d, drained %v", b.s.Delivered(), b.s.Drained())
	}
	b.nak(1, [2]uint64{0, 1})
	if len(of(wire.TypeGone, b.next())) != 1 {
		t.Error("no word that the packet is gone")
	}
	n := 0
	for b.s.Room() > 0 { // number 3 has stopped, too
		b.status(2, 100+uint64(n), 116+uint64(n), 0)
		b.publish(1)
		n++
	}
	b.put(b.topic("a.b"), 100)
	if r := b.s.Assign(b.now, b.w, true); n > 17 || r != ReasonFlow {
		t.Fatalf("%d packets further; then %v", n, r)
	}
	if h, held := b.s.Holder(b.now); !held || h.Receiver == 2 {
		t.Errorf("held by %+v, %v", h, held)
	}
	if b.s.Drained() {
		t.Error("drained, though only one has everything")
	}
	b.now = b.now.Add(time.Second)
	b.s.releaseHolders(b.now)
	if g := b.s.TakeLetGo(); len(g) != 2 {
		t.Errorf("let go: %+v", g)
	}
}
