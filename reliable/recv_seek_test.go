package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A stream fetches only the part of its history from the first wanted messages on. docs/protocol §9.8.
func TestReceiverFetchesFromANumber(t *testing.T) {
	for name, c := range map[string]struct {
		topics  []string
		wanted  uint64
		total   uint64 // number of a.b in a round behind the history; 0: no round
		under   string // a message of this topic, in fragments, is in packets 147 to 151; the newest arrive first
		late    uint64 // this packet of the history does not arrive
		first   uint64 // first packet that arrived, of the initial request
		fetched uint64 // maximum of packets
	}{
		"the topic reaches the wanted message":               {topics: []string{"a.b"}, wanted: 100, first: 86, fetched: 2 * historyAhead},
		"the wanted message has left the window":             {topics: []string{"a.b"}, wanted: 5, first: 10, fetched: 140},
		"another topic may begin earlier":                    {topics: []string{"a.b", "c.d"}, wanted: 100, first: 10, fetched: 140},
		"a round excludes an earlier beginning":              {topics: []string{"a.b", "c.d"}, wanted: 100, total: 150, first: 86, fetched: 2 * historyAhead},
		"no history needed":                                  {topics: []string{"a.b"}, wanted: 150, total: 150, first: 150, fetched: historyAhead},
		"a message in progress is fetched":                   {topics: []string{"a.b"}, wanted: 147, total: 148, under: "a.b", first: 147, fetched: 2 * historyAhead},
		"a message in progress of another topic is not":      {topics: []string{"a.b"}, wanted: 147, total: 147, under: "x.1", first: 150, fetched: historyAhead},
		"a message in progress before the wanted one is not": {topics: []string{"a.b"}, wanted: 148, total: 148, under: "a.b", first: 150, fetched: historyAhead},
		"a packet after the wanted one is given up":          {topics: []string{"a.b"}, wanted: 100, late: 120, first: 121, fetched: 2 * historyAhead},
		"a packet before the wanted one is not needed":       {topics: []string{"a.b"}, wanted: 100, late: 80, first: 86, fetched: 2 * historyAhead},
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
			r.Handle(now, 5, packet(150, 0)) // new data in the meantime
			last := uint64(150)
			if c.under != "" {
				last = 151
				r.Handle(now, 5, packet(last, 0))
			}
			if c.total > 0 {
				ab := wiretest.Run(wire.RunTopic, "a.b", c.total, "a.b")
				r.Handle(now, 5, wiretest.Data(last+1, append(wiretest.Index(begins, 0, 41, 1), ab...))) // for another receiver
				last += 2
				r.Handle(now, 5, wiretest.Data(last, append(append(wiretest.Index(begins, 0, 42, 1), ab...), wiretest.Index(ends, 1)...)))
			}
			for end := now.Add(5 * time.Second); now < end && len(order) == 0; now = now.Add(minRetry) {
				r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: last + 1, Trail: 10, SentAt: uint64(now), Interval: time.Second}))
				ranges, _, _ := requested(t, replies(r, now))
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
			if len(order) == 0 || order[0] != c.first || uint64(len(order)) != last+1-c.first || !slices.IsSorted(order) {
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

// While a stream seeks its beginning, the number of topics that it tracks is limited by the wanted
// ones. docs/protocol §9.8.
func TestSeekIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		patterns bool
		before   int // number of topics already tracked
		want     int
	}{
		"topics by name: only wanted ones":    {want: 1},
		"patterns: also those without a name": {patterns: true, want: 12},
		"patterns: limited":                   {patterns: true, before: maxSought - 2, want: maxSought},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			r := newReceiver(t, l, func(x *ReceiverConfig) {
				x.FromWindow, x.WindowBytes, x.MemoryBytes = true, 200*512, 8*200*512
				x.Wanted = func(events.Instance, uint64) uint64 { return 0 }
			})
			now := Instant(time.Second)
			setTopics(r, now, []string{"a.b", "c.d"}) // no message of c.d arrives: the stream continues to seek
			if c.patterns {
				r.LearnNames(now, wantsNone{})
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
				t.Errorf("%d topics are tracked, want %d", n, c.want)
			}
		})
	}
}

// wantsNone is a subscriber to patterns that match no topic.
type wantsNone struct{}

func (wantsNone) Named(*Stream, uint64, string, uint64, bool)  {}
func (wantsNone) Forgotten(*Stream, uint64)                    {}
func (wantsNone) Untrusted(*Stream, uint64, string, int, bool) {}
func (wantsNone) Wants(uint64) bool                            { return false }
