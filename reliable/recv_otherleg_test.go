package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Who is on some other leg of a publisher than its first hears it all the same: a heartbeat
// lists the legs, and what follows has its tag. docs/protocol.md §23.8, §4.1.
func TestPublisherOnAnotherLeg(t *testing.T) {
	hb := func(tags ...uint32) []byte {
		return heartbeatOf(1, wire.FlagSolicit, wire.Heartbeat{SentAt: 5, Interval: time.Second, StatusInterval: time.Second, Legs: wire.LegsOf(tags)})
	}
	damaged := hb(9, 10)
	damaged[102] = wire.MaxLegs + 1
	for _, c := range []struct {
		name  string
		own   []uint32 // the receiver's legs; packets have tag 9
		first []byte
		hears bool
	}{
		{"the second leg", []uint32{10}, hb(9, 10), true},
		{"the last of four", []uint32{12}, hb(9, 10, 11, 12), true},
		{"one of each is the same", []uint32{11, 10}, hb(9, 10), true},
		{"the first leg", []uint32{9}, hb(9, 10), true},
		{"the other order", []uint32{10, 9}, hb(9, 10), true},
		{"no leg in common", []uint32{11}, hb(9, 10), false},
		{"a publisher with one leg", []uint32{10}, hb(), false},
		{"a list that does not begin with its tag", []uint32{10}, hb(8, 10), false},
		{"a damaged list", []uint32{10}, damaged, false},
		{"data, before a heartbeat", []uint32{10}, data(1, 0, 0), false},
	} {
		l := &log{}
		r := newReceiver(t, l, func(cfg *ReceiverConfig) { cfg.GroupTag, cfg.LegTags = c.own[0], c.own })
		r.Handle(1, 100, c.first)
		r.Handle(1, 100, data(1, 0, 0))
		r.Handle(1, 100, data(1, 2, 0))
		if got := len(l.packets) == 1; got != c.hears || (r.Stats().Foreign == 0) != c.hears {
			t.Errorf("%s: %d packets are delivered, %d are foreign", c.name, len(l.packets), r.Stats().Foreign)
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

// Legs that are not the same are told, once, and keep nobody apart. docs/protocol.md §23.10.
func TestLegsThatDiffer(t *testing.T) {
	for _, c := range []struct {
		name  string
		own   []uint32
		tags  []uint32 // of the publisher, beginning with 9
		tells string   // theirs
	}{
		{"one each", []uint32{9}, nil, ""},
		{"two each", []uint32{9, 10}, []uint32{9, 10}, ""},
		{"in another order", []uint32{10, 9}, []uint32{9, 10}, ""},
		{"one leg here", []uint32{10}, []uint32{9, 10}, "2 (1 shared)"},
		{"one leg there", []uint32{9, 10}, nil, "1 (1 shared)"},
		{"one of two", []uint32{9, 11}, []uint32{9, 10}, "2 (1 shared)"},
		{"one too many", []uint32{9, 10}, []uint32{9, 10, 11}, "3 (2 shared)"},
	} {
		x := newGreeting(3, sixteen)
		x.g.cfg.Fabric.legs, x.g.cfg.LegTags = len(c.own), c.own
		r := newReceiver(t, &log{}, func(cfg *ReceiverConfig) {
			cfg.GroupTag, cfg.LegTags, cfg.Greeter = c.own[0], c.own, x.g
		})
		for i := range uint64(3) {
			r.Handle(1, 100, wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 1}, &wire.Heartbeat{
				SentAt: 5 + i, PacketSize: sixteen.PacketSize, Settings: sixteen.settings(), Legs: wire.LegsOf(c.tags),
			}))
		}
		switch {
		case c.tells == "" && len(x.told) > 0:
			t.Errorf("%s: told %v", c.name, x.told[0])
		case c.tells != "" && len(x.told) != 1:
			t.Errorf("%s: told %d times", c.name, len(x.told))
		case c.tells != "":
			if d := x.told[0].Differences; len(d) != 1 || d[0].Field != FieldLegs || d[0].Theirs != c.tells || !x.told[0].Harmless() {
				t.Errorf("%s: told %v", c.name, x.told[0])
			}
		}
	}
}

// A bus with legs says hello with the tag of each; who has one of them takes it, and answers
// with that. docs/protocol.md §23.9.
func TestHellosOfLegs(t *testing.T) {
	pub, sub := newGreeting(1, sixteen), newGreeting(2, sixtyfour)
	pub.g = NewGreeter(GreeterConfig{Publisher: 1, Epoch: 1, GroupTag: 9, LegTags: []uint32{9, 10}, Fabric: sixteen, Rand: pub.g.cfg.Rand}, pub)
	sub.g = NewGreeter(GreeterConfig{Publisher: 2, Epoch: 1, GroupTag: 11, LegTags: []uint32{11, 10}, Fabric: sixtyfour, Rand: sub.g.cfg.Rand}, sub)
	pub.published, sub.subscribed = []uint64{5}, []uint64{5}
	now := Instant(time.Hour)
	pub.g.Publishes(now)
	for round := range 5 {
		now = pub.g.Deadline()
		var tags []uint32
		for _, hello := range pub.next(now) {
			h, err := wire.ParseHeader(hello.b)
			if err != nil {
				t.Fatal(err)
			}
			tags = append(tags, h.GroupTag)
			if took := sub.g.Hello(77, now, hello.b); took != (h.GroupTag == 10) {
				t.Errorf("a hello with tag %d is taken: %v", h.GroupTag, took)
			}
		}
		if !slices.Equal(tags, []uint32{9, 10}) {
			t.Fatalf("round %d: hellos with tags %v", round, tags)
		}
	}
	answers := sub.next(now)
	if len(sub.told) != 1 || len(answers) != 1 || !pub.g.Answer(55, now, answers[0].b) || len(pub.told) != 1 || len(pub.unheard) != 1 {
		t.Fatalf("told %v, %d answers; the publisher was told %v", sub.told, len(answers), pub.told)
	}
	// One that cannot be sent is said again, with the same tag.
	now = pub.g.Deadline()
	pub.g.Tick(now)
	for _, c := range []struct {
		tag   uint32
		fails bool
	}{{9, true}, {9, false}, {10, true}, {10, false}} {
		_, b, ok := pub.g.Next(now, nil)
		if h, err := wire.ParseHeader(b); !ok || err != nil || h.GroupTag != c.tag {
			t.Fatalf("a hello with tag %d, %v, want %+v", h.GroupTag, ok, c)
		}
		if c.fails {
			pub.g.Unsent(now)
			if _, _, ok := pub.g.Next(now, nil); ok || pub.g.Deadline() <= now {
				t.Fatal("it is said again at once")
			}
			now = pub.g.Deadline()
		}
	}
}
