package engine

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// unwanted counts messages that a group has delivered in order and no subscription of this bus wants: runs of
// topics that are not subscribed to. Handlers, if there are any, see each run and count; else the log does, and
// without both all is unwanted. Loop only.
type unwanted struct {
	runs  uint64
	bytes uint64 // of them, with their headers
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

// run counts one, unless it holds no messages.
func (u *unwanted) run(run *wire.Run) {
	if run.Kind < wire.RunTopic {
		u.add(wire.RunHeaderLen + len(run.Body))
	}
}

// countUnwanted counts what is unwanted of the packet that was delivered just now, which
// the log has kept or not, unless handlers have counted.
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
