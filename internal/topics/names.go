package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Names receives the names of topics, for subscriptions by pattern. It is called during Handle, Tick and Resume, as a
// reliable.Sink is.
type Names interface {
	// Named: st has named a topic, before it delivers any message of it; other streams of the group may have the topic,
	// too. whole: no packet of st before sequence since had a message of the topic, so from there on it begins with
	// number 0.
	Named(st *reliable.Stream, id uint64, name string, since uint64, whole bool)
	// Forgotten: st, the last stream with the topic, was removed.
	Forgotten(st *reliable.Stream, id uint64)
	// Wants reports whether a named topic is wanted.
	Wants(id uint64) bool
	// Untrusted: st skips messages of a topic on which its publisher may not publish, and which no other stream has named.
	// first: they are the first since the trusted keys last changed.
	Untrusted(st *reliable.Stream, id uint64, topic string, messages int, first bool)
}

// names holds the names of the topics of a receiver's streams. The receiver keeps them, not a reader: readers may begin
// anywhere and skip packets. docs/protocol §9.9.
type names struct {
	to     Names // nil: no subscription needs names
	known  ring.Map[topicName]
	byName pattern.Topics[uint64] // ids of known, by their names
	found  []uint64               // result of NamesMatching
	unused int                    // number of names of topics that no stream has
	// number of names, known and refused, by key of the publisher that stated them first; nil if keys are not proved
	held  map[uint32]int
	now   func() TopicTrust // the trust in publishers; nil: they may publish on every topic
	trust TopicTrust        // by which names were judged
}

type topicName struct {
	text    string
	streams int     // how many streams have the topic
	last    *Stream // of these, the last one, if it was removed
	key     uint32  // of the publisher that named it first
}

// signKey is the id of the key with which the stream's publisher signs. docs/protocol §29.1.
func (st *Stream) signKey() uint32 { return uint32(st.packets.Publisher >> 32) }

// room reports whether one more name may come from a stream. Where publishers prove their keys, a key may have as many
// names as it leaves free, so that others have a share whatever it sends. docs/protocol §12.5.
func (d *names) room(st *Stream) bool { return d.held[st.signKey()] < maxNames-d.known.Len() }

// streamNames holds the named topics of one stream.
type streamNames struct {
	has     ring.Map[streamName] // topics with known names
	refused refusedNames         // topics on which the publisher may not publish
	runs    uint64               // topic runs so far
	swept   uint64               // runs when it was last checked which topics are forgotten
	forgot  bool                 // some were
}

// streamName is a named topic of a stream.
type streamName struct {
	*topicName
	stated uint64 // streamNames.runs with its last topic run
}

// maxNames bounds the topic names that a receiver keeps for a group.
const maxNames = events.PatternTopics

// LearnNames reports all topics of the group, known ones first, to to from now on. Publishers learn that any topic may
// be wanted. nil ends that.
func (r *Receiver) LearnNames(now reliable.Instant, to Names) {
	if (to == nil) == (r.names.to == nil) {
		return
	}
	r.names = names{to: to, now: r.names.now}
	if r.names.now != nil {
		r.names.held, r.names.trust = make(map[uint32]int), r.names.now()
	}
	for _, st := range r.list {
		st.names = streamNames{}
		if to != nil && st.packets.Reached() > 0 {
			st.askAll()
		}
	}
	r.packets.SetWanted(r.wanting())
	r.packets.Report(now)
}

// NamesLearned reports whether the topics of all publishers that are up are known.
func (r *Receiver) NamesLearned() bool {
	for _, st := range r.list {
		if !st.index.known && !st.packets.Down() && !st.packets.Ended() {
			return false
		}
	}
	return true
}

// NamesKnown is the number of known names.
func (r *Receiver) NamesKnown() int { return r.names.known.Len() }

// Name returns the name of a topic that some stream has, if it is known.
func (r *Receiver) Name(id uint64) (name string, ok bool) {
	if t := r.names.known.Get(id); t != nil {
		return t.text, true
	}
	return "", false
}

// NamesMatching returns the ids of the named topics that match the pattern. The slice is valid until the next call.
func (r *Receiver) NamesMatching(p pattern.Pattern) []uint64 {
	d := &r.names
	d.found = d.byName.Append(d.found[:0], p, func(id uint64) string { return d.known.Get(id).text })
	return d.found
}

// shares records that the stream has stated a topic with a known name.
func (st *Stream) shares(id uint64) {
	n := &st.names
	x := n.has.Get(id)
	if x == nil {
		x = &streamName{topicName: st.r.names.known.Get(id)}
		n.has.Add(id, x)
		if x.streams++; x.last != nil {
			x.last = nil
			st.r.names.unused--
		}
	}
	x.stated = n.runs
}

// forgetOld forgets now and then the topics that have had no topic run for long. While the stream asks it forgets none:
// the publisher may have stated some again in packets that were lost. docs/protocol §10.8.
func (st *Stream) forgetOld() {
	n, keep := &st.names, st.r.keep
	if n.runs-n.swept < keep/32 || st.index.open || !st.index.known {
		return
	}
	n.swept = n.runs
	var old []uint64
	n.has.All(func(id uint64, x *streamName) {
		if _, byName := st.r.wants[id]; !byName && n.runs-x.stated >= keep-keep/32 {
			old = append(old, id)
		}
	})
	for _, id := range old {
		n.forgot = true
		st.loses(n.has.Get(id).topicName)
		n.has.Remove(id)
		delete(st.has, id)
	}
	for id, x := range n.refused {
		if n.runs-x.stated >= keep-keep/32 {
			st.removeRefused(id)
		}
	}
	st.r.dropNames()
}

// loses records that the stream does not have a topic any more.
func (st *Stream) loses(t *topicName) {
	if t.streams--; t.streams == 0 {
		t.last = st
		st.r.names.unused++
	}
}

// learn processes a name that the stream states. since and whole are as in Names.Named.
func (st *Stream) learn(id uint64, name []byte, since uint64, whole bool) {
	d := &st.r.names
	if t := d.known.Get(id); t != nil {
		if t.text != string(name) {
			st.r.stats.NamesRefused++
		}
		st.shares(id)
		return
	}
	text, ok := pattern.NameOf(id, name)
	switch {
	case st.names.refused[id] != nil:
		st.names.refused[id].stated = st.names.runs
	case !ok:
		st.r.stats.NamesRefused++
	case !d.room(st):
		st.r.stats.NamesRefused++
		st.out.Note(&Event{Kind: EventUnnamed, Seq: st.packets.Reached()})
	default:
		if d.held != nil {
			d.held[st.signKey()]++
		}
		if !st.mayPublish(text) {
			st.names.refused.add(id, text)
			st.names.refused[id].stated = st.names.runs
			return
		}
		st.name(id, text, since, whole)
	}
}

// name adds a name, and records that the stream has the topic.
func (st *Stream) name(id uint64, text string, since uint64, whole bool) {
	st.r.names.known.Add(id, &topicName{text: text, key: st.signKey()})
	st.r.names.byName.Add(text, id)
	for _, x := range st.r.list {
		x.removeRefused(id)
	}
	st.r.names.to.Named(st.packets, id, text, since, whole)
	st.shares(id)
}

// release records that a name which a publisher with that key stated first is forgotten.
func (d *names) release(key uint32) {
	if d.held == nil {
		return
	}
	if d.held[key]--; d.held[key] == 0 {
		delete(d.held, key)
	}
}

// forgetNames takes the topics of st, which is removed, from it.
func (r *Receiver) forgetNames(st *Stream) {
	st.names.has.All(func(_ uint64, x *streamName) { st.loses(x.topicName) })
	for range st.names.refused {
		r.names.release(st.signKey())
	}
	st.names = streamNames{}
	r.dropNames()
}

// dropNames forgets the topics that no stream has, unless one may have them without having named them yet.
func (r *Receiver) dropNames() {
	asks := func(st *Stream) bool {
		return !st.packets.Ended() && (!st.index.known || st.index.open)
	}
	if r.names.unused == 0 || slices.ContainsFunc(r.list, asks) {
		return
	}
	r.names.unused = 0
	unused := make(map[uint64]*topicName)
	r.names.known.All(func(id uint64, t *topicName) {
		if t.streams == 0 {
			unused[id] = t
		}
	})
	for id, t := range unused {
		r.names.known.Remove(id)
		r.names.byName.Remove(t.text, id)
		r.names.release(t.key)
		r.names.to.Forgotten(t.last.packets, id)
	}
}

// Names of topics on which their publishers may not publish: patterns do not learn such topics, and the publisher does
// not count as one of the topic. docs/protocol §29.8.

// refusedNames holds the refused names of one stream, by topic id, unless another stream has named the topic.
type refusedNames map[uint64]*refusedName

type refusedName struct {
	text     string
	reported bool
	stated   uint64 // as in streamName
}

func (x *refusedNames) add(id uint64, name string) {
	if *x == nil {
		*x = make(refusedNames)
	}
	(*x)[id] = &refusedName{text: name}
}

// mayPublish reports whether the stream's publisher may publish on a topic.
func (st *Stream) mayPublish(topic string) bool {
	return st.r.names.now == nil || st.r.names.now().May(st.packets.Publisher, topic)
}

// wantedOf returns the name of a topic that is wanted and on which the stream's publisher may publish.
func (st *Stream) wantedOf(id uint64) (name string, ok bool) {
	name, ok = st.r.wanted(id)
	return name, ok && st.mayPublish(name)
}

// removeRefused removes a topic from the refused names: its name is known now, and readers refuse its messages.
func (st *Stream) removeRefused(id uint64) {
	if n := &st.names; n.refused[id] != nil {
		delete(n.refused, id)
		st.r.names.release(st.signKey())
	}
}

// passOver reports the messages of refused topics in a packet that is delivered.
func (st *Stream) passOver(runs []byte) {
	refused := st.names.refused
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		if x := refused[run.Topic]; x != nil && run.Kind < wire.RunTopic {
			st.r.names.to.Untrusted(st.packets, run.Topic, x.text, int(run.Messages()), !x.reported)
			x.reported = true
		}
	}
}

// Tick checks the topics of all streams again if the trusted keys have changed: refused names may become known, and all
// topics are asked for again. Call it before reliable.Receiver.Tick.
func (r *Receiver) Tick() {
	if r.names.now == nil {
		return
	}
	trust := r.names.now()
	if trust == r.names.trust {
		return
	}
	r.names.trust = trust
	for _, st := range r.list {
		for id, x := range st.names.refused {
			if x.reported = false; trust.May(st.packets.Publisher, x.text) {
				st.name(id, x.text, 0, false)
				r.names.held[st.signKey()]++ // no longer as refused, but as known
			}
		}
		st.has = nil
		st.relevant.Store(false)
		st.askAll()
	}
}
