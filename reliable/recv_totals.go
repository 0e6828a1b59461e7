package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// totalsState gets from the publisher how far each topic has come, after a
// loss that nothing repairs: only so a topic that is silent since can be told
// exactly what it lost. docs/protocol.md §9.3, §9.5.
type totalsState struct {
	lossEnd uint64 // the last loss ended here; zero: none is open
	covered uint32 // topics told since, in the publisher's order
	asOf    uint64 // where the first of them was told: the others hold there, too
	index   uint32 // of the next total of this telling
	pending []pendingTotal
}

type pendingTotal struct {
	asOf uint64
	TopicTotal
}

// loss opens the question, unless what was told already holds behind the loss,
// too. What does not is void: it came too early to say what this loss took.
func (t *totalsState) loss(st *Stream) {
	if st.life.down { // of what had to wait for room, or of what a reader was overtaken by
		if n := len(t.pending); n > 0 && t.pending[n-1].Lost != CauseNone {
			t.pending[n-1].asOf = st.high // that is still to be told, behind it
		} else {
			t.publisherLost(st)
		}
		return
	}
	if t.asOf >= st.next && (t.covered > 0 || len(t.pending) > 0) {
		return
	}
	t.lossEnd, t.covered, t.pending = st.next, 0, t.pending[:0]
	st.report.at = 0
	st.r.due = 0
}

// wanted reports whether the question is open.
func (t *totalsState) wanted() bool { return t.lossEnd != 0 }

// streamTopics is what a stream's publisher has announced of its topics.
type streamTopics struct {
	relevant   atomic.Bool                     // one of them is wanted here
	collided   map[uint64]*TopicCollisionError // wanted ones that it has by another name, as told
	repertoire repertoire
}

// announce takes in an announce.
func (st *Stream) announce(now Instant, a wire.Announce) {
	if !st.guard.assigned(a.AsOf, st.high) {
		st.r.stats.Implausible++ // or we lag: it is told again until it has been heard
		return
	}
	for x := a; ; {
		topic, ok := x.Next()
		if !ok {
			break
		}
		if name, ok := st.r.wants[topic.ID]; ok {
			if name == string(topic.Name) {
				st.topics.relevant.Store(true)
				st.topics.repertoire.add(topic.ID)
			} else {
				st.collide(topic.ID, name, wire.CleanName(topic.Name))
			}
		}
	}
	st.topics.repertoire.told(a.First, uint32(a.Count), a.Total)
	t := &st.totals
	if !t.wanted() && st.farewell(a.AsOf) {
		t.lossEnd = st.next
	}
	if !t.wanted() || a.AsOf < t.lossEnd {
		return
	}
	if a.First != t.covered {
		return // one was lost: it comes again, and then we go on from there
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
		if _, ok := st.r.wants[x.ID]; ok {
			t.add(a.AsOf, TopicTotal{ID: x.ID, Next: x.Next})
		}
	}
	if done {
		t.add(a.AsOf, TopicTotal{Complete: true})
		t.lossEnd, t.covered = 0, 0
		st.report.at = now
		st.r.due = min(st.r.due, now)
	}
	t.flush(st)
	st.finish(now)
}

// farewell reports whether a telling as of asOf may be the publisher's last word about
// packets that are not here: it says where the stream ends, or does not wait for this
// receiver any more. Later nobody may be there to be asked.
func (st *Stream) farewell(asOf uint64) bool {
	return (st.life.ended || st.holding.letGo) && st.next < st.high && asOf >= st.high && !(len(st.totals.pending) > 0 && st.totals.asOf >= asOf)
}

// collide tells that the publisher has topic id by another name.
func (st *Stream) collide(id uint64, name, other string) {
	if st.topics.collided[id] != nil || st.life.finished || !st.out.Room() {
		return // told, or it will be announced again
	}
	if st.topics.collided == nil {
		st.topics.collided = make(map[uint64]*TopicCollisionError)
	}
	err := &TopicCollisionError{ID: id, Known: name, Other: other, Publisher: st.Publisher}
	st.topics.collided[id] = err
	st.r.stats.Collisions++
	e := st.r.event(EventCollision, st.next)
	e.Collision = err
	st.out.Deliver(e)
}

// Collided is the collision of a wanted topic's id that was told, or nil: then
// the stream may have that topic.
func (st *Stream) Collided(id uint64) *TopicCollisionError { return st.topics.collided[id] }

func (t *totalsState) add(asOf uint64, x TopicTotal) {
	x.Index = t.index
	t.index++
	if len(t.pending) < maxPendingTotals {
		t.pending = append(t.pending, pendingTotal{asOf, x})
	}
}

// publisherLost closes an open question: nobody is left to answer it, nor to
// send the packets whose place an answer waits for. What the publisher has told as of
// the end of all that is known still holds there. What has come is delivered first,
// where the output has no room for it now.
func (t *totalsState) publisherLost(st *Stream) {
	t.lossEnd, t.covered = 0, 0
	if n := len(t.pending); n == 0 || !t.pending[n-1].Complete || t.asOf != st.high || t.pending[n-1].asOf != st.high {
		t.pending = t.pending[:0]
	}
	t.pending = append(t.pending, pendingTotal{st.high, TopicTotal{Lost: st.life.downCause}})
	t.flush(st)
}

// publisherBack asks again, if the publisher was lost and the output has not been told.
func (t *totalsState) publisherBack(st *Stream) {
	if n := len(t.pending); n > 0 && t.pending[n-1].Lost != CauseNone {
		t.pending = t.pending[:0]
		t.loss(st)
	}
}

// maxPendingTotals bounds the totals that wait for their place in the stream.
const maxPendingTotals = 1 << 16

// flush delivers the totals whose place in the stream is reached. It reports false when
// the output has no room for one: the stream is stalled.
func (t *totalsState) flush(st *Stream) bool {
	n, room := 0, true
	for _, x := range t.pending {
		if x.asOf > st.next {
			break
		}
		if room = st.out.Room(); !room {
			st.stalled = true
			break
		}
		e := st.r.event(EventTotal, st.next)
		e.Total = x.TopicTotal
		st.out.Deliver(e)
		n++
	}
	if n > 0 {
		t.pending = append(t.pending[:0], t.pending[n:]...)
	}
	return room
}
