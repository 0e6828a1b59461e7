// Package driver runs the protocol over a transport: it is the only place
// where clock, goroutines, transport and the pure core meet.
//
// One goroutine, the loop, owns the transport's receive side, all groups
// (group.go) and the timers. Publications (publication.go) are shared: their
// callers write and send from their own goroutines under the publication's
// lock, and the loop takes the same lock for NAKs, statuses and timers.
// Subscriptions (subscription.go) read streams with cursors in their user's
// goroutine, or are called by the loop itself.
package driver

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Config describes a loop. It is given every field but those that say what zero means:
// the defaults are package pubsub's.
type Config struct {
	Publisher uint64 // id of this process as a publisher; 0: a random one
	Epoch     uint64 // of this instance of it; 0: newEpoch
	Name      string // of this process as a publisher, for people to read; may be empty
	// Sender and Receiver are templates: identity, sizes and memory are filled
	// in for each group.
	Sender   reliable.SenderConfig
	Receiver reliable.ReceiverConfig
	// WindowBytes is the memory for repairs of one publication, at most.
	WindowBytes int
	// WindowsBytes bounds that of all publications, beyond what each needs at least.
	WindowsBytes int
	// FlushAfter is the longest time that a message waits for others.
	FlushAfter time.Duration
	// Wait is how the loop and the readers of subscriptions wait.
	Wait Wait
	// Events is told what happens, by the loop: it must not block. May be nil.
	Events func(Event)
	Logger *slog.Logger
}

// Loop drives one transport. Its methods are safe for concurrent use.
type Loop struct {
	cfg   Config
	t     transport.Transport
	caps  transport.Capabilities
	log   *slog.Logger
	start time.Time // of the monotonic clock
	batch *transport.Batch

	groups  []*group // loop only; by group index, nil: never subscribed
	ctl     []byte   // loop only: a control packet in the making
	woken   []*Subscription
	besides besides
	evicted []*Subscription     // loop only: that still hold places in streams
	away    map[membership]bool // loop only: memberships that were lost and are not back
	memory  receiveMemory       // loop only
	loans   *loans              // loop only
	hellos  *hellos

	watchdog  watchdog
	goroutine atomic.Uint64 // the loop's
	telling   sync.Mutex    // held while cfg.Events is called

	addresser transport.Addresser // t, if it is one
	replyFrom transport.Source    // loop only: of the reply that is being handled
	address   func() string       // loop only: of replyFrom

	mu      sync.Mutex
	pubs    map[int]*Publication // under mu; by group
	pubList atomic.Pointer[[]*Publication]
	batcher *batcher
	windows *windowMemory
	// When publishers read replies last, which come to one address for all groups.
	repliesAt atomic.Int64
	commands  []func() // under mu: to be run by the loop
	closing   bool     // under mu
	dead      bool     // under mu: the loop has ended

	waits waitPolicy // loop only

	notes        logLimiter       // loop only: on publishers, for the log
	presences    presences        // loop only: of publishers, for the log
	repeats      repeats          // loop only: of peers, for the log
	losing       lossNotes        // loop only
	awayMost     int              // loop only: of away, since it was empty
	failed       logLimiter       // loop only: on groups that cannot be joined
	refusedNotes logLimiter       // loop only: on publishers that are not heard, for subscriptions
	place        place            // loop only: in batch
	drainedAt    reliable.Instant // loop only: last time the receive queue was known to be empty
	budget       budget           // loop only
	namesakes    namesakes        // loop only

	// How the loop sleeps: armed is until when, or 0 while it runs; kick makes
	// it look once more before it sleeps. See wakeBy.
	armed  atomic.Int64
	kick   atomic.Bool
	resume atomic.Bool // a cursor has caught up
	// A loop at rest waits for restEnd or restTimer, and not in the transport.
	resting   atomic.Bool
	restEnd   chan struct{}
	restTimer *time.Timer // loop only
	done      chan struct{}
	err       error // why the loop ended; valid after done

	counters counters
	losses   losses
	repair   latencies
}

// New starts a loop over t, which it owns from then on.
func New(t transport.Transport, cfg Config) (*Loop, error) {
	var seed [24]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("random identity: %w", err)
	}
	random := func(i int) uint64 { return binary.LittleEndian.Uint64(seed[8*i:]) }
	cfg.Publisher = cmp.Or(cfg.Publisher, random(0)|1)
	cfg.Epoch = cmp.Or(cfg.Epoch, newEpoch(time.Now(), random(0)))
	cfg.Sender.Name = []byte(cfg.Name)
	caps := t.Capabilities()
	cfg.Receiver.ID = random(1) | 1
	cfg.Receiver.Own, cfg.Receiver.OwnEpoch = cfg.Publisher, cfg.Epoch
	cfg.Receiver.Checksum = !caps.Checked
	cfg.Receiver.Capacity = max(1, caps.ReceiveCapacity)
	cfg.Receiver.Rand = mrand.New(mrand.NewPCG(random(1), random(2)))
	l := &Loop{
		cfg: cfg, t: t, caps: caps, log: cfg.Logger, start: time.Now().Add(-time.Second),
		batch:     transport.NewBatch(max(1, min(caps.Batch, 16))),
		groups:    make([]*group, caps.Groups),
		away:      make(map[membership]bool),
		ctl:       make([]byte, 0, wire.MaxPacket),
		pubs:      make(map[int]*Publication),
		done:      make(chan struct{}),
		restEnd:   make(chan struct{}, 1),
		restTimer: time.NewTimer(time.Hour),
	}
	l.notes, l.refusedNotes = newLogLimiter(linesAtOnce), newLogLimiter(linesAtOnce)
	l.failed, l.losing = newLogLimiter(failuresAtOnce), newLossNotes()
	l.batcher, l.waits.mode = newBatcher(cfg.FlushAfter), cfg.Wait
	l.windows = newWindowMemory(t, cfg.WindowsBytes)
	l.loans = newLoans(t)
	l.addresser, _ = t.(transport.Addresser)
	l.address = l.replyAddress
	l.cfg.Receiver.Memory, l.cfg.Receiver.Loans = &l.memory, l.loans
	l.hellos = newHellos(l)
	l.cfg.Receiver.Greeter = l.hellos.g
	l.repair.init()
	l.watchdog.l = l
	go l.run()
	return l, nil
}

// now reads the clock. It is never zero.
func (l *Loop) now() reliable.Instant { return reliable.Instant(time.Since(l.start)) }

// Capabilities are the transport's.
func (l *Loop) Capabilities() transport.Capabilities { return l.t.Capabilities() }

// Publisher is this process's id as a publisher, and Epoch its epoch.
func (l *Loop) Publisher() (id, epoch uint64) { return l.cfg.Publisher, l.cfg.Epoch }

// run is the loop's goroutine. It ends when Close has closed the transport, or
// the transport has failed for good.
func (l *Loop) run() {
	defer close(l.done)
	defer l.restTimer.Stop()
	defer l.watchdog.stop()
	l.goroutine.Store(goroutineID())
	polled := false // by spin
	for {
		l.armed.Store(0)
		if !polled {
			if err := l.poll(); err != nil {
				l.stop(err)
				return
			}
		}
		deadline, busy := l.turn()
		if polled = l.behind(); polled || busy && !l.emptied() {
			continue
		}
		var err error
		if polled, err = l.spin(deadline); err != nil {
			l.stop(err)
			return
		}
		if !polled {
			l.sleep(deadline)
		}
	}
}

// poll fetches what has come.
func (l *Loop) poll() error {
	l.place = place{}
	return l.t.Poll(l.batch)
}

// turn handles what was polled, or as much of it as there is time for, what others
// asked for and what is due. It returns when something will be due, and whether
// there was anything to do.
func (l *Loop) turn() (deadline reliable.Instant, busy bool) {
	now := l.now()
	l.noteStall(now)
	if l.place == (place{}) {
		l.arrived(now)
	}
	l.budget.begin(now)
	busy = len(l.batch.Trains) > 0
	l.watchdog.begin(now)
	l.goOn(now)
	if l.trains(now) {
		for i := range l.batch.Events {
			l.joined(&l.batch.Events[i])
		}
		l.batch.Events = l.batch.Events[:0]
	}
	busy = l.runCommands() || busy
	now = l.now()
	l.budget.end(now)
	l.watchdog.control(now)
	l.noteStall(now)
	deadline = min(l.tickGroups(now), l.tickPublications(now), l.hellos.tick(now))
	l.wakeSubscriptions()
	if len(l.evicted) > 0 {
		l.endEvicted()
	}
	l.watchdog.end(now)
	if !l.behind() && (!busy || l.emptied()) {
		l.drainedAt = max(now, deadline)
	}
	return deadline, busy
}

// arrived notes what a poll at now has found.
func (l *Loop) arrived(now reliable.Instant) {
	if l.drainedAt = min(l.drainedAt, now); len(l.batch.Trains) == 0 {
		l.drainedAt = now
	}
	l.budget.slow = false
	packets := 0
	for i := range l.batch.Trains {
		packets += l.batch.Trains[i].Count()
	}
	if packets > 0 {
		l.waits.took(now, packets)
	}
}

// stallAfter is how long packets may lie unread without groups being told: behind
// a busy host, or a handler that takes its time.
const stallAfter = 100 * time.Millisecond

// noteStall tells groups if what has come for a while still waits to be read, so
// that nobody may be blamed for silence.
func (l *Loop) noteStall(now reliable.Instant) {
	if now.Sub(l.drainedAt) < stallAfter {
		return
	}
	for _, g := range l.groups {
		if g != nil {
			g.r.NoteStall(now)
		}
	}
}

// emptied reports whether the last poll has most likely taken all there was. While
// handlers took their time more may have come.
func (l *Loop) emptied() bool {
	return !l.budget.slow && l.waits.drained(len(l.batch.Trains), cap(l.batch.Trains))
}

func (l *Loop) tickGroups(now reliable.Instant) reliable.Instant {
	deadline := reliable.Never
	for _, g := range l.groups {
		if g != nil {
			deadline = min(deadline, g.tick(now))
		}
	}
	return deadline
}

func (l *Loop) tickPublications(now reliable.Instant) reliable.Instant {
	deadline := reliable.Never
	for _, p := range l.publications() {
		deadline = min(deadline, p.tick(now))
		p.tell()
	}
	return deadline
}

// membership names one for the loop's notes.
type membership struct {
	group int
	role  transport.Role
}

// joined passes on what became of a join.
func (l *Loop) joined(e *transport.Event) {
	if l.hellos.membership(e) {
		return
	}
	addr := l.t.GroupAddress(e.Group)
	switch e.State {
	case transport.Failed:
		l.joinFailed(e, addr)
	case transport.Lost:
		l.memberLost(e, addr)
		l.event(Event{Kind: GroupLost, Group: addr, Err: e.Err})
	default:
		l.log.Debug("group membership", "group", addr, "role", e.Role, "state", e.State)
	}
	if m := (membership{e.Group, e.Role}); e.State == transport.Joined && l.away[m] {
		l.memberBack(m, addr)
		l.event(Event{Kind: GroupBack, Group: addr})
	}
	if e.Role == transport.RoleReceiver && l.groups[e.Group] != nil {
		l.groups[e.Group].membership(e)
	}
	if e.Role == transport.RoleSender && e.State == transport.Failed {
		for _, p := range l.publications() {
			if p.group == e.Group {
				p.unjoined(e.Err) // or its publishers would wait for ever
			}
		}
	}
	if e.State == transport.Failed {
		l.event(Event{Kind: GroupFailed, Group: addr, Err: e.Err})
	}
}

func pointerTo(p *[]*Publication) *[]*Publication {
	if p == nil {
		return new([]*Publication)
	}
	return p
}

func (l *Loop) publications() []*Publication { return *pointerTo(l.pubList.Load()) }
