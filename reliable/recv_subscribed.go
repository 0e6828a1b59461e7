package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// subscribed is what statuses state of this bus: the topics wanted by name, its name and its tag.
type subscribed struct {
	topics    []uint64
	wants     map[uint64]wantedTopic // by id
	added     bool                   // some since the last TopicsChanged
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
	r.added = true
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
		if r.added && r.names.to == nil {
			if st.topics.index.whole = false; st.next > 0 {
				st.askAll()
			}
		}
		for id, err := range st.topics.collided {
			if name, _ := r.wanted(id); name != err.Known {
				delete(st.topics.collided, id)
			}
		}
		if !r.wanting() && st.report.sent > 0 {
			st.report.farewells = farewells
		}
	}
	r.added = false
	r.reportChange(now)
}

// reportChange makes statuses with the wanted topics due.
func (r *Receiver) reportChange(now Instant) {
	for _, st := range r.list {
		st.report.topics = true
		st.report.changed(now)
	}
}

// PublisherMissing reports whether a wanted topic has no known publisher that is up. If so, it asks each publisher once
// whether it has the topic without messages.
func (r *Receiver) PublisherMissing() (missing bool) {
	if r.missing >= len(r.topics) || r.published(r.topics[r.missing]) {
		r.missing = slices.IndexFunc(r.topics, func(id uint64) bool { return !r.published(id) })
		r.missing = max(r.missing, 0)
	}
	missing = len(r.topics) > 0 && !r.published(r.topics[r.missing])
	for _, st := range r.list {
		if x := &st.topics.index; (missing || st.next == 0) && !x.whole && !x.open && !st.life.down {
			st.ask(0)
		}
	}
	return missing
}

// published reports whether a publisher that is up has the topic.
func (r *Receiver) published(id uint64) bool {
	for _, st := range r.list {
		if st.topics.hasWanted(id) && !st.life.down {
			return true
		}
	}
	return false
}

// Announced returns the names of wanted topics that the publisher has, sorted.
func (st *Stream) Announced() (names []string) {
	add := func(id uint64) {
		if name, ok := st.wantedOf(id); ok {
			names = append(names, name)
		}
	}
	for id := range st.topics.has {
		add(id)
	}
	st.topics.names.has.All(func(id uint64, _ *streamName) {
		if _, has := st.topics.has[id]; !has {
			add(id)
		}
	})
	slices.Sort(names)
	return names
}

// MayConcern reports whether the publisher has a wanted topic, or its topics are not known yet.
func (st *Stream) MayConcern() bool { return st.Relevant() || !st.topics.index.known }
