package lossrecord

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var start = time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)

// after returns start plus a duration.
func after(text string) time.Time {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return start.Add(d)
}

func gap(cause, topic string, messages uint64) stats.LossEntry {
	return stats.LossEntry{Cause: cause, Topic: topic, Publisher: 7, Messages: messages}
}

// list returns entries as text: from, to, cause, topic, times, messages.
func list(s Snapshot) string {
	var b strings.Builder
	for _, e := range s.Entries {
		fmt.Fprintf(&b, "%v-%v %s %s %dx%d; ", e.First.Sub(start), e.Last.Sub(start), e.Cause, e.Topic, e.Times, e.Messages)
	}
	for _, o := range s.Older {
		fmt.Fprintf(&b, "older %v-%v %s %dx%d; ", o.First.Sub(start), o.Last.Sub(start), o.Cause, o.Times, o.Messages)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// Losses with the same publisher, topic and cause within a minute of the first are one entry, others are not, and after
// an hour they are forgotten.
func TestEntries(t *testing.T) {
	type add struct {
		at string
		e  stats.LossEntry
	}
	other := gap("gone", "a", 1)
	other.Publisher = 8
	for _, c := range []struct {
		name string
		adds []add
		look string
		want string
	}{
		{"nothing", nil, "1m", ""},
		{"one", []add{{"1s", gap("gone", "a", 3)}}, "1m", "1s-1s gone a 1x3"},
		{"together", []add{{"1s", gap("gone", "a", 3)}, {"2s", gap("gone", "b", 1)}, {"60s", gap("gone", "a", 4)}}, "2m", "1s-1m0s gone a 2x7; 2s-2s gone b 1x1"},
		{"a minute later", []add{{"1s", gap("gone", "a", 3)}, {"61s", gap("gone", "a", 4)}}, "2m", "1s-1s gone a 1x3; 1m1s-1m1s gone a 1x4"},
		{"other cause", []add{{"1s", gap("gone", "a", 3)}, {"1s", gap("deadline", "a", 4)}}, "2m", "1s-1s gone a 1x3; 1s-1s deadline a 1x4"},
		{"other publisher", []add{{"1s", gap("gone", "a", 3)}, {"2s", other}}, "2m", "1s-1s gone a 1x3; 2s-2s gone a 1x1"},
		{"an hour later", []add{{"1s", gap("gone", "a", 3)}, {"2m", gap("gone", "a", 4)}}, "1h1m", "2m0s-2m0s gone a 1x4"},
		{"in order", []add{{"1s", gap("gone", "a", 1)}, {"2s", gap("deadline", "a", 1)}, {"3m", gap("gone", "a", 1)}}, "4m", "1s-1s gone a 1x1; 2s-2s deadline a 1x1; 3m0s-3m0s gone a 1x1"},
	} {
		r := New(start)
		for _, a := range c.adds {
			r.Add(after(a.at), a.e)
		}
		if got := list(r.Snapshot(after(c.look))); got != c.want {
			t.Errorf("%s: record %s, want %s", c.name, got, c.want)
		}
	}
}

// With many losses a record keeps a limited number of entries for each cause and counts the rest.
func TestBounds(t *testing.T) {
	r := New(start)
	for i := range 3 * MaxEntries {
		r.Add(after(fmt.Sprintf("%ds", i)), gap("gone", fmt.Sprint("t", i), 2))
	}
	r.Add(after("300s"), gap("publisher_lost", "a", 1))
	s := r.Snapshot(after("301s"))
	if len(s.Entries) != MaxEntries+1 || s.Entries[0].Topic != fmt.Sprint("t", 2*MaxEntries) {
		t.Errorf("%d entries, the first of %s, want %d, the first of t%d", len(s.Entries), s.Entries[0].Topic, MaxEntries+1, 2*MaxEntries)
	}
	want := stats.OlderLosses{
		Cause: "gone", First: start, Last: after(fmt.Sprintf("%ds", 2*MaxEntries-1)), Times: 2 * MaxEntries, Messages: 4 * MaxEntries,
	}
	if len(s.Older) != 1 || s.Older[0] != want {
		t.Errorf("older %+v, want %+v", s.Older, want)
	}
	if s = r.Snapshot(after("2h")); len(s.Entries) != 0 || len(s.Older) != 0 || !s.Since.Equal(after("1h")) {
		t.Errorf("record two hours later: %+v, want no entries", s)
	}
	for i := range 2 * MaxCauses {
		r.Add(after("2h"), gap(fmt.Sprint("cause", i), "a", 1))
	}
	if s = r.Snapshot(after("2h")); len(s.Entries)+int(s.Dropped) != 2*MaxCauses || len(r.causes) != MaxCauses {
		t.Errorf("%d entries and %d left out, want %d in all; %d causes, want %d", len(s.Entries), s.Dropped, 2*MaxCauses, len(r.causes), MaxCauses)
	}
}

// The growth of counters is in the minute of the previous sample, and minutes without growth are omitted.
func TestMinutes(t *testing.T) {
	r := New(start)
	way := func(name string, repaired, lost uint64) stats.LossWay {
		return stats.LossWay{Publisher: 1, Epoch: 1, Group: name, Name: name, Repaired: repaired, Lost: lost}
	}
	r.Sample(after("10s"), []uint64{1, 0}, []stats.LossWay{way("a", 1, 0)})
	r.Sample(after("20s"), []uint64{3, 0}, []stats.LossWay{way("a", 3, 0), way("b", 1, 5)})
	r.Sample(after("40s"), []uint64{3, 0}, []stats.LossWay{way("a", 3, 0), way("b", 1, 5)})
	r.Sample(after("4m"), []uint64{3, 0}, []stats.LossWay{way("b", 1, 5)})
	r.Sample(after("4m10s"), []uint64{3, 9}, []stats.LossWay{way("b", 2, 5)})
	s := r.Snapshot(after("5m"))
	for i := range s.Minutes {
		s.Minutes[i].at = time.Time{}
	}
	got := fmt.Sprint(s.Minutes)
	at := func(text string) time.Time { return after(text).Truncate(time.Minute) }
	want := fmt.Sprint([]Minute{
		{at("0s"), time.Time{}, []uint64{3, 0}, []stats.LossWay{way("b", 1, 5), way("a", 3, 0)}, 0, 0},
		{at("4m"), time.Time{}, []uint64{0, 9}, []stats.LossWay{way("b", 1, 0)}, 0, 0},
	})
	if got != want {
		t.Errorf("record %s\nwant %s", got, want)
	}
	if s = r.Snapshot(after("1h2m")); len(s.Minutes) != 1 {
		t.Errorf("minutes an hour later: %v, want 1", s.Minutes)
	}
}

// Of many publishers those with the most losses are listed, and the others counted.
func TestWays(t *testing.T) {
	r := New(start)
	var ways []stats.LossWay
	all := uint64(0)
	for i := range uint64(3 * MaxWays) {
		ways = append(ways, stats.LossWay{Publisher: events.ID(i), Epoch: 1, Group: "g", Repaired: i, Lost: 1})
		all += i + 1
	}
	r.Sample(after("1s"), nil, ways)
	m := r.Snapshot(after("1m")).Minutes[0]
	sum := m.OtherRepaired + m.OtherLost
	for _, w := range m.Ways {
		sum += total(&w)
	}
	if len(m.Ways) != MaxWays || m.Ways[0].Publisher != 3*MaxWays-1 || sum != all {
		t.Errorf("%d publishers, %d packets, want %d and all %d", len(m.Ways), sum, MaxWays, all)
	}
	if !slices.IsSortedFunc(m.Ways, func(a, b stats.LossWay) int { return int(total(&b)) - int(total(&a)) }) {
		t.Errorf("ways are not sorted by packets: %v", m.Ways)
	}
}

// The memory of a record is as documented.
func TestMemory(t *testing.T) {
	minute := unsafe.Sizeof(Minute{}) + 100*unsafe.Sizeof(uint64(0)) + MaxWays*unsafe.Sizeof(stats.LossWay{})
	if n := MaxCauses*MaxEntries*unsafe.Sizeof(stats.LossEntry{}) + 61*minute; n > 750<<10 {
		t.Errorf("a record takes %d bytes, want at most %d", n, 750<<10)
	}
}

// A loss that belongs to an existing entry allocates nothing.
func TestAllocs(t *testing.T) {
	r := New(start)
	e := gap("gone", "a", 1)
	r.Add(start, e)
	if n := testing.AllocsPerRun(100, func() { r.Add(start, e) }); n != 0 {
		t.Errorf("%v allocations a loss, want none", n)
	}
}
