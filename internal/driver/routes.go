package driver

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/topicmap"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// routes say which cursors a stream's packets are for. The others rest (ring.Cursor.Rest):
// so a message costs no more where ten thousand subscriptions want other topics. Loop only.
type routes struct {
	feeds  []*feed // all
	topics topicmap.Map[route]
	packet uint64 // counts packets
}

// route is the feeds that want one topic.
type route struct{ feeds []*feed }

// want lets f read the packets with messages of a topic.
func (r *routes) want(f *feed, id uint64) {
	x := r.topics.Get(id)
	if x == nil {
		x = new(route)
		r.topics.Add(id, x)
	}
	x.feeds = append(x.feeds, f)
	f.topics = append(f.topics, id)
}

// unwant takes that back.
func (r *routes) unwant(f *feed, id uint64) {
	x, i := r.topics.Get(id), slices.Index(f.topics, id)
	if x == nil || i < 0 {
		return
	}
	f.topics = slices.Delete(f.topics, i, i+1)
	if x.feeds = dropped(x.feeds, f); len(x.feeds) == 0 {
		r.topics.Remove(id)
	}
}

func dropped(feeds []*feed, f *feed) []*feed {
	if i := slices.Index(feeds, f); i >= 0 {
		return slices.Delete(feeds, i, i+1)
	}
	return feeds
}

// rouse lets those read the packet with these runs, which is appended next, that want any
// of its topics.
func (r *routes) rouse(runs []byte) {
	r.packet++
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		x := r.topics.Get(run.Topic)
		if x == nil {
			continue
		}
		for _, f := range x.feeds {
			if f.packet != r.packet {
				f.packet = r.packet
				f.c.Rouse()
			}
		}
	}
}

// routesOf are the routes of a stream, nil without cursors.
func (g *group) routesOf(st *reliable.Stream) *routes {
	if g.routed != st {
		g.routed, g.route = st, g.routes[st]
	}
	return g.route
}

// connect gives a feed, which wants these topics, its place in the stream's routes.
func (g *group) connect(f *feed, topics []uint64) {
	r := g.routes[f.st]
	if r == nil {
		r = new(routes)
		g.routes[f.st] = r
		g.routed = nil
	}
	r.feeds = append(r.feeds, f)
	for _, id := range topics {
		r.want(f, id)
	}
	f.c.OnRouse(func() { g.count(f) })
	f.c.Rest() // until something comes that it wants
}

// disconnect takes it away, and ends its cursor.
func (g *group) disconnect(f *feed) {
	f.st.Detach(f.c)
	r := g.routes[f.st]
	for len(f.topics) > 0 {
		r.unwant(f, f.topics[len(f.topics)-1])
	}
	if r.feeds = dropped(r.feeds, f); len(r.feeds) == 0 {
		delete(g.routes, f.st)
		g.routed = nil
	}
	g.counting = dropped(g.counting, f)
	f.counts = false
}

// count notes that a feed does not rest any more.
func (g *group) count(f *feed) {
	if !f.counts {
		f.counts = true
		f.setBlock()
		g.counting = append(g.counting, f)
	}
}

// tendFeeds looks after the feeds that do not rest, after each batch.
func (g *group) tendFeeds(now reliable.Instant) {
	for i := 0; i < len(g.counting); {
		f := g.counting[i]
		switch {
		case f.done.Load():
			g.disconnect(f)
			f.s.forget(f)
			continue
		case f.c.Resting():
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
