package reliable

import "time"

// How long a leaving receiver waits because publishers may still ask for its replies. docs/protocol §24.5.

const (
	// wholeReplyOwed is how long a publisher may ask again for a reply that was sent to its end. It asks after the usual
	// time of a reply, which is a few milliseconds if receivers reply at once.
	wholeReplyOwed = 50 * time.Millisecond
	// moreReplyOwed is the same for a reply of which the publisher still has to ask for more, after maxRecall at the
	// latest.
	moreReplyOwed = 2 * maxRecall
)

// Owed is until when publishers may still ask for replies to requests on topics for which wanted reports true: if the
// receiver closes earlier, a requester may lack its reply. If there are none, it is not after now.
func (r *Receiver) Owed(now Instant, wanted func(topic uint64) bool) (until Instant) {
	for a := r.kept.last; a != nil && r.up(now).sub(a.sentAt) < moreReplyOwed; a = a.prev {
		if !a.key.st.life.down && wanted(a.key.request.topic) {
			until = max(until, r.owed(now, a))
		}
	}
	return until
}

// owed is until when the publisher may ask for a.
func (r *Receiver) owed(now Instant, a *keptReply) Instant {
	switch {
	case a.queued:
		return now.Add(moreReplyOwed)
	case a.end < len(a.data):
		return r.when(a.sentAt.add(moreReplyOwed))
	}
	return r.when(a.sentAt.add(wholeReplyOwed))
}
