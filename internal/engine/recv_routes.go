package engine

import (
	"slices"

	"github.com/fanfaremq/fanfare/reliable"
)

// Routes from a stream's topics to cursors.

// want adds a route from a topic to f.
func (l *cursorLog) want(f *feed, id uint64) {
	if _, wants := f.topics[id]; wants {
		return
	}
	if f.topics == nil {
		f.topics = make(map[uint64]struct{})
	}
	f.topics[id] = struct{}{}
	x := l.topics.Get(id)
	if x == nil {
		x = &route{name: f.g.topics[id].name}
		l.topics.Add(id, x)
	}
	x.feeds.Add(f)
}

// unwant removes it.
func (l *cursorLog) unwant(f *feed, id uint64) {
	x := l.topics.Get(id)
	if _, wants := f.topics[id]; x == nil || !wants {
		return
	}
	delete(f.topics, id)
	if x.feeds.Remove(f); x.feeds.Len() == 0 {
		l.topics.Remove(id)
	}
}

func dropped[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// connect adds routes from these topics to a feed.
func (g *group) connect(f *feed, topics []uint64) {
	for _, id := range topics {
		f.o.log.want(f, id)
	}
	f.c.OnWake(func() { g.count(f) })
	f.c.Park() // until a packet comes that it wants
}

// disconnect removes a feed's routes and ends its cursor. A stream that it blocked resumes at once.
func (g *group) disconnect(f *feed) {
	for id := range f.topics {
		f.o.log.unwant(f, id)
	}
	f.o.detach(f.c)
	if f.counts {
		g.counting = dropped(g.counting, f)
		f.counts = false
	}
	g.l.commands.resume.Store(true)
	g.l.wakeBy(0)
}

// count records that a feed is not parked any more.
func (g *group) count(f *feed) {
	if !f.counts {
		f.counts = true
		f.setBlock()
		g.counting = append(g.counting, f)
	}
}

// tendFeeds checks the feeds that are not parked, after each batch.
func (g *group) tendFeeds(now reliable.Instant) {
	for i := 0; i < len(g.counting); {
		f := g.counting[i]
		switch {
		case f.done.Load():
			g.disconnect(f)
			f.s.forget(f)
			continue
		case f.c.Parked():
			f.unread = unread{}
			f.counts = false
			n := len(g.counting) - 1
			g.counting[i], g.counting[n] = g.counting[n], nil
			g.counting = g.counting[:n]
			continue
		}
		f.tend(now)
		i++
	}
}
