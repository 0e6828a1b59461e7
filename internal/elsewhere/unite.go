package elsewhere

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// busKey is an instance of a bus, wherever it is read.
type busKey struct {
	id    string
	epoch uint64
}

// processKey is a process, wherever it is read.
type processKey struct {
	host    string
	pid     int
	started time.Time
}

// unite leaves out what is there twice: a process may be read at its socket and through a fanfare
// web, or through two. What comes first stays, which is what this host says itself.
func unite(all []inspect.Seen) []inspect.Seen {
	failed, buses, processes := make(map[string]bool), make(map[busKey]bool), make(map[processKey]bool)
	var kept []inspect.Seen
	for _, s := range all {
		if s.Snapshot == nil {
			if !failed[s.Socket] {
				failed[s.Socket], kept = true, append(kept, s)
			}
			continue
		}
		snapshot := *s.Snapshot
		snapshot.Buses = nil
		for _, b := range s.Snapshot.Buses {
			k := busKey{b.ID, b.Epoch}
			if !buses[k] {
				buses[k], snapshot.Buses = true, append(snapshot.Buses, b)
			}
		}
		k := processKey{snapshot.Process.Host, snapshot.Process.PID, snapshot.Process.Started.UTC()}
		known := processes[k] || len(s.Snapshot.Buses) > 0
		if len(snapshot.Buses) == 0 && known {
			continue
		}
		processes[k], s.Snapshot = true, &snapshot
		kept = append(kept, s)
	}
	return kept
}
