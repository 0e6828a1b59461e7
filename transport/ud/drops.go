package ud

import (
	"sync"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/rdma"
)

// portDrops counts packets that reached the port and that no queue pair accepted, as the device reports
// for the whole port. Any goroutine may use it.
type portDrops struct {
	mu   sync.Mutex
	dev  rdma.Device // nil: not open yet, or closed
	port uint8
	last rdma.PortAttr // counters at the last update
	// Since open.
	pkeys, qkeys, dropped uint64
}

// update adds the device's counts since the last call, none if the device was removed. The caller holds mu.
func (d *portDrops) update() {
	if d.dev == nil {
		return
	}
	query := d.dev.Port
	if c, ok := d.dev.(rdma.PortCounting); ok {
		query = c.PortCounts
	}
	now, err := query(d.port)
	if err != nil {
		return
	}
	d.pkeys += increase(d.last.BadPKeys, now.BadPKeys)
	d.qkeys += increase(d.last.QKeyViolations, now.QKeyViolations)
	d.dropped += increase(d.last.Dropped, now.Dropped)
	d.last = now
}

// increase is by how much a counter has grown. Hardware counters have 16 bits, and a program that administers the port
// may reset them (IBTA 14.2.5.6).
func increase(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

func (d *portDrops) addTo(s *stats.Transport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.update()
	s.PKeyViolations += d.pkeys
	s.QKeyViolations += d.qkeys
	s.Unclaimed += d.dropped
}

// close reads the counters for the last time, before the device is closed.
func (d *portDrops) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.update()
	d.dev = nil
}
