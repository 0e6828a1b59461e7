package topics

// Tally counts what a Reader passes over.
type Tally interface {
	// Dropped counts a run, or the rest of one, that does not parse or has message numbers that came before.
	Dropped()
	// Unwanted counts a run of so many bytes, of a topic that the reader does not want.
	Unwanted(topic uint64, bytes int)
	// Refused counts messages of topics on which the publisher may not publish.
	Refused(messages int)
}

// Count has t count what the reader passes over from here on.
func (r *Reader) Count(t Tally) { r.tally = t }

func (r *Reader) drop() {
	if r.tally != nil {
		r.tally.Dropped()
	}
}
