package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// The window grows with the memory that it is given, and repairs what it holds; without,
// its oldest packets go.
func TestSendWindowGrows(t *testing.T) {
	cfg := senderConfig(SenderConfig{PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 64})
	block := cfg.BlockBytes()
	s, err := NewSender(cfg, make([]byte, cfg.LeastBlocks()*block), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWriter()
	topic, err := s.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
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
				if !s.Grant(w) {
					t.Fatal("no block although the window is not needed")
				}
			}
		}
	}
	holds := func() uint64 { return s.win.next - s.win.trail }
	publish(100, false)
	if s.Blocks() != least || holds() > uint64(least*4) {
		t.Errorf("%d blocks hold %d packets", s.Blocks(), holds())
	}
	publish(100, true)
	if s.Blocks() != cfg.Blocks()-stageBlocks || s.Larger() || s.Wants() {
		t.Errorf("%d blocks, want %d", s.Blocks(), cfg.Blocks()-stageBlocks)
	}
	if n := holds(); n < 60 || n > 64 || len(s.win.index) != 64 {
		t.Errorf("a window of 64 packets holds %d, its index %d", n, len(s.win.index))
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
		t.Errorf("%d blocks after giving back %d, %d packets", s.Blocks(), n, holds())
	}
	publish(200, true)
	if n := holds(); n < 60 || s.Blocks() != cfg.Blocks()-stageBlocks || len(s.blocks.all) != s.Blocks() {
		t.Errorf("%d packets in %d blocks (%d) after it has grown again", n, s.Blocks(), len(s.blocks.all))
	}
}

// What a subscriber lacks is not given back.
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

// Where there is no more memory, and a subscriber lacks the oldest packets, flow control
// holds the publisher up: the subscriber is known, asked, and released in the end.
func TestShortWindowIsFlowControl(t *testing.T) {
	cfg := senderConfig(SenderConfig{PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 64, StallLimit: time.Second})
	now := Instant(time.Hour)
	s, err := NewSender(cfg, make([]byte, cfg.LeastBlocks()*cfg.BlockBytes()), now)
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWriter()
	topic, _ := s.Topic("x")
	s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil), nil)
	var train transport.Outbound
	send := func() {
		for s.Next(now, &train) {
			s.Sent(now, train.Count, s.out.posted+uint64(train.Count))
		}
	}
	send()
	for range 1000 {
		if !s.Grant(w) {
			s.Short(now)
			break
		}
		for w.Append(topic, make([]byte, 400)) {
		}
		s.Assign(now, w, true)
		send()
	}
	if s.Blocked() != events.ReasonFlow {
		t.Fatalf("without memory the publisher is blocked by %v", s.Blocked())
	}
	for end := now.Add(3 * time.Second); now < end && s.Blocked() == events.ReasonFlow; {
		if h, ok := s.Holder(now); !ok || h.Subscriber != 7 {
			t.Fatalf("held up by %+v, %v, want 7", h, ok)
		}
		now = now.Add(10 * time.Millisecond)
		s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil), nil)
		send()
	}
	// Flow control holds no publisher up as soon as the subscriber is released, before a writer asks for memory.
	if len(taken(s, events.SubscriberReleased)) != 1 || s.Blocked() != events.ReasonNone || !s.Grant(w) {
		t.Errorf("the subscriber is waited for for ever: blocked by %v", s.Blocked())
	}
}

// What keeps the next packet out, and how many there is room for. docs/protocol §8.1.
func TestSendWindowAdmits(t *testing.T) {
	for _, c := range []struct {
		name                     string
		next, sent, limit, floor uint64
		n                        uint64
		why                      events.Reason
		room                     uint64
	}{
		{"there is no member to wait for", 100, 100, noLimit, noLimit, 16, events.ReasonNone, noLimit - 100},
		{"the first packet", 0, 0, noLimit, 0, 16, events.ReasonNone, 16},
		{"up to the limit", 100, 100, 101, 100, 1, events.ReasonNone, 1},
		{"at the limit", 101, 101, 101, 101, 0, events.ReasonFlow, 0},
		{"beyond it", 105, 105, 101, 101, 0, events.ReasonFlow, 0},
		{"the oldest is lacked", 116, 116, noLimit, 100, 0, events.ReasonFlow, 0},
		{"the oldest is not lacked any more", 116, 116, noLimit, 101, 1, events.ReasonNone, 1},
		{"the limit lies in front of what is lacked", 110, 110, 113, 100, 3, events.ReasonNone, 3},
		{"what is lacked lies in front of the limit", 110, 110, 130, 100, 6, events.ReasonNone, 6},
		{"a window of packets is not sent", 116, 100, noLimit, noLimit, 0, events.ReasonMemory, noLimit - 116},
		{"nearly a window", 115, 100, noLimit, noLimit, 1, events.ReasonNone, noLimit - 115},
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
			t.Errorf("%s: room for %d where there is memory for 8", c.name, room)
		}
	}
}

// A window that grows as it needs memory keeps as many packets as it may, also where packets are short and a
// block has many of them.
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
			b := &bench{t: t, s: s, w: s.NewWriter(), now: now}
			if waited {
				b.status(1, 0, 1<<40, 0)
			}
			x, taken := b.topic("x"), 0
			s.Grant(b.w)
			for ; taken < window-20; taken++ {
				if !b.w.Append(x, make([]byte, 100)) || s.Assign(now, b.w, true) != events.ReasonNone {
					break
				}
				b.next()
				if s.Wants() {
					s.AddMemory(make([]byte, cfg.BlockBytes()))
				}
				if !s.Grant(b.w) {
					break
				}
			}
			if held := s.win.next - s.win.trail; taken < window-20 || held < window-20 {
				t.Errorf("packets of %d, a subscriber that has nothing: %v: %d were taken, %d can be repaired, %d blocks", c.packet, waited, taken, held, s.Blocks())
			}
		}
	}
}

// The oldest packet makes way for the next, and all others stay where they are found.
func TestSendWindowPushesOut(t *testing.T) {
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
			t.Fatalf("packet %d is %d, the one behind %d more %d", i, first, n, w.next)
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
			t.Fatalf("a window of %d holds %d after %d packets", w.span(), n, i)
		}
	}
}
