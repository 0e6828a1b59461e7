package reliable

import "slices"

// repertoire is what a stream's publisher has announced of the topics that are wanted here. While a wanted topic has no
// publisher, the stream is asked once for all its topics: it does not publish those that it then leaves out.
type repertoire struct {
	has     map[uint64]struct{}
	covered uint32 // topics announced in a row, in the publisher's order
	all     bool   // all have been announced since anything was wanted anew
	asked   bool
}

// anew begins anew: other topics are wanted.
func (p *repertoire) anew() { *p = repertoire{has: p.has} }

func (p *repertoire) add(id uint64) {
	if _, ok := p.has[id]; ok {
		return
	}
	if p.has == nil {
		p.has = make(map[uint64]struct{})
	}
	p.has[id] = struct{}{}
}

// may reports whether the publisher has the topic, as far as it is known.
func (p *repertoire) may(id uint64) bool {
	_, ok := p.has[id]
	return ok || !p.all
}

// announced takes in an announce of several topics in a row.
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

// Announced are the names of the topics that are wanted here and that the publisher has announced, sorted.
func (st *Stream) Announced() (names []string) {
	for id := range st.topics.repertoire.has {
		if name, ok := st.wantedOf(id); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// MayConcern reports whether the publisher has a topic that is wanted here, or was never heard to say all that it has.
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
