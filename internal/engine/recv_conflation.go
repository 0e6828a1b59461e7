package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// ConflationKey appends the key of a message to buf and returns the result.
type ConflationKey func(buf []byte, from *reliable.Origin, t *topics.Track, number uint64, data []byte) []byte

// Conflation reads a subscription on its own goroutine and keeps the newest message of each topic and key for a slower
// reader. When its store is full it stops reading, and the stream's window fills. Then the subscription's policy
// decides: slow.Auto does not block the publisher while the store is crowded.
type Conflation struct {
	s     *Subscription
	key   ConflationKey
	drain *Worker

	// Used by the goroutine only:
	d     Delivery
	batch []conflated
	keys  []byte
	watch *callWatch // watches key

	mu       sync.Mutex
	store    *slow.Conflation[Delivery] // under mu
	gone     map[uint64]string          // under mu: topics that were removed, by id
	ended    error                      // under mu: why nothing more comes
	waits    bool                       // under mu: the reader waits for an item
	full     bool                       // under mu: the goroutine waits for room
	messages uint64                     // under mu: delivered
	wake     chan struct{}              // capacity 1: wakes the reader
	room     chan struct{}              // capacity 1: there is room

	// Used by the reader only:
	reading atomic.Bool
	calls   uint
}

// conflated is a message to be stored.
type conflated struct {
	topic  *topics.Track
	number uint64
	data   []byte
	key    int // end of its key in Conflation.keys
}

// conflationBatch is how many messages are stored at once.
const conflationBatch = 64

// Conflate starts to read the subscription, which must have no other reader.
func (s *Subscription) Conflate(key ConflationKey, limits slow.Limits) *Conflation {
	c := &Conflation{
		s: s, key: key, batch: make([]conflated, 0, conflationBatch), gone: make(map[uint64]string),
		store: slow.NewConflation[Delivery](limits), wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	c.watch = s.watchBeside(&report.KeySlow, "Conflate's key ")
	c.drain = s.l.work(c.run, func() { s.exited("Conflate's key") })
	return c
}

// Wait waits until the goroutine has ended, like Worker.Wait.
func (c *Conflation) Wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.drain.Wait(ctx)
}

func (c *Conflation) run() {
	defer c.watch.stop()
	for {
		err := c.fetch()
		if err == nil && c.keep() {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended = err; err == nil {
			c.ended = net.ErrClosed
		}
		c.wakeReader()
		return
	}
}

// fetch reads messages of one packet into batch, or another item into d.
func (c *Conflation) fetch() error {
	c.batch = append(c.batch[:0], conflated{}) // for the first message, which NextBatch returns
	more := func(t *topics.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
		for len(c.batch) < conflationBatch {
			data, rest, ok := topics.NextMessage(body, step, most)
			if !ok {
				break
			}
			c.batch = append(c.batch, conflated{topic: t, number: number, data: data})
			body = rest
			number++
		}
		return body, number
	}
	err := c.s.NextBatch(context.Background(), &c.d, more)
	if err != nil || !c.d.message() {
		c.batch = c.batch[:0]
		return err
	}
	c.batch[0] = conflated{topic: c.d.Topic, number: c.d.Number, data: c.d.Data}
	if c.d.State != reliable.StateOfNone {
		from := *c.d.From
		from.State = c.d.State
		c.d.From = &from // for the key function and the reader
	}
	return nil
}

// message reports whether d is a message, or a record of a topic's state, which has a key like a message.
func (d *Delivery) message() bool {
	return d.Event == nil && d.Err == nil && !d.Gap() &&
		(d.State == reliable.StateOfNone || d.State == reliable.StateRecord)
}

// keep stores what was fetched. It returns false when the subscription has ended first.
func (c *Conflation) keep() bool {
	c.makeKeys()
	c.mu.Lock()
	defer c.mu.Unlock()
	before, start := c.store.Replaced(), 0
	for i := range c.batch {
		m := &c.batch[i]
		key := c.keys[start:m.key]
		start = m.key
		v := Delivery{Item: topics.Item{Topic: m.topic, Number: m.number, State: c.d.State}, From: c.d.From}
		// The topic may be removed while waitRoom has released the lock.
		for !c.isGone(m.topic) && !c.store.Put(key, m.data, v) {
			if !c.waitRoom() {
				return false
			}
		}
	}
	if len(c.batch) == 0 {
		for !c.isGone(c.d.Topic) && !c.store.Mark(c.d) {
			if !c.waitRoom() {
				return false
			}
		}
	}
	c.s.l.counters.replaced.Add(c.store.Replaced() - before)
	c.wakeReader()
	return true
}

// makeKeys makes the keys of the fetched messages. It is called without mu, because key is user code.
func (c *Conflation) makeKeys() {
	c.keys = c.keys[:0]
	if len(c.batch) == 0 {
		return
	}
	c.watch.begin()
	for i := range c.batch {
		m := &c.batch[i]
		c.keys = binary.LittleEndian.AppendUint64(c.keys, m.topic.ID)
		c.keys = c.key(c.keys, c.d.From, m.topic, m.number, m.data)
		m.key = len(c.keys)
	}
	c.watch.end()
}

// isGone reports whether topic t was removed. t may be nil. Under mu.
func (c *Conflation) isGone(t *topics.Track) bool {
	if t == nil || len(c.gone) == 0 {
		return false
	}
	_, gone := c.gone[t.ID]
	return gone
}

// waitRoom waits for room in the store. It returns false when the subscription has ended first. Under mu, which it
// releases while it waits.
func (c *Conflation) waitRoom() bool {
	c.full = true
	c.signalLoop()
	c.wakeReader()
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.s.l.await(c.room, c.s.ended, nil) == 0
}

// signalLoop reports to the loop that the store has become crowded, or no longer is. Under mu.
func (c *Conflation) signalLoop() {
	crowded := c.store.Crowded()
	if crowded == c.s.crowded.Load() {
		return
	}
	c.s.crowded.Store(crowded)
	if !crowded {
		return // feed.tend acts on that when the next packets come
	}
	_ = c.s.l.post(c.s.unblock) // fails only if the loop has ended
}

// unblock resumes streams that were blocked by feeds that no longer block. Loop only.
func (s *Subscription) unblock() {
	for _, f := range *s.feeds.Load() {
		f.setBlock()
	}
	s.l.commands.resume.Store(true)
}

// wakeReader wakes the reader if it waits. Under mu.
func (c *Conflation) wakeReader() {
	if c.waits {
		c.waits = false
		token(c.wake)
	}
}

// token sends to a channel of capacity 1, unless it is full.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Next is Subscription.Next for the newest messages.
func (c *Conflation) Next(ctx context.Context, d *Delivery) error { return c.NextBatch(ctx, d, 0, nil) }

// NextBatch is Next, but after a message it passes up to n further messages to more. All are valid until the next call.
func (c *Conflation) NextBatch(ctx context.Context, d *Delivery, n int, more func(Delivery)) error {
	if !c.reading.CompareAndSwap(false, true) {
		return ErrConcurrentNext
	}
	defer c.reading.Store(false)
	// As in Subscription.next.
	if c.calls++; c.calls%16 == 0 {
		if err := liveContext(ctx); err != nil {
			return err
		}
	}
	var ended <-chan struct{} = c.s.ended
	for {
		if c.s.closed.Load() {
			return net.ErrClosed
		}
		if c.s.suppressed.Load() {
			return cmp.Or(c.s.Err(), net.ErrClosed)
		}
		if ok, err := c.take(d, n, more); ok || err != nil {
			return err
		}
		if c.s.l.watchdog.within() {
			return ErrInHandler
		}
		if ctx == nil {
			return ErrNilContext
		}
		switch c.s.l.await(c.wake, ended, ctx.Done()) {
		case 1:
			ended = nil // stored items are delivered first, then the error of run
		case 2:
			return contextError(ctx)
		}
	}
}

// take takes the oldest item. If there is none it returns false, and why nothing more comes, if so.
func (c *Conflation) take(d *Delivery, n int, more func(Delivery)) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store.Return()
	if !c.takeOne(d) {
		c.waits = true
		return false, c.ended
	}
	if d.message() {
		var x Delivery
		for ; n > 0 && !c.store.NextIsMark() && c.takeOne(&x); n-- {
			more(x)
		}
	}
	c.madeRoom()
	return true, nil
}

func (c *Conflation) takeOne(d *Delivery) bool {
	v, data, ok := c.store.Take()
	if !ok {
		return false
	}
	*d = v
	if d.message() {
		if d.Data = data; d.State == reliable.StateOfNone {
			c.messages++
		}
	}
	return true
}

// Add records that topics were added to the subscription. On nil it does nothing.
func (c *Conflation) Add(topics []TopicName) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range topics {
		if !t.Pattern.Wild() {
			delete(c.gone, wire.TopicID(t.Name))
			continue
		}
		maps.DeleteFunc(c.gone, func(_ uint64, name string) bool { return t.Pattern.Match(name) })
	}
}

// Remove records that topics were removed, and drops their messages. On nil it does nothing.
func (c *Conflation) Remove(topics []TopicName) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range topics {
		c.gone[wire.TopicID(t.Name)] = t.Name
	}
	c.store.Drop(func(d *Delivery) bool { return c.isGone(d.Topic) })
	c.madeRoom()
}

// madeRoom wakes the goroutine if it waits for room. Under mu.
func (c *Conflation) madeRoom() {
	if c.full {
		c.full = false
		token(c.room)
	}
	c.signalLoop()
}

// Stats is Subscription.Stats with the conflation's counts.
func (c *Conflation) Stats() stats.Subscription {
	st := c.s.Stats()
	c.Count(&st)
	return st
}

// Count sets the conflation's counts. On nil it does nothing.
func (c *Conflation) Count(st *stats.Subscription) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Messages, st.Replaced, st.Waiting = c.messages, c.store.Replaced(), c.store.Waiting()
	st.WaitingBytes = c.store.Bytes()
}
