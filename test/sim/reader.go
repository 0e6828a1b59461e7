package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// reader is one subscription of a subscriber, and what it delivers. It is a handler, or a task that reads a cursor.
type reader struct {
	sub     *subscriber
	options Reader
	number  int                  // 0: a handler
	s       *engine.Subscription // nil: not yet subscribed
	c       *engine.Conflation   // nil: it does not conflate
	feeds   []*feed              // by stream, in the order found
	added   []pattern.Pattern    // later than the subscription
	adding  pattern.Pattern      // being added, since the streams were at before
	before  map[*stream]uint64
	waiting bool   // in Next
	taken   bool   // NextBatch has delivered its first message
	ended   bool   // it was evicted
	lease   []byte // the message that Next returned last
	sum     uint32 // its checksum
}

// policy returns what happens when it reads too slowly.
func (x *reader) policy() engine.Policy {
	switch o := &x.options; {
	case x.number == 0 || o.Block:
		return engine.Policy{Kind: slow.Block}
	case o.Slow.Kind == slow.Auto:
		return engine.Policy{Kind: slow.Gap}
	default:
		return o.Slow
	}
}

// subscribe makes the subscription, in a task.
func (x *reader) subscribe(names []engine.TopicName) {
	s := x.sub
	var h engine.Handler
	if x.number == 0 {
		h = x
	}
	s.waits++
	sub, err := s.loop.Subscribe(names, x.policy(), s.from(), true, h)
	s.waits--
	if err != nil {
		if s.present() {
			x.fail("subscribing: %v", err)
		}
		return
	}
	x.s = sub
	for _, st := range s.streams {
		x.follow(st, st.st.Next())
	}
	if x.number == 0 {
		return
	}
	if k := x.options.Conflate; k > 0 {
		x.c = sub.Conflate(conflationKey(k), slow.Limits{Keys: 1 << 20, Bytes: 1 << 24})
	}
	s.Go(x.read)
}

// follow makes a feed of a stream from packet start on, if the reader gets its messages.
func (x *reader) follow(st *stream, start uint64) {
	others := st.owner != x.s && (st.owner != nil || x.sub.owned())
	if x.s == nil || x.ended || st.removed || start > 0 && st.st.Ended() || others ||
		slices.ContainsFunc(x.feeds, func(f *feed) bool { return f.x == st }) {
		return
	}
	f := &feed{r: x, x: st, t: st.t, start: start}
	for _, p := range x.added {
		f.expect(p, 0, 0)
	}
	x.feeds = append(x.feeds, f)
}

// read reads the cursor. It is a task.
func (x *reader) read() {
	next := x.s.Next
	if x.c != nil {
		next = x.c.Next
	}
	var d engine.Delivery
	for n := 0; ; n++ {
		x.rest()
		x.checkLease()
		x.waiting, x.taken = true, false
		var err error
		if n%2 == 0 && x.c == nil {
			err = x.s.NextBatch(background, &d, x.batch(&d))
		} else {
			err = next(background, &d)
		}
		x.waiting = false
		if err != nil {
			var evicted *events.EvictedError
			if x.ended = errors.As(err, &evicted); !x.ended && x.sub.present() {
				x.fail("reading: %v", err)
			}
			return
		}
		x.lease, x.sum = d.Data, sum32(d.Data)
		if !x.taken {
			x.deliver(&d)
		}
		if x.sub.sim.err != nil {
			return
		}
		if x.options.Delay > 0 {
			x.sub.pause(x.options.Delay)
		} else if x.c != nil {
			x.sub.pause(conflationDelay)
		}
	}
}

// batch returns the function that takes the messages that follow d in its packet.
func (x *reader) batch(d *engine.Delivery) engine.TakeRun {
	return func(t *topics.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
		x.taken = true
		x.deliver(d)
		return x.Run(d.From, t, number, body, step, most)
	}
}

// conflationDelay is how long a reader that conflates takes for a message.
const conflationDelay = 20 * time.Microsecond

// rest waits while the reader is stopped.
func (x *reader) rest() {
	for _, p := range x.options.Stops {
		if at := time.Duration(x.sub.sim.now); at >= p.At && at < p.At+p.For {
			x.sub.pause(p.At + p.For - at)
		}
	}
}

// idle reports whether the reader has read everything that has arrived.
func (x *reader) idle() bool {
	if x.number == 0 {
		return x.s != nil && !x.sub.again
	}
	return x.waiting
}

// overtaken reports whether the reader may have lost packets because it was slow. Gaps state the latest cause only.
func (x *reader) overtaken() bool {
	return x.number > 0 && !x.options.Block && x.sub.loop.Counts().SlowConsumerPackets > 0
}

// checkLease checks that the message read last has not changed.
func (x *reader) checkLease() {
	if sum32(x.lease) != x.sum {
		x.fail("a message changed before the next one was read")
	}
	x.lease, x.sum = nil, 0
}

// The reader is the handler of its subscription.

func (x *reader) Message(from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	x.deliver(&engine.Delivery{Item: topics.Item{Topic: t, Number: number, Data: data}, From: from})
}

func (x *reader) Run(from *reliable.Origin, t *topics.Track, number uint64, body []byte, step, most int,
) ([]byte, uint64) {
	for {
		m, rest, ok := topics.NextMessage(body, step, most)
		if !ok {
			return body, number
		}
		x.Message(from, t, number, m)
		body, number = rest, number+1
	}
}

func (x *reader) Other(d *engine.Delivery) { x.deliver(d) }

// deliver checks a delivery.
func (x *reader) deliver(d *engine.Delivery) {
	if x.sub.sim.o.Trace != nil {
		x.trace(d)
	}
	switch {
	case d.Event != nil:
		return // as those of the bus
	case d.Err != nil:
		var refused *events.PublisherRefusedError
		if !errors.As(d.Err, &refused) {
			x.fail("%v", d.Err)
		}
		return
	}
	if x.number == 0 {
		x.sub.spent += x.sub.handlerTime()
	}
	if f := x.feed(d); x.c != nil && f.t != nil && d.Topic != nil {
		f.keep(d)
	} else {
		f.item(d)
	}
}

func (x *reader) trace(d *engine.Delivery) {
	text := fmt.Sprintf("topic %d: message %d, %d bytes, request %v, state %v", topicIndex(d.Topic), d.Number, len(d.Data), d.Request, d.State)
	switch {
	case d.Event != nil:
		text = fmt.Sprint(d.Event.Kind)
	case d.Err != nil:
		text = d.Err.Error()
	case d.Gap():
		text = fmt.Sprintf("topic %d: %d messages from %d lost, unknown %v: %v", topicIndex(d.Topic), d.Lost, d.Number, d.Unknown, d.Cause)
	}
	if d.From != nil {
		text += fmt.Sprintf(" of %v.%d", d.From.Publisher, d.From.Epoch)
	}
	x.sub.sim.trace("subscriber %d, reader %d: %s", x.sub.number, x.number, text)
}

// feed returns the feed of a delivery.
func (x *reader) feed(d *engine.Delivery) *feed {
	of := d.From.Instance
	var last *feed
	for range 2 {
		for _, f := range x.feeds {
			if f.x.st.Instance != of {
				continue
			}
			if last = f; f.x.removed && f.has(d) {
				return f // the rest of a stream that was evicted
			}
		}
		if last == nil || last.x.removed {
			x.sub.scan()
		}
	}
	if last == nil {
		x.fail("item of publisher %v.%d, which has no stream: %+v", of.Publisher, of.Epoch, d.Item)
		last = &feed{r: x, x: &stream{st: new(reliable.Stream)}}
	}
	return last
}

// finish checks the reader when its stay ends.
func (x *reader) finish() {
	if x.s == nil || x.ended {
		return // an evicted reader is not informed of its losses
	}
	for _, f := range x.feeds {
		f.finish()
	}
}

func (x *reader) fail(format string, args ...any) {
	x.sub.sim.fail("subscriber %d, reader %d: "+format, append([]any{x.sub.number, x.number}, args...)...)
}
