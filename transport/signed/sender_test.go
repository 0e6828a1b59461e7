package signed

import (
	"bytes"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// Packets that the fabric does not accept are signed again when they are sent again. Trains of all sizes are split into
// trains that the fabric can carry.
func TestSend(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var packets [][]byte
	for i := range 150 {
		packets = append(packets, content(r.id, 5, 1240))
		packets[i][wire.HeaderLen] = byte(i)
	}
	out := outbound(packets...)
	r.f.sent, r.f.remaining = [][]byte{}, 70
	n, err := r.tx.Send(out)
	if n != 70 || err != transport.ErrBusy || r.tx.Completed() != 70 {
		t.Fatalf("Send: %d packets, error %v, want 70 and %v, all completed", n, err, transport.ErrBusy)
	}
	r.f.remaining = -1
	rest := transport.Outbound{Data: out.Data[n*out.Stride:], Stride: out.Stride, Count: 150 - n, Lens: out.Lens[n:]}
	if n, err = r.tx.Send(&rest); n != 80 || err != nil {
		t.Fatalf("Send: %d packets, error %v, want 80 and none", n, err)
	}
	for i, b := range r.f.sent {
		is(t, "sent", v, b, Accepted)
		if p := wire.Content(b); !bytes.Equal(p, packets[i]) || len(b) > r.f.caps.MaxPacket {
			t.Fatalf("packet %d has %d bytes, want the original and at most MaxPacket", i, len(b))
		}
	}
	for what, out := range map[string]*transport.Outbound{
		"too large": outbound(content(r.id, 5, 1241)),
		"empty":     {Data: []byte{1}, Stride: 1, Count: 1, Lens: []uint16{0}},
		"no data":   {Stride: 10, Count: 2, Lens: []uint16{10, 10}},
	} {
		if n, err := r.tx.Send(out); n != 0 || err == nil {
			t.Errorf("%s: Send: %d packets, error %v, want 0 and an error", what, n, err)
		}
	}
	if err := r.tx.Close(); err != nil {
		t.Error(err)
	}
	if n, err := r.tx.Send(outbound(packets[0])); n != 0 || err == nil {
		t.Error("sent after Close")
	}
}

// Nothing is allocated for a packet, and for a train only what the signature needs.
func TestAllocations(t *testing.T) {
	r := newRig(t)
	var packets [][]byte
	for range 40 {
		packets = append(packets, content(r.id, 5, 1000))
	}
	out := outbound(packets...)
	r.tx.Send(out)
	if n := testing.AllocsPerRun(100, func() { r.tx.Send(out) }); n > 2 {
		t.Errorf("%v allocations to send a train, want at most 2", n)
	}
	v := r.verifier(t)
	var trains [][][]byte
	for range 300 {
		trains = append(trains, r.train(t, 40))
	}
	i := 0
	check := func() {
		for _, b := range trains[i] {
			is(t, "sent", v, b, Accepted)
		}
		i++
	}
	for range recentTrains {
		check() // then each remembered train has its tree
	}
	if n := testing.AllocsPerRun(100, check); n > 2 {
		t.Errorf("%v allocations to verify a train, want at most 2", n)
	}
}
