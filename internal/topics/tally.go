package topics

// Tally counts what a Reader does not deliver.
type Tally interface {
	// Dropped counts a run, or the rest of one, that does not parse or repeats message numbers.
	Dropped()
	// Unwanted counts a run, with its bytes, of a topic that the reader does not want.
	Unwanted(topic uint64, bytes int)
	// Refused counts messages of topics that the publisher is not trusted with.
	Refused(messages int)
}

// Count makes the reader report to t what it does not deliver after this call.
func (r *Reader) Count(t Tally) { r.tally = t }

func (r *Reader) drop() {
	if r.tally != nil {
		r.tally.Dropped()
	}
}
