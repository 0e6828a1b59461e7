package shm

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/arena"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/round"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Transport is an endpoint. See package transport for which goroutine may call which method. It starts no goroutine.
type Transport struct {
	began  time.Time // a second before Open, so that now() is never 0
	cfg    Config
	caps   transport.Capabilities
	fabric *fabric
	own    *ownFile
	waiter *sys.Waiter
	events events.Queue

	closing atomic.Bool  // Close was called: no new operation begins
	ending  atomic.Bool  // Close is done: Poll may wait for the senders
	leaving grace.Period // senders that may be writing
	done    atomic.Bool  // Poll has reported the end

	known   atomic.Pointer[[]*peer] // replaced under mu, never changed
	scanned atomic.Uint64           // fabric.count at the latest scan
	again   atomic.Int64            // time of the next scheduled scan, in nanoseconds; 0: none

	fetching sync.Mutex // guards the lanes to us: Senders read replies in them, too
	receiver            // loop only
	replying grace.Section

	mu sync.Mutex
	sending

	sent     tally.Sent // Replies, and Senders that are closed
	received tally.Received
}

var (
	_ transport.Pollable = (*Transport)(nil)
	_ transport.Sharer   = (*Transport)(nil)
)

// receiver is the state of receiving. Loop only.
type receiver struct {
	bySlot [lanes]*peer
	turn   uint // index of the peer with which the next Poll begins
	lent   lend.Limit
	round  round.Round
	peers  *peers.Table[uint64, *peer]
	copies copies
	asleep *atomic.Uint64 // in the file; odd: the loop sleeps
	slept  bool           // between BeginWait and EndWait, while asleep is odd

	discoverable discoverable
}

// sending is the state of sending. Under Transport.mu.
type sending struct {
	senders   map[*Sender]struct{}
	arena     arena.Arena // has its own lock
	windows   windows
	pool      pool
	used      [lanes]bool         // slots in use by a peer
	banned    map[uint64]struct{} // ids of bad peers
	checkedAt int64               // when peers were last checked for being alive, in nanoseconds
	unmet     bool                // it was reported that some endpoints cannot be connected
	rang      uint64              // number of wake-ups sent
}

// Open attaches a new endpoint to the fabric that cfg names. It fails if others could access the directory, or if there
// is no memory.
func Open(cfg Config) (transport.Transport, error) {
	t, err := open(cfg)
	if err != nil {
		return nil, err // not a nil pointer in an interface
	}
	return t, nil
}

// now is the monotonic time in nanoseconds.
func (t *Transport) now() int64 { return int64(time.Since(t.began)) }

func open(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("shm: random identity: %w", err)
	}
	t := &Transport{
		began: time.Now().Add(-time.Second),
		cfg:   cfg,
		caps: transport.Capabilities{
			Name: "shm", Groups: cfg.Groups, MaxPacket: maxPacket, PacketSize: cfg.PacketSize,
			MaxTrain: maxTrain, MaxTrainBytes: chunkBytes, Batch: batch, LendMax: cfg.LendMax,
			ReceiveCapacity: cfg.QueueTrains, GroupsTogether: true,
			SendersApart: true, EqualTrains: true, Checked: true, ReadOnly: true,
		},
		receiver: receiver{peers: peers.New[uint64, *peer](cfg.Peers)},
		sending:  sending{senders: make(map[*Sender]struct{}), banned: make(map[uint64]struct{})},
	}
	t.known.Store(new([]*peer))
	t.copies = newCopies(cfg.LendMax + batch)
	t.lent = lend.New(cfg.LendMax, batch, &t.received.LendRefused)
	if t.waiter, err = sys.NewWaiter(); err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	makeEndpoint := func(h *fabric) error { return t.makeEndpoint(h, binary.NativeEndian.Uint64(id[:])|1) }
	if t.fabric, err = enterFabric(cfg, makeEndpoint); err != nil {
		t.waiter.Close()
		return nil, err
	}
	t.fabric.unlock()
	t.discoverable = newDiscoverable(t.fabric, t.own, cfg.Dir)
	t.fabric.sweep()
	t.scanIfNeeded()
	return t, nil
}

// Epoll ids of the descriptors that the waiter watches.
const (
	markBell  = 0
	markOther = 1
)

// makeEndpoint creates the endpoint's file. The members file must be locked.
func (t *Transport) makeEndpoint(h *fabric, id uint64) error {
	n, err := h.clean()
	if err != nil {
		return err
	}
	if n >= lanes {
		return fmt.Errorf("%s has %d endpoints, which is the limit (one for each bus): use fewer, or another NAME in the URL", h.path, n)
	}
	if t.own, err = h.makeFile(id, t.cfg.QueueTrains+t.cfg.LendMax+batch); err != nil {
		return err
	}
	if err := t.waiter.Poller.Add(t.own.bell, markBell, unix.EPOLLIN); err != nil {
		t.own.remove(h)
		t.own.unmap()
		t.own.close()
		return err
	}
	t.asleep = word(t.own.mem, atAsleep)
	h.announce()
	return nil
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities { return t.caps }

// GroupAddress implements transport.Transport: "shm://name/3".
func (t *Transport) GroupAddress(group int) string {
	if !t.has(group) {
		return ""
	}
	return fmt.Sprintf("shm://%s/%d", t.cfg.Name, group)
}

func (t *Transport) has(group int) bool { return group >= 0 && group < t.cfg.Groups }

// check returns an error if the transport is closed or has no such group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if !t.has(group) {
		return fmt.Errorf("shm: %w: %d of %d", transport.ErrNoSuchGroup, group, t.cfg.Groups)
	}
	return nil
}

// Join implements transport.Transport. It completes immediately.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.mark(group, true) {
		t.received.Joins.Add(1)
		t.report(group, transport.Joined)
	}
	return nil
}

// Leave implements transport.Transport. It completes immediately.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.mark(group, false) {
		t.report(group, transport.Left)
	}
	return nil
}

func (t *Transport) report(group int, state transport.Membership) {
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: state})
	t.waiter.Wake()
}

// mark records in the file whether a group is joined, and reports whether that changed.
func (t *Transport) mark(group int, joined bool) bool {
	at, bit := groupAt(group)
	w := word(t.own.mem, at)
	if was := w.Load(); joined == (was&bit != 0) {
		return false
	}
	w.Store(w.Load() ^ bit)
	return true
}

func (t *Transport) joined(group int) bool {
	at, bit := groupAt(group)
	return word(t.own.mem, at).Load()&bit != 0
}

// Stats implements transport.Transport.
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.received.AddTo(&s.Transport)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent.AddTo(&s.Transport)
	for snd := range t.senders {
		snd.sent.AddTo(&s.Transport)
	}
	return s
}

// Close implements transport.Transport. The files are removed immediately. Poll reports the end when no Sender of this
// process is still sending, and only then peers learn of it: until then lent memory may be read, and they must not
// reuse it.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.arena.Freeze()
	t.mu.Lock()
	t.own.remove(t.fabric)
	t.leaving.Add(&t.replying)
	for s := range t.senders {
		t.leaving.Add(&s.section)
	}
	t.mu.Unlock()
	t.ending.Store(true)
	t.waiter.Wake()
	return nil
}

// end implements Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return errClosed
	}
	if !t.ending.Load() || !t.leaving.Over() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done.Store(true)
	for _, p := range *t.known.Load() {
		p.close()
	}
	t.known.Store(new([]*peer))
	word(t.own.mem, atClosed).Store(1)
	t.fabric.announce()
	t.own.close()
	t.endWindows()
	t.fabric.removeDeserted()
	t.fabric.leave()
	t.copies.free()
	t.waiter.Close()
	return errClosed
}
