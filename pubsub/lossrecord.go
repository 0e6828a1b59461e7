package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Losses returns what this bus lost and repaired in the last hour. It may be called after Close, too.
func (b *Bus) Losses() stats.LossRecord {
	b.loop.SampleNow()
	now := time.Now()
	return publicLossRecord(now, b.losses.Snapshot(now))
}

func labelOf(c events.Cause) string { return events.Cause(c).Label() }

// figuresOfCause is the number of figures that a sample holds for each cause: those of stats.CauseCount. Figures that
// are not of a cause follow.
const figuresOfCause = 4

// sampleLosses adds all counters to the record, and returns the drops to report. Loop only.
func (b *Bus) sampleLosses(s *stats.Bus) (reported []engine.Dropped) {
	counts := make([]uint64, 0, figuresOfCause*len(report.Causes)+3)
	causes := countCauses(s)
	for i := range causes {
		c := &causes[i]
		counts = append(counts, c.Dropped, c.Lost, c.Gaps, c.Messages)
		reported = b.drops.note(reported, &report.Causes[i], c.Dropped)
	}
	var missing, repaired, late uint64
	var ways []stats.LossWay
	for i := range s.Groups {
		g := &s.Groups[i]
		missing, repaired, late = missing+g.Missing, repaired+g.Repaired, late+g.Late
		for _, p := range g.Publishers {
			ways = append(ways, stats.LossWay{Publisher: p.ID, Name: p.Name, Epoch: p.Epoch, Address: p.Address,
				Group: g.Address, Repaired: p.Repaired, Lost: p.Lost})
		}
	}
	counts = append(counts, missing, repaired, late)
	b.losses.Sample(s.Time, counts, ways)
	return reported
}

// publicLossRecord is the record with labels in place of the indexes of causes.
func publicLossRecord(now time.Time, s lossrecord.Snapshot) stats.LossRecord {
	r := stats.LossRecord{From: s.Since, To: now, Losses: s.Entries, Older: s.Older, Unrecorded: s.Dropped}
	for i := range s.Minutes {
		r.Minutes = append(r.Minutes, publicLossMinute(&s.Minutes[i]))
	}
	return r
}

func publicLossMinute(m *lossrecord.Minute) stats.LossMinute {
	x := stats.LossMinute{Start: m.Start, Ways: m.Ways, OtherRepaired: m.OtherRepaired, OtherLost: m.OtherLost}
	for i := range report.Causes {
		n := m.Counts[figuresOfCause*i:]
		c := stats.CauseCount{Cause: report.Causes[i].Label, Dropped: n[0], Lost: n[1], Gaps: n[2], Messages: n[3]}
		if c != (stats.CauseCount{Cause: c.Cause}) {
			x.Causes = append(x.Causes, c)
		}
	}
	all := m.Counts[figuresOfCause*len(report.Causes):]
	x.Missing, x.Repaired, x.Late = all[0], all[1], all[2]
	return x
}
