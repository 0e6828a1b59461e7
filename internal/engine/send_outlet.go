package engine

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// outlet sends a publication's trains to the transport, and gets the replies to them. It decides when to retry a train
// that was not accepted. Under the publication's lock.
type outlet struct {
	tx      transport.Sender
	replies transport.ReplyReader // tx, if it reads replies
	onReply func([]byte)          // made once, to avoid an allocation for each read
	address func() string         // source of the reply passed to onReply
	train   transport.Outbound
	busy    bool                    // the transport accepted less than it was given
	retryAt reliable.Instant        // when to try again then
	errors  uint64                  // failed sends
	failed  atomic.Pointer[failure] // for the loop to log, without the lock
	stuck   stuck
}

// failure is the latest of several failed sends.
type failure struct {
	err   error
	times uint64
}

const (
	// busyRetry is when the loop tries again after the transport was busy.
	busyRetry = 50 * time.Microsecond
	// readyRetry is the same for a group that is not joined. The join event makes the loop try anyway.
	readyRetry = 10 * time.Millisecond
)

// newSender opens a sender to a group. It signs if the bus does.
func (l *Loop) newSender(group int) (transport.Sender, error) {
	if s := l.cfg.Signer; s != nil {
		return s.NewSender(l.t, group)
	}
	return l.t.NewSender(group)
}

// use makes tx the sender.
func (o *outlet) use(tx transport.Sender) {
	o.tx = tx
	o.replies, _ = tx.(transport.ReplyReader)
}

// replyAddress returns the source of the reply that is being read.
func (o *outlet) replyAddress() string { return o.replies.ReplyAddress() }

// refused records at now that the transport has not accepted all of a train, because of err. The 1st, 2nd, 4th, 8th …
// failure is logged.
func (o *outlet) refused(now reliable.Instant, err error) {
	o.busy, o.retryAt = true, now.Add(busyRetry)
	switch {
	case errors.Is(err, transport.ErrNotReady):
		o.retryAt = now.Add(readyRetry)
	case !errors.Is(err, transport.ErrBusy):
		if o.errors++; Doubled(o.errors-1, o.errors) {
			o.failed.Store(&failure{err, o.errors})
		}
	}
}

// deadline returns when to try again, if the transport is busy.
func (o *outlet) deadline() reliable.Instant {
	if !o.busy {
		return reliable.Never
	}
	return o.retryAt
}

// sendTrain passes the train to the transport, and to the sender how many packets were accepted: none if a KeyProvider
// of the user panics. Under mu.
func (p *Publication) sendTrain() (n int, end reliable.Instant, err error) {
	defer func() {
		end = p.l.now() // read again: signing takes longer than a heartbeat waits
		p.s.Sent(end, n, p.out.tx.Completed())
	}()
	n, err = p.out.tx.Send(&p.out.train)
	return n, end, err
}
