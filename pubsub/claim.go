package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Claim is room for one message, to be filled by its user before it is
// published. It is memory of its own: Commit copies it into a packet.
type Claim struct {
	p    *Publisher
	room *room
	turn uint64
}

// room is a claim's memory. It is used again when the claim has ended; turn then
// tells the old claim from the new one.
type room struct {
	buf  []byte
	turn atomic.Uint64
}

var rooms = sync.Pool{New: func() any { return new(room) }}

const (
	maxMessage = 16 << 20
	// pooledRoom bounds the memory that is kept for the next claim.
	pooledRoom = 64 << 10
)

// Claim returns room for a message of n bytes. Fill Bytes, then Commit or
// Abort. An open claim holds nobody up: it has no place in the order until it
// is committed.
func (p *Publisher) Claim(n int) (Claim, error) {
	if n < 0 {
		return Claim{}, p.failed("claim on", fmt.Errorf("%w of %d bytes", ErrClaim, n))
	}
	if n > maxMessage {
		return Claim{}, p.failed("claim on", fmt.Errorf("%w: %d bytes, the limit is %d", ErrMessageTooLarge, n, maxMessage))
	}
	r := rooms.Get().(*room)
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	clear(r.buf)
	return Claim{p: p, room: r, turn: r.turn.Load()}, nil
}

// Bytes is the room, zeroed at first. It is valid until Commit or Abort, and nil
// after that.
func (c Claim) Bytes() []byte {
	if !c.open() {
		return nil
	}
	return c.room.buf
}

// Commit publishes the message, as Publish does. After an error the claim
// still stands.
func (c Claim) Commit(ctx context.Context) error {
	if !c.open() {
		return c.ended()
	}
	if err := c.p.Publish(ctx, c.room.buf); err != nil {
		return err
	}
	return c.end()
}

// Abort gives the room back.
func (c Claim) Abort() error { return c.end() }

func (c Claim) open() bool { return c.room != nil && c.room.turn.Load() == c.turn }

// ended is the error of a claim that was committed or aborted before.
func (c Claim) ended() error {
	if c.p == nil {
		return failed("claim", "", ErrClaim)
	}
	return c.p.failed("claim on", ErrClaim)
}

func (c Claim) end() error {
	if c.room == nil || !c.room.turn.CompareAndSwap(c.turn, c.turn+1) {
		return c.ended()
	}
	if cap(c.room.buf) <= pooledRoom {
		rooms.Put(c.room)
	}
	return nil
}
