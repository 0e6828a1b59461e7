package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ReceiveBuffer divides a fabric's receive buffer among the streams of several Receivers, so that the limits which they
// promise to their publishers fit it together. All its users run on one goroutine. docs/protocol §7.3.
//
//	a stream                         half of its part / streams that are up, or groups if they are more
//	a stream with recent new data    the same, or a quarter of its part / such streams if that is more
//
// Streams of one publisher in one group, of several Receivers or instances, share one promise: they receive the same
// packets.
type ReceiveBuffer struct {
	packets      int // in each part
	together     bool
	sendersApart bool
	read         Instant        // all earlier packets have been handled
	groups       map[uint32]int // counted Receivers, by tag of their group
	shares       map[shareKey]*bufferShare
	parts        map[shareKey]*bufferPart
}

// NewReceiveBuffer returns a buffer that holds the given number of packets: of each group, or, with together, of all
// groups. With together and sendersApart it holds as many of each publisher.
func NewReceiveBuffer(packets int, together, sendersApart bool) *ReceiveBuffer {
	return &ReceiveBuffer{
		packets: packets, together: together, sendersApart: sendersApart, read: Never,
		groups: make(map[uint32]int), shares: make(map[shareKey]*bufferShare), parts: make(map[shareKey]*bufferPart),
	}
}

// Read records that all packets that arrived before that time have been handled; later ones may be unread. Without any
// call packets count as read when they arrive. docs/protocol §6.15.
func (b *ReceiveBuffer) Read(before Instant) { b.read = before }

// judged is the time up to which the receiver judges missing packets at now: unread packets arrived later.
func (r *Receiver) judged(now Instant) Instant { return min(now, r.cfg.Buffer.read) }

func (r *Receiver) judgedUp(now Instant) upTime { return r.up(r.judged(now)) }

// dueAt is when to request packets that are found missing at now and due at due. Without a delay they are requested at
// once, even if later packets are unread.
func (r *Receiver) dueAt(now, due Instant) Instant {
	if due == now {
		return r.judged(now)
	}
	return due
}

const (
	// busyPeriod is the period over which streams with new data are counted before they get more than others: all may
	// begin at once.
	busyPeriod = 10 * time.Millisecond
	// 1/dataPart of a buffer is for new data. The rest is for packets that flow control does not hold back: for publishers
	// with many groups a heartbeat follows nearly every packet of each, and repairs come in addition.
	dataPart = 2
	// 1/quietPart of that is reserved for shares that are not busy.
	quietPart = 2
	// leastShare is how many packets each stream may promise, however many streams there are.
	leastShare = 8
)

// shareKey identifies a share. In a part's key a field that does not distinguish parts is 0.
type shareKey struct {
	publisher events.ID
	group     uint32 // its tag
}

// bufferPart is one receive buffer of the fabric.
type bufferPart struct {
	shares int   // all
	up     int   // those with streams that are up
	period int64 // number of the current period
	busy   int   // shares with new data in the current period
	before int   // shares with new data in the period before
}

// bufferShare is the share of one publisher's streams in one group.
type bufferShare struct {
	key         shareKey
	part        *bufferPart
	streams     int
	ups         int   // of the streams, those that are up
	period      int64 // last period with new data
	consecutive bool  // the period before it had new data, too
}

func periodAt(now Instant) int64 { return int64(now) / int64(busyPeriod) }

// counted says whether a Receiver counts among those that share its buffer: from its first subscription or stream until
// it leaves the group.
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

// join returns the share of one more stream, which is up, with its high.
func (b *ReceiveBuffer) join(publisher events.ID, group uint32, high uint64) streamShare {
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

// leave releases what join returned.
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
	if period := periodAt(now); period == x.period+1 || period == x.period && x.consecutive {
		x.part.beginPeriod(period)
		n = max(n, packets/quietPart/max(1, x.part.before))
	}
	return uint64(max(leastShare, n))
}

// beginPeriod begins the given period unless it is the current one.
func (p *bufferPart) beginPeriod(period int64) {
	if period == p.period {
		return
	}
	p.before = 0
	if period == p.period+1 {
		p.before = p.busy
	}
	p.busy, p.period = 0, period
}

// count adds n, 1 or -1, to the streams that are up.
func (x *bufferShare) count(n int) {
	was := x.ups
	if x.ups += n; (was > 0) != (x.ups > 0) {
		x.part.up += n
	}
}

// fresh records new data.
func (x *bufferShare) fresh(now Instant) {
	period := periodAt(now)
	if period == x.period {
		return
	}
	x.part.beginPeriod(period)
	x.part.busy++
	x.consecutive, x.period = period == x.period+1, period
}

// streamShare is one stream's view of its share.
type streamShare struct {
	*bufferShare
	up   bool
	high uint64
}

// note updates the share with whether the stream is up, and with its high.
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
