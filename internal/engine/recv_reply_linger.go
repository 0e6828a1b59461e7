package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

const (
	// owedAgain is the time between two checks whether replies are still owed.
	owedAgain = 2 * time.Millisecond
	// maxOwed is how long closing a subscription waits for replies at most: until it is closed, requests keep coming.
	maxOwed = time.Second
)

// lingerReplies waits until no requester is likely to ask again for replies to requests on topics for which wanted is
// true, or until ctx ends. Requesters fetch long replies piece by piece, and request lost pieces again. Replies are not
// acknowledged: only silence shows that none is needed.
func (l *Loop) lingerReplies(ctx context.Context, wanted func(topic uint64) bool) {
	for {
		var d time.Duration
		answered := make(chan struct{}) // a handler may keep the loop from answering for long
		if l.post(func() { d = l.owedFor(wanted); close(answered) }) != nil {
			return
		}
		if l.await(answered, ctx.Done(), l.shutdown.done) != 0 || d <= 0 {
			return
		}
		if l.pause(ctx, min(d, owedAgain)); ctx.Err() != nil {
			return
		}
	}
}

// owedFor returns for how long from now on a requester may ask for them. Loop only.
func (l *Loop) owedFor(wanted func(topic uint64) bool) (d time.Duration) {
	now := l.now()
	for _, g := range l.receiving {
		d = max(d, g.replies.Owed(now, wanted).Sub(now))
	}
	return d
}

// lingerReplies waits for replies to requests on the subscription's topics.
func (s *Subscription) lingerReplies() {
	ctx, cancel := s.l.timeout(context.Background(), maxOwed)
	defer cancel()
	s.l.lingerReplies(ctx, s.mayHave)
}

// mayHave reports whether the topic may be one of the subscription's. Loop only.
func (s *Subscription) mayHave(topic uint64) bool {
	return slices.ContainsFunc(s.topics.List(),
		func(t TopicName) bool { return t.Pattern.Wild() || wire.TopicID(t.Name) == topic })
}
