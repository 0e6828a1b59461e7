package reliable

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// What a stream states about its topics: names and numbers in topic runs, and index rounds, for which a receiver asks
// after a permanent loss or a late start. docs/protocol §9.3.

// streamTopics is what a stream's publisher has stated about its topics.
type streamTopics struct {
	relevant atomic.Bool                            // it has a wanted topic
	has      map[uint64]struct{}                    // wanted topics that it has
	collided map[uint64]*events.TopicCollisionError // reported collisions of wanted topics
	names    streamNames
	index    indexState
}

// indexState is a receiver's question to a publisher.
//
//	           ask              a round that answers begins       it ends: all topics are known
//	┌────────┐ ────► ┌───────┐ ─────────────────────────► ┌──────┐ ────────────────────────► ┌────────┐
//	│ closed │       │ asked │                            │ comes│                           │ closed │
//	└────────┘       └───────┘ ◄───────────────────────── └──────┘                           └────────┘
//	                            a packet is lost: ask anew
type indexState struct {
	open   bool
	number uint32
	since  uint64 // all packets before it arrived, or were before the start
	comes  indexComing
	begun  uint64 // sequence of the packet in which the round began

	// known: all topics that the stream had before the loss that is being asked about are known, as far as wanted.
	known    bool
	whole    bool   // topics without messages are known, too
	at       uint64 // packets below were inspected
	listedAt uint64 // 1 + sequence of the packet in which a round that answers ended
	listed   EventListing
}

// EventListing says what a round covers: losses in the packets from Since up to Begun. It does not have topics that the
// publisher has forgotten: they may have had messages in packets before Forgotten.
type EventListing struct{ Since, Begun, Forgotten uint64 }

// indexComing is which round has begun: one that answers the question, or that ends the stream and needs no question.
type indexComing uint8

const (
	comesNone indexComing = iota
	comesAnswer
	comesClosing
	closingCame
)

// closing is what the closing round covers, if it came.
func (x *indexState) closing() (covers EventListing) {
	if x.comes == closingCame {
		covers = x.listed
	}
	return covers
}

// ask asks for a round that covers losses of packets from sequence since on, with a new question.
func (st *Stream) ask(since uint64) {
	x := &st.topics.index
	if !st.r.wanting() || st.life.finished {
		return
	}
	if !x.open || since < x.since {
		x.since = since
	}
	x.open = true
	if x.comes == comesAnswer {
		x.comes = comesNone
	}
	x.number++
	st.report.topics = true
	st.report.by(0)
}

// askAll asks for all topics.
func (st *Stream) askAll() {
	st.topics.index.known = false
	st.ask(0)
}

// Missed asks for the topics that may have lost messages in the packets from sequence seq on, which a reader of the
// output has missed. If the publisher is lost, an EventDown says so once more.
func (st *Stream) Missed(seq uint64) {
	if st.life.down {
		st.downDue()
		return
	}
	if x := &st.topics.index; !x.open || x.comes == comesAnswer || seq < x.since { // otherwise the answer is still to come
		st.ask(seq)
	}
}

// inspect processes the topic and index runs among the runs of packet seq.
func (st *Stream) inspect(seq uint64, runs []byte) {
	x := &st.topics.index
	if seq < x.at {
		return // when it was held
	}
	x.at = seq + 1
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		switch run.Kind {
		case wire.RunTopic:
			since, whole := x.began(seq), run.Number%wire.Returning == 0 || x.known && !st.topics.names.forgot
			if h := &st.win.history; h.open { // the history follows
				since, whole = h.first, run.Number%wire.Returning == 0 || h.first == 0 && !st.topics.names.forgot
			}
			st.hasTopic(run.Topic, run.Body, since, whole && since >= st.start)
			if h := &st.win.history; h.open && h.ahead.comes && h.seek.open() {
				h.seek.total(run.Topic, run.Number)
			}
		case wire.RunIndex:
			b := wire.ParseIndex(run.Body)
			answers := x.open && (b.Answers(st.r.cfg.ID, x.number) || b.Marks&wire.IndexAll != 0 && run.Number <= x.since)
			if h := &st.win.history; h.open {
				h.ahead.round(st, &b, run.Number, answers)
			}
			switch {
			case b.Marks&wire.IndexBegins != 0:
				switch x.comes, x.begun = comesNone, seq; {
				case b.Closes(run.Number):
					x.comes = comesClosing
				case answers:
					x.comes = comesAnswer
				}
			case b.Marks&wire.IndexEnds == 0:
			case x.comes == comesAnswer || x.comes == comesClosing:
				if x.comes == comesClosing {
					x.comes, x.since = closingCame, 0
				} else {
					x.comes = comesNone
				}
				x.open, x.known, x.whole = false, true, x.whole || x.since == 0
				x.listedAt, x.listed = seq+1, EventListing{x.since, x.begun, b.Forgotten()}
				st.r.dropNames()
			case st.win.history.open && st.win.history.ahead.comes:
				x.listedAt, x.listed = seq+1, EventListing{st.win.history.first, x.begun, b.Forgotten()}
			}
		}
	}
}

// began is the sequence from which on a topic begins that packet seq states first.
func (x *indexState) began(seq uint64) uint64 {
	if x.open && x.known {
		return min(x.since, seq)
	}
	return seq
}

// lostContents records that packets from sequence seq up to end are lost, which may have held topic runs.
func (st *Stream) lostContents(seq, end uint64) {
	x := &st.topics.index
	if end <= x.at {
		return // they were inspected
	}
	x.at, x.comes = end, comesNone
	st.ask(seq) // anew, because the answer to an open question may be lost as well
}

// hasTopic processes a topic run. since and whole are as in Names.Named.
func (st *Stream) hasTopic(id uint64, name []byte, since uint64, whole bool) {
	if st.r.names.to != nil {
		st.topics.names.runs++
		st.learn(id, name, since, whole)
		st.forgetOld()
	}
	wanted, ok := st.wantedOf(id)
	if !ok {
		return
	}
	if wanted == string(name) {
		st.topics.relevant.Store(true)
		if st.topics.has == nil {
			st.topics.has = make(map[uint64]struct{})
		}
		st.topics.has[id] = struct{}{}
	} else if other, ok := pattern.NameOf(id, name); ok {
		st.collide(id, wanted, other)
	} else if st.r.names.to == nil {
		st.r.stats.NamesRefused++ // otherwise learn counts it
	}
}

// hasWanted reports whether the publisher has a wanted topic.
func (t *streamTopics) hasWanted(id uint64) bool {
	_, ok := t.has[id]
	return ok || t.names.has.Get(id) != nil
}

// may reports whether the publisher has, or may have, a wanted topic.
func (t *streamTopics) may(id uint64) bool {
	return t.hasWanted(id) || !t.index.known || !t.index.whole
}

// collide reports that the publisher has topic id under another name.
func (st *Stream) collide(id uint64, name, other string) {
	if st.topics.collided[id] != nil || st.life.finished {
		return
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

// downDue makes an EventDown due, when the output has everything.
func (st *Stream) downDue() {
	st.life.downDue = true
	st.flushDown()
}

// flushDown delivers an EventDown that is due, if the output has everything before it, and room.
func (st *Stream) flushDown() {
	if !st.life.downDue || st.next < st.high || st.win.history.open || st.win.state.waits() {
		return
	}
	if !st.out.Room() {
		st.stalled = true
		return
	}
	st.life.downDue = false
	e := st.r.event(EventDown, st.next)
	e.Cause, e.Listing, e.Announced = st.life.downCause, st.topics.index.closing(), st.Announced()
	st.out.Deliver(e)
}
