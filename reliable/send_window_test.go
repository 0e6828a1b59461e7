package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// The window grows with its memory, and repairs its packets; without memory, its oldest packets are dropped.
func TestSendWindowGrows(t *testing.T) {
	cfg := senderConfig(SenderConfig{PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 64})
	block := cfg.BlockBytes()
	s, err := NewSender(cfg, make([]byte, cfg.LeastBlocks()*block), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWriter()
	topic := newTopic("x")
	least := s.Blocks()
	if least != cfg.LeastBlocks()-stageBlocks || len(s.win.index) >= cfg.WindowPackets {
		t.Fatalf("%d blocks and an index of %d packets at first", least, len(s.win.index))
	}
	publish := func(packets int, grow bool) {
		for range packets {
			for !w.Append(topic, make([]byte, 400)) {
				s.Assign(1, w, false)
				var train transport.Outbound
				for s.Next(1, &train) {
					s.Sent(1, train.Count, s.out.posted+uint64(train.Count))
				}
				if grow && s.Wants() {
					s.AddMemory(make([]byte, block))
				}
				if !s.Grant(w.Packets) {
					t.Fatal("no block although the window can be dropped")
				}
			}
		}
	}
	holds := func() uint64 { return s.win.next - s.win.trail }
	publish(100, false)
	if s.Blocks() != least || holds() > uint64(least*4) {
		t.Errorf("%d blocks have %d packets", s.Blocks(), holds())
	}
	publish(100, true)
	if s.Blocks() != cfg.Blocks()-stageBlocks || s.Larger() || s.Wants() {
		t.Errorf("%d blocks, want %d", s.Blocks(), cfg.Blocks()-stageBlocks)
	}
	if n := holds(); n < 60 || n > 64 || len(s.win.index) != 64 {
		t.Errorf("a window of 64 packets has %d, its index %d", n, len(s.win.index))
	}
	for seq := s.win.trail; seq < s.win.next; seq++ {
		e := s.win.at(seq)
		if got := s.blocks.packet(e); got[32] != byte(seq) {
			t.Fatalf("packet %d is %d", seq, got[32])
		}
	}
	n := 0
	for s.GiveBack() != nil {
		n++
	}
	if s.Blocks() != least || n != cfg.Blocks()-cfg.LeastBlocks() || holds() > uint64(least*4) {
		t.Errorf("%d blocks after returning %d, %d packets", s.Blocks(), n, holds())
	}
	publish(200, true)
	if n := holds(); n < 60 || s.Blocks() != cfg.Blocks()-stageBlocks || len(s.blocks.all) != s.Blocks() {
		t.Errorf("%d packets in %d blocks (%d) after it has grown again", n, s.Blocks(), len(s.blocks.all))
	}
}

// Packets that a subscriber lacks are not returned.
func TestSendWindowKeepsWhatIsNeeded(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	b.status(7, 0, 1<<20, 0)
	b.put(x, 100)
	b.next()
	for b.s.GiveBack() != nil {
	}
	if b.s.win.trail != 0 {
		t.Errorf("the window begins at %d although a subscriber lacks packet 0", b.s.win.trail)
	}
}

// Without memory, when a subscriber lacks the oldest packets, flow control blocks the publisher:
// the subscriber is named, solicited, and finally released.
func TestShortWindowIsFlowControl(t *testing.T) {
	cfg := senderConfig(SenderConfig{PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 64, StallLimit: time.Second})
	now := Instant(time.Hour)
	s, err := NewSender(cfg, make([]byte, cfg.LeastBlocks()*cfg.BlockBytes()), now)
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWriter()
	topic := newTopic("x")
	s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil), nil)
	var train transport.Outbound
	send := func() {
		for s.Next(now, &train) {
			s.Sent(now, train.Count, s.out.posted+uint64(train.Count))
		}
	}
	send()
	for range 1000 {
		if !s.Grant(w.Packets) {
			s.Short(now)
			break
		}
		for w.Append(topic, make([]byte, 400)) {
		}
		s.Assign(now, w, true)
		send()
	}
	if s.Blocked() != events.ReasonFlow {
		t.Fatalf("without memory the publisher is blocked by %v, want flow control", s.Blocked())
	}
	for end := now.Add(3 * time.Second); now < end && s.Blocked() == events.ReasonFlow; {
		if h, ok := s.Holder(now); !ok || h.Subscriber != 7 {
			t.Fatalf("blocked by %+v, %v, want 7", h, ok)
		}
		now = now.Add(10 * time.Millisecond)
		s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil), nil)
		send()
	}
	// Flow control unblocks the publisher as soon as the subscriber is released, before a writer requests memory.
	if len(taken(s, events.SubscriberReleased)) != 1 || s.Blocked() != events.ReasonNone || !s.Grant(w.Packets) {
		t.Errorf("the publisher remains blocked by %v", s.Blocked())
	}
}

// Each case has the reason why the next packet must wait, and the room in packets. docs/protocol §8.1.
func TestSendWindowAdmits(t *testing.T) {
	for _, c := range []struct {
		name                     string
		next, sent, limit, floor uint64
		n                        uint64
		why                      events.Reason
		room                     uint64
	}{
		{"no member to wait for", 100, 100, noLimit, noLimit, 16, events.ReasonNone, noLimit - 100},
		{"the first packet", 0, 0, noLimit, 0, 16, events.ReasonNone, 16},
		{"up to the limit", 100, 100, 101, 100, 1, events.ReasonNone, 1},
		{"at the limit", 101, 101, 101, 101, 0, events.ReasonFlow, 0},
		{"beyond it", 105, 105, 101, 101, 0, events.ReasonFlow, 0},
		{"the oldest is needed", 116, 116, noLimit, 100, 0, events.ReasonFlow, 0},
		{"the oldest is no longer needed", 116, 116, noLimit, 101, 1, events.ReasonNone, 1},
		{"the limit is before the end of the window", 110, 110, 113, 100, 3, events.ReasonNone, 3},
		{"the end of the window is before the limit", 110, 110, 130, 100, 6, events.ReasonNone, 6},
		{"a whole window is unsent", 116, 100, noLimit, noLimit, 0, events.ReasonMemory, noLimit - 116},
		{"nearly a window is unsent", 115, 100, noLimit, noLimit, 1, events.ReasonNone, noLimit - 115},
		{"neither flow control nor memory", 116, 100, 116, 110, 0, events.ReasonFlow, 0},
	} {
		var w sendWindow
		w.grow(16)
		w.next, w.sent = c.next, c.sent
		if n, why := w.admits(c.limit, c.floor); n != c.n || why != c.why {
			t.Errorf("%s: %d, %v", c.name, n, why)
		}
		if room := w.room(c.limit, c.floor, 64); room != c.room {
			t.Errorf("%s: room for %d", c.name, room)
		}
		if room := w.room(c.limit, c.floor, 8); c.floor < noLimit && room > 8 {
			t.Errorf("%s: room for %d with memory for 8", c.name, room)
		}
	}
}

// A window that grows on demand holds as many packets as it may, even if packets are short and a block has many.
func TestWindowOfShortPackets(t *testing.T) {
	const window = 1024
	for _, c := range []struct{ packet, train int }{{8192, 8}, {1472, 44}, {8972, 7}, {512, 1}} {
		for _, waited := range []bool{false, true} {
			cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: c.packet, MaxTrain: 64, MaxTrainBytes: c.train * c.packet, EqualTrains: true, WindowPackets: window})
			now := Instant(time.Hour)
			s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.LeastBlocks()), now)
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t: t, s: s, w: s.NewWriter(), now: now, topics: make(map[string]*Topic)}
			if waited {
				b.status(1, 0, 1<<40, 0)
			}
			x, taken := b.topic("x"), 0
			s.Grant(b.w.Packets)
			for ; taken < window-20; taken++ {
				if !b.w.Append(x, make([]byte, 100)) || s.Assign(now, b.w, true) != events.ReasonNone {
					break
				}
				b.next()
				if s.Wants() {
					s.AddMemory(make([]byte, cfg.BlockBytes()))
				}
				if !s.Grant(b.w.Packets) {
					break
				}
			}
			if held := s.win.next - s.win.trail; taken < window-20 || held < window-20 {
				t.Errorf("packets of %d, a subscriber that has nothing: %v: %d were appended, %d can be repaired, %d blocks", c.packet, waited, taken, held, s.Blocks())
			}
		}
	}
}

// The oldest packet is replaced by the next, and all others remain in their slots.
func TestSendWindowDropsTheOldest(t *testing.T) {
	var w sendWindow
	w.grow(4)
	rng := rand.New(rand.NewPCG(1, 2))
	for i, began := uint64(0), uint64(0); i < 60; {
		if began == 0 && i > 20 {
			began = w.trail
			w.grow(16)
		}
		n := 1 + rng.Uint64N(w.span())
		first := w.push(int(n))
		if first != i || w.next != i+n {
			t.Fatalf("push of %d packets: first %d, want %d; next %d, want %d", n, first, i, w.next, i+n)
		}
		for seq := first; seq < w.next; seq++ {
			w.at(seq).off = uint32(seq)
		}
		i += n
		for seq := w.trail; seq < w.next; seq++ {
			if at := w.at(seq); at.off != uint32(seq) {
				t.Fatalf("after %d packets, packet %d is in the slot of %d", i, seq, at.off)
			}
		}
		if n := w.next - w.trail; n != min(i-began, w.span()) {
			t.Fatalf("a window of %d has %d after %d packets", w.span(), n, i)
		}
	}
}
