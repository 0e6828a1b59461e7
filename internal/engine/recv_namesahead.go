package engine

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// Learning topic names before a pattern begins: a pattern begins when the names of the topics that publishers have by
// then are known. docs/decisions/36-names-in-the-stream.md.

// namesAhead is a group's learning of names for patterns that are about to begin. Loop only, except ready.
type namesAhead struct {
	ready  chan struct{} // closed when patterns may begin
	over   bool          // ready is closed
	users  int           // subscriptions that wait, or are about to begin
	began  reliable.Instant
	latest reliable.Instant // when the last name came
	known  int
}

// aheadDeadlines bounds the time for names to arrive, in recovery deadlines. Pauses must be shorter than one deadline.
// Then a pattern begins anyway, with the names that are known: a publisher that lists topics without end must not block
// subscriptions.
const aheadDeadlines = 5

// until returns when patterns begin at the latest.
func (a *namesAhead) until(deadline time.Duration) reliable.Instant {
	return min(a.latest.Add(deadline), a.began.Add(aheadDeadlines*deadline))
}

// learningAhead are the groups in which a subscription waits for names.
type learningAhead []*group

// learnAhead waits for the names of the topics that publishers have when patterns among topics begin. It is not called
// on the loop. Call end when the subscription has begun.
func (s *Subscription) learnAhead(topics []TopicName) (learning learningAhead, err error) {
	wild := func(t TopicName) bool { return t.Pattern.Wild() }
	if !slices.ContainsFunc(topics, wild) {
		return nil, nil
	}
	var ready []chan struct{}
	if err := s.l.do(func() {
		for index, of := range byGroup(topics) {
			if g := s.l.find(index, s.owner()); g != nil && slices.ContainsFunc(of, wild) && g.learnAhead() {
				learning, ready = append(learning, g), append(ready, g.patterns.ahead.ready)
			}
		}
	}); err != nil {
		return nil, err
	}
	for _, c := range ready {
		switch s.l.await(c, s.ended, s.l.shutdown.done) {
		case 1:
			return learning, nil
		case 2:
			return nil, s.l.closedError()
		}
	}
	return learning, nil
}

// end records that the subscription has begun, or will not. Loop only.
func (x learningAhead) end() {
	for _, g := range x {
		p := &g.patterns
		if p.ahead.users--; p.ahead.users > 0 {
			continue
		}
		if p.ahead = nil; p.set.Len() == 0 {
			g.in.LearnNames(g.l.now(), nil)
		}
	}
}

// learnAhead starts to learn names for a pattern. It reports whether some are not known yet. Loop only.
func (g *group) learnAhead() bool {
	p := &g.patterns
	if p.ahead == nil {
		now := g.l.now()
		if g.in.LearnNames(now, g); g.in.NamesLearned() {
			if p.set.Len() == 0 {
				g.in.LearnNames(now, nil)
			}
			return false
		}
		p.ahead = &namesAhead{ready: make(chan struct{}), began: now, latest: now}
	}
	p.ahead.users++
	return true
}

// tendAhead lets patterns begin when the names are known, and returns when to call it again. Loop only.
func (g *group) tendAhead(now reliable.Instant) reliable.Instant {
	a := g.patterns.ahead
	if a == nil || a.over {
		return reliable.Never
	}
	if n := g.in.NamesKnown(); n > a.known {
		a.known, a.latest = n, now
	}
	until := a.until(g.l.cfg.Receiver.Deadline)
	if now < until && !g.in.NamesLearned() {
		return until
	}
	a.over = true
	close(a.ready)
	return reliable.Never
}
