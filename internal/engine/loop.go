package engine

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	mrand "math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Config describes a loop. It is given every field but those that say what zero means:
// the defaults are package pubsub's.
type Config struct {
	Publisher uint64 // id of this process as a publisher; 0: a random one
	Epoch     uint64 // of this instance of it; 0: newEpoch
	Name      string // of this process as a publisher, for people to read; may be empty
	// Mapping is how its users map topics to groups, for others to compare. Default: by hash.
	Mapping wire.Mapping
	// Sender and Receiver are templates: identity, sizes and memory are filled in for each group.
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
	// Events gets each event. The loop calls it: it must not block. May be nil.
	Events func(events.Event)
	// RecentEvents is how many events are remembered for Loop.RecentEvents.
	RecentEvents int
	// Trace gets the steps of packets. The loop calls it, and publishers do with the publication's lock held:
	// it must not block, nor use the loop. May be nil.
	Trace  func(*Trace)
	Logger *slog.Logger
	// Clock times deliveries; the zero value times none.
	Clock reliable.Clock
	// Interface names the network interfaces that the transports are on, for people; empty: none is known.
	Interface string
	// Signer signs what is published, as Publisher; nil: packets are not signed. Trust says from which
	// publishers packets are taken, and for which topics; nil: from all.
	Signer *signed.Signer
	Trust  signed.Provider
	// Stopped is called when the loop has ended. May be nil.
	Stopped func()
	// Losses gets what is lost, of a cause as CauseLabel calls it, and Sample all counters
	// every few seconds that there is anything to do. Either may be nil.
	Losses     *lossrecord.Record
	CauseLabel func(events.Cause) string
	Sample     func(*stats.Bus) []Dropped
}

func (c *Config) stopped() {
	if c.Stopped != nil {
		c.Stopped()
	}
}

// Loop drives one transport. Its methods are safe for concurrent use.
type Loop struct {
	cfg  Config
	t    transport.Transport
	caps transport.Capabilities
	clock
	journal // what the log says
	sleeper // how it sleeps, and how others wake it

	mu        sync.Mutex // of outgoing and shutdown
	outgoing             // its publications
	shutdown  shutdown   // how it ends
	commands  commands   // to be run by it
	counters  counters
	watchdog  watchdog
	looks     looks
	workers   workers
	recent    recentEvents
	detection peerDetection

	// Loop only:
	groupList // what it receives
	inbox     inbox
	replies   replySource
	ctl       []byte // a control packet in the making
	wakes
	evicted []*Subscription // that still hold entries of streams' logs
	memory  receiveMemory
	loans   *loans
	hellos  *hellos
	waits   waitPolicy
	budget  budget
}

// Open starts a loop over t, which it owns from then on.
func Open(t transport.Transport, cfg Config) *Loop {
	var seed [24]byte
	rand.Read(seed[:]) // it never fails
	random := func(i int) uint64 { return binary.LittleEndian.Uint64(seed[8*i:]) }
	cfg.Publisher = cmp.Or(cfg.Publisher, random(0)|1)
	cfg.Epoch = cmp.Or(cfg.Epoch, newEpoch(time.Now(), random(0)))
	cfg.Sender.Name = []byte(cfg.Name)
	cfg.Sender.Repairs = reliable.NewRepairBudget(new(sync.Mutex))
	caps, clock := t.Capabilities(), newClock()
	if cfg.Signer != nil {
		caps = signed.Capabilities(caps)
	}
	cfg.Receiver.ID = cmp.Or(cfg.Receiver.ID, random(1)|1)
	cfg.Receiver.Own, cfg.Receiver.OwnEpoch = cfg.Publisher, cfg.Epoch
	cfg.Receiver.Checksum = !caps.Checked
	if t := cfg.Trust; t != nil {
		cfg.Receiver.Trust = func() reliable.TopicTrust { return t.Trust() }
	}
	cfg.Receiver.Buffer = reliable.NewReceiveBuffer(max(1, caps.ReceiveCapacity), caps.GroupsTogether, caps.SendersApart)
	cfg.Receiver.Rand = mrand.New(mrand.NewPCG(random(1), random(2)))
	l := &Loop{
		cfg: cfg, t: t, caps: caps, clock: clock, sleeper: newSleeper(t.Wake),
		outgoing: newOutgoing(t, &cfg, clock), shutdown: shutdown{done: make(chan struct{})},
		groupList: newGroupList(caps.Groups),
		inbox:     inbox{batch: transport.NewBatch(max(1, min(caps.Batch, 16))), legs: newLegs(t)},
		ctl:       make([]byte, 0, wire.MaxPacket),
		loans:     newLoans(t), waits: waitPolicy{mode: cfg.Wait},
	}
	l.journal = newJournal(cfg.Logger, l.clock)
	l.replies.init(t)
	l.inbox.proofs.init(cfg.Trust, t)
	l.cfg.Receiver.Memory, l.cfg.Receiver.Loans = &l.memory, l.loans
	l.hellos = newHellos(l)
	l.cfg.Receiver.Discovery = l.hellos.g
	l.counters.times = newDistributions()
	l.watchdog.l = l
	l.processors = runtime.GOMAXPROCS(0)
	go l.run()
	return l
}

// Capabilities are the transport's, of what is published.
func (l *Loop) Capabilities() transport.Capabilities {
	if l.cfg.Signer != nil {
		return signed.Capabilities(l.t.Capabilities())
	}
	return l.t.Capabilities()
}

// Publisher is this process's id as a publisher, and Epoch its epoch.
func (l *Loop) Publisher() (id, epoch uint64) { return l.cfg.Publisher, l.cfg.Epoch }

// run is the loop's goroutine. It ends when Close has closed the transport, or
// the transport has failed permanently, or a handler has ended the goroutine.
func (l *Loop) run() {
	defer close(l.shutdown.done)
	defer l.timer.Stop()
	defer l.watchdog.stop()
	defer l.exited()
	l.watchdog.goroutine.Store(gid.Self())
	polled := false // by spin
	var now reliable.Instant
	for {
		l.awake()
		if !polled {
			if err := l.poll(l.now()); err != nil {
				l.stop(err)
				return
			}
			now = l.now()
		}
		var deadline reliable.Instant
		var busy bool
		deadline, now, busy = l.turn(now)
		if polled = l.behind(); polled || l.inbox.batch.More || busy && !l.emptied() {
			continue
		}
		var err error
		if polled, now, err = l.spin(now, deadline); err != nil {
			l.stop(err)
			return
		}
		if !polled {
			l.sleep(deadline)
		}
	}
}

// poll fetches what has come, at now or later.
func (l *Loop) poll(now reliable.Instant) error {
	l.inbox.at = batchIndex{}
	l.inbox.lain.Polls(time.Duration(now), l.inbox.batch.More)
	if !l.inbox.batch.More {
		l.inbox.began = now
	}
	err := l.t.Poll(l.inbox.batch)
	if l.inbox.batch.RepliesLost {
		l.inbox.repliesLost++
	}
	return err
}

// turn handles what was polled at now, or as much of it as there is time for, what others asked for and what is due. It
// returns when something will be due, what the time is at its end, and whether there was anything to do.
func (l *Loop) turn(now reliable.Instant) (deadline, end reliable.Instant, busy bool) {
	l.watchdog.begin(now)
	l.noteStall(now)
	if l.inbox.fresh() {
		l.budget.slow = false
		if n := l.inbox.arrived(now); n > 0 {
			l.waits.took(now, n)
		}
	}
	l.budget.begin(now)
	busy = len(l.inbox.batch.Trains) > 0
	l.goOn(now)
	if l.trains(now) {
		for i := range l.inbox.batch.Events {
			l.joined(&l.inbox.batch.Events[i])
		}
		l.inbox.batch.Events = l.inbox.batch.Events[:0]
		if !l.inbox.batch.More {
			l.inbox.read = l.inbox.began
			l.cfg.Receiver.Buffer.Read(l.inbox.read)
		}
	}
	busy = l.runCommands() || busy
	now = l.now()
	l.budget.end(now)
	l.watchdog.control(now)
	l.noteStall(now)
	deadline = min(l.tickGroups(now), l.tickPublications(now), l.hellos.tick(now), l.reportUndetected(now))
	l.noteLosses(now)
	l.sample(now)
	l.emitDrops()
	l.watchdog.reportStandstill()
	l.wakeSubscriptions()
	if len(l.evicted) > 0 {
		l.endEvicted()
	}
	end = l.watchdog.end(now, deadline) // behind what was due: that is no time of the next turn's
	if !l.behind() && (!busy || l.emptied()) {
		l.inbox.drainedAt = max(now, deadline)
	}
	return deadline, end, busy
}

// noteStall reports to groups that packets have waited for a while to be read, so that no peer is blamed for silence.
func (l *Loop) noteStall(now reliable.Instant) {
	if !l.inbox.stalled(now) {
		return
	}
	for _, g := range l.receiving {
		g.r.NoteStall(now)
	}
}

// emptied reports whether the last poll has most likely taken all there was. While
// handlers took their time more may have come.
func (l *Loop) emptied() bool {
	return !l.budget.slow && l.waits.drained(len(l.inbox.batch.Trains), cap(l.inbox.batch.Trains))
}

func (l *Loop) tickGroups(now reliable.Instant) reliable.Instant {
	deadline := reliable.Never
	for i := 0; i < len(l.receiving); {
		g := l.receiving[i]
		deadline = min(deadline, g.tick(now))
		if i < len(l.receiving) && l.receiving[i] == g {
			i++ // otherwise it was left
		}
	}
	return deadline
}

func (l *Loop) tickPublications(now reliable.Instant) reliable.Instant {
	deadline := reliable.Never
	for _, p := range l.publications() {
		deadline = min(deadline, p.tick(now))
		p.emitStalls()
	}
	return deadline
}

// membership names one for the loop's notes.
type membership struct {
	group int
	role  transport.Role
}

// joined passes on the result of a join.
func (l *Loop) joined(e *transport.Event) {
	switch e.Kind {
	case transport.LegLost, transport.LegJoined:
		l.legChanged(e)
		return
	case transport.Unreadable:
		l.unreadable(e.Err)
		return
	case transport.Unfindable:
		l.unfindable(e.Err)
		return
	case transport.Unmet:
		l.unmet(e.Err)
		return
	}
	l.joins.note(e)
	l.surveyMembership(e)
	if l.hellos.membership(e) {
		return
	}
	addr := l.t.GroupAddress(e.Group)
	switch e.State {
	case transport.Failed:
		l.joinFailed(e, addr)
	case transport.Lost:
		l.memberLost(e, addr)
		l.event(events.Event{Kind: events.GroupLost, Group: addr, Err: e.Err})
	default:
		report.GroupMembership.Log(l.log, "group", addr, "role", e.Role, "state", e.State)
	}
	if m := (membership{e.Group, e.Role}); e.State == transport.Joined && l.memberships.away[m] {
		l.memberBack(m, addr)
		l.event(events.Event{Kind: events.GroupBack, Group: addr})
	}
	if e.Role == transport.RoleReceiver {
		for g := l.groups[e.Group]; g != nil; g = g.next {
			g.membership(e)
		}
	}
	if e.Role == transport.RoleSender {
		l.senderJoined(e)
	}
	if e.State == transport.Failed {
		l.event(events.Event{Kind: events.GroupFailed, Group: addr, Err: e.Err})
	}
}
