package reliable

import "time"

// ReceiveBuffer is what waits in a fabric's receive buffer without loss, and how the streams of several Receivers share
// it, so that what they promise to their publishers fits. One goroutine uses them all. docs/protocol §7.3.
//
//	a stream                            half of its part / streams that are up, or groups if they are more
//	one that had new data before, too   that, and a quarter of its part / such streams at least
//
// Streams of one publisher in one group, of several Receivers or instances, have one share: their packets are the same.
type ReceiveBuffer struct {
	packets      int // in each part
	together     bool
	sendersApart bool
	read         Instant        // all that came before has been handled
	groups       map[uint32]int // Receivers that are counted, by the tag of their group
	shares       map[shareKey]*bufferShare
	parts        map[shareKey]*bufferPart
}

// NewReceiveBuffer returns a buffer for so many packets of each group; or of all groups where they wait together, and
// then of each publisher where senders are apart, or else of all.
func NewReceiveBuffer(packets int, together, sendersApart bool) *ReceiveBuffer {
	return &ReceiveBuffer{
		packets: packets, together: together, sendersApart: sendersApart, read: Never,
		groups: make(map[uint32]int), shares: make(map[shareKey]*bufferShare), parts: make(map[shareKey]*bufferPart),
	}
}

// Read records that all packets that arrived before that time have been handled; later ones may be unread. Without any
// call packets are taken as read when they arrive. docs/protocol §6.15.
func (b *ReceiveBuffer) Read(before Instant) { b.read = before }

// judged is the time up to which missing packets are judged at now: unread packets arrived later.
func (r *Receiver) judged(now Instant) Instant { return min(now, r.cfg.Buffer.read) }

func (r *Receiver) judgedUp(now Instant) upTime { return r.up(r.judged(now)) }

// dueAt is when to request packets that are found missing at now and due at due. Without a wait that is at once,
// even if later packets lie unread.
func (r *Receiver) dueAt(now, due Instant) Instant {
	if due == now {
		return r.judged(now)
	}
	return due
}

const (
	// busyPeriod is how long streams with new data are counted before they have more than others: all may begin at once.
	busyPeriod = 10 * time.Millisecond
	// dataPart of a buffer is for new data. The rest is for what flow control does not hold back: where publishers go
	// through many groups a heartbeat follows nearly every packet of each, and repairs come on top.
	dataPart = 2
	// quietPart of that is left to those that are not busy.
	quietPart = 2
	// leastShare is what each stream may promise, in packets, however many there are.
	leastShare = 8
)

// shareKey names a share; and a part, with 0 for what does not matter.
type shareKey struct {
	publisher uint64
	group     uint32 // its tag
}

// bufferPart is a buffer of the fabric.
type bufferPart struct {
	shares int   // in all
	up     int   // with streams that are up
	period int64 // as of which the others are
	busy   int   // shares that had new data in the period so far
	before int   // in the one before
}

// bufferShare is what the streams of a publisher in a group have of their part.
type bufferShare struct {
	key     shareKey
	part    *bufferPart
	streams int
	ups     int   // of these, up
	period  int64 // the last one with new data
	row     bool  // the one before it had some, too
}

func periodAt(now Instant) int64 { return int64(now) / int64(busyPeriod) }

// counted is whether a Receiver is one of those that share its buffer: from when something is wanted of it until it
// is left.
type counted bool

func (c *counted) set(cfg *ReceiverConfig, to counted) {
	if *c == to {
		return
	}
	*c = to
	if groups := cfg.Buffer.groups; to {
		groups[cfg.GroupTag]++
	} else if groups[cfg.GroupTag]--; groups[cfg.GroupTag] == 0 {
		delete(groups, cfg.GroupTag)
	}
}

// join returns the share of one more stream, which is up and high.
func (b *ReceiveBuffer) join(publisher uint64, group uint32, high uint64) streamShare {
	key := shareKey{publisher, group}
	x := b.shares[key]
	if x == nil {
		x = &bufferShare{key: key, part: b.part(key), period: -2}
		x.part.shares++
		b.shares[key] = x
	}
	x.streams++
	x.count(1)
	return streamShare{bufferShare: x, up: true, high: high}
}

// leave gives back what join returned.
func (b *ReceiveBuffer) leave(s *streamShare) {
	x := s.bufferShare
	s.setUp(false)
	if x.streams--; x.streams > 0 {
		return
	}
	delete(b.shares, x.key)
	if x.part.shares--; x.part.shares == 0 {
		delete(b.parts, b.partKey(x.key))
	}
}

func (b *ReceiveBuffer) part(key shareKey) *bufferPart {
	key = b.partKey(key)
	p := b.parts[key]
	if p == nil {
		p = &bufferPart{}
		b.parts[key] = p
	}
	return p
}

func (b *ReceiveBuffer) partKey(key shareKey) shareKey {
	switch {
	case !b.together:
		key.publisher = 0
	case b.sendersApart:
		key.group = 0
	default:
		key = shareKey{}
	}
	return key
}

// promise is how many packets beyond those known to exist a stream with this share may promise room for.
func (b *ReceiveBuffer) promise(x *bufferShare, now Instant) uint64 {
	packets, sharers := b.packets/dataPart, max(1, x.part.up)
	if b.together { // a publisher may begin in the other groups at any time
		sharers = max(sharers, len(b.groups))
	}
	n := packets / sharers
	if period := periodAt(now); period == x.period+1 || period == x.period && x.row {
		x.part.turn(period)
		n = max(n, packets/quietPart/max(1, x.part.before))
	}
	return uint64(max(leastShare, n))
}

// turn begins the period of that number, if it is a new one.
func (p *bufferPart) turn(period int64) {
	if period == p.period {
		return
	}
	p.before = 0
	if period == p.period+1 {
		p.before = p.busy
	}
	p.busy, p.period = 0, period
}

// count notes that so many streams more are up: 1 or -1.
func (x *bufferShare) count(n int) {
	was := x.ups
	if x.ups += n; (was > 0) != (x.ups > 0) {
		x.part.up += n
	}
}

// fresh notes that new data came.
func (x *bufferShare) fresh(now Instant) {
	period := periodAt(now)
	if period == x.period {
		return
	}
	x.part.turn(period)
	x.part.busy++
	x.row, x.period = period == x.period+1, period
}

// streamShare is a stream's share of the receive buffer, and what the share knows of it.
type streamShare struct {
	*bufferShare
	up   bool
	high uint64
}

// note updates the share: whether the stream is up, and its highest sequence.
func (s *streamShare) note(now Instant, up bool, high uint64) {
	s.setUp(up)
	if high > s.high {
		s.high = high
		s.fresh(now)
	}
}

func (s *streamShare) setUp(up bool) {
	switch {
	case up && !s.up:
		s.count(1)
	case !up && s.up:
		s.count(-1)
	}
	s.up = up
}
