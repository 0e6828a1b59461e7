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

// scanIfNeeded scans for endpoints, if one joined, left or is suspect. Any goroutine may call it.
func (t *Transport) scanIfNeeded() {
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

// untilAgain is timeout, or the time until the next scheduled scan if that is less.
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

// scan connects to new endpoints, and retires those that have ended. If descriptors or memory are missing it counts
// that, and schedules another scan. Under mu, and not after the end.
func (t *Transport) scan() {
	if t.done.Load() {
		return
	}
	t.fabric.suspect.Store(false)
	t.again.Store(0)
	t.scanned.Store(t.fabric.count()) // first, so that the next scan finds endpoints that join after this
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
		p, err := t.fabric.connect(id)
		if err == nil && !t.assignLanes(p) {
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

// reportUnmet reports that this endpoint cannot connect to some others, once until all are connected. Under mu.
func (t *Transport) reportUnmet(unmet, of int, why error) {
	if t.unmet == (why != nil) {
		return
	}
	if t.unmet = why != nil; !t.unmet {
		return
	}
	if errors.Is(why, unix.EMFILE) || errors.Is(why, unix.ENFILE) {
		why = fmt.Errorf("%w: raise the limit of descriptors (ulimit -n), each other endpoint needs two", why)
	}
	if unmet > 0 {
		why = fmt.Errorf("cannot connect to %d of %d endpoints of shm://%s, and they do not receive from this one: %w", unmet, of, t.cfg.Name, why)
	} else {
		why = fmt.Errorf("shm://%s: endpoints cannot be listed: %w", t.cfg.Name, why)
	}
	t.events.Post(transport.Event{Kind: transport.Unmet, Err: why})
	t.waiter.Wake()
}

var errNoLane = errors.New("all 256 lanes of an endpoint are in use, some by ended endpoints with packets that are still held")

// scanAgain schedules another scan soon.
func (t *Transport) scanAgain() { t.again.Store(t.now() + int64(aliveInterval)) }

// absent reports whether err means that an endpoint does not exist or is not ready: then the members file will announce
// it. The end of other errors, such as too few descriptors or too little memory, is not announced.
func absent(err error) bool {
	return errors.Is(err, errNotReady) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// assignLanes assigns lanes in our file to a peer. It returns false and schedules another scan if none is free, because
// some ended endpoints still have theirs. Under mu.
func (t *Transport) assignLanes(p *peer) bool {
	p.slot = slices.Index(t.used[:], false)
	if p.slot < 0 {
		return false
	}
	t.used[p.slot] = true
	word(t.own.mem, droppedAt(p.slot)).Store(0)
	word(t.own.mem, returnedAt(p.slot)).Store(0)
	t.own.clearLane(p.slot)
	word(t.own.mem, laneIDAt(p.slot)).Store(p.id) // last: after this the peer reads the other fields
	word(t.own.mem, atAssigned).Add(1)
	t.replaceKnown(func(all []*peer) []*peer { return append(all, p) })
	return true
}

// replaceKnown changes the list of peers. Under mu.
func (t *Transport) replaceKnown(change func([]*peer) []*peer) {
	all := change(slices.Clone(*t.known.Load()))
	t.known.Store(&all)
}

// retire releases the chunks that an ended peer held. Under mu.
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

// forget removes an ended peer without lent trains or pending entries. Loop only.
func (t *Transport) forget(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replaceKnown(func(all []*peer) []*peer { return slices.DeleteFunc(all, func(x *peer) bool { return x == p }) })
	word(t.own.mem, laneIDAt(p.slot)).Store(0)
	t.used[p.slot] = false
	t.bySlot[p.slot] = nil
	p.close()
}

// aliveInterval is the minimum time between checks whether peers with full lanes are alive.
const aliveInterval = 100 * time.Millisecond

// checkAlive makes the next scan check, soon, which peers have died. Under mu.
func (t *Transport) checkAlive() {
	if now := t.now(); now-t.checkedAt >= int64(aliveInterval) {
		t.checkedAt = now
		t.fabric.suspect.Store(true)
	}
}
