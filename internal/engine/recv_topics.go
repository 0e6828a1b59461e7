package engine

import (
	"net"
	"slices"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// How a subscription's topics change. The loop changes the group's topics and handlers. Stream readers belong to the
// goroutine that reads the subscription; it applies pending changes before it delivers the next message.

// topicChange is a change that a subscription's reader has to apply.
type topicChange struct {
	id   uint64
	name string
	from []feedStart // where an added topic begins in each stream
	drop []feedStop  // feeds that no longer want the topic
	left []*feed     // feeds of a group in which no topic is left
}

// feedStart is where a feed begins to read a topic.
type feedStart struct {
	f         *feed
	seq       uint64
	whole     bool                        // the feed had no earlier message of the topic
	live      bool                        // it begins without state
	named     bool                        // by a pattern, when its name became known
	collision *events.TopicCollisionError // the stream has another name for the topic's id
}

// feedStop is where a feed no longer wants a topic.
type feedStop struct {
	f   *feed
	seq uint64
}

// laterTopic is a topic that a feed wants from a sequence on, with fields as in feedStart, or no longer wants.
type laterTopic struct {
	id    uint64
	seq   uint64
	name  string
	whole bool
	live  bool
	named bool
	drop  bool
}

// Add adds topics, beginning with what is published now. Topics that the subscription has already do not change. After
// an error none was added.
func (s *Subscription) Add(topics []TopicName) error {
	ahead, err := s.learnAhead(topics)
	if err != nil {
		return err
	}
	return s.change(func() error {
		defer ahead.end()
		return s.add(topics, From{})
	})
}

// Remove removes topics. It returns the topics, not patterns, of which no more is delivered.
func (s *Subscription) Remove(topics []TopicName) (gone []TopicName, err error) {
	err = s.change(func() (err error) {
		gone, err = s.remove(topics)
		return err
	})
	return gone, err
}

func (s *Subscription) change(f func() error) (err error) {
	if doErr := s.l.do(func() { err = f() }); doErr != nil {
		return doErr
	}
	if s.handler == nil && s.readers.borrow() {
		s.mu.Lock()
		s.follows()
		s.mu.Unlock()
		s.readers.giveBack()
	}
	s.wakeReader()
	return err
}

// add adds topics. from is where groups that are new to the subscription begin. Loop only.
func (s *Subscription) add(topics []TopicName, from From) error {
	if s.Err() != nil || s.closed.Load() || s.l.isClosing() {
		return net.ErrClosed // nothing is delivered any more, or will not be soon
	}
	var added []TopicName
	fresh := make(map[int][]*groupTopic)
	for _, t := range topics {
		live := s.from.State && !from.State && !s.topics.want(t.Group, t.Name)
		if !s.topics.Add(t) {
			continue
		}
		added = append(added, t)
		g, err := s.l.open(t.Group, s.owner(), from)
		if err == nil {
			var news []*groupTopic
			news, err = g.wantName(s, t)
			if live {
				g.beginLive(news)
			}
			fresh[t.Group] = append(fresh[t.Group], news...)
		}
		if err != nil {
			s.undo(added)
			return &TopicError{t.Name, err}
		}
	}
	s.losses.call(s.topics.List())
	for index, of := range byGroup(added) {
		g := s.group(index)
		first := s.topics.in(index) == len(of)
		switch {
		case s.handler == nil && first:
			g.attach(s)
		case s.handler == nil:
			for _, t := range fresh[index] {
				s.extend(g, t, false, func(*feed) bool { return false })
			}
		case first && s.events:
			g.introduce(s)
		}
		if first {
			g.recallRefused(s)
		}
		g.reportWants()
	}
	return nil
}

// undo removes the added topics. Adding the last of them has failed.
func (s *Subscription) undo(added []TopicName) {
	for _, t := range added {
		s.topics.Remove(t)
	}
	for _, t := range added[:len(added)-1] {
		s.group(t.Group).dropName(s, t, &s.topics)
	}
}

// extend makes the reader want one more topic of a group that it reads already. named: a pattern matched the topic when
// its name became known. isNew reports feeds that had no message of the topic before. Loop only.
func (s *Subscription) extend(g *group, t *groupTopic, named bool, isNew func(*feed) bool) {
	c := topicChange{id: t.id, name: t.name}
	for _, f := range *s.feeds.Load() {
		if f.g == g && !f.left {
			c.from = append(c.from, feedStart{f, f.st.Next(), isNew(f), t.live, named, f.o.in.Collided(c.id)})
			f.o.log.want(f, c.id)
		}
	}
	s.postChange(c)
}

// dropTopic removes a topic from the feeds of a group, at the sequence that from returns. Loop only.
func (s *Subscription) dropTopic(g *group, t *groupTopic, from func(*reliable.Stream) uint64) {
	c := topicChange{id: t.id, name: t.name}
	for _, f := range *s.feeds.Load() {
		if f.g == g {
			c.drop = append(c.drop, feedStop{f, from(f.st)})
			f.o.log.unwant(f, c.id)
		}
	}
	s.postChange(c)
}

// remove removes topics. Loop only.
func (s *Subscription) remove(topics []TopicName) (gone []TopicName, err error) {
	if s.Err() != nil || s.closed.Load() {
		return nil, net.ErrClosed
	}
	var removed []TopicName
	for _, t := range topics {
		if s.topics.Remove(t) {
			removed = append(removed, t)
		}
	}
	s.losses.call(s.topics.List())
	for index, topics := range byGroup(removed) {
		g := s.group(index)
		for _, t := range topics {
			for _, t := range g.dropName(s, t, &s.topics) {
				gone = append(gone, TopicName{Name: t.name, Group: index})
				if s.handler == nil {
					s.dropTopic(g, t, func(*reliable.Stream) uint64 { return 0 })
				}
			}
		}
		if s.handler == nil && s.topics.in(index) == 0 {
			s.postChange(topicChange{left: s.leave(g)})
		}
		g.reportWants()
	}
	return gone, nil
}

// leave ends the subscription's feeds of a group. They are detached when the reader has released them. Loop only.
func (s *Subscription) leave(g *group) (left []*feed) {
	for _, f := range *s.feeds.Load() {
		if f.g == g && !f.left {
			f.left = true
			left = append(left, f)
		}
	}
	g.detach(s)
	if len(left) > 0 && !slices.Contains(g.leaving, s) {
		g.leaving = append(g.leaving, s)
	}
	return left
}

// tendLeaving detaches the feeds of subscriptions that have left the group.
func (g *group) tendLeaving() {
	g.leaving = slices.DeleteFunc(g.leaving, func(s *Subscription) bool {
		s.giveUp(g)
		return !slices.ContainsFunc(*s.feeds.Load(), func(f *feed) bool { return f.left && f.g == g })
	})
}

// byGroup divides topics by their groups.
func byGroup(topics []TopicName) map[int][]TopicName {
	groups := make(map[int][]TopicName)
	for _, t := range topics {
		groups[t.Group] = append(groups[t.Group], t)
	}
	return groups
}

// postChange passes a change to the reader. Loop only.
func (s *Subscription) postChange(c topicChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c)
	s.upSet.Store(true)
}

// follows applies pending changes to the readers. The caller has claimed them. Under mu.
func (s *Subscription) follows() {
	for _, c := range s.changes {
		for _, x := range c.from {
			if x.collision != nil {
				x.f.collisions = append(x.f.collisions, x.collision)
			} else {
				x.f.later = append(x.f.later, laterTopic{c.id, x.seq, c.name, x.whole, x.live, x.named, false})
			}
		}
		for _, x := range c.drop {
			x.f.unwant(c.id, x.seq)
		}
		for _, f := range c.left {
			s.quit(f)
		}
	}
	s.changes = nil
}

// unwant ends the delivery of a topic, from sequence seq on.
func (f *feed) unwant(id, seq uint64) {
	if seq > f.seq && !f.finished {
		f.later = append(f.later, laterTopic{id: id, seq: seq, drop: true})
		return
	}
	f.rd.Drop(id)
	f.later = slices.DeleteFunc(f.later, func(t laterTopic) bool { return t.id == id })
}

// begin makes the feed want the topics that begin at sequence seq or before, and drop those that end there.
func (f *feed) begin(seq uint64) {
	for len(f.later) > 0 && f.later[0].seq <= seq {
		t := f.later[0]
		if f.later = f.later[1:]; t.drop {
			f.rd.Drop(t.id)
			continue
		}
		if t.seq > 0 {
			f.rd.Begun()
		}
		f.rd.Want(t.id, t.name, nil)
		if t.whole {
			f.rd.Whole(t.id)
		}
		if t.live {
			f.rd.WithoutState(t.id)
		}
		if t.named && f.numbered {
			f.rd.From(t.id, f.g.from.Positions.next(f.st.Instance, t.id))
		}
	}
}

// quit ends a feed before its stream. The message that the reader holds stays valid until the next call.
func (s *Subscription) quit(f *feed) {
	f.rd = topics.NewReader(1, 0) // wants nothing
	f.starting, f.ending, f.collisions, f.later = nil, nil, nil, nil
	f.finished = true
	if f != s.current {
		f.done.Store(true)
		s.l.wakeBy(0)
	}
}
