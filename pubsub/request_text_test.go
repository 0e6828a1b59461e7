package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/topics"
)

// The text has a remedy where there is one, and no counts that are not known.
func TestNoReplyErrorText(t *testing.T) {
	for _, c := range []struct {
		err  NoReplyError
		want string
	}{
		{NoReplyError{Topic: "q", Err: ErrNoResponders}, `pubsub: request on "q": ` + ErrNoResponders.Error() + `: subscribe to it, with a handler that calls Message.Respond`},
		{NoReplyError{Topic: "q", Subscribers: 2, Heard: 2, Answered: 1, Gone: 1, Err: ErrNoResponders}, `pubsub: request on "q": no other reply will come: of 2 subscribers 1 replied and 1 left`},
		{NoReplyError{Topic: "q", Err: context.Canceled}, `pubsub: request on "q" was not published: context canceled`},
		{NoReplyError{Topic: "q", Subscribers: 1, Heard: 1, Err: context.DeadlineExceeded},
			`pubsub: request on "q": context deadline exceeded: of 1 subscriber the request is known to have reached 1, 0 replied and 0 left`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("error text %q, want %q", got, c.want)
		}
	}
	err := requestError("q", topics.RequestState{Sent: true, Owe: 1}, context.DeadlineExceeded)
	if strings.Contains(err.Error(), "not published") || !errors.Is(err, ErrNoResponders) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a published request without subscribers: error %v, want %v and %v", err, ErrNoResponders, context.DeadlineExceeded)
	}
}
