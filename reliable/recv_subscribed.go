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

// repertoire records which wanted topics a stream's publisher has announced. While a wanted topic has no publisher, the
// receiver asks each publisher once for all its topics: a publisher that then omits the topic does not publish it.
type repertoire struct {
	has     map[uint64]struct{}
	covered uint32 // consecutive topics announced, in the publisher's order
	all     bool   // all were announced since the wanted topics last changed
	asked   bool
}

// reset restarts the collection, because the wanted topics changed.
func (p *repertoire) reset() { *p = repertoire{has: p.has} }

func (p *repertoire) add(id uint64) {
	if _, ok := p.has[id]; ok {
		return
	}
	if p.has == nil {
		p.has = make(map[uint64]struct{})
	}
	p.has[id] = struct{}{}
}

// may reports whether the publisher has, or may have, the topic.
func (p *repertoire) may(id uint64) bool {
	_, ok := p.has[id]
	return ok || !p.all
}

// announced processes an announce of consecutive topics.
func (p *repertoire) announced(first, count, total uint32) {
	if first == 0 {
		p.covered = 0
	}
	if first == p.covered {
		p.covered += count
	}
	if p.covered == total {
		p.all, p.asked = true, false
	}
}

// published reports whether a publisher that is up has announced the topic.
func (r *Receiver) published(id uint64) bool {
	for _, st := range r.list {
		if _, ok := st.topics.repertoire.has[id]; ok && !st.life.down {
			return true
		}
	}
	return false
}

// Announced returns the names of wanted topics that the publisher has announced, sorted.
func (st *Stream) Announced() (names []string) {
	for id := range st.topics.repertoire.has {
		if name, ok := st.wantedOf(id); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// MayConcern reports whether the publisher has a wanted topic, or has not announced all its topics yet.
func (st *Stream) MayConcern() bool {
	if st.Relevant() {
		return true
	}
	for _, id := range st.r.topics {
		if st.topics.repertoire.may(id) {
			return true
		}
	}
	return st.r.names.to != nil && !st.topics.repertoire.all
}
