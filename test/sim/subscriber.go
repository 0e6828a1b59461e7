package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// subscriber is one subscribing process, with all its stays.
type subscriber struct {
	node
	number  int
	o       *Subscriber
	stay    int
	r       *reliable.Receiver
	replies *topics.Replies
	id      uint64
	buf     []byte
	loans   loans
	joined  []*reliable.Stream // streams with totals that it has not requested yet
	lister  *topics.Lister     // nil: it does not list topics

	rx []*packet
	inbox
	busy         reliable.Instant // it processes the last poll's packets until then
	polling      bool
	paused, gone bool
	running      reliable.Running
	turn         int  // events processed in this turn
	refused      bool // a stream found no room in this turn
	final        bool // the run is over, and all losses must have been reported

	feeds []*feed
	stayState
	resources
}

// inbox is how far the content of the receive buffer at a given time has been read.
type inbox struct {
	buffer *reliable.ReceiveBuffer
	began  reliable.Instant // the time
	unread int              // number of packets
}

func (s *subscriber) present() bool { return s.r != nil }

func (s *subscriber) maxMessage() int {
	if s.o.Max > 0 {
		return s.o.Max
	}
	return wire.MaxMessage
}

// begin starts a stay.
func (s *subscriber) begin() {
	s.id = s.sim.net.rng.Uint64() | 1
	own := s.own()
	s.inbox = inbox{buffer: reliable.NewReceiveBuffer(s.o.Buffer, false, false)}
	s.running = reliable.Running{}
	r, err := reliable.NewReceiver(reliable.ReceiverConfig{
		ID: s.id, Tag: s.o.tag(), GroupTag: s.legTags()[0], LegTags: s.legTags(),
		Own: own, Checksum: s.sim.o.Checksum,
		History: reliable.History{FromWindow: s.o.FromWindow,
			Wanted: s.wanted()}, FromState: s.o.FromState, WindowBytes: s.o.Window, MemoryBytes: s.o.Memory, Buffer: s.buffer,
		MaxStreams: cmp.Or(s.o.Streams, defaultStreams), MaxMessage: wire.MaxMessage,
		Trust: s.trust(), Deadline: cmp.Or(s.o.Deadline, defaultDeadline), Memory: s, Loans: &s.loans,
		Rand: rand.New(rand.NewPCG(s.sim.o.Seed, s.id)),
	}, s, s)
	if err != nil {
		s.sim.fail("subscriber %d: %v", s.number, err)
		return
	}
	s.r = r
	s.feeds, s.peers, s.memory, s.joined = nil, s.peers[:0], 0, nil
	s.stayState = newStay()
	s.busy, s.polling, s.turn, s.refused = 0, false, 0, false
	s.loans.s = s
	r.SetClock(s.sim.clock())
	r.SetRunning(&s.running)
	s.replies = topics.NewReplies(s.id, r.Recipient, &s.running)
	r.SetMessageLayer(s.replies, topics.NewDecoder(s.unpacker(), func(err *events.DictionaryError) {
		s.outputOf(wire.Header{Publisher: err.Publisher, Epoch: err.Epoch}).checkUnreadable(err)
	}))
	r.SetAsync(len(s.o.Readers) > 0)
	for _, name := range topicNames[:s.o.Topics] {
		r.Want(name)
	}
	r.TopicsChanged(s.now())
	s.beginPatterns()
	s.beginList(own)
	s.sim.trace("subscriber %d begins with id %#x", s.number, s.id)
	s.pump()
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
	if how == StopEnd {
		s.r.Close(s.now())
		s.pump()
	}
	s.check()
	s.endList()
	s.sim.report.receiver(s.r.Stats())
	s.sim.report.receiver(stats.Receiver{ReceiverMessages: s.replies.Stats()})
	for _, f := range s.feeds {
		if f.c == nil {
			continue
		}
		if f.leased {
			f.c.Return()
		}
		f.out.detach(f)
	}
	s.r.Free()
	if s.memory != 0 {
		s.sim.fail("subscriber %d: %d bytes of windows were not freed", s.number, s.memory)
	}
	if s.loans.out != 0 {
		s.sim.fail("subscriber %d: %d packets were not returned", s.number, s.loans.out)
	}
	for _, p := range s.peers {
		if p.refs != 0 {
			s.sim.fail("subscriber %d: peer %d has %d references left", s.number, p.from, p.refs)
		}
	}
	s.r = nil
	for _, p := range s.rx {
		s.sim.pool.drop(p)
	}
	s.rx = s.rx[:0]
	s.deadline = reliable.Never
	s.stay++
	if s.stay == len(s.o.Stays) {
		s.gone = true
		return
	}
	s.sim.at(s.o.Stays[s.stay].After, s.beginStay)
}

// arrive puts a packet into the receive buffer, if there is room.
func (s *subscriber) arrive(p *packet) {
	if s.r == nil || len(s.rx) >= s.o.Buffer || !s.on(p.leg()) {
		if s.r != nil && s.on(p.leg()) {
			s.sim.net.count.Overflowed++
		}
		s.sim.pool.drop(p)
		return
	}
	if p = s.sim.open(s.index, false, p); p != nil {
		s.rx = append(s.rx, p)
	}
	s.wake()
}

func (s *subscriber) wake() {
	if s.polling || s.paused || len(s.rx) == 0 {
		return
	}
	s.polling = true
	at := max(s.busy, s.sim.now.Add(s.o.Wake))
	if at <= s.sim.now {
		s.poll()
		return
	}
	s.sim.q.push(event{at: at, kind: poll, node: s.index, arg: uint32(s.stay)})
}

// poll processes a batch of packets.
func (s *subscriber) poll() {
	s.polling = false
	if s.paused || s.r == nil {
		return
	}
	now := s.now()
	if s.unread == 0 {
		s.began, s.unread = now, len(s.rx)
	}
	n := min(s.unread, max(1, s.o.Batch))
	for _, p := range s.rx[:n] {
		s.loans.lend(p.b, func(b []byte) {
			from, leg := p.from, p.leg()
			s.sim.pool.drop(p)
			s.list(now, from, b)
			s.handle(now, from, leg, b)
		})
		if s.memory > s.o.Memory {
			s.sim.fail("subscriber %d: windows use %d bytes, limit %d", s.number, s.memory, s.o.Memory)
		}
		if s.sim.err != nil {
			return
		}
	}
	s.rx = append(s.rx[:0], s.rx[n:]...)
	if s.unread -= n; s.unread == 0 {
		s.buffer.Read(s.began)
	}
	s.busy = s.sim.now.Add(time.Duration(n) * s.o.Service)
	s.pump()
	s.wake()
}

// pump reads, sends and sleeps.
func (s *subscriber) pump() {
	now := s.now()
	if len(s.rx) == 0 {
		s.buffer.Read(now)
	}
	if s.running.Runs(now) > 0 {
		s.r.NoteStall(now)
	}
	s.beginTurn(now)
	s.r.Tick(now)
	s.checkAhead()
	s.askTotals()
	s.checkReports()
	s.readAll(now)
	s.updateSlow()
	for range 10000 {
		peer, b, ok := s.r.Next(now, s.buf[:0])
		if !ok {
			due := s.nextDue(now)
			if len(s.rx) == 0 { // otherwise it continues to read
				s.running.Rests(due)
			}
			s.sleep(due)
			return
		}
		s.buf = b
		s.send(peer, b)
	}
	s.sim.fail("subscriber %d never stops sending", s.number)
}

// readAll continues all cursors that are not slow, repeatedly if reading caused the arrival of totals for another one.
func (s *subscriber) readAll(now reliable.Instant) {
	for again := true; again && s.sim.err == nil; {
		for _, f := range s.feeds {
			if f.reads() {
				s.read(f, now)
			}
		}
		again = slices.ContainsFunc(s.feeds, func(f *feed) bool { return f.reads() && f.c.Ready() })
	}
}

// reads reports whether the feed has a cursor that must be read now.
func (f *feed) reads() bool { return f.c != nil && !f.reading && !f.over && !f.stops() }

func (s *subscriber) send(peer uint32, b []byte) {
	if int(peer) >= len(s.peers) || s.peers[peer].refs <= 0 {
		s.sim.fail("subscriber %d sends to peer %d, which it has released", s.number, peer)
		return
	}
	to := s.peers[peer].from
	s.countRequests(b)
	s.checkNAK(b)
	if s.sim.o.Trace != nil {
		s.sim.trace("subscriber %d to %d: %v", s.number, to, describe{b})
	}
	if publisher, leg := addressed(to); publisher < len(s.sim.publishers) {
		s.sim.networks()[leg].unicast(s.sim.now, s.number, publisher, s.sim.seal(s.index, true, b)[0])
	}
}

// read continues a cursor, now and later.
func (s *subscriber) read(f *feed, now reliable.Instant) {
	if f.read() {
		f.reading = true
		s.sim.q.push(event{at: s.sim.now.Add(f.options.Delay), kind: read, node: s.index,
			arg: uint32(s.stay)<<16 | uint32(f.index)})
	}
	if f.over && f.c != nil {
		f.out.detach(f)
	}
	if f.st.Stalled() {
		f.out.log.Reclaim()
		s.r.Resume(now)
	}
}

// readOn continues a slow reader.
func (s *subscriber) readOn(arg uint32) {
	if s.r == nil || int(arg>>16) != s.stay {
		return
	}
	f := s.feeds[arg&0xffff]
	f.reading = false
	if f.c == nil {
		return // it was evicted
	}
	if s.paused || f.stops() {
		f.reading = true // the pause also stops this goroutine
		s.sim.q.push(event{at: s.sim.now.Add(max(f.options.Delay, time.Millisecond)), kind: read, node: s.index, arg: arg})
		return
	}
	s.read(f, s.now())
	s.pump()
}

// check checks what was delivered when the stay ends.
func (s *subscriber) check() {
	for _, f := range s.feeds {
		f.finish()
	}
}

// incomplete returns a feed that does not have everything yet, or nil.
func (s *subscriber) incomplete() *feed {
	for _, f := range s.feeds {
		if f.t == nil || f.over {
			continue
		}
		if f.c != nil && (f.leased || f.c.Ready()) {
			return f // it has more to read
		}
		if f.t.killed || f.t.ended {
			if f.down == 0 || s.refused {
				return f // the loss of the publisher, or of messages, is still to be reported
			}
			continue
		}
		if f.consumed < f.t.next || f.lossPending() {
			return f
		}
	}
	return nil
}
