package engine

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Policy says what happens when a subscription reads too slowly.
type Policy = slow.Policy

// TopicName is a subscribed topic and the group that it maps to. Or it is a pattern with a wildcard, and a group in
// which matching topics can be.
type TopicName struct {
	Name    string
	Group   int
	Pattern pattern.Pattern // not wild for a topic's name
}

// Delivery is what a subscription delivers: a message, a gap, an event or an error in the stream.
type Delivery struct {
	topics.Item
	From  *reliable.Origin // of messages and gaps
	Event *events.Event    // nil for messages and gaps
	Err   error            // a *events.TopicCollisionError, *events.PublisherRefusedError or *AbsentError; otherwise nil
}

// setMessage makes d a message, field by field. A value that was made first would be copied in larger pieces than it
// was written in, and the processor would wait for that.
func (d *Delivery) setMessage(from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	d.Topic, d.Number, d.Data = t, number, data
	d.Lost, d.Unknown, d.Cause, d.Request, d.State = 0, false, events.CauseNone, false, reliable.StateOfNone
	d.From, d.Event, d.Err = from, nil, nil
}

// Subscription delivers topics in one of two ways: the loop calls its handler, or the user's goroutine calls Next,
// which reads the streams with cursors.
type Subscription struct {
	// With many topics nearly every message is another subscription's, so the fields that the loop needs for it are
	// together.
	self    [1]*Subscription // for handlersOf
	handler Handler          // called by the loop; nil: read with cursors
	got     uint64           // messages; used by the reader only

	l      *Loop
	topics topicSet
	terms
	events bool

	feeds atomic.Pointer[[]*feed] // one per stream; replaced by the loop only
	rouse

	mu         sync.Mutex
	up         deliveries    // under mu: events and errors to deliver next
	changes    []topicChange // under mu: to apply next
	upSet      atomic.Bool   // up or changes is not empty
	err        error         // under mu: why it ended
	ended      chan struct{}
	closed     atomic.Bool
	suppressed atomic.Bool // the bus is closing
	losses     subscriptionLosses

	// Used by the reader only:
	current *feed
	turn    int
	calls   uint
	readers readerClaim          // held while using these fields
	shown   atomic.Uint64        // got, up to the last packet
	last    atomic.Pointer[feed] // the feed that was being read when the subscription was closed
}

// rouse wakes the reader.
type rouse struct {
	sleep atomic.Bool   // the reader is about to wait
	wake  chan struct{} // capacity 1
	_     [32]byte      // keeps subscriptions on separate cache lines (TestBusesShareNoLine)
}

// terms are where a subscription begins, and its policy for slow readers.
type terms struct {
	policy  Policy
	from    From
	crowded atomic.Bool // its conflation, if any, is crowded
}

// blocks reports whether the subscription blocks the stream's publisher while it does not read.
func (t *terms) blocks(free bool) bool { return t.policy.Blocks(free, t.crowded.Load()) }

// TakeRun takes messages of topic t from body, as many as it wants, with topics.NextMessage and step. number is that of
// the first. It returns the rest, and the number of the next message.
type TakeRun func(t *topics.Track, number uint64, body []byte, step, most int) (rest []byte, next uint64)

// Handler is called by the loop with what a subscription delivers. It must not block.
type Handler interface {
	// Message handles a message. data is valid during the call.
	Message(from *reliable.Origin, t *topics.Track, number uint64, data []byte)
	// Run handles the messages that follow it in its packet, all of them, as TakeRun.
	Run(from *reliable.Origin, t *topics.Track, number uint64, body []byte, step, most int) (rest []byte, next uint64)
	// Other handles gaps, events and errors in the stream.
	Other(*Delivery)
}

// Subscribe starts a subscription. The loop calls handler; if that is nil, use Next.
func (l *Loop) Subscribe(topics []TopicName, policy Policy, from From, events bool,
	handler Handler) (*Subscription, error) {
	s := &Subscription{
		l: l, terms: terms{policy: policy, from: from}, events: events, handler: handler,
		rouse: rouse{wake: make(chan struct{}, 1)}, ended: make(chan struct{}),
	}
	s.self[0] = s
	s.feeds.Store(new([]*feed))
	ahead, err := s.learnAhead(topics)
	if err != nil {
		return nil, err
	}
	if doErr := l.do(func() {
		err = s.add(topics, from)
		ahead.end()
	}); doErr != nil {
		return nil, doErr
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// TopicError says which topic of a subscription failed, and why.
type TopicError struct {
	Topic string
	Err   error
}

func (e *TopicError) Error() string { return fmt.Sprintf("topic %q: %v", e.Topic, e.Err) }
func (e *TopicError) Unwrap() error { return e.Err }

// Handled reports whether the loop calls the subscription's handler.
func (s *Subscription) Handled() bool { return s.handler != nil }

// groups yields each group in which the subscription has topics. Loop only.
func (s *Subscription) groups() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for index := range s.topics.groups {
			if g := s.group(index); g != nil && !yield(g) {
				return
			}
		}
	}
}

// stop releases everything. Loop only.
func (s *Subscription) stop() {
	for _, t := range s.topics.List() {
		if g := s.group(t.Group); g != nil {
			g.dropName(s, t, nil)
		}
	}
	for g := range s.groups() {
		g.detach(s)
		g.reportWants()
	}
	for _, f := range *s.feeds.Load() {
		f.g.disconnect(f)
	}
	s.feeds.Store(new([]*feed))
}

// wakeSubscriptions wakes the readers that found nothing before this batch.
func (l *Loop) wakeSubscriptions() {
	for _, s := range l.woken {
		l.readied = s.wakeReader() || l.readied
	}
	clear(l.woken)
	l.woken = l.woken[:0]
}

// wakeReader wakes a sleeping reader. It reports whether it did.
func (s *Subscription) wakeReader() bool {
	if !s.sleep.CompareAndSwap(true, false) {
		return false
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

// notify delivers an event of a publisher before the next message that is read, out of the stream's order.
func (s *Subscription) notify(e events.Event) {
	if !s.events {
		return
	}
	s.mu.Lock()
	s.up.push(Delivery{Event: &e})
	s.upSet.Store(true)
	s.mu.Unlock()
	s.wakeReader()
}

// suppress makes Next return net.ErrClosed from now on.
func (s *Subscription) suppress() {
	s.suppressed.Store(true)
	s.fail(net.ErrClosed)
}

// fail ends the subscription with an error, unless it has ended.
func (s *Subscription) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.ended)
	}
}

// Err returns why the subscription ended; nil while it runs.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ended returns a channel that is closed when the subscription has ended.
func (s *Subscription) Ended() <-chan struct{} { return s.ended }

// Close ends the subscription. It waits for a running handler, and for replies that a requester may still ask for. It
// does not wait for Next, which returns an error that matches net.ErrClosed.
func (s *Subscription) Close() error {
	if s.l.refuses() {
		return ErrInHandler
	}
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.fail(net.ErrClosed)
	// A Next that is reading ends first, because its cursors will be removed.
	for !s.readers.Take() {
		s.wakeReader()
		s.l.yield()
	}
	// A message that the reader holds stays valid: the log keeps the slot until Next is called, or for some seconds.
	s.last.Store(s.current)
	if s.handler == nil {
		s.shown.Store(s.got) // with a handler it is the loop's
	}
	owed := false
	err := s.l.do(func() {
		if owed = s.l.owedFor(s.mayHave) > 0; !owed {
			s.stop()
		}
	})
	if owed {
		s.lingerReplies()
		err = s.l.do(s.stop)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
