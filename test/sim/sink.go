package sim

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// The subscriber is the sink of its receiver. It passes the events of streams to outputs.

func (s *subscriber) Open(st *reliable.Stream) reliable.Output {
	if own := s.own(); own.Publisher != 0 && st.Instance == own {
		s.sim.fail("subscriber %d receives its own publisher", s.number)
	}
	if n := len(s.r.Streams()); s.o.Streams > 0 && n > s.o.Streams {
		s.sim.fail("subscriber %d has %d streams, at most %d are allowed", s.number, n, s.o.Streams)
	}
	return s.open(st)
}

func (s *subscriber) StreamUp(st *reliable.Stream) {
	s.sim.trace("subscriber %d: stream %v.%d up from %d", s.number, st.Publisher, st.Epoch, st.Start())
	o := outputOf(st)
	switch o.down {
	case 0, 1 + int(events.CausePublisherLost), 1 + int(events.CauseRestart):
	default:
		s.sim.fail("subscriber %d: stream %v.%d comes up again after its end", s.number, st.Publisher, st.Epoch)
	}
	o.down = 0
	o.attach()
	for _, f := range o.feeds {
		f.down, f.gone = 0, false
	}
}

func (s *subscriber) StreamDown(st *reliable.Stream, cause events.Cause) {
	s.sim.trace("subscriber %d: stream %v.%d down: %v", s.number, st.Publisher, st.Epoch, cause)
	s.sim.report.Downs[cause]++
	o := outputOf(st)
	if o.down != 0 {
		s.sim.fail("subscriber %d: stream %v.%d goes down twice", s.number, st.Publisher, st.Epoch)
	}
	o.down = 1 + int(cause)
	for _, f := range o.feeds {
		f.down = o.down
	}
}

func (s *subscriber) DuplicateName(st, other *reliable.Stream) {}

// Refused implements reliable.Sink. The simulated groups have room for all publishers; scenarios check the counter.
func (s *subscriber) Refused(reliable.Instant, events.Instance, events.Refusal) {}

// Loss implements reliable.Sink.
func (s *subscriber) Loss(_ *reliable.Stream, e reliable.LossEvent) {
	if e.Step == reliable.LossRepaired {
		s.sim.report.repaired(e.Took)
	}
}

// resources are the peers that a subscriber's receiver replies to, and its memory.
type resources struct {
	peers   []peer
	memory  int // bytes allocated
	windows [][]byte
}

func (s *subscriber) Retain(from uint64) (uint32, bool) {
	for i := range s.peers {
		if s.peers[i].from == from {
			s.peers[i].refs++
			return uint32(i), true
		}
	}
	s.peers = append(s.peers, peer{from, 1})
	return uint32(len(s.peers) - 1), true
}

func (s *subscriber) Address(uint64) string { return "" }

func (s *subscriber) Forget(p uint32) { s.peers[p].refs-- }

func (s *subscriber) Alloc(bytes int, _ bool) ([]byte, error) {
	s.memory += bytes
	for i, w := range s.windows {
		if len(w) >= bytes {
			s.windows[i] = s.windows[len(s.windows)-1]
			s.windows = s.windows[:len(s.windows)-1]
			return w[:bytes], nil
		}
	}
	return s.sim.arena.get(bytes), nil
}

func (s *subscriber) Free(mem []byte) {
	s.memory -= len(mem)
	for i := 0; i < len(mem); i += 64 {
		mem[i] ^= 0x5a // so that a late reader detects the change
	}
	s.windows = append(s.windows, mem)
}
