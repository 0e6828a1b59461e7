package engine

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// group is the receive side of one group: for all subscriptions that begin with new messages, or for one that does not
// (recv_from.go). Loop only, except dropped.
type group struct {
	l    *Loop
	next *group // of the same index
	ownership
	index      int
	address    string
	r          *reliable.Receiver
	in         *topics.Receiver
	replies    *topics.Replies
	topics     map[uint64]*groupTopic
	patterns   patterns
	subs       ring.Set[*Subscription] // subscriptions with cursors
	counting   []*feed                 // their feeds that are not parked
	logs       []*output               // outputs with a log
	inline     bool                    // some topic has had handlers
	d          Delivery                // passed to handlers; here to avoid an allocation per call
	joined     bool
	failed     bool            // joining failed; the next subscription tries again
	suppressed bool            // the bus is closing: nothing is delivered any more
	leaving    []*Subscription // they have left the group, and still have feeds
	refused    refusals
	faults     faultNotes
	echo       echoWatch
	dropped    atomic.Uint64
	unwanted   unwanted
	unused     unusedGroup
	settled    uint64 // missing packets settled so far
}

// groupTopic is a topic that subscriptions of the group want.
type groupTopic struct {
	id       uint64
	name     string
	handlers ring.Set[*Subscription] // called by the loop
	users    ring.Set[*Subscription] // with handlers or cursors
	exact    int                     // number of users that name it; others have a pattern
	live     bool                    // it begins with new messages, also in a group that does not
}

// open returns the group of that index and owner. It joins the group at first use, and again after a failure. A new
// group with an owner begins as from says.
func (l *Loop) open(index int, owner *Subscription, from From) (*group, error) {
	first, g := l.groups[index], l.find(index, owner)
	if g != nil && !g.failed {
		return g, nil
	}
	fresh := g == nil
	if fresh {
		var err error
		if g, err = l.newGroup(index, owner, from); err != nil {
			return nil, err
		}
	}
	if err := l.join(index); err != nil {
		return nil, err
	}
	for x := first; x != nil; x = x.next {
		x.failed = false
	}
	if fresh {
		g.next, l.groups[index] = first, g
		l.receiving = append(l.receiving, g)
		if g.joined = l.joins.up(index); index == 0 {
			l.hellos.takeOver()
		}
		if owner == nil {
			l.left[index] = nil
		}
	}
	return g, nil
}

// newGroup returns a group to join: a new one, or one that was left.
func (l *Loop) newGroup(index int, owner *Subscription, from From) (*group, error) {
	l.memory.prepare(l.cfg.Receiver.WindowBytes)
	if g := l.left[index]; g != nil && owner == nil {
		return g, nil
	}
	g := &group{l: l, index: index, address: l.t.GroupAddress(index), topics: make(map[uint64]*groupTopic),
		ownership: ownership{owner: owner, from: from}}
	cfg := g.config()
	r, err := reliable.NewReceiver(cfg, g, peers{l.t})
	if err != nil {
		return nil, err
	}
	r.SetClock(l.cfg.Clock)
	r.SetRunning(&l.watchdog.stand.runs)
	g.replies = topics.NewReplies(cfg.ID, r.Recipient, &l.watchdog.stand.runs)
	r.SetControl(g.replies)
	g.r, g.unused.leaveAt = r, reliable.Never
	g.in = topics.NewReceiver(r, cfg.ID)
	g.in.Trust(l.cfg.TopicTrust)
	g.in.Forget(l.cfg.TopicRuns)
	g.in.Unpack(l.cfg.Compression.Unpacker, g.unreadable)
	if p := g.from.Positions; p != nil {
		g.in.From(p.next)
	}
	if cfg.Joins {
		g.in.FromState(cfg.Deadline, &l.watchdog.stand.runs)
	}
	g.expect()
	return g, nil
}

// peers adapts the transport's peers to the core's.
type peers struct{ t transport.Transport }

func (p peers) Retain(from uint64) (uint32, bool) {
	peer, err := p.t.Retain(transport.Source(from))
	return uint32(peer), err == nil
}

func (p peers) Address(from uint64) string { return p.t.SourceAddress(transport.Source(from)) }

func (p peers) Forget(peer uint32) { p.t.Forget(transport.Peer(peer)) }

// want adds a topic to a subscription. fresh: the subscription did not have it.
func (g *group) want(s *Subscription, id uint64, name string) (fresh bool, err error) {
	t := g.topics[id]
	if t == nil {
		t = &groupTopic{id: id, name: name}
		g.topics[id] = t
	}
	if t.name != name {
		return false, &events.TopicCollisionError{ID: events.ID(id), Known: t.name, Other: name}
	}
	if !t.users.Add(s) {
		return false, nil
	}
	if s.handler != nil {
		t.handlers.Add(s)
		g.l.watchdog.know(id, name)
		g.handleAll()
		for _, st := range g.r.Streams() {
			if err := outputOf(st).in.Collided(id); err != nil {
				s.other(&Delivery{Err: err})
			} else if t.rerouted() {
				outputOf(st).handlers.rd.Want(id, name, t.route())
			}
		}
	}
	return true, nil
}

// handleAll gives each stream a reader for handlers, from its next packet on.
func (g *group) handleAll() {
	g.inline = true
	for _, st := range g.r.Streams() {
		if o := outputOf(st); o.handlers == nil {
			o.handle(st.Next())
		}
	}
}

// drop removes a topic from a subscription. It reports whether the subscription had it.
func (g *group) drop(s *Subscription, id uint64) bool {
	t := g.topics[id]
	if t == nil || !t.users.Remove(s) {
		return false
	}
	if t.users.Len() == 0 {
		delete(g.topics, id)
	}
	if !t.handlers.Remove(s) {
		return true
	}
	g.l.watchdog.forget(id, t.name)
	if !t.rerouted() {
		return true
	}
	for _, st := range g.r.Streams() {
		switch in := outputOf(st).handlers; {
		case in == nil || !in.rd.Wants(id):
		case t.handlers.Len() == 0:
			in.rd.Drop(id)
		default:
			in.rd.Want(id, t.name, t.route())
		}
	}
	return true
}

// route returns what a reader stores to find the topic's handlers: the only handler, if there is one, otherwise t. With
// many topics the fields of t are rarely in the cache.
func (t *groupTopic) route() any {
	if t.handlers.Len() == 1 {
		return t.handlers.List()[0]
	}
	return t
}

// rerouted reports whether the handler that came or went last has changed route.
func (t *groupTopic) rerouted() bool { return t.handlers.Len() <= 2 }

// handlersOf returns the handlers of a reader's topic.
func handlersOf(t *topics.Track) []*Subscription {
	if s, ok := t.Data.(*Subscription); ok {
		return s.self[:]
	}
	return t.Data.(*groupTopic).handlers.List()
}

// reportWants sends the wanted topics to publishers.
func (g *group) reportWants() {
	g.in.TopicsChanged(g.l.now())
	g.l.hellos.wants(g.l.now())
}

// attach gives a subscription with cursors a feed of each stream.
func (g *group) attach(s *Subscription) {
	g.subs.Add(s)
	g.r.SetAsync(true)
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			s.follow(g, st, st.Next())
		}
	}
}

// introduce reports each publisher that is up to a subscription with a handler.
func (g *group) introduce(s *Subscription) {
	for _, st := range g.r.Streams() {
		if !st.Ended() {
			e := g.event(events.PublisherUp, st)
			s.other(&Delivery{Event: &e})
		}
	}
}

func (g *group) detach(s *Subscription) {
	g.subs.Remove(s)
	g.r.SetAsync(g.subs.Len() > 0)
}

// tick ends a batch, sends control packets that are due, and returns when to call it again.
func (g *group) tick(now reliable.Instant) reliable.Instant {
	g.tendLogs(now)
	g.in.Tick()
	g.r.Tick(now)
	g.watchEcho(now)
	settled := g.r.Settled()
	g.l.counters.network.now += settled - g.settled
	g.settled = settled
	g.watchDamage()
	g.watchSealed()
	g.holding()
	g.sendControl(now)
	g.tendFeeds(now)
	ahead := min(g.tendAhead(now), g.tendExpected(now))
	if len(g.leaving) > 0 {
		g.tendLeaving()
	}
	if g.unused.due(now, g.used(), g.keepUnused()) {
		g.leave()
		return reliable.Never
	}
	return min(g.r.Deadline(), g.unused.leaveAt, ahead)
}

func (g *group) sendControl(now reliable.Instant) {
	for {
		peer, p, ok := g.r.Next(now, g.l.ctl[:0])
		if !ok {
			return
		}
		g.l.replyTo(peer, p)
	}
}

// group implements reliable.Sink. The streams' events go to outputs.

func (g *group) StreamUp(st *reliable.Stream) {
	for _, s := range g.subs.List() {
		if !s.follow(g, st, st.Start()) {
			s.notify(g.event(events.PublisherUp, st))
		}
	}
	g.refused.heard(st.Publisher)
	delete(g.expected.absent, st.Instance)
	first := g.alone(st.Instance)
	if first {
		g.l.publisherCame(st.Origin(), g.address)
	}
	if p := outputOf(st).handlers; p != nil {
		p.lost = false
	}
	e := g.event(events.PublisherUp, st)
	if first {
		g.l.event(e)
	}
	g.announce(e)
	if first {
		g.l.namesake(st.Instance)
	}
}

// StreamDown implements reliable.Sink. Subscriptions get it from the stream's output, in order.
func (g *group) StreamDown(st *reliable.Stream, cause events.Cause) {
	o := outputOf(st)
	o.held = nil
	g.l.inbox.legs.forget(st)
	if g.suppressed || !g.alone(st.Instance) {
		return
	}
	var own error
	if cause == events.CausePublisherLost { // nothing arrived from it for two seconds or more
		own = g.l.memberships.cutOff(membership{g.index, transport.RoleReceiver}, g.l.now().Add(-2*time.Second))
	}
	o.cutOff.Store(&own)
	g.l.publisherWent(st.Origin(), g.address, cause, own)
	e := g.event(streamEvent(cause), st)
	e.Err = own
	g.l.event(e)
}

// handlers yields each subscription with a handler once.
func (g *group) handlers() func(func(*Subscription) bool) {
	return func(yield func(*Subscription) bool) {
		seen := make(map[*Subscription]bool)
		first := func(s *Subscription) bool {
			if s.handler == nil || seen[s] {
				return true
			}
			seen[s] = true
			return yield(s)
		}
		for _, t := range g.topics {
			for _, s := range t.handlers.List() {
				if !first(s) {
					return
				}
			}
		}
		for s := range g.patterns.subs {
			if !first(s) {
				return
			}
		}
	}
}

func (g *group) event(kind events.Kind, st *reliable.Stream) events.Event {
	from := st.Origin()
	return events.Event{Kind: kind, Group: g.address, Publisher: st.Publisher,
		Name: from.Name, Address: from.Address, Epoch: st.Epoch, Relevant: outputOf(st).in.Relevant()}
}

// down returns the event that a publisher has ended or was lost, for subscriptions.
func (g *group) down(cause events.Cause, st *reliable.Stream) events.Event {
	e := g.event(streamEvent(cause), st)
	o := outputOf(st)
	e.Topics, e.Err = o.in.Announced(), o.ownFault()
	return e
}

// announce passes an event of a publisher to the handlers that want such events.
func (g *group) announce(e events.Event) {
	for s := range g.handlers() {
		if s.events {
			s.other(&Delivery{Event: &e})
		}
	}
}

// membership handles an event of the group's membership. If the group cannot be joined its subscriptions fail.
func (g *group) membership(e *transport.Event) {
	switch e.State {
	case transport.Joined:
		g.joined = true
	case transport.Lost:
		g.joined = false // until it is back
	case transport.Failed:
		g.joined, g.failed = false, true
		for s := range g.handlers() {
			s.fail(e.Err)
		}
		for _, s := range g.subs.List() {
			s.fail(e.Err)
		}
	}
}

// stop ends the group's subscriptions. The loop has ended.
func (g *group) stop() {
	err := g.l.closedError()
	for _, s := range g.subs.List() {
		s.fail(err)
	}
	for s := range g.handlers() {
		s.fail(err)
	}
}

// errNoMemory says that a stream cannot be followed.
var errNoMemory = errors.New("no memory for a receive window: raise ReceiveMemoryBytes")
