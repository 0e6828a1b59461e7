package engine

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// outlet is where a publication's trains leave to the transport, and where replies to them come back. It decides when a
// train that was not taken is tried again. Under the publication's lock.
type outlet struct {
	tx      transport.Sender
	replies transport.ReplyReader // tx, if it is one
	onReply func([]byte)          // made once, so that it is not allocated for each look
	address func() string         // where the reply came from that onReply takes
	train   transport.Outbound
	busy    bool                    // the transport took less than it was given
	retryAt reliable.Instant        // when to try again after that
	errors  uint64                  // sends that failed
	failed  atomic.Pointer[failure] // that the loop is to log, without the lock
	stuck   stuck
}

// failure is the latest of so many sends that failed.
type failure struct {
	err   error
	times uint64
}

const (
	// busyRetry is how soon the loop tries again when the transport was busy.
	busyRetry = 50 * time.Microsecond
	// readyRetry is the same for a group that is not joined: the event that it is makes the loop try anyway.
	readyRetry = 10 * time.Millisecond
)

// newSender becomes a sender to a group, which signs if the bus does.
func (l *Loop) newSender(group int) (transport.Sender, error) {
	if s := l.cfg.Signer; s != nil {
		return s.NewSender(l.t, group)
	}
	return l.t.NewSender(group)
}

// use makes tx the way out.
func (o *outlet) use(tx transport.Sender) {
	o.tx = tx
	o.replies, _ = tx.(transport.ReplyReader)
}

// replyAddress is where the reply came from that is being read.
func (o *outlet) replyAddress() string { return o.replies.ReplyAddress() }

// refused records at now that the transport has not taken all of a train, because of err. The 1st, 2nd, 4th, 8th …
// failure is logged.
func (o *outlet) refused(now reliable.Instant, err error) {
	o.busy, o.retryAt = true, now.Add(busyRetry)
	switch {
	case errors.Is(err, transport.ErrNotReady):
		o.retryAt = now.Add(readyRetry)
	case !errors.Is(err, transport.ErrBusy):
		if o.errors++; doubled(o.errors-1, o.errors) {
			o.failed.Store(&failure{err, o.errors})
		}
	}
}

// deadline is when to try again, if the transport is busy.
func (o *outlet) deadline() reliable.Instant {
	if !o.busy {
		return reliable.Never
	}
	return o.retryAt
}

// sendTrain hands the train to the transport, and reports to the sender how many packets it took: none, where a
// KeyProvider of the user panics. Under mu.
func (p *Publication) sendTrain() (n int, end reliable.Instant, err error) {
	defer func() {
		end = p.l.now() // to sign takes longer than a heartbeat waits
		p.s.Sent(end, n, p.out.tx.Completed())
	}()
	n, err = p.out.tx.Send(&p.out.train)
	return n, end, err
}
