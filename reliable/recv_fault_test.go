package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Malformed packets of a stream are reported; those of unknown publishers are only counted. docs/protocol §10.3.
func TestMalformedPacketsAreReported(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	bad := wiretest.Data(1, wiretest.Run(wire.RunMessages, "a.b", 0, "\x09\x00short"))
	r.Handle(Instant(time.Hour), 1, bad) // an unknown stream
	if len(l.faults) != 0 {
		t.Errorf("reported %v", l.faults)
	}
	r.Handle(Instant(time.Hour), 1, wiretest.Data(0, nil))
	for range 5 {
		r.Handle(Instant(time.Hour), 1, bad)
	}
	large := wiretest.Data(1, nil)
	large[40]-- // another packet size
	large[41]++
	r.Handle(Instant(time.Hour), 1, large)
	if len(l.faults) != 4 || l.faults[2] != (events.FaultError{Publisher: 7, Epoch: 3, Fault: events.FaultPacket, Count: 4}) || r.Stats().Malformed != 6 ||
		l.faults[3] != (events.FaultError{Publisher: 7, Epoch: 3, Fault: events.FaultUnsupported, Count: 1}) {
		t.Errorf("reported %v, %d counted", l.faults, r.Stats().Malformed)
	}
}
