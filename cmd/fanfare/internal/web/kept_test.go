package web

import (
	"errors"
	"math"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// No data of ended processes are kept, even while others do not answer. Counters of processes that
// do not answer are kept, so that rates continue from them.
func TestEndedProcessesAreForgotten(t *testing.T) {
	m, deaf := newModel(), errors.New("it does not answer")
	m.update(second(0), []inspect.Seen{app(1, start, 10, 0), app(2, start, 10, 0), app(3, start, 10, 0)}, nil)
	for i := range 100 {
		m.update(second(1+i), []inspect.Seen{app(100+i, start, 10, 0), {Socket: "/run/2", Err: deaf}, {Socket: "/run/3", Err: deaf}}, nil)
		if len(m.buses) != 3 || len(m.names) > 3 {
			t.Fatalf("second %d: %d buses and %d names are kept, want 3 and at most 3", i, len(m.buses), len(m.names))
		}
	}
	m.update(second(200), nil, deaf) // no process answers
	f := m.update(second(201), []inspect.Seen{app(2, start, 17, 0), app(3, start, 10, 0)}, nil)
	if f.Point[1] != 7 || f.Processes[0].Name != "app[2]" || len(m.buses) != 2 || len(m.names) != 2 {
		t.Errorf("%v published, processes %+v, %d buses and %d names, want 7, app[2], 2 and 2", f.Point[1], f.Processes, len(m.buses), len(m.names))
	}
}

// A huge counter that one process reports does not hide the counters of another.
func TestSumsDoNotWrap(t *testing.T) {
	m := newModel()
	m.update(second(0), nil, nil)
	if f := m.update(second(1), []inspect.Seen{app(1, second(1), 7, 0), app(2, second(1), math.MaxUint64, 0)}, nil); f.Point[1] < 1e19 {
		t.Errorf("%v published a second: the sum has wrapped", f.Point[1])
	}
}
