package topics

import (
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// What a stream states about its topics: names and numbers in topic runs, and index rounds, for which a receiver asks
// after a permanent loss or a late start. docs/protocol §9.3.

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
	listed   Listing
}

// indexComing is which round has begun: one that answers the question, or that ends the stream and needs no question.
type indexComing uint8

const (
	comesNone indexComing = iota
	comesAnswer
	comesClosing
)

// ask asks for a round that covers losses of packets from sequence since on, with a new question.
func (st *Stream) ask(since uint64) {
	x := &st.index
	if !st.r.wanting() || st.packets.Ended() {
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
	st.packets.Report(0, true)
}

// askAll asks for all topics.
func (st *Stream) askAll() {
	st.index.known = false
	st.ask(0)
}

// Missed asks for the topics that may have lost messages in the packets from sequence seq on, which a reader of the
// output has missed. If the publisher is lost, an EventDown says so once more.
func (st *Stream) Missed(seq uint64) {
	if st.packets.Down() {
		st.packets.RepeatDown()
		return
	}
	if x := &st.index; !x.open || x.comes == comesAnswer || seq < x.since { // otherwise the answer is still to come
		st.ask(seq)
	}
}

// inspect processes the topic and index runs among the runs of packet seq.
func (st *Stream) inspect(seq uint64, runs []byte) {
	x := &st.index
	if seq < x.at {
		return // when it was held
	}
	x.at = seq + 1
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		h := &st.history
		switch run.Kind {
		case wire.RunTopic:
			since, whole := x.began(seq), run.Number%wire.Returning == 0 || x.known && !st.names.forgot
			if h.open { // the history follows
				since, whole = h.first, run.Number%wire.Returning == 0 || h.first == 0 && !st.names.forgot
			}
			st.hasTopic(run.Topic, run.Body, since, whole && since >= st.packets.Start())
			if h.open && h.comes && h.seek.open() {
				h.seek.total(run.Topic, run.Number)
			}
		case wire.RunIndex:
			b := wire.ParseIndex(run.Body)
			answers := x.open && (b.Answers(st.r.id, x.number) || b.Marks&wire.IndexAll != 0 && run.Number <= x.since)
			if h.open {
				h.round(&b, run.Number, answers)
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
			case x.comes != comesNone:
				if x.comes == comesClosing {
					x.since = 0
				}
				x.open, x.comes, x.known, x.whole = false, comesNone, true, x.whole || x.since == 0
				x.listedAt, x.listed = seq+1, Listing{x.since, x.begun, b.Forgotten()}
				st.r.dropNames()
			case h.open && h.comes:
				x.listedAt, x.listed = seq+1, Listing{h.first, x.begun, b.Forgotten()}
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

// Lost implements reliable.Contents: the packets may have held topic runs.
func (st *Stream) Lost(seq, end uint64) {
	st.history.comes = false
	x := &st.index
	if end <= x.at {
		return // they were inspected
	}
	x.at, x.comes = end, comesNone
	st.ask(seq) // anew, because the answer to an open question may be lost as well
}

// hasTopic processes a topic run. since and whole are as in Names.Named.
func (st *Stream) hasTopic(id uint64, name []byte, since uint64, whole bool) {
	if st.r.names.to != nil {
		st.names.runs++
		st.learn(id, name, since, whole)
		st.forgetOld()
	}
	wanted, ok := st.wantedOf(id)
	if !ok {
		return
	}
	if wanted == string(name) {
		st.relevant.Store(true)
		if st.has == nil {
			st.has = make(map[uint64]struct{})
		}
		st.has[id] = struct{}{}
	} else if other, ok := pattern.NameOf(id, name); ok {
		st.collide(id, wanted, other)
	} else if st.r.names.to == nil {
		st.r.stats.NamesRefused++ // otherwise learn counts it
	}
}

// hasWanted reports whether the publisher has a wanted topic.
func (st *Stream) hasWanted(id uint64) bool {
	_, ok := st.has[id]
	return ok || st.names.has.Get(id) != nil
}

// may reports whether the publisher has, or may have, a wanted topic.
func (st *Stream) may(id uint64) bool {
	return st.hasWanted(id) || !st.index.known || !st.index.whole
}

// collide reports that the publisher has topic id under another name.
func (st *Stream) collide(id uint64, name, other string) {
	if st.collided[id] != nil || st.packets.Ended() {
		return
	}
	if st.collided == nil {
		st.collided = make(map[uint64]*events.TopicCollisionError)
	}
	err := &events.TopicCollisionError{ID: events.ID(id), Known: name, Other: other, Publisher: st.packets.Publisher}
	st.collided[id] = err
	st.r.stats.Collisions++
	st.out.Note(&Event{Kind: EventCollision, Seq: st.packets.Reached(), Collision: err})
}

// Collided returns the reported collision of a wanted topic's id, or nil if the stream may have that topic.
func (st *Stream) Collided(id uint64) *events.TopicCollisionError { return st.collided[id] }
