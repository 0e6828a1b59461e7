package engine

import (
	"context"
	"errors"
	"net"
	"runtime"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// How subscriptions without a handler are read.

// ErrConcurrentNext says that two goroutines read one subscription.
var ErrConcurrentNext = errors.New("a subscription is read by one goroutine at a time")

// ErrHandled says that a subscription with a handler cannot be read.
var ErrHandled = errors.New("a subscription with a handler is not read with Next")

// Next waits for the next message, gap or event and fills in d. A message's data is valid until the next call.
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

// Following returns the next message of the current packet, which is where most messages of a busy stream are. A nil
// topic means: call Next. The data is valid until the next call of either.
func (s *Subscription) Following() (from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	if !s.readers.Take() {
		return nil, nil, 0, nil // Next returns the error, or waits
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

// contextEvery is the number of messages after which Next checks its context: checking at each would cost more than the
// message.
const contextEvery = 16

// NextBatch is Next, but passes the messages that follow in the same packet to more.
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

// begin claims the readers for the calling goroutine.
func (s *Subscription) begin() error {
	if s.handler != nil {
		return ErrHandled
	}
	if !s.readers.read() {
		if s.closed.Load() {
			if f := s.last.Swap(nil); f != nil {
				f.c.Return() // the call for the next message releases this one
			}
			return net.ErrClosed
		}
		return ErrConcurrentNext
	}
	return nil
}

func (s *Subscription) next(ctx context.Context, d *Delivery) error {
	// Messages may come without a pause, so a context that has ended is detected between them.
	if s.calls++; s.calls%contextEvery == 0 {
		if err := liveContext(ctx); err != nil {
			return err
		}
	}
	if s.l.cfg.Wait == WaitSpin && s.l.virtual == nil && s.spin(ctx, d) {
		return nil
	}
	for {
		if s.poll(d) {
			return nil
		}
		if ctx == nil {
			return ErrNilContext
		}
		done := ctx.Done() // user code, called before there is anything to undo
		s.sleep.Store(true)
		if s.poll(d) { // it came before the loop knew that we sleep
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
		switch s.l.await(s.wake, s.ended, done) {
		case 1:
			s.sleep.Store(false)
			return s.Err()
		case 2:
			s.sleep.Store(false)
			return contextError(ctx)
		}
	}
}

// poll fills in d if there is something to deliver.
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
						return false // the bus has been closed since, and nothing is repaired any more
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
		// All three use the same feeds: with a feed added in between, a message would be read before the feed's first event.
		feeds := *s.feeds.Load()
		if s.arrival(feeds, d) {
			return true
		}
		for _, f := range feeds {
			if s.collision(f, d) { // found before the subscription began
				return true
			}
		}
		if !s.advance(feeds) {
			return false
		}
	}
}

// takeEvent applies changes of topics, and delivers queued events and errors.
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

// deliveries is a queue.
type deliveries struct {
	list []Delivery
	head int // index of the next one
}

func (x *deliveries) len() int        { return len(x.list) - x.head }
func (x *deliveries) push(d Delivery) { x.list = append(x.list, d) }

// pop takes the next delivery. It moves the rest only when that is no longer than what was taken, so there are no more
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

// arrival delivers the event that a publisher came up, before anything else of that publisher.
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

// collision delivers a feed's next collision.
func (s *Subscription) collision(f *feed, d *Delivery) bool {
	if len(f.collisions) == 0 {
		return false
	}
	*d = Delivery{Err: f.collisions[0]}
	f.collisions = f.collisions[1:]
	return true
}

// advance leases the next item of any stream, in turns.
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

// spin polls until ctx or the subscription ends. It reports whether it filled in d.
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
