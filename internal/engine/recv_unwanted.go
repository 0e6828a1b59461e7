package engine

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// unwanted counts runs, in packets delivered in order, of topics that no subscription of this bus wants. If the group
// has handlers their reader sees each run and counts; otherwise the log counts; without both all runs are unwanted.
// Loop only.
type unwanted struct {
	runs  uint64
	bytes uint64 // with the headers of runs
}

func (u *unwanted) add(bytes int) {
	u.runs++
	u.bytes += uint64(bytes)
}

// all counts all runs of a packet.
func (u *unwanted) all(runs []byte) {
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		u.run(&run)
	}
}

// run counts a run, unless it holds no messages.
func (u *unwanted) run(run *wire.Run) {
	if run.Kind < wire.RunTopic {
		u.add(wire.RunHeaderLen + len(run.Body))
	}
}

// countUnwanted counts the unwanted runs of the packet just delivered, unless handlers have counted them. kept: the log
// has kept the packet.
func (o *output) countUnwanted(e *reliable.Event, kept bool) {
	switch {
	case e.Kind != reliable.EventPacket:
	case kept:
		o.g.unwanted.runs += o.log.unwanted.runs
		o.g.unwanted.bytes += o.log.unwanted.bytes
	default:
		o.g.unwanted.all(reliable.PacketData(e.Packet))
	}
}

// Dropped implements topics.Tally.
func (p *inPlace) Dropped() { p.g.dropped.Add(1) }

// Unwanted implements topics.Tally: no handler wants the run, but a cursor may.
func (p *inPlace) Unwanted(topic uint64, bytes int) {
	if log := outputOf(p.st).log; log == nil || log.topics.Get(topic) == nil {
		p.g.unwanted.add(bytes)
	}
}

// Dropped implements topics.Tally.
func (f *feed) Dropped() { f.g.dropped.Add(1) }

// Unwanted implements topics.Tally: the log has counted.
func (f *feed) Unwanted(uint64, int) {}
