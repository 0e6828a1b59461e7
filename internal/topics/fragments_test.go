package topics

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// trains counts the trains of a sender with equal trains.
type trains struct {
	count, packets, bytes int
	each                  [][]byte
}

// publishTrains publishes messages of these sizes repeatedly, until the given number of blocks were
// sent, and returns their trains.
func publishTrains(t *testing.T, b *bench, sizes []int, blocks int) (out trains, sent [][]byte) {
	t.Helper()
	x := b.topic("x")
	b.m.topicStated(x, 0) // as after the first packet
	b.s.Grant(b.w.Packets)
	room := func() {
		b.m.Assign(b.now, b.w, false)
		b.s.Grant(b.w.Packets)
		var tr transport.Outbound
		for b.s.Next(b.now, &tr) {
			if wire.Type(tr.Data[3]) == wire.TypeData {
				out.count, out.packets = out.count+1, out.packets+tr.Count
				for i, n := range tr.Lens[:tr.Count] {
					out.bytes += int(n)
					out.each = append(out.each, bytes.Clone(tr.Data[i*tr.Stride:][:n]))
				}
			}
			b.posted += uint64(tr.Count)
			b.s.Sent(b.now, tr.Count, b.posted)
		}
		blocks--
	}
	for i := 0; blocks > 0; i++ {
		msg := make([]byte, sizes[i%len(sizes)])
		for j := range msg {
			msg[j] = byte(i + j)
		}
		sent = append(sent, msg)
		if b.w.Tail.Append(msg) { // like a writer of one topic
			continue
		}
		switch {
		case b.w.Append(x, msg):
			continue
		case len(msg) > b.m.MaxInBlock():
			for at := 0; at < len(msg); {
				next := b.w.AppendFragment(x, msg, at, 0)
				if next == at {
					room()
				}
				at = next
			}
			continue
		}
		room()
		if !b.w.Append(x, msg) {
			t.Fatalf("an empty block has no room for a message of %d bytes", len(msg))
		}
	}
	return out, sent
}

// Messages share trains whatever their sizes are: a block of packet memory is one nearly full
// train, with little overhead. docs/protocol §2.12, §10.1.
func TestLargeMessagesShareTrains(t *testing.T) {
	const blocks = 30
	for _, c := range []struct {
		packet, perTrain int
		sizes            []int
		payload          float64 // minimum share of message bytes
		pad              int
	}{
		{1472, 44, []int{1403}, 0.9, 0},
		{1472, 44, []int{1408}, 0.9, 0},
		{1472, 44, []int{1500}, 0.9, 0},
		{1472, 44, []int{2000}, 0.9, 0},
		{1472, 44, []int{3000}, 0.9, 0},
		{1472, 44, []int{8000}, 0.9, 0},
		{1472, 44, []int{40_000}, 0.9, 0},
		{1472, 44, []int{65536}, 0.9, 0},
		{1472, 44, []int{1408, 3000, 20_000, 1500}, 0.9, 0},
		{1472, 44, []int{100, 1408}, 0.8, 0},
		{1472, 44, []int{5, 0, 1408, 64, 64, 64}, 0.8, 0},
		{1472, 44, []int{100, 1400}, 0.7, 0},
		{1472, 44, []int{700, 1400}, 0.7, 0},
		{8972, 7, []int{8903}, 0.85, 0},
		{8972, 7, []int{9000}, 0.85, 0},
		{8972, 7, []int{65536}, 0.9, 0},
		{8972, 7, []int{100, 9000}, 0.8, 0},
		{512, 16, []int{443, 30}, 0.7, 0},
		{1472, 44, []int{1024}, 0.9, 1472},
		{1472, 44, []int{700}, 0.9, 1472},
		{1472, 44, []int{500}, 0.85, 1472},
		{1472, 44, []int{64}, 0.8, 1472},
		{1472, 44, []int{100, 1400}, 0.9, 1472},
		{512, 16, []int{300}, 0.7, 512},
	} {
		t.Run(fmt.Sprint(c.packet, c.sizes, c.pad), func(t *testing.T) {
			b := newBench(t, func(cfg *reliable.SenderConfig) {
				cfg.EqualTrains, cfg.PacketSize, cfg.MaxTrain, cfg.MaxTrainBytes, cfg.WindowPackets = true, c.packet, c.perTrain, c.packet*c.perTrain, 256
				cfg.Pad = c.pad
			})
			tr, sent := publishTrains(t, b, c.sizes, blocks)
			if tr.count > blocks+1 { // the first may be cut where padding ends
				t.Errorf("%d trains of %d blocks", tr.count, blocks)
			}
			payload := 0
			var read assembler
			got := 0
			for _, p := range tr.each {
				d, err := wire.ParseData(p)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range read.messages(d.Runs) {
					if m.number != uint64(got) || !bytes.Equal(m.text, sent[got]) {
						t.Fatalf("message %d of %d bytes arrived as %d of %d", got, len(sent[got]), m.number, len(m.text))
					}
					payload += len(m.text)
					got++
				}
			}
			if share := float64(payload) / float64(tr.bytes); share < c.payload {
				t.Errorf("of %d bytes %.2f are the messages', want %.2f", tr.bytes, share, c.payload)
			}
		})
	}
}

// A message is split into fragments only if it fits in no packet, if the open packet would end its
// train, or if much of it would be padding.
func TestWriterSplits(t *testing.T) {
	const packet = 512
	longest := wire.MaxInPacket(packet)
	for _, c := range []struct {
		name  string
		equal bool
		pad   int
		first int // bytes of the previous message
		size  int
		want  bool
	}{
		{"the longest that fits", true, 0, -1, longest, false},
		{"one byte more", false, 0, -1, longest + 1, true},
		{"one byte more, equal trains", true, 0, -1, longest + 1, true},
		{"it fits after the previous one", true, 0, 50, 300, false},
		{"the previous one fills less than half", true, 0, 50, 400, true},
		{"the previous one fills less than half, without equal trains", false, 0, 50, 400, false},
		{"the previous one fills half", true, 0, 250, 400, false},
		{"the previous one is padded to a full packet", false, packet, 250, 400, true},
		{"the previous one is padded to half a packet", false, packet / 2, 150, 400, false},
		{"the previous one fills seven eighths", false, packet, 400, 400, false},
		{"it fits after the previous one, which is padded", false, packet, 50, 300, false},
		{"no previous one", false, packet, -1, longest, false},
	} {
		b := newBench(t, func(cfg *reliable.SenderConfig) { cfg.EqualTrains, cfg.Pad = c.equal, c.pad })
		x, y := b.topic("x"), b.topic("y")
		b.m.topicStated(x, 0)
		b.m.topicStated(y, 0)
		if b.s.Grant(b.w.Packets); c.first >= 0 {
			b.put(y, c.first)
		}
		if got := b.w.splits(wire.RunHeaderLen + wire.MessageHeaderLen + c.size); got != c.want {
			t.Errorf("%s: split is %v, want %v", c.name, got, c.want)
		}
		if !b.w.Append(x, make([]byte, c.size)) {
			t.Errorf("%s: an empty block has no room", c.name)
		}
	}
}

// A message that fits in a block does not begin at the end of another one, so that no other writer
// waits for its rest. docs/protocol §10.1.
func TestBlockEndsBeforeAMessage(t *testing.T) {
	b := newBench(t, nil) // 4 packets of 512 bytes
	x := b.topic("x")
	b.s.Grant(b.w.Packets)
	if b.w.Append(x, make([]byte, b.m.MaxInBlock()+1)) {
		t.Error("Append accepts more than a block")
	}
	if b.w.Packets.Full() {
		t.Error("a message that fits in no block ends one")
	}
	if !b.w.Append(x, make([]byte, 1000)) || b.w.Append(x, make([]byte, 1000)) {
		t.Fatal("a block of 2048 bytes has no room for two messages of 1000")
	}
	if !b.w.Packets.Full() || b.w.Packets.Rest() != 0 {
		t.Error("the block continues after a message that did not fit")
	}
	other := b.m.NewWriter()
	b.s.Grant(other.Packets)
	other.Append(x, []byte("other"))
	if r := b.m.Assign(b.now, b.w, false); r != events.ReasonNone {
		t.Error(r)
	}
	if r := b.m.Assign(b.now, other, true); r != events.ReasonNone {
		t.Errorf("another writer waits: %v", r)
	}
	if b.s.Grant(b.w.Packets); !b.w.Append(x, make([]byte, 1000)) {
		t.Error("the next block has no room")
	}
	b.m.Assign(b.now, b.w, true)
	if b.w.Append(x, make([]byte, 1500)); !b.w.Packets.Full() || b.w.Pending() {
		t.Error("a block with all sequences assigned did not end")
	}
	if b.m.Assign(b.now, b.w, false); !b.s.Grant(b.w.Packets) || !b.w.Append(x, make([]byte, 1500)) {
		t.Error("the block is not replaced")
	}
}

// The rest of a message in an open packet blocks other writers, because its first fragments were
// sent. docs/protocol §10.1.
func TestOthersWaitForTheLastFragment(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	other := b.m.NewWriter()
	b.s.Grant(b.w.Packets)
	b.s.Grant(other.Packets)
	b.w.Append(x, make([]byte, 600))
	other.Append(x, []byte("other"))
	b.m.Assign(b.now, b.w, false)
	if r := b.m.Assign(b.now, other, true); r != events.ReasonOther {
		t.Errorf("another writer's packet between two fragments: %v", r)
	}
	b.m.Assign(b.now, b.w, true)
	if r := b.m.Assign(b.now, other, true); r != events.ReasonNone {
		t.Errorf("still waiting after the last fragment: %v", r)
	}
}
