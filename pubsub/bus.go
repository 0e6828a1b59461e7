package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Bus is one process's place on a fabric: it publishes and subscribes. It is
// safe for concurrent use. Close it when done.
type Bus struct {
	cfg    Config
	loop   *engine.Loop
	groups *groupmap.Map
	losses *lossrecord.Record
	drops  dropNotes // loop only

	mu   sync.Mutex
	subs map[*Subscription]struct{} // under mu: those not closed
	made uint64                     // under mu: subscriptions, so far

	fabric openedFabric
	hide   func() // ends that others can look at it
}

// PublisherID names a publisher: a bus, as its subscribers see it.
type PublisherID = events.PublisherID

// ParsePublisherID reads what String has written.
func ParsePublisherID(s string) (PublisherID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("pubsub: publisher id %q is not 16 hexadecimal digits", s)
	}
	return PublisherID(v), nil
}

// ID is the identity under which this bus publishes.
func (b *Bus) ID() PublisherID {
	id, _ := b.loop.Publisher()
	return PublisherID(id)
}

// Groups is the number of multicast groups that topics map to.
func (b *Bus) Groups() int { return b.groups.Len() }

// Group is the index of the group that a topic maps to, by the option map of the fabric's URL.
func (b *Bus) Group(topic string) int { return b.groups.Group(topic) }

// Close ends all publishers and subscriptions. Publishers linger until their subscribers have everything. Then
// nothing more is delivered here, and Close keeps replies until no requester may ask for them again: some 50 ms, or
// half a second while a requester still fetches one. All of this takes Config.Linger at most. If messages were
// never sent it returns an *UnsentError, also with no Linger. It is idempotent.
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
		return nil // not waiting was asked for
	}
	return err
}

var errLinger = errors.New("linger time is over")

// Shutdown is Close with a linger time of the caller's: until ctx ends. A handler that
// does not return keeps the bus from ending: then it returns the error of ctx's end,
// within a second of it, and the bus ends when the handler returns.
func (b *Bus) Shutdown(ctx context.Context) error {
	if err := b.opened(); err != nil {
		return failed("close", "", err)
	}
	if ctx == nil {
		return failed("close", "", engine.ErrNilContext)
	}
	// One of the library's own: ctx is the caller's code, and asked before anything is begun.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := b.loop.Close(ctx)
	if errors.Is(err, ErrInHandler) {
		return failed("close", "", err)
	}
	defer b.hide() // until then it can be seen what it waits for
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

// endAll closes subscriptions, and waits for their handlers. It returns why it does not wait for all of them.
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
