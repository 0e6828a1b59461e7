package engine

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// stuck observes that the transport accepts nothing: the interface is down, there is no route, or no key is valid. With
// every kind of flow control publishers then wait as soon as there is no more room, so it must be reported. Under the
// publication's lock.
type stuck struct {
	since    reliable.Instant // 0: the transport accepts packets
	err      error            // of the last attempt; nil: none
	lost     error            // why the membership of the group was lost; nil: it was not
	size     uint16           // of a packet that is too long, while shorter ones are accepted; 0: none
	when     backoffReporter
	reported bool
	lasted   time.Duration // duration of a reported stall that is over and not reported as such; 0: none
}

// refused records at now that the transport accepted nothing because of err, and the length of the first packet.
func (x *stuck) refused(now reliable.Instant, err error, size uint16) {
	if x.since == 0 {
		x.since = now
	}
	if err != nil {
		x.err = err
	}
	if x.size = 0; errors.Is(err, syscall.EMSGSIZE) {
		x.size = size
	}
}

// shows reports whether packets of these sizes show that the stall is over. Heartbeats pass where data is too long.
func (x *stuck) shows(sizes []uint16) bool { return slices.Max(sizes) >= x.size }

// took records that the transport accepted packets at now.
func (x *stuck) took(now reliable.Instant) {
	if x.reported {
		x.lasted = max(1, now.Sub(x.since))
	}
	x.since, x.err, x.size, x.reported = 0, nil, 0, false
	x.when.over()
}

// note returns the event to emit at now, if any. waiting is the number of waiting packets.
func (x *stuck) note(now reliable.Instant, waiting uint64) (e events.Event, ok bool) {
	if x.size > 0 && waiting == 0 { // the packet that was too long is no longer to be sent
		x.took(now)
	}
	switch {
	case x.lasted > 0:
		e = events.Event{Kind: events.SendsAgain, For: x.lasted}
		x.lasted = 0
		return e, true
	case x.since != 0 && x.when.due(now.Sub(x.since)):
		x.reported = true
		return events.Event{Kind: events.CannotSend, For: now.Sub(x.since), Behind: waiting, Err: x.cause()}, true
	}
	return e, false
}

// lasts returns for how long the transport has accepted nothing at now; 0: it accepts packets.
func (x *stuck) lasts(now reliable.Instant) time.Duration {
	if x.since == 0 {
		return 0
	}
	return now.Sub(x.since)
}

var errTakesNothing = errors.New("the transport takes no packets")

// cause returns why the transport accepts nothing.
func (x *stuck) cause() error {
	switch {
	case x.err == nil:
		return errTakesNothing
	case x.lost != nil && errors.Is(x.err, transport.ErrNotReady):
		return x.lost
	}
	return x.err
}

// why returns an error that nothing can be sent, with the cause; nil: it can, or the stall is short.
func (x *stuck) why(now reliable.Instant) error {
	d := x.lasts(now)
	if d < firstReport {
		return nil
	}
	return fmt.Errorf("nothing could be sent for %v: %w", d.Round(time.Millisecond), x.cause())
}

// senderJoined passes a change of a sender's membership to its publication.
func (l *Loop) senderJoined(e *transport.Event) {
	p := l.known(e.Group)
	switch {
	case p == nil:
	case e.State == transport.Failed:
		p.unjoined(e.Err) // otherwise its publishers would wait forever
	case e.State == transport.Lost, e.State == transport.Joined:
		p.mu.Lock()
		p.out.stuck.lost = e.Err // nil if joined
		p.mu.Unlock()
	}
}
