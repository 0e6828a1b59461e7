package driver

import (
	"context"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

const (
	// owedAgain is how soon to look again whether replies are still owed.
	owedAgain = 2 * time.Millisecond
	// mostOwed is how long a subscription that is closed waits for them at most: requests go on to
	// come until it is gone.
	mostOwed = time.Second
)

// lingerReplies waits until nobody asks any more for replies that were given, to requests on
// topics that wanted reports true for, or until ctx ends: requesters fetch what is long piece by piece, and
// ask again for what was lost. In the end who has replied is to be sure that it has come.
func (l *Loop) lingerReplies(ctx context.Context, wanted func(topic uint64) bool) {
	for {
		var now, until reliable.Instant
		if l.do(func() {
			now = l.now()
			for _, g := range l.receiving {
				until = max(until, g.r.Owed(now, wanted))
			}
		}) != nil || until <= now {
			return
		}
		again := time.NewTimer(min(until.Sub(now), owedAgain))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// lingerReplies waits for those to requests on the subscription's topics.
func (s *Subscription) lingerReplies() {
	ctx, cancel := context.WithTimeout(context.Background(), mostOwed)
	defer cancel()
	s.l.lingerReplies(ctx, func(topic uint64) bool {
		return slices.ContainsFunc(s.topics, func(t TopicName) bool { return t.Pattern.Wild() || reliable.TopicID(t.Name) == topic })
	})
}
