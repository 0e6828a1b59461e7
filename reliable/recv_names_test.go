package reliable

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// learned records names.
type learned struct{ all []string }

func (l *learned) Named(_ *Stream, id uint64, name string, first bool) {
	if id != wire.TopicID(name) {
		name += " of another topic"
	}
	if first {
		name += " first"
	}
	l.all = append(l.all, name)
}
func (l *learned) Forgotten(_ *Stream, id uint64) { l.all = append(l.all, fmt.Sprintf("-%x", id)) }
func (l *learned) Wants(uint64) bool              { return true }
func (l *learned) Untrusted(_ *Stream, _ uint64, topic string, messages int, first bool) {
	l.all = append(l.all, fmt.Sprintf("untrusted %s %d %v", topic, messages, first))
}

// requestsNames counts the statuses that request names, and checks that all of them have the flag of further topics.
func requestsNames(t *testing.T, r *Receiver, now Instant) (n int) {
	t.Helper()
	for _, p := range of(wire.TypeStatus, replies(r, now)) {
		if st, err := wire.ParseStatus(p.b); err != nil || len(st.Name)+st.Topics() > 0 && p.Flags&wire.FlagMoreTopics == 0 {
			t.Errorf("status %v %v: %v", p.Flags, st, err)
		}
		if p.Flags&wire.FlagWantTopics != 0 {
			n++
		}
	}
	return n
}

// Names are learned from the stream without requests, from its beginning. A packet of a topic without a name waits,
// the name is requested, and the packet is delivered after the name, in order. docs/protocol §9.9.
func TestNamesAreLearned(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour).Add(d) }
	l, names := &log{}, &learned{}
	r := newReceiver(t, l, nil)
	r.LearnNames(at(0), names)
	r.Handle(at(0), 5, wiretest.Named(0, "x=0", "x:0"))
	r.Handle(at(0), 5, wiretest.Named(1, "x:1", "y=4"))
	if requestsNames(t, r, at(0)) != 0 || !slices.Equal(names.all, []string{"x first", "y"}) || len(l.packets) != 2 {
		t.Fatalf("learned %q, %d packets", names.all, len(l.packets))
	}
	r.Handle(at(1), 5, wiretest.Named(2, "x:2", "late:0")) // its name was lost
	r.Handle(at(1), 5, wiretest.Named(3, "x:3"))
	if len(l.packets) != 2 || requestsNames(t, r, at(1)) != 1 {
		t.Fatalf("%d packets are delivered, want 2: a name is missing", len(l.packets))
	}
	if n := requestsNames(t, r, at(nameRetry/2)); n != 0 {
		t.Errorf("requested again after half the time")
	}
	if d := r.Deadline(); d > at(nameRetry+2) {
		t.Errorf("the deadline is after %v", d.Sub(at(0)))
	}
	if n := requestsNames(t, r, at(nameRetry+2)); n != 1 {
		t.Errorf("requested again %d times", n)
	}
	r.Handle(at(nameRetry+3), 5, wiretest.Announce(2, 1, 3, "late")) // of an incomplete listing
	r.Tick(at(nameRetry + 3))
	if len(l.packets) != 4 || !slices.Equal(names.all, []string{"x first", "y", "late"}) {
		t.Errorf("learned %q, %d packets", names.all, len(l.packets))
	}
	if r.Stats().Unnamed != 0 {
		t.Error("a name is reported as missing")
	}
	if name, ok := r.Name(wire.TopicID("late")); !ok || name != "late" {
		t.Errorf("name %q, %v", name, ok)
	}
}

// In a stream that begins with its publisher's window names are requested at once; known names are learned before the
// first packet, and a missing one is awaited once the history is complete. docs/protocol §9.9.
func TestNamesOfTheWindow(t *testing.T) {
	r, l := fromWindow(t, 200)
	now := Instant(time.Hour)
	names := &learned{}
	r.LearnNames(now, names)
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 14, Trail: 10, SentAt: 1}))
	if n := requestsNames(t, r, now); n != 1 {
		t.Errorf("requested names %d times", n)
	}
	r.Handle(now, 5, wiretest.Announce(14, 0, 2, "old"))
	if st := r.Streams()[0]; st.Next() != 10 || !slices.Equal(names.all, []string{"old"}) {
		t.Errorf("learned %q, continues with packet %d", names.all, st.Next())
	}
	for seq, runs := range [][]string{{"old:5"}, {"new=0", "new:0"}, {"older:3"}, {"old:6"}} {
		r.Handle(now, 5, wiretest.Named(10+uint64(seq), runs...))
	}
	if len(l.packets) != 2 || !slices.Equal(names.all, []string{"old", "new first"}) {
		t.Fatalf("learned %q, %d packets", names.all, len(l.packets))
	}
	r.Handle(now, 5, wiretest.Announce(14, 1, 2, "older"))
	r.Tick(now)
	if len(l.packets) != 4 || len(l.gaps) != 0 || r.Stats().Unnamed != 0 {
		t.Errorf("learned %q, %d packets, gaps %v", names.all, len(l.packets), l.gaps)
	}
}

// The wait for a name ends when the publisher has announced all topics without that one, is silent,
// or after the recovery deadline; that is reported once. docs/protocol §9.9.
func TestMissingNames(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour).Add(d) }
	for _, c := range []struct {
		name string
		then func(r *Receiver)
	}{
		{"all are announced", func(r *Receiver) {
			r.Handle(at(2), 5, wiretest.Announce(0, 0, 1, "x")) // too early to contain it
			if len(r.list[0].topics.names.unnamed) > 0 {
				t.Error("given up because of an earlier listing")
			}
			r.Handle(at(2), 5, wiretest.Announce(2, 0, 2, "x"))
			r.Handle(at(2), 5, wiretest.Announce(2, 1, 2, "y"))
			r.Tick(at(2))
		}},
		{"a wrong name", func(r *Receiver) {
			b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, 2, 0, 1)
			b = wire.AppendTopicState(b, wire.TopicID("late"), 0, "forged")
			wire.FinishAnnounce(b, 1)
			r.Handle(at(2), 5, b)
			r.Tick(at(2))
			if r.Stats().NamesRefused != 1 {
				t.Error("the wrong name is not counted")
			}
		}},
		{"deadline", func(r *Receiver) { r.Tick(at(2*time.Second + 2)) }},
		{"silence", func(r *Receiver) {
			r.cfg.Deadline = time.Hour
			r.Tick(at(6 * time.Second))
			r.Tick(at(6 * time.Second))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, names := &log{}, &learned{}
			r := newReceiver(t, l, nil)
			r.LearnNames(at(0), names)
			r.Handle(at(0), 5, wiretest.Named(0, "x=0", "x:0"))
			r.Handle(at(1), 5, wiretest.Named(1, "late:0"))
			r.Tick(at(1))
			if c.then(r); len(l.packets) != 2 || r.Stats().Unnamed != 1 || !slices.Equal(l.unnamed, []events.Cause{events.CauseUnnamed}) {
				t.Errorf("%d packets of 2, reported %d times", len(l.packets), r.Stats().Unnamed)
			}
			r.Handle(at(7*time.Second), 5, wiretest.Named(2, "late:1"))
			if len(l.packets) != 3 || r.Stats().Unnamed != 1 {
				t.Errorf("%d packets of 3, reported %d times", len(l.packets), r.Stats().Unnamed)
			}
		})
	}
}

// A receiver that joins an existing stream requests all names; a subscription by name provides that
// name. Names are removed with the last stream that has the topic. docs/protocol §9.9.
func TestNamesOfStreams(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour).Add(d) }
	l, names := &log{}, &learned{}
	r := newReceiver(t, l, nil)
	r.Handle(at(0), 5, wiretest.Named(8, "x:0"))
	replies(r, at(0))
	r.LearnNames(at(1), names)
	if requestsNames(t, r, at(1)) != 1 {
		t.Error("names are not requested")
	}
	r.Handle(at(2), 5, wiretest.Named(9, "a.b:0"))
	if len(l.packets) != 2 || !slices.Equal(names.all, []string{"a.b"}) {
		t.Errorf("learned %q, %d packets: a.b is known by the subscription", names.all, len(l.packets))
	}
	r.Handle(at(2), 5, wiretest.Announce(9, 0, 2, "x"))
	r.Handle(at(2), 5, wiretest.Announce(9, 1, 2, "z"))
	requestsNames(t, r, at(2))
	if n := requestsNames(t, r, at(30*time.Second/1000)); n != 0 {
		t.Error("names are requested although all were announced")
	}
	names.all = nil
	r.Handle(at(3), 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 10, SentAt: 3, Interval: time.Second}))
	r.Handle(at(3), 5, wiretest.Announce(10, 0, 2, "x", "z"))
	r.Handle(at(3), 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 10, SentAt: 4, Interval: time.Second}))
	r.Tick(at(3))
	r.Tick(at(10 * time.Second))
	slices.Sort(names.all)
	want := []string{fmt.Sprintf("-%x", wire.TopicID("a.b")), fmt.Sprintf("-%x", wire.TopicID("x")), fmt.Sprintf("-%x", wire.TopicID("z"))}
	slices.Sort(want)
	if !slices.Equal(names.all, want) || len(r.Streams()) != 0 {
		t.Errorf("forgotten %q, want %q", names.all, want)
	}
}

// The number of stored names is limited: packets of further topics do not wait. docs/protocol §12.5.
func TestNamesAreBounded(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour).Add(d) }
	l, names := &log{}, &learned{}
	r := newReceiver(t, l, nil)
	r.LearnNames(at(0), names)
	r.Handle(at(0), 5, wiretest.Named(0))
	for i := 0; i < maxNames; i += 8 {
		var list []string
		for j := range 8 {
			list = append(list, fmt.Sprint("t", i+j))
		}
		r.Handle(at(0), 5, wiretest.Announce(0, uint32(i), maxNames+8, list...))
	}
	r.Handle(at(0), 5, wiretest.Announce(0, maxNames, maxNames+8, "beyond"))
	if r.names.known.Len() != maxNames || r.Stats().NamesRefused != 1 {
		t.Errorf("%d names are known, %d refused", r.names.known.Len(), r.Stats().NamesRefused)
	}
	r.Handle(at(1), 5, wiretest.Named(1, "beyond:0"))
	r.Tick(at(1))
	if len(l.packets) != 2 || r.Stats().Unnamed != 1 {
		t.Errorf("%d packets of 2, reported %d times", len(l.packets), r.Stats().Unnamed)
	}
	if !slices.Equal(l.unnamed, []events.Cause{events.CauseTooManyTopics}) {
		t.Errorf("reported cause %v", l.unnamed)
	}
}

// Packets of known topics cause no allocations.
func TestNamesDoNotAllocate(t *testing.T) {
	l := &log{onPacket: func(*Stream, []byte) {}}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	r.LearnNames(now, &learned{})
	r.Handle(now, 5, wiretest.Named(0, "x=0", "y=0"))
	p := wiretest.Named(0, "x:0", "y:0", "x:1")
	seq := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		seq++
		wire.SetSeq(p, seq)
		r.Handle(now, 5, p)
	}); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
}

// If publishers prove their keys, a key that names as many topics as possible leaves half of the
// memory to others. docs/protocol §12.5.
func TestNamesAreShared(t *testing.T) {
	at := Instant(time.Hour)
	r := newReceiver(t, &log{}, nil)
	r.cfg.Trust = trustAll
	r.LearnNames(at, &learned{})
	names := 0
	greedy := func(key uint64) (n int) {
		before := r.names.known.Len()
		first := wiretest.Named(0)
		binary.LittleEndian.PutUint64(first[16:], key<<32|7)
		r.Handle(at, 5, first)
		for ; r.Stats().NamesRefused == 0 && names < 2*maxNames; names += 8 {
			b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: events.ID(key<<32 | 7), Epoch: 3}, 0, 0, 8)
			for j := range 8 {
				name := fmt.Sprint("t", names+j)
				b = wire.AppendTopicState(b, wire.TopicID(name), 0, name)
			}
			wire.FinishAnnounce(b, 8)
			r.Handle(at, 5, b)
		}
		r.stats.NamesRefused = 0
		return r.names.known.Len() - before
	}
	if n := greedy(1); n != maxNames/2 {
		t.Errorf("one key has named %d topics, want %d", n, maxNames/2)
	}
	if n := greedy(2); n != maxNames/4 {
		t.Errorf("another has named %d, want %d", n, maxNames/4)
	}
	for _, st := range slices.Clone(r.list) {
		r.remove(st)
	}
	if r.names.known.Len() != 0 || len(r.names.held) != 0 {
		t.Errorf("%d names are known, of %v", r.names.known.Len(), r.names.held)
	}
}
