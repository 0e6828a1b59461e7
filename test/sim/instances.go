package sim

import "github.com/fanfaremq/fanfare/pubsub/events"

// The subscriber's view of several instances of one publisher.

// own returns the publisher instance in the same process.
func (s *subscriber) own() (own events.Instance) {
	if s.o.Own == 0 {
		return own
	}
	p := s.sim.publishers[s.o.Own-1]
	return p.instance(0)
}

// undetected returns a live publisher with a stream that is not up here, or nil.
func (s *subscriber) undetected() *publisher {
	if s.sim.o.Attack.Forge && s.sim.o.forged() {
		return nil // there may be no memory for its stream
	}
	if n := len(s.o.Readers); n > 0 && len(s.evicted) == n && !s.o.InPlace {
		return nil // all its readers were evicted
	}
	own := s.own()
	for _, p := range s.sim.publishers {
		if !p.alive() || p.t.Instance == own {
			continue
		}
		detected := false
		for _, f := range s.feeds {
			detected = detected || f.down == 0 && f.st.Instance == p.t.Instance
		}
		if !detected {
			return p
		}
	}
	return nil
}

// before returns the latest feed of the same instance and reader: the stream was evicted, and continues.
func (s *subscriber) before(f *feed) *feed {
	for i := len(s.feeds) - 1; i >= 0; i-- {
		if b := s.feeds[i]; b.t != nil && b.t == f.t && b.reader == f.reader {
			return b
		}
	}
	return nil
}
