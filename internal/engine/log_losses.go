package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// lossNotes limits lines about lost packets. While losses are few each has a line; then one line per second adds up the
// suppressed ones. Loop only.
type lossNotes struct {
	lines   logLimiter
	packets uint64 // lost since the last line
}

// lossesAtOnce is how many losses in a row have a line each.
const lossesAtOnce = 8

func newLossNotes() lossNotes { return lossNotes{lines: newLogLimiter(lossesAtOnce)} }

func (n *lossNotes) allow(now reliable.Instant, count uint64) (lines, packets uint64, ok bool) {
	if lines, ok = n.lines.allow(now); !ok {
		n.packets += count
		return 0, 0, false
	}
	packets, n.packets = n.packets, 0
	return lines, packets, true
}

// lossOf logs packets that are lost permanently.
func (j *journal) lossOf(from *reliable.Origin, group string, first, count uint64, cause events.Cause) {
	lines, packets, ok := j.losing.allow(j.clock.now(), count)
	if !ok {
		return
	}
	args := append(publisherArgs(from, group), "first", first, "count", count, "cause", cause)
	if lines > 0 {
		args = append(args, report.LeftOut, lines, "packets_left_out", packets)
	}
	report.PacketsLost.Log(j.log, args...)
}
