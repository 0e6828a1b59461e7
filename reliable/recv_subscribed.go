package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// subscribed is what statuses say of this bus: the topics that are wanted by their names, and what it is called.
type subscribed struct {
	topics    []uint64
	wants     map[uint64]wantedTopic // those of topics
	missing   int                    // where PublisherMissing has found one
	name, tag []byte
}

type wantedTopic struct {
	name string
	at   int // in topics
}

// Want adds a topic to those that the group's subscribers want; TopicsChanged follows.
func (r *Receiver) Want(name string) {
	id := wire.TopicID(name)
	if _, ok := r.wants[id]; ok {
		return
	}
	if r.wants == nil {
		r.wants = make(map[uint64]wantedTopic)
	}
	r.wants[id] = wantedTopic{name, len(r.topics)}
	r.topics = append(r.topics, id)
}

// Unwant removes a topic, of which others may take the place; TopicsChanged follows.
func (r *Receiver) Unwant(name string) {
	id := wire.TopicID(name)
	t, ok := r.wants[id]
	if !ok {
		return
	}
	last := len(r.topics) - 1
	moved := r.topics[last]
	r.wants[moved] = wantedTopic{r.wants[moved].name, t.at}
	r.topics[t.at], r.topics = moved, r.topics[:last]
	delete(r.wants, id)
}

// TopicsChanged has publishers learn what is wanted now. Where nothing is, nothing is asked of them.
func (r *Receiver) TopicsChanged(now Instant) {
	r.counted.set(&r.cfg, true)
	for _, st := range r.list {
		st.report.farewells = 0
		st.topics.repertoire.anew()
		st.totals.renew(st)
		for id, err := range st.topics.collided {
			if name, _ := r.wanted(id); name != err.Known {
				delete(st.topics.collided, id)
			}
		}
		if !r.wanting() && st.report.sent > 0 {
			st.report.farewells = farewells
		}
	}
	r.reportChange(now)
}

// reportChange makes statuses due that say what is wanted now.
func (r *Receiver) reportChange(now Instant) {
	for _, st := range r.list {
		st.report.topics = true
		st.report.changed(now)
	}
}

// PublisherMissing reports whether some wanted topic has no publisher that is up, as far as is known. Publishers that
// have not announced all their topics are asked to.
func (r *Receiver) PublisherMissing(now Instant) (missing bool) {
	if r.missing >= len(r.topics) || r.published(r.topics[r.missing]) {
		r.missing = slices.IndexFunc(r.topics, func(id uint64) bool { return !r.published(id) })
		r.missing = max(r.missing, 0)
	}
	missing = len(r.topics) > 0 && !r.published(r.topics[r.missing])
	for _, st := range r.list {
		if p := &st.topics.repertoire; missing && !st.life.down && !p.all && !p.asked {
			p.asked = true
			st.report.changed(now)
		}
	}
	return missing
}
