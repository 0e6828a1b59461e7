package reliable

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// A block to be written again continues in the memory returned by Renew: its packets are sent from
// there, and earlier packets are not changed. Without memory it waits.
func TestRenewedBlocks(t *testing.T) {
	var renewed, short int
	b := newBench(t, func(c *SenderConfig) {
		c.Renew = func(block []byte) []byte {
			if short > 0 {
				return nil
			}
			renewed++
			return make([]byte, len(block))
		}
	})
	topic := b.topic("x")
	var packets [][]byte // in place
	var copies []string
	for i := range 200 {
		b.put(topic, 100+i)
		var train transport.Outbound
		for b.s.Next(b.now, &train) {
			for i := range train.Count {
				p := train.Data[i*train.Stride:][:train.Lens[i]]
				packets, copies = append(packets, p), append(copies, string(p))
			}
			b.s.Sent(b.now, train.Count, b.s.out.posted+uint64(train.Count))
		}
	}
	for i, p := range packets {
		if string(p) != copies[i] {
			t.Fatalf("packet %d of %d was changed after it was sent", i, len(packets))
		}
	}
	if renewed < 20 {
		t.Errorf("%d blocks were renewed", renewed)
	}
	for b.w.Append(topic, make([]byte, 400)) {
	}
	b.s.Assign(b.now, b.w, true)
	free := len(b.s.blocks.free)
	if short = 1; b.w.b == nil && b.s.Grant(b.w.Packets) {
		t.Error("a block without memory was granted")
	}
	if short = 0; !b.s.Grant(b.w.Packets) || len(b.s.blocks.free) > free {
		t.Error("no block although there is memory again")
	}
}
