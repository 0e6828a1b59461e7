package shm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// meetAll lists the endpoints, if one joined, left or is suspect. Any goroutine may call it.
func (t *Transport) meetAll() {
	if t.news() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.scan()
	}
}

// news reports whether an endpoint joined, left or is suspect since the latest scan.
func (t *Transport) news() bool {
	again := t.again.Load()
	return t.fabric.count() != t.scanned.Load() || t.fabric.suspect.Load() || again != 0 && t.now() >= again
}

// untilAgain is timeout, or the time until the next scan where there is to be one.
func (t *Transport) untilAgain(timeout time.Duration) time.Duration {
	again := t.again.Load()
	if again == 0 {
		return timeout
	}
	left := max(0, time.Duration(again-t.now()))
	if timeout < 0 {
		return left
	}
	return min(timeout, left)
}

// scan connects to new endpoints, and retires those that have ended. If descriptors or memory are missing it is
// counted, and another scan follows soon. Under mu, and not at the end.
func (t *Transport) scan() {
	if t.done.Load() {
		return
	}
	t.fabric.suspect.Store(false)
	t.again.Store(0)
	t.scanned.Store(t.fabric.count()) // first: the next scan finds endpoints that join from here on
	known := *t.known.Load()
	for _, p := range known {
		if p.starved.Store(false); !p.gone.Load() && p.ended() {
			t.retire(p)
		}
	}
	ids, err := t.fabric.list()
	unmet, why := 0, err
	for _, id := range ids {
		if _, bad := t.banned[id]; bad || slices.ContainsFunc(known, func(p *peer) bool { return p.id == id }) {
			continue
		}
		p, err := t.fabric.meet(id)
		if err == nil && !t.adopt(p) {
			p.close()
			err = errNoLane
		}
		if err != nil && !absent(err) {
			unmet++
			why = cmp.Or(why, err)
		}
	}
	if why != nil {
		t.received.Errors.Add(1)
		t.scanAgain()
	}
	t.reportUnmet(unmet, len(ids), why)
}

// reportUnmet reports that some endpoints cannot be met, once until all were. Under mu.
func (t *Transport) reportUnmet(unmet, of int, why error) {
	if t.unmet == (why != nil) {
		return
	}
	if t.unmet = why != nil; !t.unmet {
		return
	}
	if errors.Is(why, unix.EMFILE) || errors.Is(why, unix.ENFILE) {
		why = fmt.Errorf("%w: raise the limit of descriptors (ulimit -n), each other endpoint takes two", why)
	}
	if unmet > 0 {
		why = fmt.Errorf("%d of %d endpoints of shm://%s cannot be met, nor hear this one: %w", unmet, of, t.cfg.Name, why)
	} else {
		why = fmt.Errorf("shm://%s: endpoints cannot be listed: %w", t.cfg.Name, why)
	}
	t.events.Post(transport.Event{Kind: transport.Unmet, Err: why})
	t.waiter.Wake()
}

var errNoLane = errors.New("all 256 lanes of an endpoint are taken, some by endpoints that have ended, and of which something is kept")

// scanAgain has the next scan be soon.
func (t *Transport) scanAgain() { t.again.Store(t.now() + int64(askEvery)) }

// absent reports whether an endpoint that could not be met does not exist, or is not ready: the members file then
// announces it. The end of other errors, such as too few descriptors or too little memory, is not announced.
func absent(err error) bool {
	return errors.Is(err, errNotReady) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// adopt gives a peer its lanes in our file. It reports false where none is left, since some that have ended still have
// theirs: then there is another scan soon. Under mu.
func (t *Transport) adopt(p *peer) bool {
	p.slot = slices.Index(t.used[:], false)
	if p.slot < 0 {
		return false
	}
	t.used[p.slot] = true
	word(t.own.mem, droppedAt(p.slot)).Store(0)
	word(t.own.mem, takenAt(p.slot)).Store(0)
	t.own.clearLane(p.slot)
	word(t.own.mem, laneIDAt(p.slot)).Store(p.id) // last: from here on it reads the others
	word(t.own.mem, atMet).Add(1)
	t.replaceKnown(func(all []*peer) []*peer { return append(all, p) })
	return true
}

// replaceKnown changes the list of peers. Under mu.
func (t *Transport) replaceKnown(change func([]*peer) []*peer) {
	all := change(slices.Clone(*t.known.Load()))
	t.known.Store(&all)
}

// retire takes back the chunks that an ended peer held. Under mu.
func (t *Transport) retire(p *peer) {
	p.gone.Store(true)
	if p.bad.Load() {
		t.banned[p.id] = struct{}{}
		t.received.Errors.Add(1)
	}
	for i, chunk := range p.held {
		if chunk != noChunk {
			t.pool.drop(chunk)
			p.held[i] = noChunk
		}
	}
	p.out = 0
	p.closeBell()
}

// forget drops a peer that has ended, without lent trains or pending entries. Loop only.
func (t *Transport) forget(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replaceKnown(func(all []*peer) []*peer { return slices.DeleteFunc(all, func(x *peer) bool { return x == p }) })
	word(t.own.mem, laneIDAt(p.slot)).Store(0)
	t.used[p.slot] = false
	t.bySlot[p.slot] = nil
	p.close()
}

// askEvery is how often peers with full lanes are checked for being alive.
const askEvery = 100 * time.Millisecond

// askAlive has the next scan soon find peers that have died. Under mu.
func (t *Transport) askAlive() {
	if now := t.now(); now-t.asked >= int64(askEvery) {
		t.asked = now
		t.fabric.suspect.Store(true)
	}
}
