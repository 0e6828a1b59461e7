package engine

import (
	"slices"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Patterns of topics. A subscription with a pattern gets each matching topic as if it had been added when the core
// learns its name, before the topic's first message is delivered (docs/protocol §9.9). So routes and readers know only
// topics.

// patterns are those of a group's subscriptions. Loop only.
type patterns struct {
	set  pattern.Set[*Subscription]
	subs map[*Subscription]int // number of patterns of each
	buf  []*Subscription
	full bool // it was reported that the group has too many topics
	// nil: names are not being learned for a first pattern
	ahead *namesAhead
}

// ofPatterns is the part of a feed that concerns its subscription's patterns in the group.
type ofPatterns struct {
	wild  atomic.Bool // there are patterns
	since uint64      // loop only: the topics of all patterns are wanted from this sequence on
	// numbered: topics begin with given messages, also topics that are named later
	numbered bool
}

func (p *patterns) add(s *Subscription, of pattern.Pattern) {
	p.set.Add(of, s)
	if p.subs == nil {
		p.subs = make(map[*Subscription]int)
	}
	p.subs[s]++
}

func (p *patterns) remove(s *Subscription, of pattern.Pattern) {
	if !p.set.Remove(of, s) {
		return
	}
	if p.subs[s]--; p.subs[s] == 0 {
		delete(p.subs, s)
	}
}

// matching returns the subscriptions with a pattern that matches the topic, some more than once. The list is valid
// until the next call.
func (p *patterns) matching(topic string) []*Subscription {
	p.buf = p.set.Append(p.buf[:0], topic)
	return p.buf
}

// has reports whether the subscription has a pattern.
func (p *patterns) has(s *Subscription) bool { return p.subs[s] > 0 }

// wantName adds a topic or pattern of a subscription; reportWants then informs publishers. It returns the topics that
// are new to the subscription.
func (g *group) wantName(s *Subscription, n TopicName) ([]*groupTopic, error) {
	if n.Pattern.Wild() {
		return g.wantPattern(s, n.Pattern), nil
	}
	id := wire.TopicID(n.Name)
	fresh, err := g.want(s, id, n.Name)
	if err != nil {
		return nil, err
	}
	t := g.topics[id]
	if t.exact++; t.exact == 1 {
		g.in.Want(t.name)
	}
	if !fresh {
		return nil, nil
	}
	return []*groupTopic{t}, nil
}

// dropName removes a topic or pattern of a subscription; reportWants then informs publishers. kept is what the
// subscription still has. dropName returns the topics that it no longer has.
func (g *group) dropName(s *Subscription, n TopicName, kept *topicSet) []*groupTopic {
	if n.Pattern.Wild() {
		return g.dropPattern(s, n.Pattern, kept)
	}
	t := g.topics[wire.TopicID(n.Name)]
	if t == nil {
		return nil
	}
	if t.exact--; t.exact == 0 {
		g.in.Unwant(t.name)
	}
	if kept.want(g.index, t.name) || !g.drop(s, t.id) {
		return nil
	}
	return []*groupTopic{t}
}

// wantPattern adds a subscription's pattern. It returns the known topics that are new to the subscription.
func (g *group) wantPattern(s *Subscription, p pattern.Pattern) (fresh []*groupTopic) {
	g.patterns.add(s, p)
	g.in.LearnNames(g.l.now(), g)
	if s.handler != nil {
		g.l.watchdog.know(wire.TopicID(p.String()), p.String())
		g.handleAll()
		for _, st := range g.r.Streams() {
			in := outputOf(st).handlers
			in.since = st.Next()
		}
	}
	for _, f := range *s.feeds.Load() {
		if f.g == g {
			f.since = f.st.Next()
			f.wild.Store(true)
		}
	}
	for _, id := range g.in.NamesMatching(p) {
		name, _ := g.in.Name(id)
		if t := g.wantNamed(s, id, name); t != nil {
			fresh = append(fresh, t)
		}
	}
	return fresh
}

// reportTooManyTopics reports once that the group has more topics than patterns can know.
func (g *group) reportTooManyTopics(from *reliable.Origin) {
	if !g.patterns.full {
		g.patterns.full = true
		report.TooManyTopics.Log(g.l.log, append(publisherArgs(from, g.address), "known", g.in.NamesKnown())...)
	}
}

// wantNamed adds a topic that matches a pattern of the subscription. It returns nil if the subscription has it already,
// or cannot have it.
func (g *group) wantNamed(s *Subscription, id uint64, name string) *groupTopic {
	fresh, err := g.want(s, id, name)
	if err != nil {
		g.l.say(&report.PatternCollision, "topic", name, "err", err, "group", g.address)
		return nil
	}
	if !fresh {
		return nil
	}
	return g.topics[id]
}

// dropPattern removes a subscription's pattern. It returns the topics that the subscription no longer has; kept is what
// it still has.
func (g *group) dropPattern(s *Subscription, p pattern.Pattern, kept *topicSet) (gone []*groupTopic) {
	g.patterns.remove(s, p)
	if s.handler != nil {
		g.l.watchdog.forget(wire.TopicID(p.String()), p.String())
	}
	for _, id := range g.in.NamesMatching(p) {
		if t := g.topics[id]; t != nil && !kept.want(g.index, t.name) && g.drop(s, id) {
			gone = append(gone, t)
		}
	}
	if g.patterns.set.Len() == 0 {
		g.in.LearnNames(g.l.now(), nil)
	}
	if !g.patterns.has(s) {
		for _, f := range *s.feeds.Load() {
			if f.g == g {
				f.wild.Store(false)
			}
		}
	}
	return gone
}

// Named implements topics.Names.
func (g *group) Named(st *reliable.Stream, id uint64, name string, since uint64, whole bool) {
	fresh := false
	for _, s := range g.patterns.matching(name) {
		t := g.wantNamed(s, id, name)
		fresh = fresh || t != nil
		if t != nil && s.handler == nil {
			s.extend(g, t, true, func(f *feed) bool { return whole && f.st == st && f.since <= since })
		}
	}
	if t := g.topics[id]; !fresh || t.handlers.Len() == 0 {
		return
	}
	for _, x := range g.r.Streams() {
		in := outputOf(x).handlers
		if in == nil {
			continue
		}
		if whole && x == st && in.since <= since {
			in.rd.Whole(id)
		}
		g.begin(x, in.rd, g.topics[id])
	}
}

// Forgotten implements topics.Names: subscriptions that have the topic by a pattern drop it, when they have read what
// has arrived.
func (g *group) Forgotten(st *reliable.Stream, id uint64) {
	t := g.topics[id]
	if t == nil {
		return
	}
	for _, s := range slices.Clone(t.users.List()) {
		if t.exact > 0 && s.topics.Has(TopicName{Name: t.name, Group: g.index}) {
			continue
		}
		g.drop(s, id)
		if s.handler == nil {
			s.dropTopic(g, t, (*reliable.Stream).Next)
		}
	}
}

// Wants implements topics.Names.
func (g *group) Wants(id uint64) bool { return g.topics[id] != nil }

// wanting reports whether the group has any topic or pattern.
func (g *group) wanting() bool { return len(g.topics) > 0 || g.patterns.set.Len() > 0 }
