package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
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
	if least != cfg.LeastBlocks()-stageBlocks || len(s.index) >= cfg.WindowPackets {
		t.Fatalf("%d blocks and an index of %d packets at first", least, len(s.index))
	}
	publish := func(packets int, grow bool) {
		for range packets {
			for !w.Append(topic, make([]byte, 400)) {
				s.Assign(1, w, false)
				var train Train
				for s.Next(1, &train) {
					s.Sent(1, train.Count, s.posted+uint64(train.Count))
				}
				if grow && s.Wants() {
					s.AddMemory(make([]byte, block))
				}
				if !s.Grant(w) {
					t.Fatal("no block although nobody needs the window")
				}
			}
		}
	}
	holds := func() uint64 { return s.next - s.trail }
	publish(100, false)
	if s.Blocks() != least || holds() > uint64(least*4) {
		t.Errorf("%d blocks hold %d packets", s.Blocks(), holds())
	}
	publish(100, true)
	if s.Blocks() != cfg.Blocks()-stageBlocks || s.Larger() || s.Wants() {
		t.Errorf("%d blocks, want %d", s.Blocks(), cfg.Blocks()-stageBlocks)
	}
	if n := holds(); n < 60 || n > 64 || len(s.index) != 64 {
		t.Errorf("a window of 64 packets holds %d, its index %d", n, len(s.index))
	}
	for seq := s.trail; seq < s.next; seq++ {
		e := &s.index[seq&s.mask]
		if got := s.packet(e); got[32] != byte(seq) {
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
	if n := holds(); n < 60 || s.Blocks() != cfg.Blocks()-stageBlocks || len(s.blocks) != s.Blocks() {
		t.Errorf("%d packets in %d blocks (%d) after it has grown again", n, s.Blocks(), len(s.blocks))
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
	if b.s.trail != 0 {
		t.Errorf("the window begins at %d although a subscriber lacks packet 0", b.s.trail)
	}
}

// Where there is no more memory, and a subscriber lacks the oldest packets, flow control
// holds the publisher up: the subscriber is known, asked, and let go in the end.
func TestShortWindowIsFlowControl(t *testing.T) {
	cfg := senderConfig(SenderConfig{PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 64, StallLimit: time.Second})
	now := Instant(time.Hour)
	s, err := NewSender(cfg, make([]byte, cfg.LeastBlocks()*cfg.BlockBytes()), now)
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWriter()
	topic, _ := s.Topic("x")
	s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil))
	var train Train
	send := func() {
		for s.Next(now, &train) {
			s.Sent(now, train.Count, s.posted+uint64(train.Count))
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
	if s.Blocked() != ReasonFlow {
		t.Fatalf("without memory the publisher is blocked by %v", s.Blocked())
	}
	for end := now.Add(3 * time.Second); now < end && s.Blocked() == ReasonFlow; {
		if h, ok := s.Holder(now); !ok || h.Receiver != 7 {
			t.Fatalf("held up by %+v, %v, want 7", h, ok)
		}
		now = now.Add(10 * time.Millisecond)
		s.Handle(now, wire.AppendStatus(nil, s.header, &wire.Status{Receiver: 7, Limit: 1 << 20}, nil))
		send()
	}
	// Flow control holds nobody up as soon as the subscriber is let go, before somebody
	// asks for memory.
	if len(s.TakeLetGo()) != 1 || s.Blocked() != ReasonNone || !s.Grant(w) {
		t.Errorf("the subscriber is waited for for ever: blocked by %v", s.Blocked())
	}
}
