package discovery

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// reports has the buses that were reported as configured differently: each is reported once for an epoch and a
// configuration. It bounds the reports that forged packets can cause.
type reports struct {
	buses  [reportsKept]reportedBus
	next   int // the next one to replace when all are in use
	budget allowance
}

type reportedBus struct {
	of       events.Instance
	last     theirs
	reported bool
	seen     int // consecutive packets with last
}

const (
	// reportsKept is the number of stored buses.
	reportsKept = 64
	// reportsAtOnce is the maximum burst of reports; then one is made every reportEvery.
	reportsAtOnce = 16
	reportEvery   = time.Second
	// confirmations is the number of consecutive packets that must have the same value if a damaged packet could have it.
	confirmations = 2
)

// due reports whether the configuration of a bus must be reported now. A value that a damaged packet could have must
// arrive twice.
func (x *reports) due(now reliable.Instant, of events.Instance, t theirs) bool {
	b := x.bus(of)
	if b.last != t {
		*b = reportedBus{of: of, last: t}
	}
	if b.reported {
		return false
	}
	if b.seen++; b.seen < confirmations && (t.version != wire.Version || t.noChecksum) {
		return false
	}
	b.reported = x.budget.take(now, reportsAtOnce, reportEvery)
	return b.reported
}

// done reports whether the configuration of a bus was reported before.
func (x *reports) done(of events.Instance, t theirs) bool {
	b := x.find(of)
	return b != nil && b.reported && b.last == t
}

func (x *reports) find(of events.Instance) *reportedBus {
	for i := range x.buses {
		if b := &x.buses[i]; b.of == of {
			return b
		}
	}
	return nil
}

// bus returns the record of a bus. If there is no room, a new one replaces the oldest.
func (x *reports) bus(of events.Instance) *reportedBus {
	if b := x.find(of); b != nil {
		return b
	}
	b := &x.buses[x.next]
	x.next = (x.next + 1) % len(x.buses)
	*b = reportedBus{of: of}
	return b
}

// allowance is a token bucket.
type allowance struct {
	at   reliable.Instant // when the last token was added
	left int
	used bool
}

// take takes a token, if there is one. The bucket holds burst tokens; one is added every interval.
func (a *allowance) take(now reliable.Instant, burst int, interval time.Duration) bool {
	if !a.used {
		a.used, a.at, a.left = true, now, burst
	}
	if n := int(now.Sub(a.at) / interval); n > 0 {
		a.left = min(burst, a.left+min(n, burst))
		a.at = a.at.Add(time.Duration(n) * interval)
	}
	if a.left == 0 {
		return false
	}
	a.left--
	return true
}
