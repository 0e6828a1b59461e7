package driver

import (
	"net"
	"slices"

	"github.com/fanfaremq/fanfare/reliable"
)

// How a subscription's topics change. The loop changes what the group wants, and
// handlers with it; readers of streams belong to whoever reads the subscription, so that
// is told, and follows before it delivers anything more.

// topicChange is what the reader of a subscription has to follow.
type topicChange struct {
	id   uint64
	name string
	from []feedStart // of a topic that was added: where it begins in the streams followed
	g    *group      // of a topic that was removed; nil: one was added
	left []*feed     // of the group, where that was the last topic in it
}

// feedStart is where a feed begins to read a topic.
type feedStart struct {
	f         *feed
	seq       uint64
	collision *reliable.TopicCollisionError // the stream has the topic's id by another name
}

// laterTopic is a topic that a feed wants from a sequence on.
type laterTopic struct {
	seq  uint64
	id   uint64
	name string
}

// Add adds topics, from what is published now on. Those it has already change nothing.
// After an error none was added.
func (s *Subscription) Add(topics []TopicName) error {
	return s.change(func() error { return s.add(topics) })
}

// Remove removes topics: nothing of them is delivered any more when it returns.
func (s *Subscription) Remove(topics []TopicName) error {
	return s.change(func() error { return s.remove(topics) })
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

// add runs on the loop.
func (s *Subscription) add(topics []TopicName) error {
	if s.Err() != nil || s.closed.Load() || s.l.isClosing() {
		return net.ErrClosed
	}
	have := make(map[string]bool, len(s.topics)+len(topics))
	for _, t := range s.topics {
		have[t.Name] = true
	}
	var added []TopicName
	for _, t := range topics {
		if have[t.Name] {
			continue
		}
		have[t.Name] = true
		g, err := s.l.open(t.Group)
		if err == nil {
			err = g.want(s, reliable.TopicID(t.Name), t.Name)
		}
		if err != nil {
			for _, t := range added {
				s.l.groups[t.Group].drop(s, reliable.TopicID(t.Name))
			}
			return &TopicError{t.Name, err}
		}
		added = append(added, t)
	}
	before := s.topics
	s.topics = slices.Concat(s.topics, added)
	for index, topics := range byGroup(added) {
		g := s.l.groups[index]
		fresh := !slices.ContainsFunc(before, func(t TopicName) bool { return t.Group == index })
		switch {
		case s.handler == nil && fresh:
			g.attach(s)
		case s.handler == nil:
			s.extend(g, topics)
		case fresh && s.events:
			g.introduce(s)
		}
		if fresh {
			g.recallRefused(s)
		}
		g.tell()
	}
	return nil
}

// extend makes the reader want more topics of a group that it follows already. Loop
// only.
func (s *Subscription) extend(g *group, topics []TopicName) {
	for _, t := range topics {
		c := topicChange{id: reliable.TopicID(t.Name), name: t.Name}
		for _, f := range *s.feeds.Load() {
			if f.g == g && !f.left {
				c.from = append(c.from, feedStart{f, f.st.Next(), f.st.Collided(c.id)})
				f.o.log.want(f, c.id)
			}
		}
		s.tellReader(c)
	}
}

// remove runs on the loop.
func (s *Subscription) remove(topics []TopicName) error {
	if s.Err() != nil || s.closed.Load() {
		return net.ErrClosed
	}
	gone := make(map[string]bool, len(topics))
	for _, t := range topics {
		gone[t.Name] = true
	}
	var removed, kept []TopicName
	for _, t := range s.topics {
		if gone[t.Name] {
			removed = append(removed, t)
		} else {
			kept = append(kept, t)
		}
	}
	s.topics = kept
	for index, topics := range byGroup(removed) {
		g := s.l.groups[index]
		last := !slices.ContainsFunc(kept, func(t TopicName) bool { return t.Group == index })
		for _, t := range topics {
			c := topicChange{id: reliable.TopicID(t.Name), name: t.Name, g: g}
			g.drop(s, c.id)
			if s.handler != nil {
				continue
			}
			for _, f := range *s.feeds.Load() {
				if f.g == g {
					f.o.log.unwant(f, c.id)
				}
			}
			if last {
				c.left = s.leave(g)
			}
			s.tellReader(c)
		}
		g.tell()
	}
	return nil
}

// leave ends the subscription's feeds of a group's streams; they are given back when
// the reader has let go of them. Loop only.
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

// tendLeaving gives back the feeds of subscriptions that have left the group.
func (g *group) tendLeaving() {
	g.leaving = slices.DeleteFunc(g.leaving, func(s *Subscription) bool {
		s.giveUp(g)
		return !slices.ContainsFunc(*s.feeds.Load(), func(f *feed) bool { return f.left && f.g == g })
	})
}

// byGroup sorts topics by their groups.
func byGroup(topics []TopicName) map[int][]TopicName {
	groups := make(map[int][]TopicName)
	for _, t := range topics {
		groups[t.Group] = append(groups[t.Group], t)
	}
	return groups
}

// tellReader passes a change on to the reader. Loop only.
func (s *Subscription) tellReader(c topicChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c)
	s.upSet.Store(true)
}

// follows makes the readers want what the subscription wants. The reader's own, or of
// one who has borrowed them; under mu.
func (s *Subscription) follows() {
	for _, c := range s.changes {
		if c.g == nil {
			for _, x := range c.from {
				if x.collision != nil {
					x.f.collisions = append(x.f.collisions, x.collision)
				} else {
					x.f.later = append(x.f.later, laterTopic{x.seq, c.id, c.name})
				}
			}
			continue
		}
		for _, f := range *s.feeds.Load() {
			if f.g == c.g {
				f.unwant(c.id)
			}
		}
		for _, f := range c.left {
			s.quit(f)
		}
	}
	s.changes = nil
}

// unwant ends the delivery of a topic.
func (f *feed) unwant(id uint64) {
	f.rd.Drop(id)
	f.later = slices.DeleteFunc(f.later, func(t laterTopic) bool { return t.id == id })
}

// begin makes the feed want what begins at sequence seq or before.
func (f *feed) begin(seq uint64) {
	f.later = slices.DeleteFunc(f.later, func(t laterTopic) bool {
		if t.seq <= seq {
			if t.seq > 0 {
				f.rd.Begun()
			}
			f.rd.Want(t.id, t.name, nil)
		}
		return t.seq <= seq
	})
}

// quit ends a feed before its stream does. What the reader holds of it stays until the
// next message is asked for.
func (s *Subscription) quit(f *feed) {
	f.rd = reliable.NewReader(1, 0) // which wants nothing
	f.starting, f.ending, f.collisions, f.later = nil, nil, nil, nil
	f.finished = true
	if f != s.current {
		f.done.Store(true)
		s.l.wakeBy(0)
	}
}
