package sim

// loans are the packets that a subscriber's receiver keeps where they arrived
// (reliable.Loans), in memory that is spoiled as soon as it must not be used.
type loans struct {
	s     *subscriber
	kept  [][]byte // by loan; nil: given back
	free  []uint32
	spare [][]byte
	out   int
	given []byte // what Handle is called with
	asked bool   // it was kept
}

// give lends b to a call of Handle.
func (l *loans) give(b []byte, handle func(b []byte)) {
	var mem []byte
	if n := len(l.spare); n > 0 {
		mem, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	l.given, l.asked = append(mem[:0], b...), false
	handle(l.given)
	if !l.asked {
		l.spoil(l.given)
	}
	l.given = nil
}

// spoil takes memory back that the core may not use any more.
func (l *loans) spoil(mem []byte) {
	for i := 0; i < len(mem); i += 16 {
		mem[i] ^= 0xa5
	}
	l.spare = append(l.spare, mem)
}

func (l *loans) Keep() (uint32, bool) {
	if l.given == nil || l.asked {
		l.s.sim.fail("subscriber %d: a packet is kept that is not being handled, or twice", l.s.number)
		return 0, false
	}
	if l.out >= l.s.o.Keep {
		return 0, false
	}
	l.out++
	l.asked = true
	if n := len(l.free); n > 0 {
		i := l.free[n-1]
		l.free = l.free[:n-1]
		l.kept[i] = l.given
		return i, true
	}
	l.kept = append(l.kept, l.given)
	return uint32(len(l.kept) - 1), true
}

func (l *loans) Packet(i uint32) []byte { return l.kept[i] }

func (l *loans) Return(i uint32) {
	mem := l.kept[i]
	if mem == nil {
		l.s.sim.fail("subscriber %d: packet %d is given back twice", l.s.number, i)
		return
	}
	if len(l.given) > 0 && &mem[0] == &l.given[0] {
		l.s.sim.fail("subscriber %d: a packet is kept only to be given back", l.s.number)
	}
	l.out--
	l.kept[i] = nil
	l.free = append(l.free, i)
	l.s.sim.report.Kept++
	l.spoil(mem)
}
