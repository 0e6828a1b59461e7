package legs

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Sender sends to one group on every leg.
//
// A leg that was busy comes first from then on, and the others are sent no more than it accepts: so all legs run at the
// speed of the slowest. A leg that accepts nothing for stuckAfter, or fails, does not hold up the others: packets sent
// without it are counted (Leg.Unsent).
type Sender struct {
	t        *Transport
	legs     []outlet
	accepted uint64
	first    int                // index of the leg that comes first
	part     transport.Outbound // a field, to avoid an allocation for each train
	reads    transport.ReplyReader
	closed   atomic.Bool
	sent     tally.Sent
}

// outlet is the Sender on one leg.
type outlet struct {
	leg      *leg
	tx       transport.Sender
	accepted uint64
	missed   uint64    // packets that it did not accept, since it last had none in flight
	busyAt   time.Time // when it last accepted nothing; zero: it accepts
	busy     time.Duration
	stuck    bool
}

// stuckAfter is how long a leg may accept nothing while the others wait for it: longer than the time to send a full
// queue.
const stuckAfter = 20 * time.Millisecond

// busyStep bounds how much of the time between two refused trains counts, because the sending process may have been
// stopped.
const busyStep = stuckAfter / 4

// readingSender is a Sender with legs that all read replies.
type readingSender struct{ *Sender }

var _ transport.ReplyReader = readingSender{}

// NewSender implements transport.Transport. Legs that have ended are left out.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t}
	reads := true
	var errs []error
	for _, l := range t.legs {
		tx, err := l.NewSender(group)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, ok := tx.(transport.ReplyReader)
		reads = reads && ok
		s.legs = append(s.legs, outlet{leg: l, tx: tx})
	}
	if len(s.legs) == 0 {
		return nil, join(errs...)
	}
	t.mu.Lock()
	t.senders[s] = struct{}{}
	t.mu.Unlock()
	if reads {
		return readingSender{s}, nil
	}
	return s, nil
}

// Send implements transport.Sender.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	if s.closed.Load() || s.t.closing.Load() {
		return 0, errClosed
	}
	n, err := s.send(out)
	bytes := 0
	for _, l := range out.Lens[:n] {
		bytes += int(l)
	}
	s.accepted += uint64(n)
	s.sent.Packets.Add(uint64(n))
	s.sent.Bytes.Add(uint64(bytes))
	if n > 0 {
		s.sent.Calls.Add(1)
	}
	if errors.Is(err, transport.ErrBusy) {
		s.sent.Busy.Add(1)
	}
	return n, err
}

// send sends a train on all legs, and returns how many of its packets count as sent.
func (s *Sender) send(out *transport.Outbound) (int, error) {
	var accepted [transport.MaxLegs]int
	n, why := -1, error(nil) // packets that the first leg has accepted
	for i := range s.legs {
		at := (s.first + i) % len(s.legs)
		w := &s.legs[at]
		part := out
		if n >= 0 && n < out.Count {
			s.part = *out
			s.part.Count = n
			part = &s.part
		}
		k, err := w.tx.Send(part)
		accepted[at] = k
		w.accepted += uint64(k)
		switch busy := errors.Is(err, transport.ErrBusy); {
		case n < 0 && (err == nil || busy && !w.isStuck(k)):
			n, why, s.first = k, err, at
			if err == nil {
				w.unstick()
			}
		case err == nil:
			w.unstick()
		case busy && !w.isStuck(k):
			s.first = at // from the next train on
		case why == nil && n < 0:
			why = err
		}
	}
	if n < 0 { // no working leg has accepted it
		for _, k := range accepted {
			n = max(n, k)
		}
	} else if n == out.Count {
		why = nil
	}
	for i := range s.legs {
		if missing := uint64(n - accepted[i]); missing > 0 {
			s.legs[i].missed += missing
			s.legs[i].leg.unsent.Add(missing)
		}
	}
	return n, why
}

// isStuck records that the leg is busy after accepting n packets, and reports whether it has accepted nothing for too
// long.
func (w *outlet) isStuck(n int) bool {
	switch {
	case n > 0:
		w.unstick()
	case w.busyAt.IsZero():
		w.busyAt = time.Now()
	case !w.stuck:
		now := time.Now()
		w.busy += min(now.Sub(w.busyAt), busyStep)
		if w.busyAt = now; w.busy >= stuckAfter {
			w.stuck = true
			w.leg.stuck.Add(1)
		}
	}
	return w.stuck
}

func (w *outlet) unstick() {
	w.busyAt, w.busy = time.Time{}, 0
	if w.stuck {
		w.stuck = false
		w.leg.stuck.Add(-1)
	}
	if w.leg.leftStuck.Load() {
		w.leg.leftStuck.Store(false)
	}
}

// Completed implements transport.Sender: the minimum of all legs.
func (s *Sender) Completed() uint64 {
	n := s.accepted
	for i := range s.legs {
		w := &s.legs[i]
		if under := w.accepted - w.tx.Completed(); under > 0 {
			n = min(n, s.accepted-under-w.missed)
		} else {
			w.missed = 0
		}
	}
	return n
}

// Close implements transport.Sender.
func (s *Sender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.t.mu.Lock()
	delete(s.t.senders, s)
	s.t.sent.Fold(&s.sent)
	s.t.mu.Unlock()
	var errs []error
	for i := range s.legs {
		if w := &s.legs[i]; w.stuck {
			w.leg.leftStuck.Store(true)
			w.leg.stuck.Add(-1)
		}
		errs = append(errs, s.legs[i].tx.Close())
	}
	return join(errs...)
}

func (r readingSender) ReadReplies(handle func(packet []byte)) {
	for i := range r.legs {
		r.reads = r.legs[i].tx.(transport.ReplyReader)
		r.reads.ReadReplies(handle)
	}
}

func (r readingSender) ReplyAddress() string { return r.reads.ReplyAddress() }
