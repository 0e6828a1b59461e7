package discovery

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Different legs are reported, once, and do not stop buses from receiving each other. docs/protocol §23.10.
func TestDifferentLegs(t *testing.T) {
	for _, c := range []struct {
		name string
		own  []uint32
		tags []uint32 // of the publisher, beginning with 9
		want string   // theirs
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
		for i := range uint64(3) {
			x.g.Heartbeat(100, 1, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 1}, wire.Heartbeat{
				SentAt: 5 + i, PacketSize: sixteen.PacketSize, Settings: sixteen.settings(), Legs: wire.LegsOf(c.tags),
			}, c.own)
		}
		switch {
		case c.want == "" && len(x.mismatches) > 0:
			t.Errorf("%s: reported %v, want no mismatch", c.name, x.mismatches[0])
		case c.want != "" && len(x.mismatches) != 1:
			t.Errorf("%s: reported %d times, want 1", c.name, len(x.mismatches))
		case c.want != "":
			if d := x.mismatches[0].Differences; len(d) != 1 || d[0].Field != events.FieldLegs || d[0].Theirs != c.want || !x.mismatches[0].Harmless() {
				t.Errorf("%s: reported %v, want one harmless difference in legs, %s there", c.name, x.mismatches[0], c.want)
			}
		}
	}
}

// A bus with legs sends hellos with the tag of each; a bus with one of these tags accepts the hello, and answers with
// that tag. docs/protocol §23.9.
func TestHellosOfLegs(t *testing.T) {
	pub, sub := newGreeting(1, sixteen), newGreeting(2, sixtyfour)
	pub.g = New(Config{Self: events.Instance{Publisher: 1, Epoch: 1}, GroupTag: 9, LegTags: []uint32{9, 10}, Fabric: sixteen, Rand: pub.g.cfg.Rand}, pub)
	sub.g = New(Config{Self: events.Instance{Publisher: 2, Epoch: 1}, GroupTag: 11, LegTags: []uint32{11, 10}, Fabric: sixtyfour, Rand: sub.g.cfg.Rand}, sub)
	pub.published, sub.subscribed = []uint64{5}, []uint64{5}
	now := reliable.Instant(time.Hour)
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
				t.Errorf("a hello with tag %d is accepted: %v, want %v", h.GroupTag, took, h.GroupTag == 10)
			}
		}
		if !slices.Equal(tags, []uint32{9, 10}) {
			t.Fatalf("round %d: hellos with tags %v, want 9 and 10", round, tags)
		}
	}
	answers := sub.next(now)
	if len(sub.mismatches) != 1 || len(answers) != 1 || !pub.g.Answer(55, now, answers[0].b) || len(pub.mismatches) != 1 || len(pub.unreachable) != 1 {
		t.Fatalf("reported %v, %d answers; the publisher reported %v, want one answer, and one mismatch of each", sub.mismatches, len(answers), pub.mismatches)
	}
	// A hello that cannot be sent is sent again, with the same tag.
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
				t.Fatal("it is sent again at once")
			}
			now = pub.g.Deadline()
		}
	}
}
