package reliable

import "time"

// How long a receiver that goes waits for replies that it owes. docs/protocol §24.5.

const (
	// wholeReplyOwed is how long a reply may be asked for again that was sent to its end: its publisher asks after the
	// usual time of a reply, which is a few milliseconds where most of that is the way.
	wholeReplyOwed = 50 * time.Millisecond
	// moreReplyOwed is the same of a reply of which more is to be asked for: its publisher asks at
	// maxRecall at the latest.
	moreReplyOwed = 2 * maxRecall
)

// Owed is until when requesters may ask again for replies that were given to requests on topics with an id that wanted
// reports true for: a receiver that closes before leaves a requester without its reply. It is not after now if none
// may.
func (r *Receiver) Owed(now Instant, wanted func(topic uint64) bool) (until Instant) {
	for a := r.kept.last; a != nil && r.up(now).sub(a.sentAt) < moreReplyOwed; a = a.prev {
		if !a.key.st.life.down && wanted(a.key.request.topic) {
			until = max(until, r.owed(now, a))
		}
	}
	return until
}

// owed is until when it may be asked for.
func (r *Receiver) owed(now Instant, a *keptReply) Instant {
	switch {
	case a.queued:
		return now.Add(moreReplyOwed)
	case a.end < len(a.data):
		return r.when(a.sentAt.add(moreReplyOwed))
	}
	return r.when(a.sentAt.add(wholeReplyOwed))
}
