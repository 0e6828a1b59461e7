package topics

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// historyAhead is how many packets of its history a reliable.Receiver requests at a time.
const historyAhead = 64

// noNames is a subscriber to patterns that match no topic.
type noNames struct{ learned }

func (noNames) Wants(uint64) bool { return false }

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
			r := newReceived(t, func(x *reliable.ReceiverConfig) {
				x.FromWindow, x.WindowBytes, x.MemoryBytes = true, 200*512, 8*200*512
			})
			r.in.wantedFrom = func(events.Instance, uint64) uint64 { return c.wanted }
			var order []uint64
			r.onPacket = func(st *reliable.Stream) { order = append(order, st.Next()) }
			now := reliable.Instant(time.Second)
			setTopics(r, now, c.topics)
			r.Handle(now, 5, heartbeat(0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
			packet := func(seq uint64, flags wire.Flags) []byte {
				if c.under == "" || seq < 147 {
					b := wiretest.Data(seq, wiretest.Run(wire.RunMessages, "a.b", seq, "\x0a\x000123456789"))
					wire.SetFlags(b, flags)
					return b
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
			for end := now.Add(5 * time.Second); now < end && len(order) == 0; now = now.Add(100 * time.Microsecond) {
				r.Handle(now, 5, heartbeat(0, wire.Heartbeat{Lead: last + 1, Trail: 10, SentAt: uint64(now), Interval: time.Second}))
				ranges := requested(t, replies(r, now))
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
			if gap := c.late > c.wanted; gap != (len(r.gaps) == 1) || gap && r.gaps[0] != [3]uint64{86, 35, uint64(events.CauseDeadline)} {
				t.Errorf("gaps %v", r.gaps)
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
			r := newReceived(t, func(x *reliable.ReceiverConfig) {
				x.FromWindow, x.WindowBytes, x.MemoryBytes = true, 200*512, 8*200*512
			})
			r.in.wantedFrom = func(events.Instance, uint64) uint64 { return 0 }
			now := reliable.Instant(time.Second)
			setTopics(r, now, []string{"a.b", "c.d"}) // no message of c.d arrives: the stream continues to seek
			if c.patterns {
				r.in.LearnNames(now, &noNames{})
			}
			r.Handle(now, 5, heartbeat(0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
			s := &r.first().history.seek
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

// With patterns, the history is delivered once a round behind it has named its topics, or it can be expected no more.
// docs/protocol §9.9.
func TestPatternsWaitForTopicsOfTheHistory(t *testing.T) {
	topics := topicRuns("old=7", "none=4", "new=1")
	answer := func(marks wire.IndexMarks, since uint64, answers ...uint64) string {
		return index(begins|marks, since, answers...) + topics + index(ends, 3)
	}
	for name, c := range map[string]struct {
		packets  []string // behind the history; "-": it is lost
		do       func(r *received)
		listed   bool // else the topics are named as they are delivered
		waits    bool
		deadline time.Duration // 0: two seconds
	}{
		"no round":                      {waits: true},
		"its round":                     {packets: []string{answer(0, 0, 42, 1)}, listed: true},
		"its round, in parts":           {packets: []string{index(begins, 0, 42, 1), topics, "", index(ends, 3)}, listed: true},
		"no end of it":                  {packets: []string{index(begins, 0, 42, 1)}, waits: true},
		"a packet before it is missing": {do: func(r *received) { handle(r, 15, answer(0, 0, 42, 1)) }, waits: true},
		"a round of all from there on":  {packets: []string{answer(all, 10)}, listed: true},
		"of all from later on":          {packets: []string{index(begins|all, 11) + index(ends, 3)}, waits: true},
		"a round for others":            {packets: []string{index(begins, 0, 41, 1) + index(ends, 3)}, waits: true},
		"a loss within it":              {packets: []string{index(begins, 0, 42, 1), "-", index(ends, 3)}, waits: true},
		"its round after the lost one":  {packets: []string{"-", answer(0, 0, 42, 2)}, listed: true},
		"the recovery deadline":         {do: func(r *received) { r.tick(reliable.Instant(2*time.Second + 2)) }},
		"the publisher is lost":         {deadline: time.Hour, do: func(r *received) { r.tick(reliable.Instant(time.Minute)) }},
		"the publisher has ended meanwhile": {do: func(r *received) {
			for at := range uint64(2) {
				r.Handle(1, 5, heartbeat(wire.FlagEnd, wire.Heartbeat{Lead: 14, Trail: 10, SentAt: at + 2}))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := fromWindow(t, 200, cmp.Or(c.deadline, 2*time.Second))
			names := &learned{}
			r.in.LearnNames(0, names)
			r.Handle(1, 5, heartbeat(0, wire.Heartbeat{Lead: 14, Trail: 10, SentAt: 1, Interval: time.Second}))
			if q, since := asked(t, r); q != 1 || since != 0 {
				t.Errorf("question %d since %d", q, since)
			}
			for seq, runs := range [][]string{{"old:5"}, {"new=0", "new:0"}, {"old=6"}, {"old:6"}} {
				handle(r, 10+uint64(seq), topicRuns(runs...))
			}
			for i, runs := range c.packets {
				if runs != "-" {
					handle(r, 14+uint64(i), runs)
				}
			}
			if i := slices.Index(c.packets, "-"); i >= 0 {
				gone(r, 14+uint64(i), 1)
			}
			st := r.Streams()[0]
			if c.do != nil {
				c.do(r)
			}
			if waits := len(r.packets) == 0; waits != c.waits || waits && (st.Next() != 10 || st.Stalled() != true) || !waits && st.Reached() < 14 {
				t.Errorf("%d packets, next is %d", len(r.packets), st.Reached())
			}
			if d := r.Deadline(); c.waits && d > reliable.Instant(2*time.Second+2) {
				t.Errorf("the next deadline is after %v", d)
			}
			want := []string{"new whole since 11 at 11", "old since 12 at 12"}
			if c.listed {
				want = []string{"old since 10 at 10", "none since 10 at 10", "new since 10 at 10"}
			} else if c.waits {
				want = nil
			}
			if !slices.Equal(names.all, want) {
				t.Errorf("learned %q, want %q", names.all, want)
			}
		})
	}
}

// A round of state is void for patterns if the topics are not known at its end. docs/protocol §25.6.
func TestStateBeforeNames(t *testing.T) {
	state := func(round uint32) string {
		ids := "\x2a\x00\x00\x00\x00\x00\x00\x00"
		b := make([]byte, 2*(wire.RunHeaderLen+wire.StateHeaderLen)+len(ids))
		n := len(b) - wire.RunHeaderLen - wire.StateHeaderLen
		wire.PutStateRun(b[:n], 0, 0, &wire.State{Marks: wire.StateBegins, Round: round, Bytes: []byte(ids)})
		wire.PutStateRun(b[n:], 0, 0, &wire.State{Marks: wire.StateEnds, Round: round})
		return string(b)
	}
	for _, known := range []bool{false, true} {
		r := newReceived(t, func(c *reliable.ReceiverConfig) { c.Joins = true })
		r.in.FromState(2*time.Second, new(reliable.Running))
		r.in.LearnNames(0, &learned{})
		r.Handle(1, 5, heartbeat(wire.FlagState, wire.Heartbeat{Lead: 5, SentAt: 1}))
		if known {
			handle(r, 5, index(begins, 0, 42, 1), index(ends, 1))
		} else {
			handle(r, 5)
		}
		handle(r, 6, state(1))
		if st, tries := r.Streams()[0], r.first().state.tries; st.Joining() == known || tries > 0 == known {
			t.Errorf("names known: %v; it waits for state: %v, after %d void rounds", known, st.Joining(), tries)
		}
	}
}
