package sim

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
