package web

import (
	"errors"
	"fmt"
	"slices"
	"testing"

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
	if len(m.buses) > maxKept {
		t.Errorf("%d buses are kept", len(m.buses))
	}
}
