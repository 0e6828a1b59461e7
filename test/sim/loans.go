package sim

// loans are the received packets that a subscriber's receiver keeps in place (reliable.Loans).
// Their memory is overwritten as soon as it must not be used.
type loans struct {
	s       *subscriber
	kept    [][]byte // by loan; nil: returned
	free    []uint32
	spare   [][]byte
	out     int
	lent    []byte // the packet that Handle is called with
	keeping bool   // Handle has kept it
}

// lend calls handle with b in loaned memory.
func (l *loans) lend(b []byte, handle func(b []byte)) {
	var mem []byte
	if n := len(l.spare); n > 0 {
		mem, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	l.lent, l.keeping = append(mem[:0], b...), false
	handle(l.lent)
	if !l.keeping {
		l.spoil(l.lent)
	}
	l.lent = nil
}

// spoil overwrites memory that the core must not use again.
func (l *loans) spoil(mem []byte) {
	for i := 0; i < len(mem); i += 16 {
		mem[i] ^= 0xa5
	}
	l.spare = append(l.spare, mem)
}

func (l *loans) Keep() (uint32, bool) {
	if l.lent == nil || l.keeping {
		l.s.sim.fail("subscriber %d: Keep outside of Handle, or twice", l.s.number)
		return 0, false
	}
	if l.out >= l.s.o.Keep {
		return 0, false
	}
	l.out++
	l.keeping = true
	if n := len(l.free); n > 0 {
		i := l.free[n-1]
		l.free = l.free[:n-1]
		l.kept[i] = l.lent
		return i, true
	}
	l.kept = append(l.kept, l.lent)
	return uint32(len(l.kept) - 1), true
}

func (l *loans) Packet(i uint32) []byte { return l.kept[i] }

func (l *loans) Return(i uint32) {
	mem := l.kept[i]
	if mem == nil {
		l.s.sim.fail("subscriber %d: packet %d is returned twice", l.s.number, i)
		return
	}
	if len(l.lent) > 0 && &mem[0] == &l.lent[0] {
		l.s.sim.fail("subscriber %d: a packet is returned within the Handle that kept it", l.s.number)
	}
	l.out--
	l.kept[i] = nil
	l.free = append(l.free, i)
	l.s.sim.report.Kept++
	l.spoil(mem)
}
