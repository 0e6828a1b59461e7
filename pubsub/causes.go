package pubsub

import (
	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// CauseInfo describes one cause of dropped packets or of messages lost permanently: its name in metrics and commands,
// and the remedy.
type CauseInfo struct {
	Label  string // one short word that never changes
	Help   string // what it means
	Remedy string // what an operator does about it
	// Gap is the Cause of GapErrors; zero if this cause alone never loses messages.
	Gap   events.Cause
	cause *report.Cause
}

// Dropped is the number of packets that were dropped here, or lost on the way, for this cause, repaired afterwards or
// not. ok is false if this cause drops no packets.
func (c *CauseInfo) Dropped(s *stats.Bus) (n uint64, ok bool) { return read(c.cause.Dropped, s) }

// Lost is the number of packets that were given up for this cause. ok is false if this cause loses no packets.
func (c *CauseInfo) Lost(s *stats.Bus) (n uint64, ok bool) { return read(c.cause.Lost, s) }

func read(count func(*stats.Bus) uint64, s *stats.Bus) (n uint64, ok bool) {
	if count == nil {
		return 0, false
	}
	return count(s), true
}

// Causes returns all causes of drops and losses, in the order of a packet's path: first those why a packet was
// dropped, then those why it or its messages were given up.
func Causes() []CauseInfo {
	all := make([]CauseInfo, len(report.Causes))
	for i := range all {
		c := &report.Causes[i]
		all[i] = CauseInfo{c.Label, c.Help, report.Plain(c.Do), c.Gap, c}
	}
	return all
}

// countCauses returns what was counted of each cause, in the order of Causes.
func countCauses(s *stats.Bus) []stats.CauseCount {
	all := make([]stats.CauseCount, len(report.Causes))
	for i := range all {
		c, x := &report.Causes[i], &all[i]
		x.Cause = c.Label
		x.Dropped, _ = read(c.Dropped, s)
		x.Lost, _ = read(c.Lost, s)
		for _, l := range s.Lost {
			if c.Gap != 0 && l.Cause == c.Gap {
				x.Gaps, x.Messages = l.Gaps, l.Messages
			}
		}
	}
	return all
}

// dropNotes decides which drops are reported: of each cause the 1st, 2nd, 4th … packet. Loop only.
type dropNotes struct{ reported map[string]uint64 }

// note appends cause c to all if its count of dropped packets has reached the next power of two.
func (x *dropNotes) note(all []engine.Dropped, c *report.Cause, dropped uint64) []engine.Dropped {
	if c.Line == nil || !engine.Doubled(x.reported[c.Label], dropped) {
		return all
	}
	if x.reported == nil {
		x.reported = make(map[string]uint64)
	}
	x.reported[c.Label] = dropped
	return append(all, engine.Dropped{Cause: c, Packets: dropped})
}
