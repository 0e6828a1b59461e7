package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A receiver that shares only a later leg with a publisher still receives the stream: a heartbeat
// lists the legs, and later packets have its tag. docs/protocol §23.8, §4.1.
func TestPublisherOnAnotherLeg(t *testing.T) {
	hb := func(tags ...uint32) []byte {
		return heartbeatOf(1, wire.FlagSolicit, wire.Heartbeat{SentAt: 5, Interval: time.Second, StatusInterval: time.Second, Legs: wire.LegsOf(tags)})
	}
	damaged := hb(9, 10)
	damaged[102] = wire.MaxLegs + 1
	for _, c := range []struct {
		name  string
		own   []uint32 // legs of the receiver; packets have tag 9
		first []byte
		hears bool
	}{
		{"the second leg", []uint32{10}, hb(9, 10), true},
		{"the last of four", []uint32{12}, hb(9, 10, 11, 12), true},
		{"one leg in common", []uint32{11, 10}, hb(9, 10), true},
		{"the first leg", []uint32{9}, hb(9, 10), true},
		{"the other order", []uint32{10, 9}, hb(9, 10), true},
		{"no leg in common", []uint32{11}, hb(9, 10), false},
		{"a publisher with one leg", []uint32{10}, hb(), false},
		{"a list that does not begin with the packet's tag", []uint32{10}, hb(8, 10), false},
		{"a damaged list", []uint32{10}, damaged, false},
		{"data, before a heartbeat", []uint32{10}, data(1, 0, 0), false},
	} {
		l := &log{}
		r := newReceiver(t, l, func(cfg *ReceiverConfig) { cfg.GroupTag, cfg.LegTags = c.own[0], c.own })
		r.Handle(1, 100, c.first)
		r.Handle(1, 100, data(1, 0, 0))
		r.Handle(1, 100, data(1, 2, 0))
		if got := len(l.packets) == 1; got != c.hears || (r.Stats().Foreign == 0) != c.hears {
			t.Errorf("%s: %d packets delivered, %d foreign", c.name, len(l.packets), r.Stats().Foreign)
		}
		kinds := make(map[wire.Type]int)
		for now := Instant(1); now < Instant(20*time.Millisecond); now = now.Add(time.Millisecond) {
			for _, p := range replies(r, now) {
				if kinds[p.Type]++; p.GroupTag != 9 {
					t.Errorf("%s: a reply has tag %d", c.name, p.GroupTag)
				}
			}
		}
		if c.hears != (kinds[wire.TypeStatus] > 0 && kinds[wire.TypeNAK] > 0) {
			t.Errorf("%s: replies %v", c.name, kinds)
		}
	}
}
