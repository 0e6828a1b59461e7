package cli

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// runningBuses are the buses of this host's processes, as far as this user may ask them, and which did not answer.
func runningBuses(ctx context.Context) (buses []doctor.Bus, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	seen, err := inspect.ReadAll(ctx)
	switch {
	case errors.Is(err, inspect.ErrOff):
		return nil, nil // there is no place where processes can be asked
	case err != nil:
		return nil, []string{printable(err.Error())}
	}
	for _, x := range seen {
		if x.Err != nil {
			silent = append(silent, printable(x.Socket+": "+losses.Unanswered(x.Err)))
			continue
		}
		for i := range x.Snapshot.Buses {
			b := &x.Snapshot.Buses[i]
			out := doctor.Bus{Process: printable(x.Snapshot.Process.Name()), Name: printable(b.Name), Open: b.Fabric.Open}
			for _, url := range b.URLs {
				out.URLs = append(out.URLs, printable(url))
			}
			buses = append(buses, out)
		}
	}
	return buses, silent
}
