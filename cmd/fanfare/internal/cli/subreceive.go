package cli

import (
	"context"
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

var (
	errNothing = errors.New("nothing there")
	errIdle    = errors.New("no message came for a while")
	errUntil   = errors.New("the time is over")
)

// receive writes what comes until there is a reason to end: s.finished, or an
// error.
func (s *sub) receive(ctx context.Context) error {
	now, cancel := context.WithCancelCause(context.Background())
	cancel(errNothing)
	const lookEvery = 256 // messages
	began, unlooked := time.Now(), 0
	for msgs := make([]pubsub.Message, lookEvery); s.finished == ""; {
		n, err := s.s.NextBatch(now, msgs) // takes what is there, and does not wait
		if errors.Is(err, errNothing) {
			// A context that has ended is noticed now and then also where messages are there: what is said twice is so.
			n, err = s.s.NextBatch(now, msgs)
		}
		nothing := errors.Is(err, errNothing)
		if nothing {
			s.tally.mark()
			if err := s.handOn(); err != nil {
				return err
			}
			n, err = s.next(ctx, later(began, s.tally.news), msgs)
		}
		if err == nil {
			err = s.messages(msgs[:n])
		} else {
			err = s.other(err)
		}
		if err != nil {
			return err
		}
		if unlooked += max(n, 1); nothing {
			unlooked = 0
		}
		if unlooked >= lookEvery {
			unlooked = 0
			s.tally.mark()
			if err := context.Cause(ctx); err != nil {
				if errors.Is(err, errUntil) {
					s.finished, err = endUntil, nil
				}
				return err
			}
		}
	}
	return nil
}

// handOn writes what waits, for nothing more comes at once.
func (s *sub) handOn() error {
	if err := s.writeStalls(); err != nil {
		return err
	}
	return s.sink.flush()
}

// next waits for the next messages, but no longer than the idle time since the
// last one.
func (s *sub) next(ctx context.Context, last time.Time, msgs []pubsub.Message) (int, error) {
	if s.idle == 0 {
		return s.s.NextBatch(ctx, msgs)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, last.Add(s.idle), errIdle)
	defer cancel()
	return s.s.NextBatch(ctx, msgs)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// messages takes messages until there is a reason to end.
func (s *sub) messages(msgs []pubsub.Message) error {
	for i := range msgs {
		if err := s.message(&msgs[i]); err != nil || s.finished != "" {
			return err
		}
	}
	return nil
}
