package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// app is a process whose bus was opened at since, with these totals of published and missing messages.
func app(pid int, since time.Time, sent, missing uint64) inspect.Seen {
	return inspect.Seen{Socket: fmt.Sprint("/run/", pid), Snapshot: &inspect.Snapshot{
		Version: inspect.Version, Process: inspect.Process{PID: pid, Program: "app", Host: "here"},
		Buses: []inspect.Bus{{
			Identity:     inspect.Identity{ID: fmt.Sprint("b", pid), Epoch: 1, Since: since},
			Publications: []inspect.Publication{{Address: "g1", Counters: inspect.Counters{"messages_sent": sent, "packets_sent": sent}}},
			Groups:       []inspect.Group{{Address: "g2", Topics: 1, Joined: true, Counters: inspect.Counters{"missing": missing, "packets": missing, "lost": missing / 10}}},
			Causes:       []stats.CauseCount{{Cause: "fabric", Dropped: missing}},
			Events:       []inspect.Event{{Sequence: sent / 10, Kind: "publisher_up", Time: since}},
		}},
	}}
}

// Events of a peer in several groups are one row, with its name.
func TestEventsOfGroups(t *testing.T) {
	m, x := newModel(), app(1, start, 0, 0)
	b := &x.Snapshot.Buses[0]
	b.Events, b.Groups[0].Streams = nil, []inspect.Stream{{Publisher: "6afcf99b86e25b2d", Name: "pubA"}}
	for i := range uint64(16) {
		b.Events = append(b.Events, inspect.Event{Sequence: i + 1, Kind: "publisher_up", Publisher: "6afcf99b86e25b2d", Group: fmt.Sprint("g", i), Text: fmt.Sprint("publisher up: 6afcf99b86e25b2d (group g", i, ")")})
	}
	if f := m.update(start, []inspect.Seen{x}, nil); len(f.Events) != 1 || f.Events[0].Text != "publisher up: pubA (16 groups)" || f.Events[0].Times != 16 {
		t.Errorf("events %+v, want one of 16 groups", f.Events)
	}
}

// Rates are differences to the second before, not totals, even if a bus did not answer for a while.
// All counts of a new bus belong to its first second.
func TestRates(t *testing.T) {
	old, silent := start.Add(-time.Hour), errors.New("silent")
	m := newModel()
	for i, c := range []struct {
		seen               []inspect.Seen
		err                error
		published, missing float64
		events             uint64
	}{
		{[]inspect.Seen{app(1, old, 1000, 50)}, nil, 0, 0, 1},
		{[]inspect.Seen{app(1, old, 1500, 60)}, nil, 500, 10, 2},
		{[]inspect.Seen{app(1, old, 1500, 60)}, nil, 0, 0, 2},
		{[]inspect.Seen{{Socket: "/run/1", Err: os.ErrDeadlineExceeded}}, nil, 0, 0, 2},
		{[]inspect.Seen{app(1, old, 1600, 60)}, nil, 100, 0, 3},
		{nil, silent, 0, 0, 3},
		{[]inspect.Seen{app(1, old, 1700, 60), app(2, second(6), 30, 5)}, nil, 130, 5, 5},
		{[]inspect.Seen{app(2, second(6), 40, 5), app(3, old, 9000, 9)}, nil, 10, 0, 7},
		{nil, nil, 0, 0, 7},
	} {
		f := m.update(second(i), c.seen, c.err)
		events := uint64(0) // equal ones share one row
		for _, e := range f.Events {
			events += e.Times
		}
		if f.Point[1] != c.published || f.Point[3] != c.missing || events != c.events || len(f.Events) != len(m.events) || len(f.Events) > 3 || f.Sequence != uint64(i+1) {
			t.Errorf("second %d: %v published, %v missing, %d events %+v; want %v, %v, %d", i, f.Point[1], f.Point[3], events, f.Events, c.published, c.missing, c.events)
		}
		if len(c.seen) != len(f.Processes) || (c.err != nil) != (f.Error != "") {
			t.Errorf("second %d: processes %v, error %q, want %d and an error: %v", i, f.Processes, f.Error, len(c.seen), c.err != nil)
		}
		if i == 3 && (f.Processes[0].Name != "app[1]" || f.Processes[0].Error == "") {
			t.Errorf("a process that does not answer is %+v", f.Processes[0])
		}
		if _, err := json.Marshal(f); err != nil {
			t.Error(err)
		}
	}
}

// Missing packets are lost on the way or on this host, however many datagrams this host drops.
func TestWherePacketsAreLost(t *testing.T) {
	m := newModel()
	for i, n := range []uint64{0, 1} {
		x := app(1, start, 10, 0)
		b := &x.Snapshot.Buses[0]
		b.Groups[0].Counters = inspect.Counters{"missing": 12 * n, "repaired": 9 * n, "late": n, "lost": 2 * n}
		b.Causes = []stats.CauseCount{{Cause: "fabric", Dropped: 4 * n}, {Cause: "socket_overflow", Dropped: 1000 * n}, {Cause: "slow_consumer", Dropped: 500 * n, Gaps: n, Messages: 800 * n}}
		if p := m.update(second(i), []inspect.Seen{x}, nil).Point; i == 1 && !slices.Equal(p[3:8], []float64{12, 10, 800, 4, 7}) {
			t.Errorf("missing, repaired or late, lost, on the way, here: %v, want 12, 10, 800, 4, 7", p[3:8])
		}
	}
}

// Links show the flow of messages, and for a while that some were missing or lost.
func TestLinks(t *testing.T) {
	m := newModel()
	links := func(at int, sent, missing uint64) string {
		f := m.update(second(at), []inspect.Seen{app(1, start, sent, missing)}, nil)
		s := ""
		for _, l := range f.Map.Links {
			s += fmt.Sprintf("%s-%s %v %s; ", l.From, l.To, l.Rate, l.Style)
		}
		return s
	}
	for _, c := range []struct {
		at            int
		sent, missing uint64
		want          string
	}{
		{0, 10, 5, "gg2-shere/1 0 idle; pb1-gg1 0 idle; "},
		{1, 30, 9, "gg2-shere/1 4 missing; pb1-gg1 20 flows; "},
		{2, 30, 9, "gg2-shere/1 0 missing; pb1-gg1 0 idle; "},
		{9, 30, 9, "gg2-shere/1 0 idle; pb1-gg1 0 idle; "},
		{10, 30, 19, "gg2-shere/1 10 lost; pb1-gg1 0 idle; "},
		{60, 30, 19, "gg2-shere/1 0 lost; pb1-gg1 0 idle; "},
		{71, 30, 19, "gg2-shere/1 0 idle; pb1-gg1 0 idle; "},
	} {
		if got := links(c.at, c.sent, c.missing); got != c.want {
			t.Errorf("second %d: %s, want %s", c.at, got, c.want)
		}
	}
}

// The size of a frame is limited, however many buses there are.
func TestFrameIsBounded(t *testing.T) {
	var seen []inspect.Seen
	for pid := range 500 {
		x := app(pid, start, 10, 10)
		x.Snapshot.Buses[0].Publications[0].Address = fmt.Sprint("g", pid)
		x.Snapshot.Buses[0].Publications[0].Subscribers = []inspect.Subscriber{{ID: fmt.Sprint(pid), Behind: 1 << 20, Holds: true}}
		x.Snapshot.Buses[0].Losses = &inspect.LossRecord{Losses: []inspect.Loss{{First: start, Last: start, Cause: "gone", Publisher: "1", Times: 1}}}
		seen = append(seen, x)
	}
	m := newModel()
	f := m.update(second(1), seen, nil)
	if len(m.events) > maxEvents || len(f.Processes) > maxProcesses || len(f.Findings) > maxFindings || len(f.Slow) > maxSlow || len(f.Events) > maxEvents || len(f.Map.Publishers) > maxNodes || f.Map.Beyond[1] != 500-maxNodes {
		t.Errorf("%d processes, %d findings, %d slow, %d events, %d publishers, beyond %v", len(f.Processes), len(f.Findings), len(f.Slow), len(f.Events), len(f.Map.Publishers), f.Map.Beyond)
	}
	if text, err := json.Marshal(f); err != nil || len(text) > 256<<10 {
		t.Errorf("a frame has %d bytes, error %v, want at most 256 KiB", len(text), err)
	}
}

// A frame is made in little time, however many groups and losses a bus has.
func TestLargeAnswersAreCheap(t *testing.T) {
	b := inspect.Bus{Losses: &inspect.LossRecord{Losses: make([]inspect.Loss, 4096)}, Groups: make([]inspect.Group, 100_000)}
	for i := range b.Losses.Losses {
		b.Losses.Losses[i] = inspect.Loss{Last: start, Cause: "released", Group: fmt.Sprint("g", i), Times: 1, Messages: 1}
	}
	for i := range b.Groups {
		b.Groups[i] = inspect.Group{Address: fmt.Sprint("g", i), Topics: 1}
	}
	update := func() (f *Frame, elapsed time.Duration) {
		began := testenv.ProcessorTime()
		f = newModel().update(start, []inspect.Seen{{Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: 1}, Buses: []inspect.Bus{b}}}}, nil)
		return f, testenv.ProcessorTime() - began
	}
	f, elapsed := update()
	if len(f.Map.Links) == 0 || f.Map.Links[0].Gone != 1 {
		t.Errorf("links %+v, want the first with 1 gone", f.Map.Links)
	}
	b.Losses = nil
	if _, without := update(); elapsed > 3*without+time.Second {
		t.Errorf("it took %v of processor time, and %v without losses, want at most thrice and a second", elapsed, without)
	}
}

// The percentiles of a point cover the delays measured since the second before.
func TestPercentilesOverTime(t *testing.T) {
	m := newModel()
	for i, c := range []struct {
		buckets  []stats.Bucket
		p50, p99 float64
	}{
		{[]stats.Bucket{{Index: -320, Count: 1000}}, 0, 0}, // from before
		{[]stats.Bucket{{Index: -320, Count: 1100}}, 976.5625, 976.5625},
		{[]stats.Bucket{{Index: -320, Count: 1190}, {Index: 0, Count: 10}}, 976.5625, 1e6},
		{[]stats.Bucket{{Index: -320, Count: 1190}, {Index: 0, Count: 10}}, 0, 0},
	} {
		seen := app(1, start.Add(-time.Hour), 1, 0)
		seen.Snapshot.Buses[0].Delivery.Buckets = c.buckets
		p := m.update(second(i), []inspect.Seen{seen}, nil).Point
		if p[12] != c.p50 || p[14] != c.p99 || p[8] != 0 {
			t.Errorf("second %d: delivery %v µs, repair %v; want %v and %v", i, p[12:15], p[8:11], c.p50, c.p99)
		}
	}
}
