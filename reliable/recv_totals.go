package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// totalsState gets the number of each topic's next message from the publisher: after a permanent loss, since only that
// shows exactly what a topic that is silent since has lost, and at the end of the stream, where it shows whether
// everything that was published arrived. docs/protocol §9.3, §9.5, §9.7.
type totalsState struct {
	open    bool   // totals are asked for, and not complete
	lossy   bool   // because of a loss
	from    uint64 // its announces must hold here
	covered uint32 // topics announced since, in the publisher's order
	asOf    uint64 // where the first of them was announced: the others hold there, too
	index   uint32 // of the next total of this announcement
	pending []pendingTotal
}

type pendingTotal struct {
	asOf uint64
	TopicTotal
}

// loss asks the publisher for totals, unless those that came already cover the lost packets.
// Totals that do not cover them are dropped: they came too early to say what was lost.
func (t *totalsState) loss(st *Stream) {
	if st.life.down { // of what had to wait for room, or of what a reader was overtaken by
		if n := len(t.pending); n > 0 && t.pending[n-1].Lost != events.CauseNone {
			t.pending[n-1].asOf = st.high // a later total comes behind it
		} else {
			t.publisherLost(st)
		}
		return
	}
	from := st.next
	if st.win.history.open {
		from = st.win.history.end // how far they were before says nothing of what follows it
	}
	if t.asOf >= from && (t.covered > 0 || len(t.pending) > 0) {
		return
	}
	t.ask(from)
	t.lossy, t.pending = true, t.pending[:0]
	st.report.by(0)
}

// ask opens the question for what holds at from.
func (t *totalsState) ask(from uint64) { t.open, t.from, t.covered = true, from, 0 }

// ending asks for the totals at the end of the stream, unless they are known already.
func (t *totalsState) ending(st *Stream) {
	if known := t.asOf >= st.life.endAt && (t.covered > 0 || t.complete()); known || !st.r.wanting() {
		return
	}
	t.ask(max(t.from, st.life.endAt))
}

// complete reports whether the totals of all topics have come and wait for their turn in the order.
func (t *totalsState) complete() bool {
	n := len(t.pending)
	return n > 0 && t.pending[n-1].Complete
}

// renew forgets totals that have not been delivered: they are of other topics than are wanted now. If they were
// requested they are requested again.
func (t *totalsState) renew(st *Stream) {
	n := len(t.pending)
	if st.life.finished || n > 0 && t.pending[n-1].Lost != events.CauseNone {
		return
	}
	t.asOf, t.covered, t.pending = 0, 0, t.pending[:0]
	if n > 0 && !t.open {
		t.ask(max(t.from, st.next))
		t.lossy = true
	}
}

// missing reports whether it is unknown what a loss took.
func (t *totalsState) missing() bool { return t.open && t.lossy }

// close closes the question.
func (t *totalsState) close() { t.open, t.lossy, t.covered = false, false, 0 }

// unanswered closes the question: the publisher has gone after its end.
func (t *totalsState) unanswered() {
	t.close()
	if !t.complete() {
		t.pending = t.pending[:0]
	}
}

// wanted reports whether the question is open.
func (t *totalsState) wanted() bool { return t.open }

// streamTopics is what a stream's publisher has announced of its topics.
type streamTopics struct {
	relevant   atomic.Bool                            // one of them is wanted here
	collided   map[uint64]*events.TopicCollisionError // wanted ones that it has by another name, as reported
	repertoire repertoire
	names      streamNames
	unreadable map[uint32]struct{} // unknown dictionaries, as reported
	unnamed    atomic.Uint64       // EventUnnamed delivered
}

// announce takes in an announce.
func (st *Stream) announce(now Instant, a wire.Announce) {
	if !st.guard.assigned(a.AsOf, st.high) {
		st.r.stats.Implausible++ // or this receiver lags: the announce is repeated until a status confirms it
		return
	}
	for x := a; ; {
		topic, ok := x.Next()
		if !ok {
			break
		}
		if st.r.names.to != nil && !st.life.finished {
			st.learn(topic.ID, topic.Name, false)
		}
		if name, ok := st.wantedOf(topic.ID); ok {
			st.announcedAs(topic.ID, name, topic.Name)
		}
	}
	st.topics.repertoire.announced(a.First, uint32(a.Count), a.Total)
	st.topics.names.announced(&a)
	t := &st.totals
	if !t.wanted() && st.farewell(a.AsOf) {
		t.ask(st.next)
	}
	if !t.wanted() || a.AsOf < t.from {
		return
	}
	if a.First != t.covered || a.First > 0 && a.AsOf < t.asOf {
		return // one was lost, or this one is of an earlier listing: it comes again, and the row continues there
	}
	if a.First == 0 {
		t.index, t.asOf, t.pending = 0, a.AsOf, t.pending[:0]
	}
	t.covered += uint32(a.Count)
	done := t.covered == a.Total
	for {
		x, ok := a.Next()
		if !ok {
			break
		}
		if _, ok := st.wantedOf(x.ID); ok {
			t.add(a.AsOf, TopicTotal{ID: x.ID, Next: x.Next})
		}
	}
	if done {
		t.add(a.AsOf, TopicTotal{Complete: true})
		t.close()
		if s := &st.win.history.seek; s.open() {
			s.settle(st, now)
		}
		st.report.by(now)
	}
	t.flush(st)
	st.finish(now)
}

// farewell reports whether an announcement as of asOf may be the publisher's last one about packets that are missing
// here: it says where the stream ends, or no longer waits for this receiver. Later there may be no publisher to ask.
func (st *Stream) farewell(asOf uint64) bool {
	return (st.life.endSaid || st.holding.released) && st.next < st.high && asOf >= st.high &&
		!(len(st.totals.pending) > 0 && st.totals.asOf >= asOf)
}

// announcedAs takes in by what name the publisher has topic id, which is wanted as name.
func (st *Stream) announcedAs(id uint64, name string, said []byte) {
	if name == string(said) {
		st.topics.relevant.Store(true)
		st.topics.repertoire.add(id)
	} else if other, ok := pattern.NameOf(id, said); ok {
		st.collide(id, name, other)
	} else if st.r.names.to == nil {
		st.r.stats.NamesRefused++ // otherwise learn has
	}
}

// collide reports that the publisher has topic id by another name.
func (st *Stream) collide(id uint64, name, other string) {
	if st.topics.collided[id] != nil || st.life.finished || !st.out.Room() {
		return // reported, or it will be announced again
	}
	if st.topics.collided == nil {
		st.topics.collided = make(map[uint64]*events.TopicCollisionError)
	}
	err := &events.TopicCollisionError{ID: id, Known: name, Other: other, Publisher: events.PublisherID(st.Publisher)}
	st.topics.collided[id] = err
	st.r.stats.Collisions++
	e := st.r.event(EventCollision, st.next)
	e.Collision = err
	st.out.Deliver(e)
}

// Collided returns the reported collision of a wanted topic's id, or nil: then the stream may have that topic.
func (st *Stream) Collided(id uint64) *events.TopicCollisionError { return st.topics.collided[id] }

func (t *totalsState) add(asOf uint64, x TopicTotal) {
	x.Index = t.index
	t.index++
	if len(t.pending) < maxPendingTotals {
		t.pending = append(t.pending, pendingTotal{asOf, x})
	}
}

// publisherLost closes an open question: no publisher is left to answer it, or to send the packets that an answer
// waits for. Totals as of the end of all that is known still hold there. Packets that have arrived are delivered
// first, if the output has no room for it now.
func (t *totalsState) publisherLost(st *Stream) {
	t.close()
	if !t.complete() || t.asOf != st.high || t.pending[len(t.pending)-1].asOf != st.high {
		t.pending = t.pending[:0]
	}
	t.pending = append(t.pending, pendingTotal{st.high, TopicTotal{Lost: st.life.downCause}})
	t.flush(st)
}

// publisherBack asks again, if the publisher was lost and the output does not know it.
func (t *totalsState) publisherBack(st *Stream) {
	if n := len(t.pending); n > 0 && t.pending[n-1].Lost != events.CauseNone {
		t.pending = t.pending[:0]
		t.loss(st)
	}
}

// maxPendingTotals bounds the totals that wait for their sequence in the stream.
const maxPendingTotals = 1 << 16

// flush delivers the totals with a sequence that is reached. It reports false when
// the output has no room for one: the stream is stalled.
func (t *totalsState) flush(st *Stream) bool {
	if st.win.history.open || st.win.state.waits() {
		return true // they come after the history, or the state
	}
	n, room := 0, true
	for _, x := range t.pending {
		if x.asOf > st.next && !(st.life.ended && st.next >= st.life.endAt) {
			break // at the end it is reached, whatever the publisher says
		}
		if room = st.out.Room(); !room {
			st.stalled = true
			break
		}
		e := st.r.event(EventTotal, st.next)
		e.Total = x.TopicTotal
		if e.Total.AsOf = x.asOf; e.Total.Lost != events.CauseNone {
			e.Announced = st.Announced()
		}
		st.out.Deliver(e)
		n++
	}
	if n > 0 {
		t.pending = append(t.pending[:0], t.pending[n:]...)
	}
	return room
}
