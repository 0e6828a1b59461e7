package sim

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// subscriber is one subscribing process, with all its stays.
type subscriber struct {
	process
	number int
	o      *Subscriber
	stay   int // number of the current stay, or of the next one
	stayState
	closing bool // it leaves
	gone    bool // the last stay has ended
	final   bool // the run is over, and all losses must have been reported
}

// stayState is what a subscriber has in its current stay.
type stayState struct {
	*wantedTopics
	id      uint64 // of its receiver for subscriptions that begin with new messages
	readers []*reader
	streams []*stream // of all receivers, in the order found
	holes   map[events.Instance][]hole
	survey  *engine.Survey // nil: it does not list topics
	legs    legState
	faults  unreadState
	waits   int // subscriptions that are being made or changed
	// executed are the requests that it has executed.
	executed map[executed]bool
}

// wantedTopics are the topics that a subscriber wants in a stay.
type wantedTopics struct {
	names    int // it wants the first names topics
	patterns []pattern.Pattern
	first    int // number of patterns since the beginning
}

// topic reports whether topic number i is wanted.
func (w *wantedTopics) topic(i int) bool { return i < w.names || w.matches(topicNames[i]) }

// always reports whether topic number i has been wanted from the beginning of the stay.
func (w *wantedTopics) always(i int) bool {
	return (&wantedTopics{names: w.names, patterns: w.patterns[:w.first]}).topic(i)
}

// matches reports whether one of the patterns matches the topic.
func (w *wantedTopics) matches(topic string) bool {
	return slices.ContainsFunc(w.patterns, func(p pattern.Pattern) bool { return p.Match(topic) })
}

// stream is a stream of one of the subscriber's receivers.
type stream struct {
	st      *reliable.Stream
	owner   *engine.Subscription // the only one that the receiver serves; nil: all that begin with new messages
	id      uint64               // of the receiver
	t       *truth               // nil: a forged stream
	begin   uint64               // beginning of the stream, as last observed
	removed bool                 // the receiver has dropped it
}

// up reports whether the stream's publisher is up, as far as the receiver knows.
func (x *stream) up() bool { return !x.removed && !x.st.Down() && !x.st.Ended() }

func (s *subscriber) present() bool { return s.loop != nil && !s.closing }

func (s *subscriber) maxMessage() int { return cmp.Or(s.o.Max, wire.MaxMessage) }

// own returns the publisher instance in the same process.
func (s *subscriber) own() (own events.Instance) {
	if s.o.Own == 0 {
		return own
	}
	return s.sim.publishers[s.o.Own-1].instance(0)
}

// windows returns how many bytes the windows of a receiver may use.
func (s *subscriber) windows(owned bool) int {
	if owned {
		return 2 * s.o.Memory
	}
	return s.o.Memory
}

// begin starts a stay.
func (s *subscriber) begin() {
	o := s.o
	s.stayState = stayState{id: s.sim.net.rng.Uint64() | 1,
		holes: make(map[events.Instance][]hole), executed: make(map[executed]bool)}
	s.wantedTopics = &wantedTopics{names: o.Topics}
	s.closing = false
	s.late, s.stepped, s.check = o.Late, s.scan, func() {}
	end := s.sim.newEndpoint(&s.process, s.sim.o.Publishers[0].PacketSize)
	end.caps.Batch, end.caps.LendMax, end.caps.ReceiveCapacity = max(1, o.Batch), o.Keep, o.Buffer
	end.buffer, end.wake, end.service, end.only = o.Buffer, o.Wake, o.Service, 0
	if s.sim.second != nil {
		end.only = o.Only
	}
	end.sends, end.replies, end.reads = s.sendsHello, s.replied, s.received
	s.open(end, engine.Config{
		Instance: s.own(), Compression: topics.Compression{Unpacker: s.unpacker()}, Signer: s.signer(), TopicTrust: s.trust(),
		Sender: reliable.SenderConfig{Silence: defaultSilence, RepairShare: 1},
		Receiver: reliable.ReceiverConfig{
			ID: s.id, Tag: o.tag(), WindowBytes: o.Window, MemoryBytes: o.Memory, MaxStreams: cmp.Or(o.Streams, defaultStreams),
			Deadline: cmp.Or(o.Deadline, defaultDeadline),
		},
		MaxMessage: s.maxMessage(),
		FlushAfter: defaultLinger, Events: s.event, Trace: s.traced,
	}, slog.DiscardHandler)
	if o.InPlace {
		s.readers = append(s.readers, &reader{sub: s})
	}
	for i, r := range o.Readers {
		s.readers = append(s.readers, &reader{sub: s, options: r, number: 1 + i})
	}
	s.sim.trace("subscriber %d begins with id %#x", s.number, s.id)
	s.beginPatterns()
	s.Go(s.subscribe)
	s.turn()
}

// subscribe makes the subscriptions. It is a task.
func (s *subscriber) subscribe() {
	if s.o.Lists {
		var err error
		if s.survey, err = s.loop.Survey([]int{0}); err != nil && s.present() {
			s.sim.fail("subscriber %d: survey: %v", s.number, err)
		}
	}
	var names []engine.TopicName
	for _, name := range topicNames[:s.o.Topics] {
		names = append(names, engine.TopicName{Name: name})
	}
	for _, p := range s.patterns[:s.first] {
		names = append(names, engine.TopicName{Name: p.String(), Pattern: p})
	}
	for _, x := range s.readers {
		x.subscribe(names)
	}
}

func (s *subscriber) beginStay() {
	s.sim.beginSealing(s.index)
	s.begin()
	stay := s.stay
	if st := s.o.Stays[stay]; st.Stop != StopNever {
		s.sim.at(st.For, func() {
			if s.present() && s.stay == stay {
				s.leave(st.Stop)
			}
		})
	}
}

// leave ends a stay.
func (s *subscriber) leave(how Stop) {
	s.sim.trace("subscriber %d leaves: %v", s.number, how)
	s.finish()
	s.report()
	if how == StopKill || s.final {
		s.stop()
		return
	}
	s.closing = true
	s.Go(func() {
		if err := s.loop.Close(background); err != nil {
			s.sim.fail("subscriber %d: closing: %v", s.number, err)
		}
		s.sim.at(0, s.stop)
	})
	s.changed = true
	s.turn()
}

// stop ends the process.
func (s *subscriber) stop() {
	s.kill()
	s.stay++
	if s.stay == len(s.o.Stays) {
		s.gone = true
		return
	}
	s.sim.at(s.o.Stays[s.stay].After, s.beginStay)
}

// report adds the statistics of the stay to the run's.
func (s *subscriber) report() {
	r, st := s.sim.report, s.loop.Counts()
	for _, g := range st.Groups {
		r.receiver(g.Receiver)
		r.receiver(stats.Receiver{ReceiverMessages: g.ReceiverMessages})
	}
	s.loop.Receivers(func(_ *engine.Subscription, _ *reliable.Receiver, in *topics.Receiver, _ *topics.Replies) {
		r.Named += uint64(in.NamesKnown())
	})
	r.RefusedMessages += st.RefusedMessages
	r.Replaced += st.ReplacedMessages
	r.Messages += st.ReplacedMessages // they were delivered to the conflation
	r.Timed += st.Distributions.Delivery.Count
	r.timed = max(r.timed, st.Delivery.Max)
}

// receivers calls f with each receiver.
func (s *subscriber) receivers(f func(owner *engine.Subscription, id uint64, r *reliable.Receiver)) {
	s.loop.Receivers(func(owner *engine.Subscription, r *reliable.Receiver, _ *topics.Receiver, replies *topics.Replies) {
		f(owner, replies.ID, r)
	})
}

// scan records new streams, and checks all. It is called after each step, and when something of a new stream is
// delivered.
func (s *subscriber) scan() {
	if s.loop == nil {
		return
	}
	s.receivers(func(owner *engine.Subscription, id uint64, r *reliable.Receiver) {
		s.sim.stays[id] = s.wantedTopics
		if !slices.ContainsFunc(s.readers, func(r *reader) bool { return !r.ended && (owner == nil || r.s == owner) }) {
			s.sim.unread[id] = true
		}
		list := r.Streams()
		if most := cmp.Or(s.o.Streams, defaultStreams); len(list) > most {
			s.sim.fail("subscriber %d has %d streams, at most %d are allowed", s.number, len(list), most)
		}
		if n := r.Memory(); n > s.windows(owner != nil) {
			s.sim.fail("subscriber %d: windows use %d bytes, limit %d", s.number, n, s.windows(owner != nil))
		}
		for _, x := range s.streams {
			x.removed = x.removed || x.id == id && !slices.Contains(list, x.st)
		}
		for _, st := range list {
			if !slices.ContainsFunc(s.streams, func(x *stream) bool { return x.st == st }) {
				s.found(&stream{st: st, owner: owner, id: id, t: s.sim.truth(st.Instance), begin: st.Start()})
			}
		}
	})
	for _, x := range s.streams {
		if !x.removed {
			s.begun(x)
			if held, released := x.st.Holding(); !released {
				s.sim.report.HeldReported = max(s.sim.report.HeldReported, held)
			}
		}
	}
	s.readUnreadable()
}

// found records a new stream.
func (s *subscriber) found(x *stream) {
	s.sim.trace("subscriber %d: stream %v.%d from %d", s.number, x.st.Publisher, x.st.Epoch, x.st.Start())
	if own := s.own(); own.Publisher != 0 && x.st.Instance == own {
		s.sim.fail("subscriber %d receives its own publisher", s.number)
	}
	if x.t != nil && x.st.Start() > x.t.next {
		x.t = nil // begun by a forged packet, which is possible without authentication
	}
	s.checkKnown(x)
	s.checkJoin(x)
	for _, b := range s.streams {
		if b.removed && b.id == x.id && b.t != nil && b.t == x.t && !b.st.Ended() && b.st.Next() > x.st.Start() {
			s.sim.fail("subscriber %d: stream %v.%d continues at packet %d, but was evicted at %d", s.number, x.st.Publisher, x.st.Epoch, x.st.Start(), b.st.Next())
		}
	}
	s.streams = append(s.streams, x)
	for _, r := range s.readers {
		r.follow(x, 0)
	}
}

// event records an event of the loop.
func (s *subscriber) event(e events.Event) {
	of := events.Instance{Publisher: e.Publisher, Epoch: e.Epoch}
	switch e.Kind {
	case events.PublisherEnded:
		s.down(of, events.CauseNone)
	case events.PublisherLost:
		s.down(of, events.CausePublisherLost)
	case events.PublisherRestarted:
		s.down(of, events.CauseRestart)
	case events.ReleasedByPublisher:
		s.sim.report.ReleasedReported++
	case events.LegDown, events.LegBack:
		s.leg(of, &e)
	case events.PublisherFault:
		s.fault(of, e.Err.(*events.FaultError))
	case events.SubscriptionEvicted:
		s.sim.report.Evicted++
	case events.TopicCollision:
		s.sim.fail("subscriber %d: %v", s.number, e.Err)
	}
}

func (s *subscriber) down(of events.Instance, cause events.Cause) {
	s.sim.trace("subscriber %d: stream %v.%d down: %v", s.number, of.Publisher, of.Epoch, cause)
	s.sim.report.Downs[cause]++
}

// hole is packets that were lost.
type hole struct {
	first, end uint64
	cause      events.Cause
}

// traced records a step of packets.
func (s *subscriber) traced(x *engine.Trace) {
	switch x.Kind {
	case engine.TraceRepaired:
		s.sim.report.repaired(x.Took)
	case engine.TraceLost:
		s.sim.trace("subscriber %d: gap of %d packets at %d: %v", s.number, x.Packets, x.First, x.Cause)
		s.sim.report.gap(x.Packets, x.Cause)
		h := hole{x.First, x.First + x.Packets, x.Cause}
		s.holes[x.Instance] = append(s.holes[x.Instance], h)
		s.checkLossless(x.Instance, h)
		s.checkUnreadable(x.Instance, h)
	}
}

// inHole reports whether one of the packets was lost.
func (s *subscriber) inHole(of events.Instance, first, last uint64) bool {
	return slices.ContainsFunc(s.holes[of], func(h hole) bool { return h.first <= last && first < h.end })
}

// checkLossless checks that a subscriber has lost nothing, if a publisher under min has discovered it
// and not released it, and if it was cut off or stopped for no longer than the protocol tolerates.
func (s *subscriber) checkLossless(of events.Instance, h hole) {
	t := s.sim.truth(of)
	if t == nil || t.o.Flow != FlowMin || t.killed || s.sim.o.canLose(s.o, s.number) {
		return
	}
	known := false
	for _, x := range s.streams {
		if x.t != t {
			continue
		}
		m := t.members[x.id]
		if known = true; m == nil || !t.counts(m) || m.left || m.unsure || m.wasReleased || h.end <= m.since {
			return
		}
	}
	if known && h.cause != events.CauseSlowConsumer &&
		(h.cause != events.CauseUnreadable || t.o.Unreadable == 0 && !s.o.NoDictionary) {
		s.sim.fail("subscriber %d: packets %d to %d are lost under min flow control: %v", s.number, h.first, h.end-1, h.cause)
	}
}

// finish checks what was delivered when the stay ends.
func (s *subscriber) finish() {
	for _, r := range s.readers {
		r.finish()
	}
	s.endList()
}

// incomplete returns a feed that does not have everything yet, or nil.
func (s *subscriber) incomplete() *feed {
	for _, r := range s.readers {
		if r.ended {
			continue
		}
		for i, f := range r.feeds {
			if !r.idle() {
				return f // it has more to read
			}
			if f.t == nil || f.x.removed || slices.ContainsFunc(r.feeds[i+1:], func(x *feed) bool { return x.t == f.t }) {
				continue
			}
			if f.t.killed || f.t.ended {
				if f.x.up() {
					return f // the loss of the publisher is still to be reported
				}
				continue
			}
			if f.x.st.Next() < f.t.next || f.lossPending() {
				return f
			}
		}
	}
	return nil
}

// undetected returns a live publisher with a stream that is not up here, or nil.
func (s *subscriber) undetected() *publisher {
	if s.sim.o.Attack.Forge && s.sim.o.forged() {
		return nil // there may be no memory for its stream
	}
	own := s.own()
	for _, p := range s.sim.publishers {
		if !p.alive() || p.t.Instance == own {
			continue
		}
		for _, r := range s.readers {
			up := func(f *feed) bool { return f.x.up() && f.x.st.Instance == p.t.Instance }
			if !r.ended && !slices.ContainsFunc(r.feeds, up) {
				return p
			}
		}
	}
	return nil
}

// sendsHello passes a packet of the loop to the network: only publishers send to the group.
func (s *subscriber) sendsHello(*sender, *transport.Outbound, [][]byte) {
	s.sim.fail("subscriber %d sends to the group", s.number)
}

// handlerTime returns how long a handler takes: as long as to use up the time of a turn after Turn messages.
func (s *subscriber) handlerTime() time.Duration {
	if s.o.Turn == 0 {
		return 0
	}
	return loopTurn / time.Duration(s.o.Turn)
}

// loopTurn is a bit more than the time of the loop's turn for handlers.
const loopTurn = 2100 * time.Microsecond
