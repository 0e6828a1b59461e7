package losses

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

func deaf(socket string) inspect.Seen { return inspect.Seen{Socket: socket, Err: errRefused} }

// State of ended processes is dropped, even if other processes do not answer.
func TestNewsForgetTheEnded(t *testing.T) {
	record := &inspect.LossRecord{To: noon, Losses: []inspect.Loss{gap(noon, "gone", "md.a", 3)}}
	n := NewNews([]inspect.Seen{seen(1, record)}, noon)
	for i := range 10 {
		x := seen(2+i, record)
		x.Socket = "other"
		n.Take([]inspect.Seen{x, deaf("s")}, noon)
		if len(n.buses) != 2 {
			t.Fatalf("%d buses remembered, want 2", len(n.buses))
		}
	}
	if found := n.Take([]inspect.Seen{seen(1, record)}, noon); len(found) != 0 {
		t.Errorf("the state of a process that did not answer was dropped: %+v", found)
	}
}

// The number of reported hints is bounded, and none is repeated.
func TestHintsAreBounded(t *testing.T) {
	local := onInterface(1, "d0", "x", true, 9)
	n := NewNews(nil, noon)
	for i := range 100 {
		all := []inspect.Seen{local}
		for j := range 100 {
			all = append(all, onInterface(2+i*100+j, "d0", "x", true, 9))
		}
		found := n.Take(all, noon.Add(time.Duration(i)*100*time.Millisecond))
		if here := len(found) > 0 && found[0].Process == "app[1]" || len(found) > 100; here != (i == 0) {
			t.Fatalf("round %d: %d hints, the first of %s, want hints of app[1] only in round 0", i, len(found), found[0].Process)
		}
		if len(n.hints) > 2*maxHints {
			t.Fatalf("%d hints remembered, want at most %d", len(n.hints), 2*maxHints)
		}
	}
	if found := n.Take([]inspect.Seen{local}, noon.Add(200*time.Second)); len(found) != 0 {
		t.Errorf("a persisting hint is reported again: %+v", found)
	}
	n.Take(nil, noon.Add(261*time.Second))
	n.Take(nil, noon.Add(262*time.Second))
	if found := n.Take([]inspect.Seen{local}, noon.Add(263*time.Second)); len(found) != 1 {
		t.Errorf("a hint that was absent for a minute is reported %d times, want once", len(found))
	}
}

// A huge loss reported by one process does not hide the losses of another.
func TestSumsDoNotWrap(t *testing.T) {
	x := gap(noon, "gone", "md.a", math.MaxUint64)
	x.Times = math.MaxUint64 - 2
	r := Make([]inspect.Seen{
		seen(1, &inspect.LossRecord{To: noon, Losses: []inspect.Loss{gap(noon, "gone", "md.a", 1), gap(noon, "released", "md.a", 1), gap(noon, "deadline", "md.a", 1)}}),
		seen(2, &inspect.LossRecord{To: noon, Losses: []inspect.Loss{x}}),
	}, at(-60, 0), noon)
	if gaps, messages, _ := r.Messages(); gaps != math.MaxUint64 || messages != math.MaxUint64 {
		t.Errorf("%d messages in %d gaps, want %d each", messages, gaps, uint64(math.MaxUint64))
	}
}

// Evaluating any snapshot within the bounds takes little time.
func TestHostileSnapshotsAreCheap(t *testing.T) {
	stops := &inspect.LossRecord{To: noon}
	for i := range 2000 {
		stops.Losses = append(stops.Losses, inspect.Loss{First: noon, Last: noon, Cause: "stood_still", Event: true, Leg: fmt.Sprint(i), Times: 1})
		stops.Losses = append(stops.Losses, inspect.Loss{First: noon, Last: noon, Cause: "gone", Leg: fmt.Sprint(i), Times: 1})
	}
	var sides []inspect.Seen
	for i := range 500 {
		pub, sub := onInterface(1+2*i, "d0", "x", true, 9), onInterface(2+2*i, "d1", "y", false, 9)
		for j := range 250 {
			pub.Snapshot.Buses[0].Topics = append(pub.Snapshot.Buses[0].Topics, inspect.Topic{Name: fmt.Sprint("a.", j)})
			sub.Snapshot.Buses[0].Subscriptions = append(sub.Snapshot.Buses[0].Subscriptions, inspect.Subscription{Topics: []string{fmt.Sprint("b.", j)}})
		}
		sides = append(sides, pub, sub)
	}
	for name, seen := range map[string][]inspect.Seen{"stops": {seen(1, stops)}, "sides": sides} {
		began := testenv.ProcessorTime()
		r := Make(seen, at(-60, 0), noon)
		size := 0
		for i := range r.Findings {
			size += len(r.Findings[i].Do)
		}
		if elapsed := testenv.ProcessorTime() - began; elapsed > 10*time.Second || size > 8<<20 {
			t.Errorf("%s: it took %v of processor time, and advice has %d bytes, want at most 10 s and 8 MiB", name, elapsed, size)
		} else {
			t.Logf("%s took %v of processor time, advice has %d bytes", name, elapsed, size)
		}
	}
}
