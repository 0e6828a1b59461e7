package ring

// table has a Log's items by position. When it is full, a table of twice the size replaces it. While readers keep up it
// stays small enough for the processor's cache.
type table struct {
	entries []entry
	notes   []any // as long as entries; made for the first note
}

// firstItems is the number of items in the first table of a log, unless the log's capacity is smaller.
const firstItems = 256

func newTable(items int) *table { return &table{entries: make([]entry, items)} }

func (t *table) at(pos uint64) *entry { return &t.entries[pos&uint64(len(t.entries)-1)] }

func (t *table) note(pos uint64) *any { return &t.notes[pos&uint64(len(t.notes)-1)] }

// grown returns a table of twice the size with the items from tail to head.
func (t *table) grown(tail, head uint64) *table {
	larger := newTable(2 * len(t.entries))
	for pos := tail; pos < head; pos++ {
		*larger.at(pos) = *t.at(pos)
	}
	if t.notes != nil {
		larger.notes = make([]any, len(larger.entries))
		for pos := tail; pos < head; pos++ {
			*larger.note(pos) = *t.note(pos)
		}
	}
	return larger
}
