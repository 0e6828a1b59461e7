package reliable

// Names that are learned ahead of a pattern: the first pattern of a group with streams that other subscriptions follow
// already would make these wait while thousands of names arrive. So names are learned first, and no packet waits for
// one until the pattern begins. docs/protocol §9.9.

// LearnNamesAhead reports the topics of the group to to, as LearnNames does, but no packet waits for a name, and
// publishers do not learn that any topic may be wanted. LearnNames then begins where streams deliver next, and with nil
// it ends.
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

// NamesKnown is how many names are known.
func (r *Receiver) NamesKnown() int { return r.names.known.Len() }

// learnsAhead reports whether names are asked for, for which no packet waits.
func (st *Stream) learnsAhead() bool {
	return st.topics.names.open && st.r.names.to != nil && !st.r.names.hold
}

// askAhead asks for them again.
func (st *Stream) askAhead(now Instant) {
	if st.learnsAhead() && now >= st.topics.names.askAt {
		st.askNames(now, st.topics.names.from)
	}
}
