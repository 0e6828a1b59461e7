package reliable

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

var randomRuns = flag.Uint64("reliable.runs", 3000, "number of seeds that TestRandomReceiver runs")

// A receiver with small windows that keeps packets in place gets random packets, repairs, notices, ends, restarts and
// other instances of its publisher, while cursors are attached, read and closed within a packet. In all cases order is
// preserved, streams account for all loans, and no stream stalls without a reason.
func TestRandomReceiver(t *testing.T) {
	first, last := uint64(1), *randomRuns
	if env := os.Getenv("FANFARE_SEED"); env != "" {
		seed, err := strconv.ParseUint(env, 0, 64)
		if err != nil {
			t.Fatalf("FANFARE_SEED: %v", err)
		}
		first, last = seed, seed
	} else if testing.Short() {
		last /= 10
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		r := newRandom(t, seed)
		for range 400 {
			if r.step(); t.Failed() {
				break
			}
			if r.judge(); t.Failed() {
				break
			}
		}
		r.end()
		if t.Failed() {
			t.Logf("FANFARE_SEED=%d go test ./reliable -run TestRandomReceiver", seed)
		}
	}
}

type random struct {
	log
	t          *testing.T
	x          *lender
	rng        *rand.Rand
	now        Instant
	epoch      events.ID
	high       uint64               // highest sequence published by the current instance
	highs      map[events.ID]uint64 // the same of the other instances, by epoch
	heartbeats uint64
	full       bool // the output has no room until the next step
	reads      []*randomCursor
	next       map[events.ID]uint64 // by epoch: the next sequence that may be delivered
}

type randomCursor struct {
	st  *Stream
	c   *ring.Cursor
	b   []byte // leased
	seq uint64
}

func newRandom(t *testing.T, seed uint64) *random {
	r := &random{t: t, rng: rand.New(rand.NewPCG(seed, 0x10a5)), now: 1, epoch: 3, next: make(map[events.ID]uint64), highs: make(map[events.ID]uint64)}
	r.x = newLender(t, []int{0, 1, 5, 20, 100}[r.rng.IntN(5)])
	r.onPacket = func(st *Stream, runs []byte) {
		run, _, ok := wire.NextRun(runs)
		if !ok || run.Topic != wire.TopicID("a.b") || run.Number < r.next[st.Epoch] {
			t.Errorf("packet %d is delivered, next is %d: %x", run.Number, r.next[st.Epoch], runs)
		}
		r.next[st.Epoch] = run.Number + 1
	}
	r.room = func() bool {
		r.full = r.full || r.rng.IntN(8) == 0 // an output that runs out of room
		return !r.full
	}
	r.contents = func(st *Stream) Contents { return &inSequence{t: t, next: st.Reached()} }
	r.x.r = newReceiver(t, &r.log, func(c *ReceiverConfig) {
		c.Loans, c.MaxStreams = r.x, 1+r.rng.IntN(3)
		if r.rng.IntN(3) == 0 {
			c.MemoryBytes = 40 * 512
		}
	})
	return r
}

// publisher returns the stream of the current instance, if it exists.
func (r *random) publisher() *Stream {
	return r.x.r.instances.streams[events.Instance{Publisher: 7, Epoch: r.epoch}]
}

func (r *random) handle(b []byte) { r.x.handle(r.now, b) }

func (r *random) step() {
	if r.full && r.rng.IntN(3) > 0 {
		r.full = false
		r.x.r.NoteStall(r.now)
		resume(r.x.r, r.now)
	}
	st := r.publisher()
	low := uint64(0)
	if st != nil {
		low = st.next
	}
	switch k := r.rng.IntN(1000); {
	case k < 450: // a packet, perhaps after a loss
		if r.rng.IntN(6) == 0 {
			r.high += uint64(r.rng.IntN(4))
		}
		if r.rng.IntN(60) == 0 {
			r.high += uint64(r.rng.IntN(60))
		}
		b := data(r.epoch, r.high, 0)
		if r.high++; r.rng.IntN(8) == 0 { // with an index round
			b = append(append(b, wiretest.Index(wire.IndexBegins|wire.IndexAll, r.rng.Uint64N(r.high))...), wiretest.Index(wire.IndexEnds, 1)...)
		}
		r.handle(b)
	case k < 700:
		r.handle(data(r.epoch, low+uint64(r.rng.IntN(6)), wire.FlagRepair))
	case k < 740:
		r.heartbeat(low)
	case k < 760 && st != nil:
		var b wire.RangesBuilder
		b.Begin(nil, st.header(), wire.TypeGone, 0, low, wire.ReasonNone, 0, 400)
		b.Add(low+uint64(r.rng.IntN(3)), 1+r.rng.Uint64N(3))
		r.handle(b.Finish())
	case k < 820:
		r.pass(time.Duration(r.rng.IntN(300)) * time.Millisecond)
	case k < 850:
		if list := r.x.r.list; len(list) > 0 && len(r.reads) < 4 {
			st := list[r.rng.IntN(len(list))]
			if c := attach(st, r.rng.IntN(2) == 0); c != nil {
				r.reads = append(r.reads, &randomCursor{st: st, c: c})
			}
		}
	case k < 940 && len(r.reads) > 0:
		r.read(r.reads[r.rng.IntN(len(r.reads))])
	case k < 970 && len(r.reads) > 0:
		i := r.rng.IntN(len(r.reads))
		c := r.reads[i]
		detach(c.st, c.c)
		if r.rng.IntN(2) == 0 {
			r.done(c) // the reader detects the close later, or never
		}
		r.reads = slices.Delete(r.reads, i, i+1)
		resume(r.x.r, r.now)
	case k < 980:
		resume(r.x.r, r.now)
	case k < 983:
		r.highs[r.epoch] = r.high
		r.epoch = events.ID(1 + r.rng.Uint64N(5)) // another instance: a new one, or an earlier one
		r.high = r.highs[r.epoch]
	case k < 986: // the publisher is silent until it is lost
		r.pass(10 * time.Second)
	}
}

func (r *random) heartbeat(low uint64) {
	r.heartbeats++
	hb := wire.Heartbeat{Lead: r.high, SentAt: r.heartbeats}
	if r.rng.IntN(3) == 0 {
		hb.Trail = low + uint64(r.rng.IntN(5))
		hb.Lead = max(hb.Lead, hb.Trail)
	}
	var flags wire.Flags
	if r.rng.IntN(20) == 0 { // with packets beyond the lead, which valid publishers do not send
		flags = wire.FlagEnd
		hb.Lead -= min(hb.Lead, uint64(r.rng.IntN(3)))
		hb.Trail = min(hb.Trail, hb.Lead)
	}
	r.handle(heartbeatOf(r.epoch, flags, hb))
}

func (r *random) pass(d time.Duration) {
	r.now = r.now.Add(d)
	replies(r.x.r, r.now)
}

func (r *random) read(c *randomCursor) {
	r.done(c)
	it, b, ok := c.c.Lease()
	switch {
	case ok && it.Note == nil:
		c.b, c.seq = b, it.Seq
	case ok:
		c.c.Return()
	}
}

// done returns the packet that a cursor has leased. It must be unchanged.
func (r *random) done(c *randomCursor) {
	if c.b == nil {
		return
	}
	if d, err := wire.ParseData(c.b); err != nil || d.Seq != c.seq {
		r.t.Errorf("a cursor's packet %d has changed: %x", c.seq, c.b)
	}
	c.b = nil
	c.c.Return()
}

// inSequence is a message layer that checks that it gets each packet once, delivered or lost.
type inSequence struct {
	opaque
	t    *testing.T
	next uint64
}

func (x *inSequence) Packet(seq uint64, _ []byte, _ bool) (follow bool) {
	x.Lost(seq, seq+1)
	return false
}

func (x *inSequence) Lost(seq, end uint64) {
	if seq != x.next {
		x.t.Errorf("packet %d follows %d", seq, x.next)
	}
	x.next = end
}

// judge checks all streams.
func (r *random) judge() {
	lent, open := 0, uint64(0)
	for _, st := range r.x.r.list {
		for seq := st.next; seq < st.tracked; seq++ {
			switch st.win.entries.at(seq).state {
			case entryLent:
				lent++
			case entryMissing, entryGone:
				open++
			}
		}
		switch {
		case st.life.finished || st.stalled:
		case st.next < st.tracked && st.win.entries.at(st.next).state != entryMissing:
			r.t.Errorf("the stream is stalled at %d", st.next)
		case st.win.slots != nil && st.tracked != min(st.high, st.next+st.win.span):
			r.t.Errorf("packets below %d of %d are tracked; next is %d, the window %d", st.tracked, st.high, st.next, st.win.span)
		case st.abandon.below > st.next && st.next == st.tracked:
			r.t.Errorf("given up below %d, but next is %d", st.abandon.below, st.next)
		case st.contents.(*inSequence).next != st.next:
			r.t.Errorf("the message layer is at %d, the stream at %d", st.contents.(*inSequence).next, st.next)
		case st.life.downDue && st.next == st.high:
			r.t.Errorf("the loss of the publisher is not delivered at %d", st.next)
		case r.x.r.stats.StreamsLost+r.x.r.stats.Restarts == 0 && st.life.ended && st.next >= st.life.endAt:
			r.t.Errorf("the stream reached its end, %d, but has not ended", st.life.endAt)
		}
	}
	// Each packet found missing was repaired, arrived late, was lost, or is still missing.
	if s := &r.x.r.stats; s.StreamsLost+s.StreamsEnded+s.Restarts == 0 && s.Missing != s.Repaired+s.Late+s.Lost+open {
		r.t.Errorf("%d packets were found missing: %d repaired, %d late, %d lost, %d open", s.Missing, s.Repaired, s.Late, s.Lost, open)
	}
	if out := r.x.out(); out != lent {
		r.t.Errorf("%d packets are kept, but streams account for %d", out, lent)
	}
}

func (r *random) end() {
	for _, c := range r.reads {
		r.done(c)
		detach(c.st, c.c)
	}
	r.x.r.Free()
	if r.x.out() > 0 || r.x.r.memory != 0 {
		r.t.Errorf("%d packets are kept, %d bytes of windows are not freed", r.x.out(), r.x.r.memory)
	}
}
