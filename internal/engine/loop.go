package engine

import (
	"cmp"
	"encoding/binary"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Config describes a loop. All fields are set, except where a comment says what zero means; package pubsub has the
// defaults.
type Config struct {
	events.Instance        // of this process as a publisher; 0: a random id, newEpoch
	Name            string // readable name of this process as a publisher; may be empty
	// Mapping is how topics map to groups, for comparison with other buses. Default: by hash.
	Mapping wire.Mapping
	// Sender and Receiver are templates. The loop fills in identity, sizes and memory for each group.
	Sender   reliable.SenderConfig
	Receiver reliable.ReceiverConfig
	// MaxMessage is the longest message that subscriptions deliver, in bytes.
	MaxMessage int
	// StateShare is the share of the rate limit, or of the recent data rate, that state may take.
	StateShare float64
	// TopicRuns bounds the topics that the bus remembers; all of a network have the same. Default wire.TopicRuns.
	TopicRuns uint64
	// WindowBytes bounds the memory for repairs of one publication.
	WindowBytes int
	// WindowsBytes bounds that of all publications together, beyond the minimum of each.
	WindowsBytes int
	// FlushAfter is the longest time that a message waits for others.
	FlushAfter time.Duration
	// Wait is how the loop and the readers of subscriptions wait.
	Wait Wait
	// Events is called by the loop with each event. It must not block. May be nil.
	Events func(events.Event)
	// RecentEvents is how many events Loop.RecentEvents remembers.
	RecentEvents int
	// Trace is called with the steps of packets, by the loop and by publishers with the publication's lock held. It
	// must not block or use the loop. May be nil.
	Trace       func(*Trace)
	Logger      *slog.Logger
	Compression topics.Compression
	// Clock times deliveries; its zero value times none.
	Clock reliable.Clock
	// Interface names the network interfaces of the transports; empty: unknown.
	Interface string
	// Signer signs what is published, as Publisher; nil: packets are not signed. Trust says which publishers are
	// accepted, and for which topics; nil: all.
	Signer *signed.Signer
	Trust  signed.Provider
	// TopicTrust is the trust in publishers. Default: Trust's.
	TopicTrust func() topics.TopicTrust
	// Stopped is called when the loop has ended. May be nil.
	Stopped func()
	// Losses records losses, with causes named by CauseLabel. Sample is called with all counters every few seconds
	// while the loop is active. Either may be nil.
	Losses     *lossrecord.Record
	CauseLabel func(events.Cause) string
	Sample     func(*stats.Bus) []Dropped
	// Virtual runs the loop in virtual time. Nil: it runs on a goroutine, by the system's clock.
	Virtual Virtual
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
	journal
	sleeper

	mu        sync.Mutex // guards outgoing and shutdown
	outgoing             // publications
	shutdown  shutdown
	commands  commands // functions that others post
	counters  counters
	watchdog  watchdog
	questions questions
	workers   workers
	recent    recentEvents
	detection peerDetection

	// Loop only:
	groupList // the groups that it receives
	inbox     inbox
	replies   replySource
	ctl       []byte // for building control packets
	wakes
	evicted []*Subscription // they still hold entries of streams' logs
	memory  receiveMemory
	loans   *loans
	hellos  *hellos
	waits   waitPolicy
	budget  budget
}

// Open starts a loop over t. The loop owns t from then on.
func Open(t transport.Transport, cfg Config) *Loop {
	clock, caps := newClock(), t.Capabilities()
	clock.virtual = cfg.Virtual
	var seed [24]byte
	clock.seed(seed[:])
	random := func(i int) uint64 { return binary.LittleEndian.Uint64(seed[8*i:]) }
	cfg.Publisher = cmp.Or(cfg.Publisher, events.ID(random(0)|1))
	cfg.TopicRuns = cmp.Or(cfg.TopicRuns, wire.TopicRuns)
	cfg.Epoch = cmp.Or(cfg.Epoch, newEpoch(clock.wall(), random(0)))
	cfg.Sender.Name = []byte(cfg.Name)
	cfg.Sender.Repairs = reliable.NewRepairBudget(new(sync.Mutex))
	if cfg.Signer != nil {
		caps = signed.Capabilities(caps)
	}
	cfg.Receiver.ID = cmp.Or(cfg.Receiver.ID, random(1)|1)
	cfg.Receiver.Own = cfg.Instance
	cfg.Receiver.Checksum = !caps.Checked
	if t := cfg.Trust; t != nil {
		cfg.TopicTrust = func() topics.TopicTrust { return t.Trust() }
	}
	cfg.Receiver.ProvedKeys = cfg.TopicTrust != nil
	cfg.Receiver.Buffer = reliable.NewReceiveBuffer(max(1, caps.ReceiveCapacity), caps.GroupsTogether, caps.SendersApart)
	cfg.Receiver.Rand = mrand.New(mrand.NewPCG(random(1), random(2)))
	l := &Loop{
		cfg: cfg, t: t, caps: caps, clock: clock, sleeper: newSleeper(t.Wake),
		outgoing: newOutgoing(t, &cfg, clock), shutdown: shutdown{done: make(chan struct{})},
		groupList: newGroupList(caps.Groups),
		inbox:     inbox{batch: transport.NewBatch(max(1, min(caps.Batch, 16))), legs: newLegs(t)},
		ctl:       make([]byte, 0, wire.MaxPacket),
		loans:     newLoans(t), waits: waitPolicy{mode: cfg.Wait}, wakes: wakes{processors: clock.maxProcs()},
	}
	l.journal = newJournal(cfg.Logger, l.clock)
	l.replies.init(t)
	l.inbox.proofs.init(cfg.Trust, t)
	l.cfg.Receiver.Memory, l.cfg.Receiver.Loans = &l.memory, l.loans
	l.hellos = newHellos(l)
	l.cfg.Receiver.Discovery = l.hellos.g
	l.counters.times = newDistributions()
	l.watchdog.l = l
	if cfg.Virtual == nil {
		go l.run()
	}
	return l
}

// Capabilities returns the transport's, less what signatures take.
func (l *Loop) Capabilities() transport.Capabilities {
	if l.cfg.Signer != nil {
		return signed.Capabilities(l.t.Capabilities())
	}
	return l.t.Capabilities()
}

// Instance is this process as a publisher.
func (l *Loop) Instance() events.Instance { return l.cfg.Instance }

// run is the loop's goroutine. It ends when Close has closed the transport, when the transport has failed permanently,
// or when a handler has ended the goroutine.
func (l *Loop) run() {
	defer close(l.shutdown.done)
	defer l.timer.Stop()
	defer l.watchdog.stop()
	defer l.exited()
	l.watchdog.goroutine.Store(gid.Self())
	polled := false // spin has polled
	now := l.now()
	for {
		deadline, end, again, err := l.round(polled, now)
		if now, polled = end, l.behind(); !again && err == nil {
			if polled, now, err = l.spin(now, deadline); !polled && err == nil {
				l.sleep(deadline)
				now = l.now()
			}
		}
		if err != nil {
			l.stop(err)
			return
		}
	}
}

// round polls, unless the packets polled at now are still unread, and does a turn. It returns the next deadline, the
// time at the turn's end, and whether the next round is due at once.
func (l *Loop) round(polled bool, now reliable.Instant) (deadline, end reliable.Instant, again bool, err error) {
	l.awake()
	if !polled {
		if err := l.poll(now); err != nil {
			return 0, now, false, err
		}
		now = l.now()
	}
	deadline, end, busy := l.turn(now)
	return deadline, end, l.behind() || l.inbox.batch.More || busy && !l.emptied(), nil
}

// poll receives what has arrived. now is the time of the call, or earlier.
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

// turn handles the packets polled at now, while there is time, then commands and what is due. It returns the next
// deadline, the time at its end, and whether there was anything to do.
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
	l.resume(now)
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
	l.watchdog.reportStandstill() // before what others say of it
	deadline = min(l.tickGroups(now), l.tickPublications(now), l.hellos.tick(now), l.reportUndetected(now))
	l.noteLosses(now)
	l.sample(now)
	l.emitDrops()
	l.wakeSubscriptions()
	if len(l.evicted) > 0 {
		l.endEvicted()
	}
	end = l.watchdog.end(now, deadline) // read after the due work, so that its time does not count for the next turn
	if !l.behind() && (!busy || l.emptied()) {
		l.inbox.drainedAt = max(now, deadline)
	}
	return deadline, end, busy
}

// noteStall notifies the groups that packets have waited unread for a while, so that no peer is blamed for silence.
func (l *Loop) noteStall(now reliable.Instant) {
	if !l.inbox.stalled(now) {
		return
	}
	for _, g := range l.receiving {
		g.r.NoteStall(now)
	}
}

// emptied reports whether the last poll has most likely taken all there was. During slow handlers more may have
// arrived.
func (l *Loop) emptied() bool {
	return !l.budget.slow && l.waits.drained(len(l.inbox.batch.Trains), cap(l.inbox.batch.Trains))
}

func (l *Loop) tickGroups(now reliable.Instant) reliable.Instant {
	deadline := reliable.Never
	for i := 0; i < len(l.receiving); {
		g := l.receiving[i]
		deadline = min(deadline, g.tick(now))
		if i < len(l.receiving) && l.receiving[i] == g {
			i++ // otherwise tick has left the group
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

// membership identifies a membership.
type membership struct {
	group int
	role  transport.Role
}

// joined handles an event of the transport, mostly the result of a join.
func (l *Loop) joined(e *transport.Event) {
	switch e.Kind {
	case transport.LegLost, transport.LegJoined:
		l.legChanged(e)
		return
	case transport.Unreadable:
		l.unreadable(e.Err)
		return
	case transport.Undiscoverable:
		l.emit(&report.Unfindable, events.Event{Kind: events.Unfindable, Err: e.Err})
		return
	case transport.Unmet:
		l.emit(&report.Unmet, events.Event{Kind: events.Unmet, Err: e.Err})
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
	if m := (membership{e.Group, e.Role}); e.State == transport.Joined && l.memberships.of[m].until == reliable.Never {
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
