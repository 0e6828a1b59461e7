package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Track is a topic of a Reader. The fields that each run of messages needs are in one cache line: with many topics
// nearly every run is of another one.
type Track struct {
	next   uint64 // number of the next message
	losses uint64 // Reader.losses at the latest message or topic run, or when it was wanted
	known  bool
	stated bool // its state was read or reported as missing, or it begins without state
	// refused: the publisher is not trusted with it; refusalSent: that was reported.
	refused, refusalSent bool
	Data                 any // for the reader's user
	Name                 string
	ID                   uint64

	from     uint64   // 1 + number of the message to begin with; 0: any
	refusals uint64   // number of reports of refusals
	_        [48]byte // whole cache lines, because it is allocated alone
}

// Want adds a topic. Its messages from here on are delivered.
func (r *Reader) Want(id uint64, name string, data any) *Track {
	t := r.topics.Get(id)
	if t == nil {
		t = &Track{ID: id, Name: name, losses: r.losses}
		r.topics.Add(id, t)
		r.judge(t)
	}
	t.Data = data
	t.known = t.known || r.fresh && !t.refused
	return t
}

// Begun says that the stream began before topics that are wanted from here on: nothing is missing before their first
// message.
func (r *Reader) Begun() { r.fresh = false }

// Whole says that the reader sees a wanted topic from its beginning, so the first message has number 0. It does not
// change where a topic begins that begins with a given message.
func (r *Reader) Whole(id uint64) {
	if t := r.topics.Get(id); t != nil && !t.refused && !t.known && t.from == 0 {
		t.known, t.losses = true, 0
	}
}

// Wants reports whether the topic is wanted.
func (r *Reader) Wants(id uint64) bool { return r.topics.Get(id) != nil }

// Drop removes a topic.
func (r *Reader) Drop(id uint64) {
	r.topics.Remove(id)
	r.discard(id)
}

// discard drops unfinished items of a topic.
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

// Item is a message, a gap, or a part of a topic's state.
type Item struct {
	Topic  *Track // nil for a gap of unknown topic
	Number uint64 // of the message, or the first one lost; StateMissing: bytes of the window, with StateOverrun
	Data   []byte // the message, valid until the next call; nil for a gap
	// Lost is the number of missing messages of a gap; zero for a message.
	Lost uint64
	// Unknown says that the number of missing messages is not known; it may be zero.
	Unknown bool
	Cause   events.Cause
	Request bool // a message that can be replied to (Receiver.Respond)
	// State says which part of a topic's state it is, if any. Why goes with StateMissing.
	State reliable.StatePart
	Why   events.StateCause
}

// Gap reports whether the item is a gap.
func (it *Item) Gap() bool { return it.Lost > 0 || it.Unknown }
