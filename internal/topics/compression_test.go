package topics

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// counting is a codec that keeps a quarter of the runs, and never compresses them to the same bytes twice.
type counting struct{ packs byte }

func (*counting) Kind() (wire.Codec, uint32) { return wire.CodecS2, 0 }
func (c *counting) Pack(dst, runs []byte) []byte {
	c.packs++
	return append(append(dst, c.packs), runs[:len(runs)/4]...)
}
func (*counting) Unpack(dst []byte, _ wire.Packed) ([]byte, error) { return dst, nil }

// The repair of a compressed packet equals the original, whatever the codec would return now,
// including the checksum. docs/protocol §26.6, §2.2.
func TestRepairsOfCompressedPackets(t *testing.T) {
	codec, now := &counting{}, reliable.Instant(time.Hour)
	s, m, w := newSender(t, now, NewEncoder(codec, 512), func(c *reliable.SenderConfig) { c.Packed, c.Checksum = true, true })
	x, _ := m.Topic("a.b")
	for range 3 {
		w.Append(x, make([]byte, 100))
		m.Assign(now, w, true)
	}
	data := func() [][]byte {
		return slices.DeleteFunc(sent(s, now), func(p []byte) bool { return wire.Type(p[3]) != wire.TypeData })
	}
	first := data()
	now = now.Add(time.Millisecond)
	var nak wire.RangesBuilder
	nak.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNAK, 5, 0, wire.ReasonNone, 0, 1200)
	nak.Add(0, 3)
	p := nak.Finish()
	wire.SetChecksum(p)
	s.Handle(now, p, nil)
	again := data()
	if len(first) != 3 || len(again) != 3 || codec.packs < 3 {
		t.Fatalf("%d packets, packed %d times, and %d repairs, want 3", len(first), codec.packs, len(again))
	}
	for i, p := range again {
		if wire.Flags(p[4]) != wire.FlagRepair|wire.FlagChecksum || wire.CodecOf(p) != wire.CodecS2 {
			t.Errorf("packet %d has flags %#x and codec %v", i, p[4], wire.CodecOf(p))
		}
		if err := wire.Verify(p, true); err != nil || wire.Verify(first[i], true) != nil {
			t.Errorf("packet %d: %v; first transmission: %v", i, err, wire.Verify(first[i], true))
		}
		p[4] = first[i][4] // the flags may differ
		if !bytes.Equal(p, first[i]) {
			t.Errorf("the repair of packet %d differs:\n%x\n%x", i, first[i], p)
		}
	}
}
