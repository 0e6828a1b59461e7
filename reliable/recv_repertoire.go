package reliable

import "slices"

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
