package engine

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// stuck follows that the transport takes nothing: the interface is down, there is no route, or no key is valid.
// Publishers then wait as soon as there is no more room, with every kind of flow control, so it has to be reported.
// Under the publication's lock.
type stuck struct {
	since    reliable.Instant // 0: it takes what it is given
	err      error            // why, as it said last; nil: it did not
	lost     error            // why the membership of the group was lost; nil: it was not
	size     uint16           // of a packet that it finds too long, though it takes shorter ones; 0: it is not that
	when     backoffReporter
	reported bool
	lasted   time.Duration // how long it did, if it is over and that is to be reported
}

// refused notes at now that it took nothing, because of err, and how long the first packet was.
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

// shows reports whether it is over where packets of these sizes were taken: heartbeats go through where data is too
// long.
func (x *stuck) shows(sizes []uint16) bool { return slices.Max(sizes) >= x.size }

// took notes at now that it took something.
func (x *stuck) took(now reliable.Instant) {
	if x.reported {
		x.lasted = max(1, now.Sub(x.since))
	}
	x.since, x.err, x.size, x.reported = 0, nil, 0, false
	x.when.over()
}

// note returns the event to emit at now, if there is one, while so many packets wait.
func (x *stuck) note(now reliable.Instant, waiting uint64) (e events.Event, ok bool) {
	if x.size > 0 && waiting == 0 { // what was too long is not to be sent any more
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

// lasts is for how long it has taken nothing at now; 0: it does.
func (x *stuck) lasts(now reliable.Instant) time.Duration {
	if x.since == 0 {
		return 0
	}
	return now.Sub(x.since)
}

var errTakesNothing = errors.New("the transport takes no packets")

// cause is why it takes nothing.
func (x *stuck) cause() error {
	switch {
	case x.err == nil:
		return errTakesNothing
	case x.lost != nil && errors.Is(x.err, transport.ErrNotReady):
		return x.lost
	}
	return x.err
}

// why says at now that nothing can be sent, and why. It is nil where that is not so, or not for long.
func (x *stuck) why(now reliable.Instant) error {
	d := x.lasts(now)
	if d < firstReport {
		return nil
	}
	return fmt.Errorf("nothing could be sent for %v: %w", d.Round(time.Millisecond), x.cause())
}

// senderJoined passes a change of its membership to a publication.
func (l *Loop) senderJoined(e *transport.Event) {
	p := l.known(e.Group)
	switch {
	case p == nil:
	case e.State == transport.Failed:
		p.unjoined(e.Err) // or its publishers would wait for ever
	case e.State == transport.Lost, e.State == transport.Joined:
		p.mu.Lock()
		p.out.stuck.lost = e.Err // nil when it is joined
		p.mu.Unlock()
	}
}

// sayStuck logs that nothing can be sent in a group, or can again: of several groups only the
// first is logged above the debug level.
func (j *journal) sayStuck(p *Publication, e *events.Event) {
	if j.stuck == nil && e.Kind == events.CannotSend {
		j.stuck = p
	}
	first := j.stuck == p
	if e.Kind == events.SendsAgain {
		line := &report.SendsAgainToo
		if first {
			line, j.stuck = &report.SendsAgain, nil
		}
		line.Log(j.log, "group", e.Group, "after", e.For)
		return
	}
	line := &report.CannotSendToo
	if first {
		line = &report.CannotSend
	}
	line.Log(j.log, "group", e.Group, "for", e.For, "waiting_packets", e.Behind, "err", e.Err)
}
