package losses

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// far is a process of another host, as package elsewhere has it.
func far(at string, pid int, id string, r *inspect.LossRecord) inspect.Seen {
	s := seen(pid, r)
	s.Socket = at + ":9465 /run/" + fmt.Sprint(pid)
	s.Snapshot.Process.At, s.Snapshot.Buses[0].ID = at, id
	return s
}

func deaf(socket string) inspect.Seen { return inspect.Seen{Socket: socket, Err: errRefused} }

// What another host says of a bus that is one of this host's, too, changes nothing of what that says
// itself.
func TestNewsOfHostsAreApart(t *testing.T) {
	own := seen(1, &inspect.LossRecord{To: noon, Losses: []inspect.Loss{gap(noon, "gone", "md.a", 3)}})
	x := gap(noon, "gone", "md.a", math.MaxInt64)
	x.Times = math.MaxUint64
	n := NewNews([]inspect.Seen{deaf("s")}, noon)
	n.Take([]inspect.Seen{deaf("s"), far("evil", 1, own.Snapshot.Buses[0].ID, &inspect.LossRecord{To: noon, Losses: []inspect.Loss{x}})}, noon)
	if found := n.Take([]inspect.Seen{own}, noon); len(found) != 1 || found[0].Messages != 3 {
		t.Errorf("%+v", found)
	}
}

// Of processes that have ended nothing is kept, though others do not answer; and of those that do
// not answer so much and no more, those of this host first.
func TestNewsAreBounded(t *testing.T) {
	testenv.Slow(t)
	record := &inspect.LossRecord{To: noon, Losses: []inspect.Loss{gap(noon, "gone", "md.a", 3)}}
	n := NewNews([]inspect.Seen{seen(1, record)}, noon)
	for i := range 10 {
		n.Take([]inspect.Seen{far("h", i, fmt.Sprint(i), record), deaf("s")}, noon)
		if len(n.buses) != 2 {
			t.Fatalf("%d buses are kept", len(n.buses))
		}
	}
	all := []inspect.Seen{deaf("s"), deaf("h:9465")}
	for i := range 6 {
		looks := all
		for j := range 1000 {
			x := far("h", 1000*i+j, fmt.Sprint(i, j), record)
			looks = append(looks, x)
			all = append(all, deaf(x.Socket))
		}
		n.Take(looks, noon)
	}
	if len(n.buses) > maxKept+1000 {
		t.Errorf("%d buses are kept", len(n.buses))
	}
	if found := n.Take([]inspect.Seen{seen(1, record)}, noon); len(found) != 0 {
		t.Errorf("what is known of this host was forgotten: %+v", found)
	}
	large := &inspect.LossRecord{To: noon, Losses: make([]inspect.Loss, 4096)}
	for i := range large.Losses {
		large.Losses[i] = gap(noon.Add(time.Duration(i)), "gone", "md.a", 3)
	}
	var looks []inspect.Seen
	for i := range 1 + maxKeptLosses/4096 {
		looks = append(looks, far("h", i, "large", large))
	}
	n.Take(looks, noon)
	n.Take([]inspect.Seen{deaf("h:9465")}, noon)
	if len(n.buses) != maxKeptLosses/4096 {
		t.Errorf("%d buses with 4096 losses each are kept", len(n.buses))
	}
}

// However many hints there are, so many are told, those of this host first, and none again and again.
func TestHintsAreBounded(t *testing.T) {
	local := onInterface(1, "d0", "x", true, 9)
	n := NewNews(nil, noon)
	for i := range 100 {
		all := make([]inspect.Seen, 0, 101)
		for j := range 100 {
			x := onInterface(2+i*100+j, "d0", "x", true, 9)
			x.Snapshot.Process.At, x.Snapshot.Time = "evil", noon.AddDate(7000, 0, 0)
			all = append(all, x)
		}
		found := n.Take(append(all, local), noon.Add(time.Duration(i)*100*time.Millisecond))
		if here := len(found) > 0 && found[0].Process == "app[1]" || len(found) > 100; here != (i == 0) {
			t.Fatalf("look %d: %d hints, the first of %s", i, len(found), found[0].Process)
		}
		if len(n.hints) > 2*maxHints {
			t.Fatalf("%d hints are remembered", len(n.hints))
		}
	}
	if found := n.Take([]inspect.Seen{local}, noon.Add(200*time.Second)); len(found) != 0 {
		t.Errorf("what lasts is told again: %+v", found)
	}
	n.Take(nil, noon.Add(261*time.Second))
	n.Take(nil, noon.Add(262*time.Second))
	if found := n.Take([]inspect.Seen{local}, noon.Add(263*time.Second)); len(found) != 1 {
		t.Errorf("what was away for a minute is told %d times", len(found))
	}
}

// What one process says it has lost does not hide what another has, however much it is.
func TestSumsDoNotWrap(t *testing.T) {
	x := gap(noon, "gone", "md.a", math.MaxUint64)
	x.Times = math.MaxUint64 - 2
	r := Make([]inspect.Seen{
		seen(1, &inspect.LossRecord{To: noon, Losses: []inspect.Loss{gap(noon, "gone", "md.a", 1), gap(noon, "released", "md.a", 1), gap(noon, "deadline", "md.a", 1)}}),
		far("evil", 2, "x", &inspect.LossRecord{To: noon, Losses: []inspect.Loss{x}}),
	}, at(-60, 0), noon)
	if gaps, messages, _ := r.Messages(); gaps != math.MaxUint64 || messages != math.MaxUint64 {
		t.Errorf("%d messages in %d gaps", messages, gaps)
	}
}

// Whatever processes say within the bounds of a snapshot, to look at it takes no long time.
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
		if took := testenv.ProcessorTime() - began; took > 10*time.Second || size > 8<<20 {
			t.Errorf("%s: it took %v of processor time, and advice has %d bytes", name, took, size)
		} else {
			t.Logf("%s: %v, %d bytes", name, took, size)
		}
	}
}

// What another host has lost lately is told, though its clock is apart from this one's.
func TestClocksApart(t *testing.T) {
	for _, ahead := range []time.Duration{-2 * time.Hour, 0, 2 * time.Hour} {
		clock := noon.Add(ahead)
		record := &inspect.LossRecord{
			From: clock.Add(-time.Hour), To: clock, Losses: []inspect.Loss{gap(clock.Add(-10*time.Second), "gone", "md.a", 3), gap(clock.Add(-10*time.Minute), "gone", "md.b", 5)},
			Minutes: []inspect.LossMinute{{Start: clock.Add(-30 * time.Second), Missing: 7}, {Start: clock.Add(-10 * time.Minute), Missing: 9}},
		}
		x := far("h", 1, "b", record)
		r := Make([]inspect.Seen{x}, noon.Add(-time.Minute), noon)
		if _, messages, _ := r.Messages(); messages != 3 || r.Repairs.Missing != 7 || !r.Processes[0].From.Equal(noon.Add(-time.Hour)) {
			t.Errorf("%v ahead: %d messages and %d packets were lost, from %v on", ahead, messages, r.Repairs.Missing, r.Processes[0].From)
		}
		if lately := LostLately(&x.Snapshot.Buses[0], Clock(x.Snapshot, noon)); len(lately) != 1 {
			t.Errorf("%v ahead: %d lately", ahead, len(lately))
		}
	}
}
