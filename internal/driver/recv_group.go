package driver

import (
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// group is the receive side of one group. Loop only, but for dropped.
type group struct {
	l          *Loop
	index      int
	address    string
	r          *reliable.Receiver
	topics     map[uint64]*groupTopic
	subs       []*Subscription // with cursors on the group's streams
	counting   []*feed         // of theirs, those that do not rest
	logs       []*output       // that have a log
	inline     bool            // some topic has had handlers
	d          Delivery        // what handlers are called with: here so that it is not allocated each time
	joined     bool
	failed     bool            // it cannot be joined: the next who wants it tries again
	suppressed bool            // the bus is closing: nothing is delivered any more
	leaving    []*Subscription // that have left the group, and still have feeds
	refused    refusals
	faults     faultNotes
	echo       echoWatch
	damaged    uint64 // packets, so far
	dropped    atomic.Uint64
	unwanted   unwanted
}

// groupTopic is what the group's subscriptions want of one topic.
type groupTopic struct {
	id       uint64
	name     string
	handlers []*Subscription // called by the loop
	users    int             // subscriptions of either kind
}

// open returns the group, joining it at first use, and again where that has
// failed.
func (l *Loop) open(index int) (*group, error) {
	if g := l.groups[index]; g != nil {
		if g.failed {
			if err := l.t.Join(index); err != nil {
				return nil, err
			}
			g.failed = false
		}
		return g, nil
	}
	l.memory.prepare(l.cfg.Receiver.WindowBytes)
	g := &group{l: l, index: index, address: l.t.GroupAddress(index), topics: make(map[uint64]*groupTopic)}
	cfg := l.cfg.Receiver
	cfg.GroupTag = reliable.GroupTag(g.address)
	r, err := reliable.NewReceiver(cfg, g, peers{l.t})
	if err != nil {
		return nil, err
	}
	g.r = r
	if err := l.t.Join(index); err != nil {
		return nil, err
	}
	l.groups[index] = g
	g.joined = index == 0 && l.hellos.takeOver()
	return g, nil
}

// peers adapts the transport's peers to the core's.
type peers struct{ t transport.Transport }

func (p peers) Retain(from uint64) (uint32, bool) {
	peer, err := p.t.Retain(transport.Source(from))
	return uint32(peer), err == nil
}

func (p peers) Address(from uint64) string {
	if a, ok := p.t.(transport.Addresser); ok {
		return a.SourceAddress(transport.Source(from))
	}
	return ""
}

func (p peers) Forget(peer uint32) { p.t.Forget(transport.Peer(peer)) }

// want adds a subscription's topic; publishers learn of it by tell.
func (g *group) want(s *Subscription, id uint64, name string) error {
	t := g.topics[id]
	if t == nil {
		t = &groupTopic{id: id, name: name}
		g.topics[id] = t
	}
	if t.name != name {
		return &reliable.TopicCollisionError{ID: id, Known: t.name, Other: name}
	}
	t.users++
	if s.handler != nil {
		t.handlers = append(t.handlers, s)
		g.l.watchdog.know(id, name)
		g.inline = true
		for _, st := range g.r.Streams() {
			o := outputOf(st)
			if err := st.Collided(id); err != nil {
				s.other(&Delivery{Err: err})
			} else if o.handlers != nil {
				o.handlers.rd.Want(id, name, t.route())
			}
			if o.handlers == nil {
				o.handle(st.Next())
			}
		}
	}
	return nil
}

// drop removes a subscription's topic; publishers learn of it by tell.
func (g *group) drop(s *Subscription, id uint64) {
	t := g.topics[id]
	if t == nil {
		return
	}
	for i, h := range t.handlers {
		if h == s {
			t.handlers = append(t.handlers[:i:i], t.handlers[i+1:]...)
			g.l.watchdog.forget(id, t.name)
			break
		}
	}
	if t.users--; t.users == 0 {
		delete(g.topics, id)
	}
	for _, st := range g.r.Streams() {
		switch in := outputOf(st).handlers; {
		case in == nil || !in.rd.Wants(id):
		case t.users == 0:
			in.rd.Drop(id)
		default:
			in.rd.Want(id, t.name, t.route())
		}
	}
}

// route is what a reader remembers of the topic, to find its handlers: where there is
// only one, that. With many topics what each has of its own is rarely in the cache.
func (t *groupTopic) route() any {
	if len(t.handlers) == 1 {
		return t.handlers[0]
	}
	return t
}

// handlersOf are the handlers of a reader's topic.
func handlersOf(t *reliable.Track) []*Subscription {
	if s, ok := t.Data.(*Subscription); ok {
		return s.self[:]
	}
	return t.Data.(*groupTopic).handlers
}

// tell lets publishers know what is wanted here.
func (g *group) tell() {
	names := make([]string, 0, len(g.topics))
	for _, t := range g.topics {
		names = append(names, t.name)
	}
	g.r.SetTopics(g.l.now(), names)
	g.l.hellos.wants(g.l.now())
}

// attach gives a subscription with cursors its feeds of all streams.
func (g *group) attach(s *Subscription) {
	g.subs = append(g.subs, s)
	g.r.SetAsync(true)
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			s.follow(g, st, st.Next())
		}
	}
}

// introduce tells a subscription with a handler who is up already.
func (g *group) introduce(s *Subscription) {
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			e := g.event(PublisherUp, st)
			s.other(&Delivery{Event: &e})
		}
	}
}

func (g *group) detach(s *Subscription) {
	for i, x := range g.subs {
		if x == s {
			g.subs = append(g.subs[:i], g.subs[i+1:]...)
			break
		}
	}
	g.r.SetAsync(len(g.subs) > 0)
}

// tick ends a batch, sends what the group has to say and returns when it wants
// to be called again.
func (g *group) tick(now reliable.Instant) reliable.Instant {
	g.tendLogs(now)
	g.r.Tick(now)
	g.watchEcho(now)
	g.watchDamage(now)
	g.holding()
	g.sendControl(now)
	g.tendFeeds(now)
	if len(g.leaving) > 0 {
		g.tendLeaving()
	}
	return g.r.Deadline()
}

func (g *group) sendControl(now reliable.Instant) {
	for {
		peer, p, ok := g.r.Next(now, g.l.ctl[:0])
		if !ok {
			return
		}
		if err := g.l.t.Reply(transport.Peer(peer), p); err != nil {
			g.l.counters.repliesFailed.Add(1)
		}
	}
}

// The group is the Sink of its streams. Their events go to outputs.

// StreamUp implements reliable.Sink.
func (g *group) StreamUp(st *reliable.Stream) {
	for _, s := range g.subs {
		if !s.follow(g, st, st.Start()) {
			s.notify(g.event(PublisherUp, st))
		}
	}
	g.refused.heard(st.Publisher)
	g.l.publisherCame(g, st)
	if p := outputOf(st).handlers; p != nil {
		p.lost = false
	}
	e := g.event(PublisherUp, st)
	g.l.event(e)
	g.announce(e)
	g.l.namesake(st)
}

// StreamDown implements reliable.Sink. Those who follow the stream learn of it in its
// order, from its output.
func (g *group) StreamDown(st *reliable.Stream, cause reliable.Cause) {
	outputOf(st).held = nil
	if g.suppressed {
		return
	}
	g.l.publisherWent(g, st, cause)
	g.l.event(g.event(streamEvent(cause), st))
}

// Repaired implements reliable.Sink.
func (g *group) Repaired(ns int64) { g.l.counters.repair.record(ns) }

// handlers yields each subscription with a handler once.
func (g *group) handlers() func(func(*Subscription) bool) {
	return func(yield func(*Subscription) bool) {
		seen := make(map[*Subscription]bool)
		for _, t := range g.topics {
			for _, s := range t.handlers {
				if !seen[s] {
					seen[s] = true
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

func (g *group) event(kind EventKind, st *reliable.Stream) Event {
	return Event{Kind: kind, Group: g.address, Publisher: st.Publisher, Name: st.Origin().Name, Epoch: st.Epoch, Relevant: st.Relevant()}
}

// announce tells the subscriptions with handlers that want to know what became of a
// publisher.
func (g *group) announce(e Event) {
	for s := range g.handlers() {
		if s.events {
			s.other(&Delivery{Event: &e})
		}
	}
}

// membership fails the subscriptions of a group that cannot be joined.
func (g *group) membership(e *transport.Event) {
	switch e.State {
	case transport.Joined:
		g.joined = true
	case transport.Failed:
		g.joined, g.failed = false, true
		for _, t := range g.topics {
			for _, s := range t.handlers {
				s.fail(e.Err)
			}
		}
		for _, s := range g.subs {
			s.fail(e.Err)
		}
	}
}

// stop ends the group's subscriptions when the loop has ended.
func (g *group) stop() {
	err := g.l.closedError()
	for _, s := range g.subs {
		s.fail(err)
	}
	for _, t := range g.topics {
		for _, s := range t.handlers {
			s.fail(err)
		}
	}
}

// errNoMemory says that a stream could not be followed.
var errNoMemory = errors.New("no memory for a receive window: raise ReceiveMemoryBytes")
