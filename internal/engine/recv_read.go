package engine

import (
	"context"
	"errors"
	"net"
	"runtime"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// How a subscription without a handler is read.

// ErrConcurrentNext says that two goroutines read one subscription.
var ErrConcurrentNext = errors.New("a subscription is read by one goroutine at a time")

// ErrHandled says that a subscription with a handler cannot be read.
var ErrHandled = errors.New("a subscription with a handler is not read with Next")

// Next waits for the next message, gap or event and fills d with it. A message's data is valid until the next call.
func (s *Subscription) Next(ctx context.Context, d *Delivery) error {
	if from, t, number, data := s.Following(); t != nil {
		d.setMessage(from, t, number, data)
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.readers.Leave()
	return s.next(ctx, d)
}

// Following takes the next message of the packet that the last one was in, as most of a busy stream are. The topic is
// nil where Next has more to look at. Its data is valid until the next call of either.
func (s *Subscription) Following() (from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	if !s.readers.Take() {
		return nil, nil, 0, nil // Next says why, or waits
	}
	if f := s.current; f != nil && (s.calls+1)%contextEvery != 0 && !s.upSet.Load() && !s.closed.Load() &&
		!s.suppressed.Load() {
		if t, number, data = f.rd.Following(); t != nil {
			from = f.st.Origin()
			s.calls++
			s.got++
		}
	}
	s.readers.Leave()
	return from, t, number, data
}

// contextEvery is after how many messages Next looks whether its context has ended: to look for each would cost
// more than the message.
const contextEvery = 16

// NextBatch is Next that, when it got a message, calls more with those that follow it in the same packet.
func (s *Subscription) NextBatch(ctx context.Context, d *Delivery, more TakeRun) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.readers.Leave()
	if err := s.next(ctx, d); err != nil {
		return err
	}
	if d.Topic == nil || d.Gap() || s.current == nil {
		return nil
	}
	rd := s.current.rd
	if t, body, step, number := rd.Run(); t != nil {
		rest, next := more(t, number, body, step, rd.MaxMessage())
		rd.Took(rest, next)
		s.got += next - number
	}
	return nil
}

// begin makes the calling goroutine the one that reads.
func (s *Subscription) begin() error {
	if s.handler != nil {
		return ErrHandled
	}
	if !s.readers.read() {
		if s.closed.Load() {
			if f := s.last.Swap(nil); f != nil {
				f.c.Return() // the call for the next message returns this one
			}
			return net.ErrClosed
		}
		return ErrConcurrentNext
	}
	return nil
}

func (s *Subscription) next(ctx context.Context, d *Delivery) error {
	// A context that has ended is noticed between messages too.
	if s.calls++; s.calls%contextEvery == 0 {
		if err := liveContext(ctx); err != nil {
			return err
		}
	}
	if s.l.cfg.Wait == WaitSpin && s.spin(ctx, d) {
		return nil
	}
	for {
		if s.poll(d) {
			return nil
		}
		if ctx == nil {
			return ErrNilContext
		}
		done := ctx.Done() // the user's code, before there is anything to undo
		s.sleep.Store(true)
		if s.poll(d) { // it came before the loop could know that we sleep
			s.sleep.Store(false)
			return nil
		}
		if s.l.watchdog.within() {
			s.sleep.Store(false)
			return ErrInHandler
		}
		if !s.park() {
			continue
		}
		select {
		case <-s.wake:
		case <-s.ended:
			s.sleep.Store(false)
			return s.Err()
		case <-done:
			s.sleep.Store(false)
			return contextError(ctx)
		}
	}
}

// poll fills d if there is something.
func (s *Subscription) poll(d *Delivery) bool {
	if s.closed.Load() || s.suppressed.Load() {
		return false
	}
	if s.upSet.Load() && s.takeEvent(d) {
		return true
	}
	for {
		if f := s.current; f != nil {
			if f.rd.Next(&d.Item) {
				switch {
				case d.State != reliable.StateOfNone:
				case !d.Gap():
					s.got++
				default:
					if s.suppressed.Load() {
						return false // the bus has been closed since: nothing is repaired any more
					}
					s.lost(&d.Item, f.g.address, f.st.Origin())
				}
				if d.From, d.Event, d.Err = f.st.Origin(), nil, nil; d.Request {
					d.asks(f.g)
				}
				return true
			}
			if s.collision(f, d) {
				return true
			}
			s.release(f)
			s.current = nil
			if e := f.ending; e != nil {
				f.ending = nil
				if s.events {
					*d = Delivery{Event: e}
					return true
				}
			}
		}
		// All three go by the same feeds: of one that came since, a message would be read before its beginning.
		feeds := *s.feeds.Load()
		if s.arrival(feeds, d) {
			return true
		}
		for _, f := range feeds {
			if s.collision(f, d) { // of before the subscription
				return true
			}
		}
		if !s.advance(feeds) {
			return false
		}
	}
}

// takeEvent follows changes of topics, and delivers events of a publisher.
func (s *Subscription) takeEvent(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows()
	if s.up.len() == 0 {
		s.upSet.Store(false)
		return false
	}
	*d = s.up.pop()
	s.upSet.Store(s.up.len() > 0)
	return true
}

// deliveries are to be delivered one after the other.
type deliveries struct {
	list []Delivery
	head int // of the next one
}

func (x *deliveries) len() int        { return len(x.list) - x.head }
func (x *deliveries) push(d Delivery) { x.list = append(x.list, d) }

// pop takes the next one. Those behind it move only when they are no more than those taken since: in all, no more
// moves than deliveries.
func (x *deliveries) pop() Delivery {
	d := x.list[x.head]
	x.list[x.head] = Delivery{}
	if x.head++; x.head == len(x.list) {
		*x = deliveries{}
	} else if 2*x.head >= len(x.list) {
		n := copy(x.list, x.list[x.head:])
		clear(x.list[n:])
		x.list, x.head = x.list[:n], 0
	}
	return d
}

// arrival delivers that a publisher came up, before anything else of it.
func (s *Subscription) arrival(feeds []*feed, d *Delivery) bool {
	if !s.events {
		return false
	}
	for _, f := range feeds {
		if e := f.starting; e != nil {
			f.starting = nil
			*d = Delivery{Event: e}
			return true
		}
	}
	return false
}

// collision delivers a collision of a feed's.
func (s *Subscription) collision(f *feed, d *Delivery) bool {
	if len(f.collisions) == 0 {
		return false
	}
	*d = Delivery{Err: f.collisions[0]}
	f.collisions = f.collisions[1:]
	return true
}

// advance leases the next item of any stream, taking turns.
func (s *Subscription) advance(feeds []*feed) bool {
	for range feeds {
		if s.turn >= len(feeds) {
			s.turn = 0
		}
		f := feeds[s.turn]
		s.turn++
		if f.finished {
			continue
		}
		f.catchUp()
		it, data, ok := f.c.Lease()
		if !ok {
			continue
		}
		s.current = f
		s.take(f, it, data)
		return true
	}
	return false
}

// spin looks for something to deliver until ctx ends or the subscription does. It reports whether d holds it.
func (s *Subscription) spin(ctx context.Context, d *Delivery) bool {
	for i := 1; ; i++ {
		if s.poll(d) {
			return true
		}
		if i%64 == 0 {
			if liveContext(ctx) != nil {
				return false
			}
			select {
			case <-s.ended:
				return false
			default:
			}
		}
		runtime.Gosched()
	}
}
