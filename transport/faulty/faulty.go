// Package faulty wraps any transport and injects faults into received packets, data and control alike:
// loss (also in bursts), duplication, reordering, delay. It is seeded: the same seed and the same
// packets in the same order give the same faults. Sending is unchanged.
//
// The path of a received packet:
//
//	inner Poll ─► lost? ─► twice? ─► overtaken? (held) ─► delayed? (held) ─► Poll
//
// Packets that pass are not copied: they remain parts of their train; packets that are held are copied,
// so that they do not keep a whole train's memory from the inner transport.
package faulty

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
)

// Transport is a transport with faults.
type Transport struct {
	inner   transport.Transport
	cfg     Config
	through bool // no faults: all calls are passed to inner
	closing atomic.Bool

	// Loop only, from here.
	fates  fates
	hold   hold
	leases leases
	lent   lend.Limit             // parts and held packets, which inner does not count
	peers  map[transport.Peer]int // references; see retain

	limit   int              // trains that one Poll returns
	batch   *transport.Batch // of the inner transport
	next    int              // index of the next train in it
	cur     cursor
	arrived uint64 // packets of the inner transport so far

	overtaken []held // few: at most reorderDepth times Reorder, in the mean
	delayed   delayLine
	order     uint64

	lost, held  atomic.Uint64 // packets; one that is overtaken and then delayed counts twice in held
	lendRefused atomic.Uint64
}

// cursor is the position in the inner train that is being split.
type cursor struct {
	active bool
	lease  uint32
	train  transport.Train
	at     int // next packet
	count  int
	again  int // packet that is due a second time, or -1
}

var _ transport.Transport = (*Transport)(nil)

// New returns inner with the faults of cfg. It panics on a configuration that
// Validate refuses. From now on only the returned transport may be used.
func New(inner transport.Transport, cfg Config) *Transport {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if cfg.Clock == nil {
		start := time.Now()
		cfg.Clock = func() time.Duration { return time.Since(start) }
	}
	caps := inner.Capabilities()
	t := &Transport{
		inner: inner, cfg: cfg, through: !cfg.active(),
		fates: newFates(cfg),
		hold:  hold{size: (caps.MaxPacket + 63) &^ 63},
		peers: make(map[transport.Peer]int),
		limit: caps.Batch,
		batch: transport.NewBatch(min(caps.Batch, 64)),
		cur:   cursor{again: -1},
	}
	t.lent = lend.New(caps.LendMax, caps.Batch, &t.lendRefused)
	return t
}

func (t *Transport) Poll(b *transport.Batch) error {
	if t.through {
		return t.inner.Poll(b)
	}
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.pollClosing()
	}
	if t.next == len(t.batch.Trains) && !t.cur.active {
		t.batch.Events = b.Events
		err := t.inner.Poll(t.batch)
		t.next = 0
		b.Events = t.batch.Events
		t.batch.Events = nil
		if err != nil {
			return t.ended(err)
		}
	}
	now := t.now()
	for room := t.lent.Room(min(cap(b.Trains), t.limit)); len(b.Trains) < room && t.step(b, now); {
	}
	t.lent.Lent(len(b.Trains))
	b.RepliesLost, t.batch.RepliesLost = t.batch.RepliesLost, false
	b.More = t.batch.More || t.next < len(t.batch.Trains) || t.cur.active
	return nil
}

// pollClosing lets the inner transport finish. Undelivered packets are dropped.
func (t *Transport) pollClosing() error {
	err := t.inner.Poll(t.batch)
	t.batch.Trains, t.next, t.cur = t.batch.Trains[:0], 0, cursor{again: -1}
	if err != nil {
		return t.ended(err)
	}
	return nil
}

func (t *Transport) ended(err error) error {
	if errors.Is(err, net.ErrClosed) {
		t.closing.Store(true)
		t.hold.close()
		t.overtaken, t.delayed, t.leases = nil, nil, leases{}
	}
	return err
}

// now reads the clock, if a fault depends on it.
func (t *Transport) now() time.Duration {
	if t.cfg.Reorder == 0 && !t.delays() {
		return 0
	}
	return t.cfg.Clock()
}

func (t *Transport) delays() bool { return t.cfg.Delay > 0 || t.cfg.Jitter > 0 }

// step moves packets until it has put one train into b, which must have room. It reports whether there is more to do.
func (t *Transport) step(b *transport.Batch, now time.Duration) bool {
	if t.release(b, now) {
		return true
	}
	c := &t.cur
	if c.again >= 0 {
		i := c.again
		c.again = -1
		if !t.divert(i, now) {
			t.emit(b, i, i+1)
		}
		t.finishTrain()
		return true
	}
	if !c.active && !t.nextTrain() {
		return false
	}
	from := c.at
	for c.at < c.count {
		i := c.at
		c.at++
		t.arrived++
		if t.fates.lost() {
			t.lost.Add(1)
			t.emit(b, from, i)
			break
		}
		if t.fates.duplicated() {
			c.again = i
		}
		if t.divert(i, now) {
			t.emit(b, from, i)
			break
		}
		if c.again >= 0 || t.overtakenDue(now) >= 0 || c.at == c.count {
			t.emit(b, from, i+1)
			break
		}
	}
	t.finishTrain()
	return true
}

// nextTrain puts the cursor on the next inner train.
func (t *Transport) nextTrain() bool {
	if t.next == len(t.batch.Trains) {
		return false
	}
	tr := t.batch.Trains[t.next]
	t.next++
	i, e := t.leases.alloc()
	e.inner, e.group = tr, tr.Group
	t.cur = cursor{active: true, lease: i, train: tr, count: tr.Count(), again: -1}
	return true
}

// finishTrain drops the cursor's reference when nothing of the train is left.
func (t *Transport) finishTrain() {
	if c := &t.cur; c.active && c.at == c.count && c.again < 0 {
		c.active = false
		t.drop(c.lease)
	}
}

// emit adds packets lo to hi-1 of the cursor's train to b as one train.
func (t *Transport) emit(b *transport.Batch, lo, hi int) {
	if lo >= hi {
		return
	}
	tr := &t.cur.train
	t.leases.all[t.cur.lease].refs++
	token := t.leases.token(t.cur.lease)
	end := min(hi*tr.SegmentSize, len(tr.Data))
	part := *tr
	part.Data = tr.Data[lo*tr.SegmentSize : end : end]
	part.From, part.Lease = transport.Source(token), token
	b.Trains = append(b.Trains, part)
}

func (t *Transport) Release(train *transport.Train) {
	if t.through {
		t.inner.Release(train)
		return
	}
	if i, e := t.leases.find(train.Lease); e != nil {
		t.lent.Released()
		t.drop(i)
	} else if !t.closing.Load() {
		panic("faulty: train released twice, or never lent")
	}
}

// Wait implements transport.Transport. It ends at the latest when a held packet is due.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.through || t.closing.Load() {
		return t.inner.Wait(timeout)
	}
	if t.cur.active || t.next < len(t.batch.Trains) {
		return nil
	}
	if len(t.overtaken)+len(t.delayed) > 0 {
		now := t.cfg.Clock()
		first := time.Duration(1<<63 - 1)
		for i := range t.overtaken {
			if t.overtaken[i].after <= t.arrived {
				return nil
			}
			first = min(first, t.overtaken[i].due)
		}
		if len(t.delayed) > 0 {
			first = min(first, t.delayed[0].due)
		}
		if first <= now {
			return nil
		}
		if timeout < 0 || first-now < timeout {
			timeout = first - now
		}
	}
	return t.inner.Wait(timeout)
}
