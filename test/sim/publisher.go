package sim

import (
	"cmp"
	"log/slog"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// publisher is one publishing process, with all its lives.
type publisher struct {
	process
	o       *Publisher
	id      events.ID
	life    int // index of the current life, or of the next one
	pub     *engine.Publication
	t       *truth
	topics  []*topics.Topic
	writers []*writer
	closing bool
	gone    bool // the last life has ended

	heldSince    reliable.Instant // since then no new packet was sent
	heldAt       uint64           // next new packet at that time
	released     int              // number of members that are released
	early        []earlyPacket    // new packets that do not fit the windows of some members
	openRequests []*openRequest
}

func (p *publisher) alive() bool { return p.pub != nil }

// instance is the publisher in one of its lives.
func (p *publisher) instance(life int) events.Instance {
	return events.Instance{Publisher: p.id, Epoch: events.ID(cmp.Or(p.o.Lives[life].Epoch, uint64(10+life)))}
}

// look calls f with the packet layer of the stream.
func (p *publisher) look(f func(s *reliable.Sender)) {
	p.pub.Look(func(s *reliable.Sender, _ *topics.Sender) { f(s) })
}

// members returns the subscribers of a topic that are known; 0: of any.
func (p *publisher) members(topic uint64) (all []stats.Subscriber) {
	p.pub.Look(func(_ *reliable.Sender, m *topics.Sender) { all = m.Members(p.Now(), topic) })
	return all
}

func (p *publisher) config() engine.Config {
	o := p.o
	s := reliable.SenderConfig{
		Pad: o.Pad, Rate: o.Rate, StallLimit: o.StallLimit, Slow: o.Slow, Silence: cmp.Or(o.Silence, defaultSilence),
		RepairShare: float64(cmp.Or(o.Repairs, defaultShare)) / float64(Always),
	}
	switch {
	case o.Flow == FlowNone:
		s.Flow = reliable.NoFlow{}
	case o.Flow == FlowQuorum && o.Quorum == 1:
		s.Flow = reliable.MaxFlow{}
	case o.Flow == FlowQuorum:
		s.Flow = reliable.QuorumFlow{N: o.Quorum}
	default:
		s.Flow = reliable.MinFlow{}
	}
	if o.Tagged {
		s.Flow = reliable.TaggedFlow{Tag: tag, Of: s.Flow}
	}
	return engine.Config{
		Instance: p.instance(p.life), Sender: s, StateShare: 0.1,
		WindowBytes: o.Window * o.PacketSize, WindowsBytes: o.Window * o.PacketSize,
		Receiver:   reliable.ReceiverConfig{Deadline: defaultDeadline},
		FlushAfter: cmp.Or(o.Linger, defaultLinger), Compression: topics.Compression{Packer: o.packer(p.sim.o.Content)},
		Trust: p.sim.replyTrust(), Events: p.event,
	}
}

// begin starts a life.
func (p *publisher) begin() {
	end := p.sim.newEndpoint(&p.process, p.o.PacketSize)
	end.caps.MaxTrain, end.caps.EqualTrains = p.o.MaxTrain, p.o.EqualTrains
	end.caps.MaxTrainBytes = cmp.Or(p.o.Full, p.o.MaxTrain) * p.o.PacketSize
	end.sends, end.reads, end.readers = p.transmit, p.received, p.o.ReadsReplies
	p.stepped, p.check = func() {}, p.checks
	p.t = p.sim.newTruth(p.instance(p.life), p.o)
	p.sim.truths = append(p.sim.truths, p.t)
	p.open(end, p.config(), &trailLog{Handler: slog.DiscardHandler, report: p.sim.report})
	var err error
	if p.pub, err = p.loop.Publication(0); err != nil {
		p.sim.fail("publisher %d: %v", p.index, err)
		return
	}
	p.closing, p.openRequests, p.early = false, nil, nil
	p.topics = p.topics[:0]
	for _, name := range topicNames[:p.o.Topics] {
		t, err := p.pub.Topic(name)
		if err != nil {
			p.sim.fail("publisher %d: %v", p.index, err)
			return
		}
		p.topics = append(p.topics, t)
	}
	life := &p.o.Lives[p.life]
	p.writers = p.writers[:0]
	for i := range p.o.Writers {
		w := &writer{p: p, index: i, left: life.Messages}
		p.writers = append(p.writers, w)
		p.Go(w.run)
	}
	p.keepState()
	end.refuse = p.o.Refuse
	if life.Stop == StopEnd {
		p.Go(p.finish)
	}
	p.sim.trace("publisher %d begins epoch %d", p.index, p.t.Epoch)
	p.turn()
}

// finish ends the stream when everything is written, and the replies to requests have arrived. It is a task.
func (p *publisher) finish() {
	p.Wait(func() bool {
		for _, w := range p.writers {
			if w.left > 0 {
				return false
			}
		}
		return p.pendingReply() == nil
	})
	p.closing = true
	p.sim.trace("publisher %d ends at packet %d", p.index, p.t.next)
	if err := p.loop.Close(background); err != nil {
		p.sim.fail("publisher %d: closing: %v", p.index, err)
	}
	if n := p.t.unsent(); n > 0 {
		p.sim.fail("publisher %d: %d messages were written but never sent", p.index, n)
	}
	p.t.ended = true
	p.sim.at(0, func() { p.stop("is finished") })
}

// stop ends a life at once.
func (p *publisher) stop(how string) {
	p.sim.trace("publisher %d %s at packet %d", p.index, how, p.t.next)
	p.report()
	p.kill()
	p.pub = nil
	p.life++
	if p.life == len(p.o.Lives) {
		p.gone = true
		return
	}
	p.sim.at(p.o.Lives[p.life].After, p.beginLife)
}

// report adds the statistics of the life to the run's.
func (p *publisher) report() {
	p.pub.Look(func(s *reliable.Sender, m *topics.Sender) {
		p.sim.report.sender(stats.Sender{SenderPackets: s.Stats(), SenderMessages: m.Stats()})
	})
	signs := p.loop.Counts().Sign
	stats.Add(&p.sim.report.Proofs, &signs)
}

func (p *publisher) beginLife() {
	p.sim.beginSealing(p.index)
	p.begin()
	if l := p.o.Lives[p.life]; l.Stop == StopKill {
		life := p.life
		p.sim.at(l.For, func() {
			if p.alive() && p.life == life {
				p.t.killed = true
				p.stop("is killed")
			}
		})
	}
}

// checks checks the publisher after each turn.
func (p *publisher) checks() {
	p.checkReleased()
	p.checkEarly()
	p.checkHeld()
	p.checkFree()
	p.checkCounted()
}

// received records a packet that the loop reads.
func (p *publisher) received(b []byte, unicast bool, _ int) {
	if unicast {
		p.recordStatus(b)
	}
}

// transmit passes packets of t to the network.
func (p *publisher) transmit(by *sender, t *transport.Outbound, packets [][]byte) {
	if p.t.handedOut(p.sim.now, t); len(packets) == 0 {
		return
	}
	for i, sealed := range p.sim.seal(p.index, false, p.outbound(packets)...) {
		p.send(by, packets[i], sealed)
	}
	if data, repair := dataPacket(t.Data); data && !repair && p.o.EqualTrains && p.o.Compress == "" {
		for i, l := range t.Lens[:t.Count] {
			if l > t.Lens[0] || l < t.Lens[0] && i < t.Count-1 {
				p.sim.fail("publisher %d: packet %d of an equal train of %d has %d bytes", p.index, i, t.Count, t.Lens[i])
			}
		}
	}
}

// send passes a packet b to the network, which carries it sealed.
func (p *publisher) send(by *sender, b, sealed []byte) {
	s := p.sim
	data := wire.Type(b[3]) == wire.TypeData
	repair := false
	p.checkLimit(b)
	p.t.recordTrail(b)
	if data {
		var err error
		if repair, err = p.t.sent(s.now, b); err != nil {
			s.fail("publisher %d: %v", p.index, err)
		}
	}
	leaves, lost := p.end.send(b, sealed)
	by.holds(b, max(leaves, s.now.Add(p.o.Completion)))
	if s.o.Trace != nil {
		s.trace("publisher %d sends %v", p.index, describe{b})
	}
	if repair {
		s.report.after++
	} else if data {
		if p.t.messages { // not only an index round
			s.lastData = max(s.lastData, leaves)
			s.firstData, s.report.after = min(s.firstData, s.now), 0
			s.report.Sending = s.lastData.Sub(s.firstData)
		}
		p.t.lost = append(p.t.lost, lost)
		s.report.countLost(lost)
	}
}
