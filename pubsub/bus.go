package pubsub

import (
	"context"
	"errors"
	"sync"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Bus is a member of a fabric: it publishes and subscribes. A process may open several. It is safe for concurrent
// use. Close it when done.
type Bus struct {
	cfg    Config
	loop   *engine.Loop
	groups *groupmap.Map
	losses *lossrecord.Record
	drops  dropNotes // loop only

	mu   sync.Mutex
	subs map[*Subscription]struct{} // under mu: open subscriptions
	made uint64                     // under mu: subscriptions made so far

	fabric openedFabric
	hide   func() // ends inspection by other processes
}

// PublisherID names a publisher: a bus, as its subscribers see it.
type PublisherID = events.ID

// ID is the publisher id of this bus: derived from Config.Sign or Config.Name, else random.
func (b *Bus) ID() PublisherID {
	return b.loop.Instance().Publisher
}

// Groups is the number of multicast groups that topics map to (groups= in the URL).
func (b *Bus) Groups() int { return b.groups.Len() }

// Group is the index, from 0 to Groups-1, of the group that a topic maps to (map= in the URL).
func (b *Bus) Group(topic string) int { return b.groups.Group(topic) }

// Close ends all publishers and subscriptions. It first waits until subscribers have received everything. Then it
// delivers nothing more, and keeps replies until no requester may request them again: about 50 ms, or half a second
// while a requester still fetches one. All of this takes at most Config.Linger. If messages were never sent it
// returns an *UnsentError, also without Linger. It is idempotent.
func (b *Bus) Close() error {
	if err := b.opened(); err != nil {
		return failed("close", "", err)
	}
	linger := max(b.cfg.Linger, 0)
	ctx, cancel := context.WithTimeoutCause(context.Background(), linger, errLinger)
	defer cancel()
	err := b.Shutdown(ctx)
	var unsent *events.UnsentError
	if b.cfg.Linger < 0 && errors.Is(err, errLinger) && !errors.Is(err, engine.ErrStuck) && !errors.As(err, &unsent) {
		return nil // a negative Linger means not to wait
	}
	return err
}

var errLinger = errors.New("the linger time has expired")

// Shutdown is Close that lingers until ctx ends instead of for Config.Linger. If a handler does not return, Shutdown
// returns the error of ctx within a second of its end, and the bus ends when the handler returns.
func (b *Bus) Shutdown(ctx context.Context) error {
	if err := b.opened(); err != nil {
		return failed("close", "", err)
	}
	if ctx == nil {
		return failed("close", "", engine.ErrNilContext)
	}
	// ctx may be of a type of the caller's: its methods run here, before any state changes.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := b.loop.Close(ctx)
	if errors.Is(err, ErrInHandler) {
		return failed("close", "", err)
	}
	defer b.hide() // a bus that waits here can still be inspected
	b.mu.Lock()
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	if !b.loop.Ended() {
		go endAll(ctx, subs) // it waits for the loop
	} else if stuck := endAll(ctx, subs); err == nil {
		err = stuck
	}
	return failed("close", "", err)
}

// endAll closes subscriptions and waits for their handlers. It returns an error if it stopped waiting for one.
func endAll(ctx context.Context, subs map[*Subscription]struct{}) (stuck error) {
	for s := range subs {
		s.s.Close()
	}
	for s := range subs {
		if err := errors.Join(s.worker.Wait(ctx), s.newest.Wait(ctx)); err != nil {
			stuck = err
		}
	}
	return stuck
}

func (b *Bus) add(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[*Subscription]struct{})
	}
	b.subs[s] = struct{}{}
	b.made++
	s.number = b.made
}

func (b *Bus) remove(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}
