package topics

import "github.com/fanfaremq/fanfare/pubsub/events"

// Track is a topic of a Reader. What each message needs lies in one line of the cache.
type Track struct {
	// What each run of messages asks for is one line of the cache: with many topics nearly every run is another one's.
	next   uint64 // number of the next message
	losses uint64 // of the reader when it had the latest message, or unsure
	known  bool
	// unnamed is why messages of it passed before its name was known, if none was delivered since.
	unnamed events.Cause
	stated  bool // its state was read, or reported as missing, or it begins without
	begun   bool // foreign is not 0
	// refused: its publisher may not publish on it; refusalSent: that was reported.
	refused, refusalSent bool
	Data                 any // the user's own
	Name                 string
	ID                   uint64

	foreign  uint64   // 1 + number of the message that had begun when it was wanted; 0: none
	from     uint64   // 1 + number of the message that it is to begin with; 0: whichever comes first
	refusals uint64   // how often it was reported
	since    uint64   // losses of the reader when it was wanted; unsure: they may be of it
	_        [32]byte // to a whole number of lines, as it is allocated by itself
}

// Want adds a topic. Its first message from here on is delivered.
func (r *Reader) Want(id uint64, name string, data any) *Track {
	t := r.topics.Get(id)
	if t == nil {
		t = &Track{ID: id, Name: name, unnamed: r.unnamed.named(id), since: r.losses}
		r.topics.Add(id, t)
		r.judge(t)
	}
	t.Data = data
	t.known = t.known || r.fresh && !t.refused
	return t
}

// Begun says that the stream has begun before what is wanted from here on: nothing of
// that is missing before its first message.
func (r *Reader) Begun() { r.fresh = false }

// Whole says of a topic that the reader wants: nothing of it was before what is read, it begins with number 0.
func (r *Reader) Whole(id uint64) {
	if t := r.topics.Get(id); t != nil && !t.refused {
		t.known = true
	}
}

// NamedLate says of a topic that the reader wants since its name came: it was to be wanted before,
// and what was lost by then may be of it.
func (r *Reader) NamedLate(id uint64) {
	if t := r.topics.Get(id); t != nil {
		t.since = unsure
	}
}

// Wants reports whether the topic is wanted.
func (r *Reader) Wants(id uint64) bool { return r.topics.Get(id) != nil }

// Drop removes a topic.
func (r *Reader) Drop(id uint64) {
	r.topics.Remove(id)
	r.discard(id)
}

// discard drops what the reader is in the middle of for a topic.
func (r *Reader) discard(id uint64) {
	if r.track != nil && r.track.ID == id {
		r.track, r.body = nil, nil
	}
	if r.hold.Topic != nil && r.hold.Topic.ID == id {
		r.hold = Item{}
	}
	if r.pTrack != nil && r.pTrack.ID == id {
		r.pTrack, r.expect = nil, 0
	}
	if r.state != nil {
		r.state.drop(id)
	}
}
