package reliable

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Undamaged packets that cannot be read are given up at once: they are not requested, do not delay
// later packets, and their gap has that cause. docs/protocol §13.6, §26.7.
func TestUnreadableIsNotMissing(t *testing.T) {
	codec := func(c wire.Codec) func(b []byte) {
		return func(b []byte) {
			b[5] = byte(c)
			binary.LittleEndian.PutUint16(b[42:], 100)
		}
	}
	for _, c := range []struct {
		name   string
		change func(b []byte)
	}{
		{"unknown codec", codec(wire.LastCodec + 1)},
		{"codec that is left out", codec(wire.CodecS2)}, // the message layer decodes none
		{"unknown kind of run", func(b []byte) { b[wire.DataHeaderLen] = 200 }},
		{"another packet size", func(b []byte) { b[40]++ }},
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		now := Instant(time.Hour)
		r.Handle(now, 5, data(3, 0, 0))
		for seq := uint64(1); seq <= 22; seq++ {
			b := data(3, seq, 0)
			if seq%2 == 1 {
				c.change(b)
			}
			r.Handle(now, 5, b)
		}
		r.Tick(now)
		asked := of(wire.TypeNAK, replies(r, now.Add(time.Second)))
		s := r.Stats()
		if len(asked) > 0 || s.Unreadable != 11 || s.LostUnreadable != 11 || s.Lost != 11 || len(l.packets) != 12 {
			t.Errorf("%s: %d NAKs, %d unreadable, %d of %d losses for that reason, %d delivered", c.name, len(asked), s.Unreadable, s.LostUnreadable, s.Lost, len(l.packets))
		}
		if i := slices.IndexFunc(l.gaps, func(g [3]uint64) bool { return g[2] != uint64(events.CauseUnreadable) }); i >= 0 {
			t.Errorf("%s: gap %v", c.name, l.gaps[i])
		}
		if len(l.faults) != 4 || l.faults[3] != (events.FaultError{Publisher: 7, Epoch: 3, Fault: events.FaultUnsupported, Count: 8}) {
			t.Errorf("%s: faults %v", c.name, l.faults)
		}
		if r.Handle(now, 5, data(3, 1, wire.FlagRepair)); r.Stats().Duplicates != 1 { // it has arrived before
			t.Errorf("%s: a repair of a given-up packet is not a duplicate", c.name)
		}
	}
}

// A malformed packet is requested once: if its repair is malformed, too, it is given up at once.
// docs/protocol §13.2, §13.7.
func TestMalformedRepairIsNotRequestedAgain(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	bad := data(3, 1, 0)
	bad[wire.DataHeaderLen+wire.RunHeaderLen]++ // the run truncates the message
	r.Handle(now, 5, data(3, 0, 0))
	r.Handle(now, 5, bad)
	r.Handle(now, 5, data(3, 2, 0))
	r.Tick(now)
	now = now.Add(time.Second)
	if n := len(of(wire.TypeNAK, replies(r, now))); n != 1 {
		t.Errorf("%d NAKs for a malformed packet, want 1", n)
	}
	wire.SetFlags(bad, wire.FlagRepair)
	r.Handle(now, 5, bad)
	r.Tick(now)
	if n := len(of(wire.TypeNAK, replies(r, now.Add(time.Second)))); n != 0 {
		t.Errorf("%d NAKs after a malformed repair, want none", n)
	}
	if s := r.Stats(); s.Malformed != 2 || s.LostUnreadable != 1 || s.Lost != 1 || len(l.packets) != 2 {
		t.Errorf("%d malformed, %d of %d losses for that reason, %d delivered", s.Malformed, s.LostUnreadable, s.Lost, len(l.packets))
	}
}

// Malformed packets of a stream are reported; those of unknown publishers are only counted. docs/protocol §10.3.
func TestMalformedPacketsAreReported(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	bad := wiretest.Data(1, wiretest.Run(wire.RunMessages, "a.b", 0, "\x09\x00short"))
	r.Handle(Instant(time.Hour), 1, bad) // an unknown stream
	if len(l.faults) != 0 {
		t.Errorf("reported %v", l.faults)
	}
	r.Handle(Instant(time.Hour), 1, wiretest.Data(0, nil))
	for range 5 {
		r.Handle(Instant(time.Hour), 1, bad)
	}
	large := wiretest.Data(1, nil)
	large[40]-- // another packet size
	large[41]++
	r.Handle(Instant(time.Hour), 1, large)
	if len(l.faults) != 4 || l.faults[2] != (events.FaultError{Publisher: 7, Epoch: 3, Fault: events.FaultPacket, Count: 4}) || r.Stats().Malformed != 6 ||
		l.faults[3] != (events.FaultError{Publisher: 7, Epoch: 3, Fault: events.FaultUnsupported, Count: 1}) {
		t.Errorf("reported %v, %d counted", l.faults, r.Stats().Malformed)
	}
}
