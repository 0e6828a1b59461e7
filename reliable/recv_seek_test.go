package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Of its history a stream fetches only what follows the first wanted messages. docs/protocol §9.8.
func TestReceiverFetchesFromANumber(t *testing.T) {
	for name, c := range map[string]struct {
		topics  []string
		wanted  uint64
		total   uint64 // that the publisher announces, of a.b only; 0: none
		under   string // a message of this topic, in fragments, is in packets 147 to 151; the newest come first
		late    uint64 // this packet of the history does not come
		first   uint64 // packet: the first that came of those asked for at once
		fetched uint64 // packets, at most
	}{
		"the topic has come down to it":     {topics: []string{"a.b"}, wanted: 100, first: 86, fetched: 2 * historyAhead},
		"it is not held any more":           {topics: []string{"a.b"}, wanted: 5, first: 10, fetched: 140},
		"another topic may be further down": {topics: []string{"a.b", "c.d"}, wanted: 100, first: 10, fetched: 140},
		"a total says that it is not":       {topics: []string{"a.b", "c.d"}, wanted: 100, total: 150, first: 86, fetched: 2 * historyAhead},
		"nothing is to be fetched":          {topics: []string{"a.b"}, wanted: 150, total: 150, first: 150, fetched: historyAhead},
		"one under way is fetched":          {topics: []string{"a.b"}, wanted: 147, total: 147, under: "a.b", first: 147, fetched: 2 * historyAhead},
		"one of another topic is not":       {topics: []string{"a.b"}, wanted: 147, total: 147, under: "x.1", first: 150, fetched: historyAhead},
		"one under way is not wanted":       {topics: []string{"a.b"}, wanted: 148, total: 147, under: "a.b", first: 150, fetched: historyAhead},
		"one behind it is given up":         {topics: []string{"a.b"}, wanted: 100, late: 120, first: 121, fetched: 2 * historyAhead},
		"one before it is not needed":       {topics: []string{"a.b"}, wanted: 100, late: 80, first: 86, fetched: 2 * historyAhead},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			r := newReceiver(t, l, func(x *ReceiverConfig) {
				x.FromWindow, x.WindowBytes, x.MemoryBytes = true, 200*512, 8*200*512
				x.Wanted = func(events.Instance, uint64) uint64 { return c.wanted }
			})
			var order []uint64
			l.onPacket = func(st *Stream, _ []byte) { order = append(order, st.Next()) }
			now := Instant(time.Second)
			setTopics(r, now, c.topics)
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
			r.Streams()[0].WantTotals()
			if c.total > 0 {
				r.Handle(now, 5, announced(149, c.wanted)) // as of before the end: it says nothing
				r.Handle(now, 5, announced(150, c.total))
			}
			packet := func(seq uint64, flags wire.Flags) []byte {
				if c.under == "" || seq < 147 {
					return data(3, seq, flags)
				}
				body := make([]byte, wire.FragmentHeaderLen+1)
				wire.PutFragmentHeader(body, 5, int(seq-147))
				b := wiretest.Data(seq, wiretest.Run(wire.RunFragment, c.under, 147, string(body)))
				wire.SetFlags(b, flags)
				return b
			}
			r.Handle(now, 5, packet(150, 0)) // what is sent meanwhile
			for end := now.Add(5 * time.Second); now < end && len(order) == 0; now = now.Add(minRetry) {
				r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 151, Trail: 10, SentAt: uint64(now), Interval: time.Second}))
				ranges, _, _ := asked(t, replies(r, now))
				for _, x := range ranges {
					for i := range x[1] {
						seq := x[0] + i
						if c.under != "" {
							seq = x[0] + x[1] - 1 - i
						}
						if seq != c.late {
							r.Handle(now, 5, packet(seq, wire.FlagRepair))
						}
					}
				}
			}
			if len(order) == 0 || order[0] != c.first || uint64(len(order)) != 151-c.first || !slices.IsSorted(order) {
				t.Errorf("delivered %v", order)
			}
			if n := r.Stats().History; n > c.fetched {
				t.Errorf("%d packets were fetched", n)
			}
			if gap := c.late > c.wanted; gap != (len(l.gaps) == 1) || gap && l.gaps[0] != [3]uint64{86, 35, uint64(events.CauseDeadline)} {
				t.Errorf("gaps %v", l.gaps)
			}
		})
	}
}

// What is remembered of topics while a stream seeks where it begins is bounded by what may be wanted.
// docs/protocol §9.8.
func TestSeekIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		patterns bool
		before   int // topics that are remembered already
		want     int
	}{
		"of topics by name those that are wanted":   {want: 1},
		"of patterns those without a name as well":  {patterns: true, want: 12},
		"of patterns as many as totals are kept of": {patterns: true, before: maxPendingTotals - 2, want: maxPendingTotals},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			r := newReceiver(t, l, func(x *ReceiverConfig) {
				x.FromWindow, x.WindowBytes, x.MemoryBytes = true, 200*512, 8*200*512
				x.Wanted = func(events.Instance, uint64) uint64 { return 0 }
			})
			now := Instant(time.Second)
			setTopics(r, now, []string{"a.b", "c.d"}) // of one nothing comes: it goes on
			if c.patterns {
				r.LearnNames(now, &wantsNames{r: r})
			}
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
			s := &r.Streams()[0].win.history.seek
			for i := range c.before {
				s.begun[uint64(i)] = 149
			}
			var runs []byte
			for _, topic := range []string{"a.b", "x.1", "x.2", "x.3", "x.4", "x.5", "x.6", "x.7", "x.8", "x.9", "x.10", "x.11"} {
				runs = append(runs, wiretest.Run(wire.RunMessages, topic, 0, "\x02\x00hi")...)
			}
			r.Handle(now, 5, wiretest.Data(149, runs))
			if n := len(s.begun); n != c.want {
				t.Errorf("%d topics are remembered, want %d", n, c.want)
			}
		})
	}
}
