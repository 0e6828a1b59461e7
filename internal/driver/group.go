package driver

import (
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// group is the receive side of one group. Loop only, but for dropped.
type group struct {
	l       *Loop
	index   int
	address string
	r       *reliable.Receiver
	topics  map[uint64]*groupTopic
	subs    []*Subscription // with cursors on the group's streams
	// Of those with cursors: the feeds of each stream, and those of all that do not rest.
	routes   map[*reliable.Stream]*routes
	counting []*feed
	routed   *reliable.Stream // the last one that was looked up in routes
	route    *routes          // its routes
	inline   bool             // some topic has handlers
	d        Delivery         // what handlers are called with: here so that it is not allocated each time
	joined   bool
	held     map[*reliable.Stream]*holds // whose publishers say that we hold them up, or have
	failed   bool                        // it cannot be joined: the next who wants it tries again
	hushed   bool                        // the bus is closing: nothing is delivered any more
	leaving  []*Subscription             // that have left the group, and still hold places in streams
	refused  refusals
	faults   faultNotes
	echo     echoWatch
	dropped  atomic.Uint64
}

// groupTopic is what the group's subscriptions want of one topic.
type groupTopic struct {
	id       uint64
	name     string
	handlers []*Subscription // called by the loop
	users    int             // subscriptions of either kind
}

// inlineStream is the sink's own data of a stream: the reader for handlers.
type inlineStream struct {
	rd *reliable.Reader
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
	g := &group{l: l, index: index, address: l.t.GroupAddress(index), topics: make(map[uint64]*groupTopic), routes: make(map[*reliable.Stream]*routes)}
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
			if err := st.Collided(id); err != nil {
				s.other(&Delivery{Err: err})
			} else if in, ok := st.Data.(*inlineStream); ok {
				in.rd.Want(id, name, t.route())
			} else {
				g.read(st, st.Next())
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
		in, ok := st.Data.(*inlineStream)
		switch {
		case !ok || !in.rd.Wants(id):
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

// attach gives a subscription with cursors its place in all streams.
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
	g.r.Tick(now)
	g.watchEcho(now)
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

// read gives a stream a reader for handlers, from sequence start on.
func (g *group) read(st *reliable.Stream, start uint64) {
	in := &inlineStream{rd: reliable.NewReader(start, g.l.cfg.Receiver.MaxMessage)}
	in.rd.CountDrops(&g.dropped)
	g.tellFaults(st, in.rd)
	for _, t := range g.topics {
		if len(t.handlers) > 0 && st.Collided(t.id) == nil {
			in.rd.Want(t.id, t.name, t.route())
		}
	}
	st.Data = in
}

// The group is the Sink of its streams.

// StreamUp implements reliable.Sink.
func (g *group) StreamUp(st *reliable.Stream) {
	if st.Data == nil && g.inline {
		g.read(st, st.Start())
	}
	for _, s := range g.subs {
		if !s.follow(g, st, st.Start()) {
			s.notify(g.event(PublisherUp, st))
		}
	}
	g.refused.heard(st.Publisher)
	g.l.publisherCame(g, st)
	g.announce(PublisherUp, st)
	g.l.namesake(st)
}

// Packet implements reliable.Sink.
func (g *group) Packet(st *reliable.Stream, runs []byte) {
	if in, ok := st.Data.(*inlineStream); ok && !g.hushed {
		in.rd.Packet(runs)
		g.dispatch(st, in.rd)
	}
	if r := g.routesOf(st); r != nil {
		r.rouse(runs)
	}
}

// Gap implements reliable.Sink.
func (g *group) Gap(st *reliable.Stream, first, count uint64, cause reliable.Cause) {
	if g.hushed || len(g.topics) == 0 {
		return
	}
	g.l.lossOf(g, st, first, count, cause)
	if in, ok := st.Data.(*inlineStream); ok {
		in.rd.Skip(count, cause)
		g.dispatch(st, in.rd)
	}
}

// Totals implements reliable.Sink.
func (g *group) Totals(st *reliable.Stream, t reliable.TopicTotal) {
	if in, ok := st.Data.(*inlineStream); ok && !g.hushed {
		in.rd.Total(t)
		g.dispatch(st, in.rd)
	}
}

// Collision implements reliable.Sink. Handlers of the topic learn of it and get
// no more of that stream under it; those with cursors learn of it in its place.
func (g *group) Collision(st *reliable.Stream, err *reliable.TopicCollisionError) {
	if g.hushed {
		return
	}
	g.l.log.Error("a publisher's topic has the same id as one that is subscribed here: rename one of them", "publisher", id(st.Publisher), "topic", err.Other, "subscribed", err.Known, "group", g.address)
	e := g.event(TopicCollision, st)
	e.Err = err
	g.l.event(e)
	in, ok := st.Data.(*inlineStream)
	if !ok || !in.rd.Wants(err.ID) {
		return
	}
	in.rd.Drop(err.ID)
	for _, s := range g.topics[err.ID].handlers {
		s.other(&Delivery{Err: err})
	}
}

// StreamDown implements reliable.Sink.
func (g *group) StreamDown(st *reliable.Stream, cause reliable.Cause) {
	delete(g.held, st)
	if g.hushed {
		return
	}
	if in, ok := st.Data.(*inlineStream); ok && cause == reliable.CauseNone {
		in.rd.End()
		g.dispatch(st, in.rd)
	}
	g.l.publisherWent(g, st, cause)
	g.announce(streamEvent(cause), st)
}

// Repaired implements reliable.Sink.
func (g *group) Repaired(ns int64) { g.l.repair.record(ns) }

// dispatch calls the handlers with what the reader has.
func (g *group) dispatch(st *reliable.Stream, rd *reliable.Reader) {
	d := &g.d
	g.l.watchdog.arm()
	for {
		for rd.Open() {
			g.run(st, rd)
		}
		if !rd.Next(&d.Item) {
			return
		}
		if d.Topic == nil { // a gap of which no topic is known
			d.From = st.Origin()
			for s := range g.handlers() {
				s.lost(&d.Item)
				s.other(d)
			}
			g.l.handled(1)
			continue
		}
		handlers := handlersOf(d.Topic)
		if d.Gap() {
			d.From = st.Origin()
			for _, s := range handlers {
				s.lost(&d.Item)
				s.other(d)
			}
			g.l.handled(1)
			continue
		}
		g.l.watchdog.called.Set(markOf(d.Topic.ID))
		for _, s := range handlers {
			s.handler.Message(st.Origin(), d.Topic, d.Number, d.Data)
			s.got++
		}
		g.l.handled(1)
		g.run(st, rd)
	}
}

// run calls a topic's handlers with the rest of a run, in pieces where it is time to
// look at the clock in between: nearly all messages take this way.
func (g *group) run(st *reliable.Stream, rd *reliable.Reader) {
	for {
		t, body, step, number := rd.Run()
		if t == nil {
			return
		}
		piece := g.l.clocks.piece(body)
		g.l.watchdog.called.Set(markOf(t.ID))
		rest, next := piece, number
		for _, s := range handlersOf(t) {
			rest, next = s.handler.Run(st.Origin(), t, number, piece, step, rd.MaxMessage())
			s.got += next - number
		}
		rd.Took(body[len(piece)-len(rest):], next)
		g.l.handled(next - number)
		if len(piece) == len(body) || next == number {
			return
		}
	}
}

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

// announce tells the bus and the subscriptions that want to know what became
// of a publisher. Those with cursors learn of an end in its place instead.
func (g *group) announce(kind EventKind, st *reliable.Stream) {
	e := g.event(kind, st)
	g.l.event(e)
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
