package web

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/histogram"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Of processes that have ended nothing is kept, also while another place does not answer; of those
// that cannot be asked their counters are, so that rates go on from there.
func TestEndedProcessesAreForgotten(t *testing.T) {
	m, deaf := newModel(), errors.New("it does not answer")
	far := func(pid int) inspect.Seen {
		x := app(pid, start, 10, 0)
		x.Socket = "trade2:9465 " + x.Socket
		return x
	}
	m.take(second(0), []inspect.Seen{app(1, start, 10, 0), app(2, start, 10, 0), far(3)}, nil)
	for i := range 100 {
		m.take(second(1+i), []inspect.Seen{app(100+i, start, 10, 0), {Socket: "/run/2", Err: deaf}, {Socket: "trade2:9465", Err: deaf}}, nil)
		if len(m.buses) != 3 || len(m.names) > 2 {
			t.Fatalf("second %d: %d buses and %d names are kept", i, len(m.buses), len(m.names))
		}
	}
	m.take(second(200), nil, deaf) // nobody can be asked
	f := m.take(second(201), []inspect.Seen{app(2, start, 17, 0), far(3)}, nil)
	if f.Point[1] != 7 || f.Processes[0].Name != "app[2]" || len(m.buses) != 2 || len(m.names) != 2 {
		t.Errorf("%v published, %+v, %d buses and %d names", f.Point[1], f.Processes, len(m.buses), len(m.names))
	}
}

// However many do not answer, so many buses are kept and no more.
func TestKeptBusesAreBounded(t *testing.T) {
	m := newModel()
	var deaf []inspect.Seen
	for i := range 6 {
		seen := slices.Clone(deaf)
		for j := range 1000 {
			x := app(1000*i+j, start, 1, 0)
			x.Socket = fmt.Sprint("trade2:9465 ", x.Snapshot.Process.PID)
			seen = append(seen, x)
			deaf = append(deaf, inspect.Seen{Socket: x.Socket, Err: errors.New("deaf")})
		}
		m.take(second(i), seen, nil)
	}
	if len(m.buses) > maxKept+1000 {
		t.Errorf("%d buses are kept", len(m.buses))
	}
	m, deaf = newModel(), nil
	for i := range 300 {
		x := app(i, start, 1, 0)
		x.Snapshot.Buses[0].Repair.Buckets = make([]histogram.Bucket, 4097)
		m.take(second(i), append(slices.Clone(deaf), x), nil)
		deaf = append(deaf, inspect.Seen{Socket: x.Socket, Err: errors.New("deaf")})
	}
	if len(m.buses) > 1+maxKeptBuckets/4097 {
		t.Errorf("%d buses with 4097 buckets each are kept", len(m.buses))
	}
}

// What another host says of a bus that is one of this host's, too, changes nothing of what that says
// itself: also while that does not answer.
func TestHostsAreApart(t *testing.T) {
	m, own := newModel(), app(1, start.Add(-time.Hour), 10, 0)
	evil := app(1, start.Add(-time.Hour), math.MaxUint64, 0)
	evil.Socket, evil.Snapshot.Process.At, evil.Snapshot.Buses[0].Events[0].Sequence = "evil:9465 x", "evil", math.MaxUint64
	m.take(second(0), []inspect.Seen{own}, nil)
	m.take(second(1), []inspect.Seen{{Socket: own.Socket, Err: errors.New("deaf")}, evil}, nil)
	f := m.take(second(2), []inspect.Seen{app(1, start.Add(-time.Hour), 50, 0)}, nil)
	if f.Point[1] != 40 || len(f.Events) != 1 {
		t.Errorf("%v published a second, %d events; want 40 and 1", f.Point[1], len(f.Events))
	}
	more := app(2, second(2), 7, 0)
	evil.Snapshot.Buses[0].Since, evil.Snapshot.Buses[0].Epoch = second(3), 2
	if f := m.take(second(3), []inspect.Seen{more, evil}, nil); f.Point[1] < 1e19 {
		t.Errorf("%v published a second: the sum has wrapped", f.Point[1])
	}
}

// A bus of another host that was there before is not counted as new, though its clock is ahead.
func TestClockAhead(t *testing.T) {
	m := newModel()
	m.take(second(0), nil, nil)
	x := app(1, second(500), 1000, 0)
	x.Snapshot.Process.At, x.Snapshot.Time = "trade2", second(601)
	if f := m.take(second(1), []inspect.Seen{x}, nil); f.Point[1] != 0 {
		t.Errorf("%v published a second", f.Point[1])
	}
	y := app(2, second(601).Add(500*time.Millisecond), 1000, 0)
	y.Snapshot.Process.At, y.Snapshot.Time = "trade2", second(602)
	if f := m.take(second(2), []inspect.Seen{y}, nil); f.Point[1] != 1000 {
		t.Errorf("%v published a second, by a bus that is new", f.Point[1])
	}
}
