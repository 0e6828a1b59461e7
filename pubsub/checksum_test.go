package pubsub

import (
	"log/slog"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A damaged packet with the checksum flag is not delivered over UDP, where most packets have no checksum.
// docs/protocol §2.4, §16.7.
func TestDamagedPacketIsNotDeliveredOverUDP(t *testing.T) {
	ctx := testContext(t)
	var log logLines
	bus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, udpURL(t))
	sub := subscribe(t, bus, "x")
	group := bus.Stats().Groups[0].Address
	conn := dialGroup(t, group)
	send := func(seq uint64, text string, change func([]byte)) {
		b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen, 1472)
		wire.PutDataHeader(b, wire.Header{GroupTag: wire.GroupTag(group), Publisher: 13, Epoch: 1}, 1472)
		wire.SetSeq(b, seq)
		wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, 2+len(text), wire.TopicID("x"), seq)
		b = append(append(b, byte(len(text)), 0), text...)
		change(b)
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send(0, "plain", func([]byte) {})
	send(1, "damaged", func(b []byte) {
		wire.SetChecksum(b)
		b[len(b)-1] ^= 1
	})
	send(1, "checksummed", wire.SetChecksum)
	want(t, ctx, sub, "plain")
	want(t, ctx, sub, "checksummed")
	if g := bus.Stats().Groups[0]; g.Damaged != 1 {
		t.Errorf("%d damaged packets are counted, want 1", g.Damaged)
	}
	if n := log.count("checksum is missing or wrong"); n != 1 {
		t.Errorf("the log has %d lines about a wrong checksum, want 1", n)
	}
}
