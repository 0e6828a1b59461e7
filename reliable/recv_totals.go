package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// totalsState requests totals, the number of each topic's next message, from the publisher. After a permanent loss only
// they show exactly how many messages a topic without later ones has lost. At the end of the stream they show whether
// all published messages arrived. docs/protocol §9.3, §9.5, §9.7.
type totalsState struct {
	open    bool   // totals are requested and not complete
	lossy   bool   // because of a loss
	from    uint64 // sequence as of which announces must be
	covered uint32 // topics announced so far, in the publisher's order
	asOf    uint64 // as of which sequence the first announce was: the others are not before it
	index   uint32 // index of the next total of this listing
	pending []pendingTotal
}

type pendingTotal struct {
	asOf uint64
	TopicTotal
}

// loss requests totals, unless the received ones cover the lost packets. It drops totals that do not: they are too old
// to show the loss.
func (t *totalsState) loss(st *Stream) {
	if st.life.down { // packets that waited for room, or by which a reader was overtaken
		if n := len(t.pending); n > 0 && t.pending[n-1].Lost != events.CauseNone {
			t.pending[n-1].asOf = st.high // later totals follow it
		} else {
			t.publisherLost(st)
		}
		return
	}
	from := st.next
	if st.win.history.open {
		from = st.win.history.end // earlier totals say nothing about the packets behind the history
	}
	if t.asOf >= from && (t.covered > 0 || len(t.pending) > 0) {
		return
	}
	t.ask(from)
	t.lossy, t.pending = true, t.pending[:0]
	st.report.by(0)
}

// ask requests the totals as of sequence from or later.
func (t *totalsState) ask(from uint64) { t.open, t.from, t.covered = true, from, 0 }

// ending requests the totals at the end of the stream, unless they are known.
func (t *totalsState) ending(st *Stream) {
	if known := t.asOf >= st.life.endAt && (t.covered > 0 || t.complete()); known || !st.r.wanting() {
		return
	}
	t.ask(max(t.from, st.life.endAt))
}

// complete reports whether the totals of all topics have arrived and wait for their position in the stream.
func (t *totalsState) complete() bool {
	n := len(t.pending)
	return n > 0 && t.pending[n-1].Complete
}

// renew drops undelivered totals, because the wanted topics changed. Totals that were requested are requested again.
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

// missing reports whether totals are needed because of a loss.
func (t *totalsState) missing() bool { return t.open && t.lossy }

// close ends the request.
func (t *totalsState) close() { t.open, t.lossy, t.covered = false, false, 0 }

// unanswered ends the request: the publisher left after its end.
func (t *totalsState) unanswered() {
	t.close()
	if !t.complete() {
		t.pending = t.pending[:0]
	}
}

// wanted reports whether totals are requested.
func (t *totalsState) wanted() bool { return t.open }

// streamTopics is what a stream's publisher has stated about its topics.
type streamTopics struct {
	relevant   atomic.Bool                            // it has announced a wanted topic
	collided   map[uint64]*events.TopicCollisionError // reported collisions of wanted topics
	repertoire repertoire
	names      streamNames
	unnamed    atomic.Uint64 // number of EventUnnamed delivered
}

// announce processes an announce.
func (st *Stream) announce(now Instant, a wire.Announce) {
	if !st.guard.assigned(a.AsOf, st.high) {
		st.r.stats.Implausible++ // or this receiver is far behind: the publisher repeats the announce while statuses ask
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
		return // an announce was lost, or this one is of an earlier listing: a later listing continues it
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

// farewell reports whether an announce as of asOf may be the publisher's last one that covers the missing packets: the
// publisher has stated its end, or released this receiver. Later there may be no publisher to ask.
func (st *Stream) farewell(asOf uint64) bool {
	return (st.life.endStated || st.holding.released) && st.next < st.high && asOf >= st.high &&
		!(len(st.totals.pending) > 0 && st.totals.asOf >= asOf)
}

// announcedAs processes the name under which the publisher has topic id, which is wanted as name.
func (st *Stream) announcedAs(id uint64, name string, said []byte) {
	if name == string(said) {
		st.topics.relevant.Store(true)
		st.topics.repertoire.add(id)
	} else if other, ok := pattern.NameOf(id, said); ok {
		st.collide(id, name, other)
	} else if st.r.names.to == nil {
		st.r.stats.NamesRefused++ // otherwise learn counts it
	}
}

// collide reports that the publisher has topic id under another name.
func (st *Stream) collide(id uint64, name, other string) {
	if st.topics.collided[id] != nil || st.life.finished || !st.out.Room() {
		return // reported, or announced again later
	}
	if st.topics.collided == nil {
		st.topics.collided = make(map[uint64]*events.TopicCollisionError)
	}
	err := &events.TopicCollisionError{ID: events.ID(id), Known: name, Other: other, Publisher: st.Publisher}
	st.topics.collided[id] = err
	st.r.stats.Collisions++
	e := st.r.event(EventCollision, st.next)
	e.Collision = err
	st.out.Deliver(e)
}

// Collided returns the reported collision of a wanted topic's id, or nil if the stream may have that topic.
func (st *Stream) Collided(id uint64) *events.TopicCollisionError { return st.topics.collided[id] }

func (t *totalsState) add(asOf uint64, x TopicTotal) {
	x.Index = t.index
	t.index++
	if len(t.pending) < maxPendingTotals {
		t.pending = append(t.pending, pendingTotal{asOf, x})
	}
}

// publisherLost ends the request: no publisher is left to answer it, or to repair the packets before an answer. Totals
// as of the highest known sequence stay valid. If the output has no room now, waiting packets are delivered first.
func (t *totalsState) publisherLost(st *Stream) {
	t.close()
	if !t.complete() || t.asOf != st.high || t.pending[len(t.pending)-1].asOf != st.high {
		t.pending = t.pending[:0]
	}
	t.pending = append(t.pending, pendingTotal{st.high, TopicTotal{Lost: st.life.downCause}})
	t.flush(st)
}

// publisherBack requests totals again, if the output has not learned that the publisher was lost.
func (t *totalsState) publisherBack(st *Stream) {
	if n := len(t.pending); n > 0 && t.pending[n-1].Lost != events.CauseNone {
		t.pending = t.pending[:0]
		t.loss(st)
	}
}

// maxPendingTotals is the maximum number of totals that wait for their sequence.
const maxPendingTotals = 1 << 16

// flush delivers the totals with a sequence that is reached. It reports false when the output has no room, and the
// stream stalls.
func (t *totalsState) flush(st *Stream) bool {
	if st.win.history.open || st.win.state.waits() {
		return true // totals follow the history or the state
	}
	n, room := 0, true
	for _, x := range t.pending {
		if x.asOf > st.next && !(st.life.ended && st.next >= st.life.endAt) {
			break // the end of the stream reaches all totals
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
