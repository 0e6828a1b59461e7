package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

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
