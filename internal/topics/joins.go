package topics

// State with which streams begin. docs/protocol §25.

// StateComplete implements reliable.Contents. The round may be for receivers of other topics, or some names may not be
// known yet.
func (st *Stream) StateComplete(named bool, topics map[uint64]struct{}) bool {
	if st.r.names.to != nil && (!named || !st.index.known) {
		return false
	}
	return named || st.hasAll(topics)
}

// hasAll reports whether has includes all wanted topics that the publisher may have.
func (st *Stream) hasAll(has map[uint64]struct{}) bool {
	for _, id := range st.r.topics {
		if _, ok := has[id]; !ok && st.may(id) {
			return false
		}
	}
	return true
}

// StateTopics implements reliable.Contents.
func (st *Stream) StateTopics() (topics []uint64) {
	for _, id := range st.r.topics {
		if st.may(id) {
			topics = append(topics, id)
		}
	}
	if st.r.names.to == nil {
		return topics
	}
	st.names.has.All(func(id uint64, _ *topicName) {
		if _, exact := st.r.wants[id]; !exact && st.r.names.to.Wants(id) {
			topics = append(topics, id)
		}
	})
	return topics
}
