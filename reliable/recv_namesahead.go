package reliable

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
