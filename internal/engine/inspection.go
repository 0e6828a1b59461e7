package engine

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Inspection describes a bus at one time.
type Inspection struct {
	stats.Bus
	// Topics are the published topics with the most messages, in descending order. TopicsLeft is the number of the
	// others.
	Topics     []TopicInspection
	TopicsLeft int
	// Subscriptions are the requested ones, in the order of the request.
	Subscriptions []SubscriptionInspection
	// Err says why Groups, Legs and the loop's part of Subscriptions are missing.
	Err error
	// Ended reports whether the loop has ended, by itself or by Close.
	Ended   bool
	Closing bool
}

// TopicInspection describes a published topic.
type TopicInspection struct {
	Name        string
	Group       string // address
	Messages    uint64
	Subscribers int // known subscribers
	topic       *topics.Topic
	p           *Publication
}

// SubscriptionInspection describes a subscription.
type SubscriptionInspection struct {
	stats.Subscription
	Names []string // of topics and patterns, at most InspectionLimits.Names
}

// InspectionLimits are the largest numbers of topics, and of names per subscription.
type InspectionLimits struct{ Topics, Names int }

// questions holds the one question that the loop is to answer. Callers share it, so that questions do not pile up while
// a handler holds up the loop.
type questions struct {
	mu      sync.Mutex
	running *loopAnswer // under mu; nil: none
}

// loopAnswer is the loop's answer. It is valid after finished is closed.
type loopAnswer struct {
	finished chan struct{}
	groups   []stats.Group
	legs     []stats.Leg
	subs     map[*Subscription]SubscriptionInspection
}

// Inspect describes the bus. Unlike Stats it waits for the loop, which a handler may hold up, at most until ctx ends.
// It interrupts the loop once, regardless of the number of subscriptions. Handlers must not call it.
func (l *Loop) Inspect(ctx context.Context, subs []*Subscription, most InspectionLimits) Inspection {
	x := Inspection{Bus: l.sharedStats(), Ended: l.Ended(), Closing: l.isClosing()}
	x.Topics, x.TopicsLeft = l.busiestTopics(most.Topics)
	answer, err := l.ask(ctx, subs, most.Names)
	x.Err = err
	if err == nil {
		x.Groups, x.Legs = answer.groups, answer.legs
	}
	for _, s := range subs {
		var st SubscriptionInspection
		if err == nil {
			st = answer.subs[s]
		}
		st.Messages = s.delivered()
		st.Lost = s.losses.snapshot()
		x.Subscriptions = append(x.Subscriptions, st)
	}
	return x
}

// ask posts a question to the loop, or shares the pending one, and waits for the answer.
func (l *Loop) ask(ctx context.Context, subs []*Subscription, names int) (*loopAnswer, error) {
	l.questions.mu.Lock()
	x := l.questions.running
	if x == nil {
		x = &loopAnswer{finished: make(chan struct{}), subs: make(map[*Subscription]SubscriptionInspection, len(subs))}
		if err := l.post(func() { l.answer(x, subs, names) }); err != nil {
			l.questions.mu.Unlock()
			return nil, err
		}
		l.questions.running = x
	}
	l.questions.mu.Unlock()
	switch l.await(x.finished, l.shutdown.done, ctx.Done()) {
	case 1:
		return nil, l.closedError()
	case 2:
		return nil, errBusy
	}
	return x, nil
}

var errBusy = errors.New("the bus's own goroutine is busy, in a handler that does not return or for lack of processor time")

// answer fills in x. Loop only.
func (l *Loop) answer(x *loopAnswer, subs []*Subscription, names int) {
	x.groups, x.legs = l.groupStats(), l.legStats()
	l.sampleOf(l.now(), x.groups, x.legs)
	for _, s := range subs {
		var st SubscriptionInspection
		s.look(&st.Subscription)
		all := s.names()
		st.Names = all[:min(len(all), names)]
		x.subs[s] = st
	}
	l.questions.mu.Lock()
	l.questions.running = nil
	l.questions.mu.Unlock()
	close(x.finished)
}

const (
	topicsAtOnce  = 256     // read before the publication's lock is released
	maxTopicsRead = 1 << 16 // topics of a bus that are considered: of more, the last are never among the busiest
)

// busiestTopics returns up to most topics with the most messages, and the number of other topics.
func (l *Loop) busiestTopics(most int) (top []TopicInspection, others int) {
	looked := 0
	byMessages := func() {
		slices.SortFunc(top, func(a, b TopicInspection) int {
			switch {
			case a.Messages > b.Messages:
				return -1
			case a.Messages < b.Messages:
				return 1
			}
			return 0
		})
		top = top[:min(len(top), most)]
	}
	all := 0
	for _, p := range l.publications() {
		address := l.t.GroupAddress(p.group)
		for from, more := 0, true; more && looked < maxTopicsRead; from += topicsAtOnce {
			p.mu.Lock()
			list := p.m.TopicsFrom(from, topicsAtOnce)
			for _, t := range list {
				top = append(top, TopicInspection{Name: t.Name, Group: address, Messages: t.Next() % wire.Returning,
					topic: t, p: p})
			}
			p.mu.Unlock()
			more = len(list) == topicsAtOnce
			if looked += len(list); len(top) > 4*most {
				byMessages()
			}
		}
		p.mu.Lock()
		all += p.m.Topics()
		p.mu.Unlock()
	}
	byMessages()
	for i := range top {
		t := &top[i]
		t.p.mu.Lock()
		t.Subscribers = t.p.m.Receivers(t.topic.ID)
		t.p.mu.Unlock()
	}
	return top, all - len(top)
}

// EndedErr returns why the loop has ended by itself; nil if it has not.
func (l *Loop) EndedErr() error {
	if !l.Ended() {
		return nil
	}
	if err := l.closedError(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
