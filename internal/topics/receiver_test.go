package topics

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// received is a receiver and its message layer, with its events.
type received struct {
	*reliable.Receiver
	in       *Receiver
	statusAt reliable.Instant // time of the last status

	packets    []uint64
	gaps       [][3]uint64 // first, count, cause
	listed     []Listing
	lost       []events.Cause // causes of EventDown
	collisions []events.TopicCollisionError
	unnamed    int
	onPacket   func(st *reliable.Stream) // may be nil
}

// newReceived returns a receiver that wants the topic a.b.
func newReceived(tb testing.TB, change func(*reliable.ReceiverConfig)) *received {
	tb.Helper()
	r := new(received)
	r.Receiver, r.in = openReceiver(tb, r.open, func(c *reliable.ReceiverConfig) {
		c.WindowBytes, c.MemoryBytes, c.MaxStreams = 32*512, 128*512, 2
		if change != nil {
			change(c)
		}
	})
	setTopics(r, 0, []string{"a.b"})
	return r
}

func (r *received) open(st *reliable.Stream) Output {
	return sink{func(e *reliable.Event) {
		switch e.Kind {
		case reliable.EventPacket:
			if r.packets = append(r.packets, e.Seq); r.onPacket != nil {
				r.onPacket(st)
			}
		case reliable.EventGap, reliable.EventEnd:
			if e.Count > 0 {
				r.gaps = append(r.gaps, [3]uint64{e.Seq, e.Count, uint64(e.LostBy())})
			}
		case reliable.EventDown:
			r.lost = append(r.lost, e.Cause)
		}
	}, func(e *Event) {
		switch e.Kind {
		case EventListed:
			r.listed = append(r.listed, e.Listing)
		case EventCollision:
			r.collisions = append(r.collisions, *e.Collision)
		case EventUnnamed:
			r.unnamed++
		}
	}}
}

// tick is the receiver's Tick.
func (r *received) tick(now reliable.Instant) {
	r.in.Tick()
	r.Tick(now)
}

// first returns the message layer of the first stream.
func (r *received) first() *Stream { return r.in.list[0] }

// setTopics changes the wanted topics to these.
func setTopics(r *received, now reliable.Instant, names []string) {
	for _, id := range slices.Clone(r.in.topics) {
		if name := r.in.wants[id].name; !slices.Contains(names, name) {
			r.in.Unwant(name)
		}
	}
	for _, name := range names {
		r.in.Want(name)
	}
	r.in.TopicsChanged(now)
}

// replies returns all control packets that r sends.
func replies(r *received, now reliable.Instant) (all []packet) {
	r.in.Tick()
	all = controlOf(r.Receiver, now)
	if slices.ContainsFunc(all, func(p packet) bool { return p.Type == wire.TypeStatus }) {
		r.statusAt = now
	}
	return all
}

// requested returns the ranges of all NAKs.
func requested(t *testing.T, all []packet) (ranges [][2]uint64) {
	for _, p := range all {
		if p.Type == wire.TypeStatus {
			continue
		}
		n, err := wire.ParseRanges(p.b)
		if err != nil {
			t.Fatal(err)
		}
		for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
			ranges = append(ranges, [2]uint64{first, count})
		}
	}
	return ranges
}

// fromWindow returns a receiver that requests the publishers' windows.
func fromWindow(t *testing.T, packets int, deadline time.Duration) *received {
	return newReceived(t, func(c *reliable.ReceiverConfig) {
		c.FromWindow, c.WindowBytes, c.MemoryBytes, c.Deadline = true, packets*512, 8*packets*512, deadline
	})
}

// heartbeat returns a heartbeat of the publisher.
func heartbeat(flags wire.Flags, hb wire.Heartbeat) []byte {
	return wiretest.Heartbeat(7, 3, flags, hb)
}

// A pattern finds the names that match it.
func TestNamesMatching(t *testing.T) {
	r := newReceived(t, nil)
	r.in.LearnNames(0, &learned{})
	handle(r, 0, topicRuns("a.b=0"))
	st := r.first()
	for i := range 100 {
		name := fmt.Sprintf("a%d.b", i)
		st.learn(wire.TopicID(name), []byte(name), 0, false)
	}
	st.learn(wire.TopicID("a7.b.c"), []byte("a7.b.c"), 0, false)
	for text, want := range map[string]int{"a7.*": 1, "a7.>": 2, "*.b": 101, ">": 102, "b.*": 0, "a8.*.c": 0, "*.b.*": 1} {
		p, err := pattern.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.in.NamesMatching(p)); got != want {
			t.Errorf("%s: %d names, want %d", text, got, want)
		}
	}
}
