package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// subscribed is what statuses state of this bus: the topics wanted by name, its name and its tag.
type subscribed struct {
	topics    []uint64
	wants     map[uint64]wantedTopic // by id
	missing   int                    // index of a topic without a publisher, as last found by PublisherMissing
	name, tag []byte
}

type wantedTopic struct {
	name string
	at   int // index in topics
}

// Want adds a wanted topic. Call TopicsChanged afterwards.
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

// Unwant removes a wanted topic, which may reorder the others. Call TopicsChanged afterwards.
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

// TopicsChanged informs publishers of the wanted topics. If none is wanted, the receiver sends leaving statuses.
func (r *Receiver) TopicsChanged(now Instant) {
	r.counted.set(&r.cfg, true)
	for _, st := range r.list {
		st.report.farewells = 0
		st.topics.repertoire.reset()
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

// reportChange makes statuses with the wanted topics due.
func (r *Receiver) reportChange(now Instant) {
	for _, st := range r.list {
		st.report.topics = true
		st.report.changed(now)
	}
}

// PublisherMissing reports whether a wanted topic has no known publisher that is up. It asks publishers that have not
// announced all their topics to do so.
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
