package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// Loops are the loops of one bus. Each has a transport of its own to the same fabric, and each
// group one loop: that whose number is the group's modulo how many there are. A message touches
// nothing but its group's loop (docs/decisions/55-loops.md).
type Loops struct{ all []*Loop }

// Open starts a loop over each of some transports, at least one, which it owns from then on. They
// are endpoints of one fabric. It is one bus with one identity to all others.
func Open(ts []transport.Transport, cfg Config) *Loops {
	if len(ts) > 1 {
		cfg.share(len(ts))
	}
	bus := new(siblings)
	for i, t := range ts {
		c := cfg
		c.loop = i
		if i > 0 {
			first := &bus.loops[0].cfg
			c.Publisher, c.Epoch, c.Receiver.ID = first.Publisher, first.Epoch, first.Receiver.ID
			if cfg.Signer != nil {
				c.Signer = cfg.Signer.Another()
			}
		}
		makeLoop(t, c, bus)
	}
	for _, l := range bus.loops {
		go l.run()
	}
	return &Loops{bus.loops}
}

// share makes what n loops share: OnEvent is called once at a time, and Stopped when all have
// ended.
func (c *Config) share(n int) {
	c.WindowsBytes /= n
	if tell := c.Events; tell != nil {
		var mu sync.Mutex
		c.Events = func(e events.Event) {
			mu.Lock()
			defer mu.Unlock()
			tell(e)
		}
	}
	if stopped := c.Stopped; stopped != nil {
		var ended atomic.Int64
		c.Stopped = func() {
			if ended.Add(1) == int64(n) {
				stopped()
			}
		}
	}
}

// Of is the loop that has a group.
func (x *Loops) Of(group int) *Loop { return x.all[group%len(x.all)] }

// byLoop yields the loops that some topics are with, and which those are.
func (x *Loops) byLoop(topics []TopicName) iter.Seq2[*Loop, []TopicName] {
	return func(yield func(*Loop, []TopicName) bool) {
		for i, l := range x.all {
			var of []TopicName
			for _, t := range topics {
				if t.Group%len(x.all) == i {
					of = append(of, t)
				}
			}
			if len(of) > 0 && !yield(l, of) {
				return
			}
		}
	}
}

// Publisher is Loop.Publisher.
func (x *Loops) Publisher() (id, epoch uint64) { return x.all[0].Publisher() }

// Publication is Loop.Publication.
func (x *Loops) Publication(group int) (*Publication, error) { return x.Of(group).Publication(group) }

// Subscribed is a subscription: a *Subscription where the bus has one loop, else a *Joint.
type Subscribed interface {
	Add(topics []TopicName) error
	Remove(topics []TopicName) (gone []TopicName, err error)
	Conflate(key ConflationKey, limits slow.Limits) *Conflation
	Beside(f func(*Delivery)) *Beside
	Handled() bool
	Stats() SubscriptionStats
	Err() error
	Ended() <-chan struct{}
	Close() error
}

// Subscribe is Loop.Subscribe, of topics in groups of any loop.
func (x *Loops) Subscribe(topics []TopicName, policy Policy, from From, events bool, handler Handler) (Subscribed, error) {
	if len(x.all) == 1 {
		s, err := x.all[0].Subscribe(topics, policy, from, events, handler)
		if err != nil {
			return nil, err // and no nil pointer in an interface
		}
		return s, nil
	}
	if x.all[0].inHandler() {
		return nil, ErrInHandler
	}
	j := &Joint{x: x, terms: newTerms(policy, from), events: events, handler: handler, wake: make(chan struct{}, 1)}
	j.parts.Store(new([]*Subscription))
	j.mu.Lock()
	err := j.add(topics, from)
	j.mu.Unlock()
	if err != nil {
		for _, p := range j.all() {
			p.Close()
		}
		return nil, err
	}
	return j, nil
}

// Close is Loop.Close.
func (x *Loops) Close(ctx context.Context) error {
	if x.all[0].refuses() {
		return ErrInHandler
	}
	errs := make([]error, len(x.all))
	var closing sync.WaitGroup
	for i, l := range x.all {
		closing.Go(func() { errs[i] = l.Close(ctx) })
	}
	closing.Wait()
	return together(errs)
}

// together is the error of all that a bus did not end in order.
func together(errs []error) error {
	var unsent *UnsentError
	for _, err := range errs {
		var u *UnsentError
		switch {
		case !errors.As(err, &u):
		case unsent == nil:
			unsent = &UnsentError{u.Messages, u.Err}
		default:
			unsent.Messages += u.Messages
			unsent.Err = cmp.Or(unsent.Err, u.Err)
		}
	}
	if unsent != nil {
		return unsent
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Ended reports whether all loops have ended.
func (x *Loops) Ended() bool {
	return !slices.ContainsFunc(x.all, func(l *Loop) bool { return !l.Ended() })
}

// EndedErr is why a loop has ended by itself, nil if none has.
func (x *Loops) EndedErr() error {
	for _, l := range x.all {
		if err := l.EndedErr(); err != nil {
			return err
		}
	}
	return nil
}

// RecentEvents is Loop.RecentEvents.
func (x *Loops) RecentEvents(after uint64) []RecentEvent { return x.all[0].RecentEvents(after) }

// SampleNow is Loop.SampleNow.
func (x *Loops) SampleNow() {
	for _, l := range x.all {
		l.SampleNow()
	}
}

// Survey is Loop.Survey, of groups of any loop.
func (x *Loops) Survey(groups []int) (*Surveys, error) {
	s := new(Surveys)
	for _, l := range x.all {
		of := slices.DeleteFunc(slices.Clone(groups), func(g int) bool { return x.Of(g) != l })
		if len(of) == 0 {
			continue
		}
		part, err := l.Survey(of)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}
