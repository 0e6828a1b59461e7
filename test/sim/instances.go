package sim

// What a subscriber must know of instances of one publisher.

// own is the instance of a publisher that is the same process.
func (s *subscriber) own() (id, epoch uint64) {
	if s.o.Own == 0 {
		return 0, 0
	}
	p := s.sim.publishers[s.o.Own-1]
	return p.id, p.epoch(0)
}

// undetected returns a live publisher with a stream that is not up here, or nil.
func (s *subscriber) undetected() *publisher {
	if s.sim.o.Attack.Forge && s.sim.o.forged() {
		return nil // there may be no room
	}
	if n := len(s.o.Readers); n > 0 && len(s.evicted) == n && !s.o.InPlace {
		return nil // it does not listen any more
	}
	own, ownEpoch := s.own()
	for _, p := range s.sim.publishers {
		if !p.alive() || p.id == own && p.t.epoch == ownEpoch {
			continue
		}
		heard := false
		for _, f := range s.feeds {
			heard = heard || f.down == 0 && f.st.Publisher == p.id && f.st.Epoch == p.t.epoch
		}
		if !heard {
			return p
		}
	}
	return nil
}

// before is the latest feed of the same instance and kind: the stream was evicted, and goes on.
func (s *subscriber) before(f *feed) *feed {
	for i := len(s.feeds) - 1; i >= 0; i-- {
		if b := s.feeds[i]; b.t != nil && b.t == f.t && b.reader == f.reader {
			return b
		}
	}
	return nil
}
