package engine

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/reliable"
)

// Joint is a subscription of a bus with several loops: it has a part in each of those that have
// groups of its topics. It is read in turn from all, and ends as a whole.
type Joint struct {
	x       *Loops
	terms   terms
	events  bool
	handler Handler
	wake    chan struct{} // of all parts
	serial  sync.Mutex    // while the handler is called, once there are several parts

	mu    sync.Mutex                      // over a change of topics
	have  []TopicName                     // under mu
	names atomic.Pointer[[]string]        // of them; none once it was ended
	parts atomic.Pointer[[]*Subscription] // replaced under mu; of each loop one at most, and one at least

	// The reader's own:
	reading atomic.Bool
	turn    int // the part that is read
	took    int // from it in a row
}

// jointTurn is how many packets, or messages by Next, are read from one part in a row.
const jointTurn = 64

// serialized is the handler of one part of a Joint: no two parts call it at once.
type serialized struct {
	h      Handler
	serial *sync.Mutex // loop only; nil while there is one part
}

func (x *serialized) lock() {
	if x.serial != nil {
		x.serial.Lock()
	}
}

func (x *serialized) unlock() {
	if x.serial != nil {
		x.serial.Unlock()
	}
}

// Message implements Handler.
func (x *serialized) Message(from *reliable.Origin, t *reliable.Track, number uint64, data []byte) {
	x.lock()
	defer x.unlock() // also where the handler ends its goroutine: other loops go on
	x.h.Message(from, t, number, data)
}

// Run implements Handler.
func (x *serialized) Run(from *reliable.Origin, t *reliable.Track, number uint64, body []byte, step, most int) (rest []byte, next uint64) {
	x.lock()
	defer x.unlock()
	return x.h.Run(from, t, number, body, step, most)
}

// Other implements Handler.
func (x *serialized) Other(d *Delivery) {
	x.lock()
	defer x.unlock()
	x.h.Other(d)
}

// all are the parts.
func (j *Joint) all() []*Subscription { return *j.parts.Load() }

// first is the part that tells of all: they end together.
func (j *Joint) first() *Subscription { return j.all()[0] }

// part is the part in a loop, or nil.
func (j *Joint) part(l *Loop) *Subscription {
	for _, p := range j.all() {
		if p.l == l {
			return p
		}
	}
	return nil
}

// open makes a part in a loop that has none. Under mu.
func (j *Joint) open(l *Loop, topics []TopicName, from From) error {
	h := j.handler
	if h != nil {
		x := &serialized{h: h}
		if len(j.all()) > 0 {
			x.serial = &j.serial
		}
		for _, p := range j.all() {
			if err := p.l.do(func() { p.handler.(*serialized).serial = &j.serial }); err != nil {
				return err
			}
		}
		h = x
	}
	p := l.newSubscription(terms{j.terms.policy, from, j.terms.crowded}, j.events, h, j.wake)
	p.joint = j
	if err := p.start(topics); err != nil {
		return err
	}
	parts := append(slices.Clone(j.all()), p)
	j.parts.Store(&parts)
	for _, p := range parts {
		if err := p.Err(); err != nil {
			j.failed(p, err) // meanwhile: it did not know of all parts
		}
	}
	token(j.wake) // the reader has one part more to wait for
	return nil
}

// Add is Subscription.Add.
func (j *Joint) Add(topics []TopicName) error {
	if j.x.all[0].inHandler() {
		return ErrInHandler
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.add(topics, From{})
}

// add begins with topics there, in loops where the subscription has none yet. Under mu.
func (j *Joint) add(topics []TopicName, from From) error {
	if len(j.all()) > 0 && j.Err() != nil {
		return net.ErrClosed
	}
	fresh := without(topics, j.have)
	before := j.have
	j.own(slices.Concat(before, fresh))
	var added []TopicName
	for l, of := range j.x.byLoop(fresh) {
		var err error
		if p := j.part(l); p != nil {
			err = p.Add(of)
		} else {
			err = j.open(l, of, from)
		}
		if err != nil {
			for l, of := range j.x.byLoop(added) {
				_, _ = j.part(l).Remove(of) // it fails where all has ended
			}
			j.own(before)
			return err
		}
		added = append(added, of...)
	}
	return nil
}

// own notes what the subscription has. Under mu.
func (j *Joint) own(topics []TopicName) {
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		names = append(names, t.Name)
	}
	names = slices.Compact(names) // a pattern is there once for each of its groups
	j.have = topics
	j.names.Store(&names)
}

// Remove is Subscription.Remove.
func (j *Joint) Remove(topics []TopicName) (gone []TopicName, err error) {
	if j.x.all[0].inHandler() {
		return nil, ErrInHandler
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if gone, err = j.drop(topics); err == nil {
		j.own(without(j.have, topics))
	}
	return gone, err
}

// drop removes topics from the parts. Under mu.
func (j *Joint) drop(topics []TopicName) (gone []TopicName, err error) {
	if err := j.Err(); err != nil {
		return nil, net.ErrClosed
	}
	for l, of := range j.x.byLoop(topics) {
		p := j.part(l)
		if p == nil {
			continue
		}
		g, err := p.Remove(of)
		if err != nil {
			return nil, err
		}
		gone = append(gone, g...)
	}
	return gone, nil
}

// without are the topics that others do not have, each once.
func without(topics, others []TopicName) (left []TopicName) {
	seen := make(map[TopicName]bool, len(others)+len(topics))
	for _, t := range others {
		seen[t] = true
	}
	for _, t := range topics {
		if !seen[t] {
			seen[t] = true
			left = append(left, t)
		}
	}
	return left
}

// failed is told by the part that has ended first, because of err: the others end too.
func (j *Joint) failed(first *Subscription, err error) {
	if !errors.Is(err, net.ErrClosed) {
		j.names.Store(new([]string))
	}
	for _, p := range j.all() {
		if p != first && p.end(err) && !errors.Is(err, net.ErrClosed) {
			// It fails where the loop has ended, which gives everything back.
			_ = p.l.post(func() {
				p.suppressed.Store(true)
				p.l.evicted = append(p.l.evicted, p)
			})
		}
	}
}

// Next is Subscription.Next.
func (j *Joint) Next(ctx context.Context, d *Delivery) error { return j.next(ctx, d, nil) }

// NextBatch is Subscription.NextBatch.
func (j *Joint) NextBatch(ctx context.Context, d *Delivery, more TakeRun) error {
	return j.next(ctx, d, more)
}

func (j *Joint) next(ctx context.Context, d *Delivery, more TakeRun) error {
	if j.handler != nil {
		return ErrHandled
	}
	if !j.reading.CompareAndSwap(false, true) {
		return ErrConcurrentNext
	}
	defer j.reading.Store(false)
	spins := j.x.all[0].cfg.Wait == WaitSpin
	for i := 1; ; i++ {
		// Whenever a turn ends is often enough for a context that has ended.
		if (j.took >= jointTurn || i%64 == 0) && ctx.Err() != nil {
			return contextError(ctx)
		}
		if ok, err := j.poll(d, more); ok || err != nil {
			return err
		}
		if spins && (i%64 != 0 || j.Err() == nil) {
			runtime.Gosched()
			continue
		}
		if err := j.sleep(ctx, d, more); err != errAgain {
			return err
		}
	}
}

// errAgain says that there may be something to read.
var errAgain = errors.New("look again")

// sleep waits for something to read: errAgain. Or it has read something that came just before,
// or says why nothing comes.
func (j *Joint) sleep(ctx context.Context, d *Delivery, more TakeRun) error {
	for _, p := range j.all() {
		p.sleep.Store(true)
	}
	if ok, err := j.poll(d, more); ok || err != nil {
		return err // a loop that still takes us to be asleep wakes us once in vain
	}
	if j.x.all[0].inHandler() {
		return ErrInHandler
	}
	for _, p := range j.all() {
		if err := p.begin(); err != nil {
			return err
		}
		empty := p.park()
		p.readers.Leave()
		if !empty {
			return errAgain
		}
	}
	select {
	case <-j.wake:
		return errAgain
	case <-j.Ended():
		return j.Err()
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// poll reads from the parts in turn. It reports whether d was filled, or why nothing can be
// read.
func (j *Joint) poll(d *Delivery, more TakeRun) (ok bool, err error) {
	parts := j.all()
	for range parts {
		if j.took >= jointTurn || j.turn >= len(parts) {
			j.turn, j.took = (j.turn+1)%len(parts), 0
		}
		if ok, err := parts[j.turn].pollOnce(d, more); ok || err != nil {
			j.took++
			return ok, err
		}
		j.took = jointTurn
	}
	return false, nil
}

// pollOnce is Next, or with more NextBatch, that does not wait.
func (s *Subscription) pollOnce(d *Delivery, more TakeRun) (ok bool, err error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	defer s.readers.Leave()
	if !s.poll(d) {
		return false, nil
	}
	if more == nil || d.Topic == nil || d.Gap() || s.current == nil {
		return true, nil
	}
	rd := s.current.rd
	if t, body, step, number := rd.Run(); t != nil {
		rest, next := more(t, number, body, step, rd.MaxMessage())
		rd.Took(rest, next)
		s.got += next - number
	}
	return true, nil
}

// Err is Subscription.Err.
func (j *Joint) Err() error { return j.first().Err() }

// Ended is Subscription.Ended.
func (j *Joint) Ended() <-chan struct{} { return j.first().Ended() }

// Handled is Subscription.Handled.
func (j *Joint) Handled() bool { return j.handler != nil }

// Close is Subscription.Close.
func (j *Joint) Close() error {
	if j.x.all[0].refuses() {
		return ErrInHandler
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, p := range j.all() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Conflate is Subscription.Conflate.
func (j *Joint) Conflate(key ConflationKey, limits slow.Limits) *Conflation {
	return conflate(j.first(), j, key, limits)
}

// Beside is Subscription.Beside.
func (j *Joint) Beside(f func(*Delivery)) *Beside {
	return j.x.all[0].beside(func() { j.first().call(j.Next, f) }, j.first().handlerExited)
}

// Stats is Subscription.Stats.
func (j *Joint) Stats() (st SubscriptionStats) {
	for _, p := range j.all() {
		x := p.Stats()
		st.add(&x)
	}
	st.Topics = len(*j.names.Load())
	return st
}

// add adds what another part of the subscription has counted.
func (st *SubscriptionStats) add(o *SubscriptionStats) {
	st.Messages += o.Messages
	st.Pending += o.Pending
	st.Publishers = append(st.Publishers, o.Publishers...)
	st.Lost = addLosses(st.Lost, o.Lost)
}
