package reliable

import (
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Names receives the names of topics, for subscriptions by pattern. A receiver calls it during Handle, Tick, Resume and
// LearnNames, as it does a Sink.
type Names interface {
	// Named: st has named a topic, before it delivers any message of it; other streams of the group may have the topic,
	// too. first: st had nothing of the topic before.
	Named(st *Stream, id uint64, name string, first bool)
	// Forgotten: st, the last stream with the topic, is removed.
	Forgotten(st *Stream, id uint64)
	// Wants reports whether a named topic is wanted.
	Wants(id uint64) bool
	// Untrusted: st skips messages of a topic on which its publisher may not publish, and which no other stream has named.
	// first: they are the first since the trusted keys last changed.
	Untrusted(st *Stream, id uint64, topic string, messages int, first bool)
}

// names holds the names of the topics of a receiver's streams. The receiver keeps them, not a reader: readers may begin
// anywhere and skip packets. docs/protocol §9.9.
type names struct {
	to     Names // nil: no subscription needs names
	hold   bool  // packets wait for names: there is a pattern
	known  ring.Map[topicName]
	byName pattern.Topics[uint64] // ids of known, by their names
	found  []uint64               // result of NamesMatching
	// number of names, known and refused, by key of the publisher that stated them first; nil if keys are not proved
	held  map[uint32]int
	trust TopicTrust // by which names were judged
}

type topicName struct {
	text    string
	streams int    // how many streams have the topic
	key     uint32 // of the publisher that named it first
}

// signKey is the id of the key with which the stream's publisher signs. docs/protocol §29.1.
func (st *Stream) signKey() uint32 { return uint32(st.Publisher >> 32) }

// room reports whether one more name may come from a stream. Where publishers prove their keys, a key may have as many
// names as it leaves free, so that others have a share whatever it sends. docs/protocol §12.5.
func (d *names) room(st *Stream) bool { return d.held[st.signKey()] < maxNames-d.known.Len() }

// streamNames holds the named topics of one stream, and tracks its requests for names.
type streamNames struct {
	last    uint64              // topic of the latest run; it is in has
	has     ring.Map[topicName] // topics with known names
	unnamed map[uint64]struct{} // topics for which EventUnnamed was delivered
	refused refusedNames        // topics on which the publisher may not publish

	open    bool    // all names were requested from the publisher
	from    uint64  // sequence as of which its announces must be
	covered uint32  // topics announced so far, in the publisher's order
	all     uint64  // all topics in packets below it have names
	waiting bool    // the next packet waits for names
	since   upTime  // when waiting began
	askAt   Instant // when to ask again
}

const (
	// maxNames bounds the topic names that a receiver keeps for a group.
	maxNames = events.PatternTopics
	// maxUnnamed bounds the ids for which EventUnnamed is not repeated. One packet has fewer.
	maxUnnamed = 1 << 12
)

// LearnNames reports all topics of the group, known ones first, to to from now on. Publishers learn that any topic may
// be wanted. nil ends that.
func (r *Receiver) LearnNames(now Instant, to Names) {
	switch {
	case to == nil || r.names.to == nil:
		r.learnNames(now, to)
	case r.names.hold:
		return
	}
	r.names.hold = to != nil
	r.reportChange(now)
}

func (r *Receiver) learnNames(now Instant, to Names) {
	r.names = names{to: to}
	if r.cfg.Trust != nil {
		r.names.held, r.names.trust = make(map[uint32]int), r.cfg.Trust()
	}
	for _, st := range r.list {
		st.topics.names = streamNames{}
		if to != nil && st.next > 0 && !st.life.finished {
			st.askNames(now, st.next)
		}
	}
}

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

// wanting reports whether a topic of the group is or may be wanted.
func (r *Receiver) wanting() bool { return len(r.topics) > 0 || r.names.to != nil }

// wanted returns the name of a topic if it is wanted.
func (r *Receiver) wanted(id uint64) (name string, ok bool) {
	if t, ok := r.wants[id]; ok {
		return t.name, true
	}
	if r.names.to == nil || !r.names.to.Wants(id) {
		return "", false
	}
	return r.Name(id)
}

// mayWant reports whether a topic is wanted, or may be once its name is known.
func (r *Receiver) mayWant(id uint64) bool {
	_, wanted := r.wanted(id)
	return wanted || r.names.to != nil && r.names.known.Get(id) == nil
}

// hasNames reports whether packet b, which is next, can be delivered: names are not needed, or known for all its
// topics. Otherwise it waits, as long as for a missing packet.
func (st *Stream) hasNames(now Instant, b []byte) bool {
	return st.r.names.to == nil || st.nameAll(now, b)
}

func (st *Stream) nameAll(now Instant, b []byte) bool {
	n := &st.topics.names
	for runs := PacketData(b); ; {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			n.waiting = false
			return true
		}
		runs = rest
		switch {
		case run.Kind == wire.RunTopic:
			st.learn(run.Topic, run.Body, run.Number == 0)
		case run.Topic == n.last || run.Kind == wire.RunState:
		case n.has.Get(run.Topic) != nil || st.shares(run.Topic):
			n.last = run.Topic
		case n.refused[run.Topic] != nil:
		case !st.unnamedTopic(now, run.Topic):
			return false
		}
	}
}

// shares reports whether a topic's name is known, and if so records that the stream has the topic.
func (st *Stream) shares(id uint64) bool {
	t := st.r.names.known.Get(id)
	if t != nil && st.topics.names.has.Get(id) == nil {
		st.topics.names.has.Add(id, t)
		t.streams++
	}
	return t != nil
}

// unnamedTopic handles a topic without a known name. It reports whether the next packet, which has a message of the
// topic, can be delivered nevertheless.
func (st *Stream) unnamedTopic(now Instant, id uint64) bool {
	if t, ok := st.r.wants[id]; ok && st.learn(id, []byte(t.name), false) {
		return true // the subscription states the name
	}
	if !st.r.names.hold {
		return true
	}
	n := &st.topics.names
	if _, reported := n.unnamed[id]; reported {
		return true
	}
	n.wait(now, st.r.up(now))
	if !st.life.down && n.all <= st.next && st.r.judgedUp(now) < st.namesExpire() && st.r.names.room(st) {
		st.askNames(now, st.next+1)
		return false
	}
	st.deliverUnnamed(id)
	return st.out.Room()
}

// deliverUnnamed reports a topic without a name, for which packets no longer wait.
func (st *Stream) deliverUnnamed(id uint64) {
	n := &st.topics.names
	if n.unnamed == nil || len(n.unnamed) >= maxUnnamed {
		n.unnamed = make(map[uint64]struct{})
	}
	n.unnamed[id] = struct{}{}
	st.r.stats.Unnamed++
	e := st.r.event(EventUnnamed, st.next)
	e.Topic, e.Count, e.Cause = id, st.topics.unnamed.Add(1), events.CauseUnnamed
	if !st.r.names.room(st) {
		e.Cause = events.CauseTooManyTopics
	}
	st.out.Deliver(e)
}

// nameRest is hasNames for a packet that cannot wait.
func (st *Stream) nameRest(now Instant, b []byte) {
	all := st.topics.names.all
	st.topics.names.all = ^uint64(0)
	for !st.hasNames(now, b) {
	}
	st.topics.names.all = all
}

// wait records that the next packet waits for names.
func (n *streamNames) wait(now Instant, up upTime) {
	if !n.waiting {
		n.waiting, n.since, n.askAt = true, up, now
	}
}

// namesExpire is until when the next packet waits.
func (st *Stream) namesExpire() upTime { return st.r.expiry(st.topics.names.since, st.r.cfg.Deadline) }

// askNames requests the names of all topics that the publisher has at sequence from.
func (st *Stream) askNames(now Instant, from uint64) {
	n := &st.topics.names
	if !n.open || n.from < from {
		n.open, n.from, n.covered = true, from, 0
	}
	if now >= n.askAt {
		n.askAt = now.Add(nameRetry)
		st.report.by(now)
	}
}

// announced processes an announce of consecutive topics of the publisher's list.
func (n *streamNames) announced(a *wire.Announce) {
	if !n.open || a.AsOf < n.from || a.First != n.covered {
		return
	}
	if n.covered += uint32(a.Count); n.covered == a.Total {
		n.open, n.all = false, max(n.all, n.from)
	}
}

// Unnamed is how many EventUnnamed were delivered. It is safe for concurrent use.
func (st *Stream) Unnamed() uint64 { return st.topics.unnamed.Load() }

// learn processes a name that the stream states. It reports whether the topic now has a name, or needs none because the
// publisher may not publish on it.
func (st *Stream) learn(id uint64, name []byte, first bool) bool {
	d := &st.r.names
	t := d.known.Get(id)
	if t == nil {
		if st.topics.names.refused[id] != nil {
			return true
		}
		text, ok := pattern.NameOf(id, name)
		if !ok || !d.room(st) {
			st.r.stats.NamesRefused++
			return false
		}
		if d.held != nil {
			d.held[st.signKey()]++
		}
		if !st.may(text) {
			st.topics.names.refused.add(id, text)
			return true
		}
		st.name(id, text, first)
		return true
	} else if t.text != string(name) {
		st.r.stats.NamesRefused++
	}
	return st.shares(id)
}

// name adds a name, and records that the stream has the topic.
func (st *Stream) name(id uint64, text string, first bool) {
	st.r.names.known.Add(id, &topicName{text: text, key: st.signKey()})
	st.r.names.byName.Add(text, id)
	for _, x := range st.r.list {
		x.removeRefused(id)
	}
	st.r.names.to.Named(st, id, text, first)
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

// forgetNames forgets the names of topics that only st had, which is removed.
func (r *Receiver) forgetNames(st *Stream) {
	st.topics.names.has.All(func(id uint64, t *topicName) {
		if t.streams--; t.streams == 0 {
			r.names.known.Remove(id)
			r.names.byName.Remove(t.text, id)
			r.names.release(t.key)
			r.names.to.Forgotten(st, id)
		}
	})
	for range st.topics.names.refused {
		r.names.release(st.signKey())
	}
	st.topics.names = streamNames{}
	for _, x := range r.list {
		x.topics.names.last, x.topics.names.unnamed = 0, nil
	}
}

// Names learned before a pattern begins. If the first pattern of a group made packets wait for names, existing
// subscriptions would stop while thousands of names arrive. So the receiver learns the names first, and no packet waits
// for a name until the pattern begins. docs/protocol §9.9.

// LearnNamesAhead reports the topics of the group to to, as LearnNames does. But no packet waits for a name, and
// publishers do not learn that any topic may be wanted. LearnNames then begins with the next packet that each stream
// delivers, or, with nil, ends it.
func (r *Receiver) LearnNamesAhead(now Instant, to Names) {
	if r.names.to == nil {
		r.learnNames(now, to)
	}
}

// NamesLearned reports whether all publishers that are up have announced their topics.
func (r *Receiver) NamesLearned() bool {
	for _, st := range r.list {
		if st.topics.names.open && !st.life.down && !st.life.finished {
			return false
		}
	}
	return true
}

// NamesKnown is the number of known names.
func (r *Receiver) NamesKnown() int { return r.names.known.Len() }

// learnsAhead reports whether names are requested while no packet waits for them.
func (st *Stream) learnsAhead() bool {
	return st.topics.names.open && st.r.names.to != nil && !st.r.names.hold
}

// askAhead repeats the request for names if it is due.
func (st *Stream) askAhead(now Instant) {
	if st.learnsAhead() && now >= st.topics.names.askAt {
		st.askNames(now, st.topics.names.from)
	}
}

// Names of topics on which their publishers may not publish: patterns do not learn such topics, and the publisher does
// not count as one of the topic. docs/protocol §29.8.

// refusedNames holds the refused names of one stream, by topic id, unless another stream has named the topic.
type refusedNames map[uint64]*refusedName

type refusedName struct {
	text     string
	reported bool
}

func (x *refusedNames) add(id uint64, name string) {
	if *x == nil {
		*x = make(refusedNames)
	}
	(*x)[id] = &refusedName{text: name}
}

// TopicTrust says which keys may publish on which topics. It is immutable. docs/protocol §29.8.
type TopicTrust interface {
	// May reports whether a publisher may publish on a topic.
	May(publisher events.ID, topic string) bool
}

// may reports whether the stream's publisher may publish on a topic.
func (st *Stream) may(topic string) bool {
	return st.r.cfg.Trust == nil || st.r.cfg.Trust().May(st.Publisher, topic)
}

// wantedOf returns the name of a topic that is wanted and on which the stream's publisher may publish.
func (st *Stream) wantedOf(id uint64) (name string, ok bool) {
	name, ok = st.r.wanted(id)
	return name, ok && st.may(name)
}

// removeRefused removes a topic from the refused names: its name is known now, and readers refuse its messages.
func (st *Stream) removeRefused(id uint64) {
	if n := &st.topics.names; n.refused[id] != nil {
		delete(n.refused, id)
		st.r.names.release(st.signKey())
	}
}

// passOver reports the messages of refused topics in a packet that is delivered.
func (st *Stream) passOver(b []byte) {
	refused := st.topics.names.refused
	for run, rest, ok := wire.NextRun(PacketData(b)); ok; run, rest, ok = wire.NextRun(rest) {
		if x := refused[run.Topic]; x != nil && run.Kind < wire.RunTopic {
			st.r.names.to.Untrusted(st, run.Topic, x.text, int(run.Messages()), !x.reported)
			x.reported = true
		}
	}
}

// rejudge checks the topics of all streams again if the trusted keys have changed: refused names may become known, and
// announced topics must be announced again.
func (r *Receiver) rejudge(now Instant) {
	if r.cfg.Trust == nil {
		return
	}
	trust := r.cfg.Trust()
	if trust == r.names.trust {
		return
	}
	r.names.trust = trust
	for _, st := range r.list {
		for id, x := range st.topics.names.refused {
			if x.reported = false; trust.May(st.Publisher, x.text) {
				st.name(id, x.text, false)
				r.names.held[st.signKey()]++ // no longer as refused, but as known
			}
		}
		st.topics.repertoire.reset()
		st.topics.relevant.Store(false)
		st.report.topics = true
		st.report.by(now)
	}
}
