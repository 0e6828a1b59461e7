package sim

import (
	"bytes"
	"cmp"
	"math/bits"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// publisher is one publishing process, with all its lives.
type publisher struct {
	node
	o       *Publisher
	id      events.ID
	life    int // index of the current life, or of the next one
	s       *reliable.Sender
	t       *truth
	topics  []*reliable.Topic
	writers []*writer
	mem     []byte
	spare   [][]byte // blocks of mem that the window does not use
	train   transport.Outbound

	ending bool
	gone   bool // the last life has ended

	heldSince    reliable.Instant // since then no new packet was sent
	heldAt       uint64           // next new packet at that time
	released     int              // number of members that are released
	requests     *topics.Requests
	openRequests []*openRequest
	state        stateRound

	// The send queue.
	egress    []outgoing
	free      reliable.Instant // when the last packet has been sent
	posted    uint64
	completed uint64
	stuck     bool
}

// outgoing is a packet in memory that the network still uses.
type outgoing struct {
	src  []byte
	copy *packet
	done reliable.Instant
}

func (p *publisher) alive() bool { return p.s != nil }

// instance is the publisher in one of its lives.
func (p *publisher) instance(life int) events.Instance {
	return events.Instance{Publisher: p.id, Epoch: events.ID(cmp.Or(p.o.Lives[life].Epoch, uint64(10+life)))}
}

// grow gives the window another block when it requests one, or takes one back, like an owner of
// memory shared by many streams.
func (p *publisher) grow() {
	n := len(p.spare)
	switch {
	case n > 0 && p.s.Wants() && !p.sim.net.draw(p.o.Refuse):
		p.s.AddMemory(p.spare[n-1])
		p.spare = p.spare[:n-1]
	case p.sim.net.draw(p.o.Refuse):
		if !p.sim.net.draw(p.o.Refuse) { // less often than blocks are added
			return
		}
		if b := p.s.GiveBack(); b != nil {
			p.spare = append(p.spare, b)
		}
	}
}

func (p *publisher) config() reliable.SenderConfig {
	o, of := p.o, p.instance(p.life)
	c := reliable.SenderConfig{
		Publisher: of.Publisher, Epoch: of.Epoch, GroupTag: groupTag, LegTags: p.sim.legTags(), PacketSize: o.PacketSize,
		MaxTrain: o.MaxTrain, MaxTrainBytes: cmp.Or(o.Full,
			o.MaxTrain) * o.PacketSize, EqualTrains: o.EqualTrains, Pad: o.Pad,
		Checksum: p.sim.o.Checksum, WindowPackets: o.Window, Rate: o.Rate, StallLimit: o.StallLimit, Slow: o.Slow,
		Silence:     cmp.Or(o.Silence, defaultSilence),
		RepairShare: float64(cmp.Or(o.Repairs, defaultShare)) / float64(Always),
	}
	switch {
	case o.Flow == FlowNone:
		c.Flow = reliable.NoFlow{}
	case o.Flow == FlowQuorum && o.Quorum == 1:
		c.Flow = reliable.MaxFlow{}
	case o.Flow == FlowQuorum:
		c.Flow = reliable.QuorumFlow{N: o.Quorum}
	default:
		c.Flow = reliable.MinFlow{}
	}
	c.Encoder = topics.NewEncoder(o.packer(p.sim.o.Content), c.PacketSize)
	if o.Tagged {
		c.Flow = reliable.TaggedFlow{Tag: tag, Of: c.Flow}
	}
	return c
}

// begin starts a life.
func (p *publisher) begin() {
	c := p.config()
	writers := p.o.Writers
	if p.o.State > 0 {
		writers++
	}
	need := c.BlockBytes() * (c.Blocks() + 2*(writers-1))
	if len(p.mem) < need {
		p.mem = p.sim.arena.get(need)
	}
	minimum := c.BlockBytes() * (c.LeastBlocks() + 2*(writers-1))
	p.spare = p.spare[:0]
	for at := minimum; at < need; at += c.BlockBytes() {
		p.spare = append(p.spare, p.mem[at:at+c.BlockBytes()])
	}
	s, err := reliable.NewSender(c, p.mem[:minimum], p.now())
	if err != nil {
		p.sim.fail("publisher %d: %v", p.index, err)
		return
	}
	p.s, p.ending, p.openRequests = s, false, nil
	p.requests = topics.NewRequests(s.Roster(), c.PacketSize, p.acceptReply)
	s.SetControl(p.requests)
	s.SetClock(p.sim.clock())
	p.posted, p.completed, p.egress, p.stuck = 0, 0, p.egress[:0], false
	p.t = p.sim.newTruth(p.instance(p.life), p.o)
	p.sim.truths = append(p.sim.truths, p.t)
	p.topics = p.topics[:0]
	for _, name := range topicNames[:p.o.Topics] {
		t, err := s.Topic(name)
		if err != nil {
			p.sim.fail("publisher %d: %v", p.index, err)
			return
		}
		p.topics = append(p.topics, t)
	}
	p.writers = p.writers[:0]
	life := &p.o.Lives[p.life]
	for i := range p.o.Writers {
		w := &writer{p: p, index: i, w: s.NewWriter(), left: life.Messages}
		p.writers = append(p.writers, w)
		w.schedule(p.sim.net.upTo(p.o.Gap))
	}
	p.beginState()
	p.sim.trace("publisher %d begins epoch %d", p.index, c.Epoch)
	p.pump()
}

// end ends a life at once.
func (p *publisher) end(how string) {
	p.sim.trace("publisher %d %s at packet %d", p.index, how, p.t.next)
	p.sim.report.sender(p.s.Stats())
	p.sim.report.sender(stats.Sender{SenderMessages: p.requests.Stats()})
	p.s = nil
	for _, o := range p.egress {
		p.sim.pool.drop(o.copy)
	}
	p.egress = p.egress[:0]
	p.deadline = reliable.Never
	p.life++
	if p.life == len(p.o.Lives) {
		p.gone = true
		return
	}
	p.sim.at(p.o.Lives[p.life].After, p.beginLife)
}

func (p *publisher) beginLife() {
	p.sim.beginSealing(p.index)
	p.begin()
	if l := p.o.Lives[p.life]; l.Stop == StopKill {
		life := p.life
		p.sim.at(l.For, func() {
			if p.alive() && p.life == life {
				p.t.killed = true
				p.end("is killed")
			}
		})
	}
}

// handle processes a unicast packet.
func (p *publisher) handle(b []byte) {
	if p.s == nil {
		return
	}
	p.recordStatus(b)
	p.s.Handle(p.now(), b, nil)
	p.takeEvents() // a released subscriber may count again
	p.checkCounted()
	p.pump()
}

// pump writes, sends and sleeps.
func (p *publisher) pump() {
	now := p.now()
	p.s.Runs(now)
	p.complete()
	p.s.Completed(p.completed)
	p.takeReplies()
	for again := true; again && p.sim.err == nil; {
		again = false
		for _, w := range p.writers {
			if w.run(now) {
				again = true
			}
		}
		p.updateState(now)
		p.writeIndex(now)
		p.stuck = false
		for p.s.Next(now, &p.train) {
			p.takeEvents() // Next may have released subscribers
			n := p.transmit(&p.train)
			p.complete()
			p.s.Sent(now, n, p.completed)
			if n < p.train.Count {
				p.stuck = true
				break
			}
			again = again || n > 0
		}
	}
	if t, ok := p.s.TakeTrailing(now); ok {
		p.sim.report.trailing = append(p.sim.report.trailing, t)
	}
	p.checkHeld()
	p.checkFree()
	p.finish(now)
	if p.s != nil {
		p.rest()
	}
}

// finish ends the stream when everything is written.
func (p *publisher) finish(now reliable.Instant) {
	for _, w := range p.writers {
		if w.left > 0 || w.begun || w.w.Pending() {
			return
		}
	}
	life := p.o.Lives[p.life]
	if p.s.Unsent() || life.Stop != StopEnd {
		return
	}
	if p.pendingReply() != nil && !p.ending {
		return
	}
	if n := p.t.unsent(); n > 0 {
		p.sim.fail("publisher %d: %d messages were written but never sent", p.index, n)
	}
	if w := p.writers[0]; !p.ending && (!p.s.CloseIndex(w.w) || w.w.Pending()) {
		w.flush = true
		p.s.Assign(now, w.w, true)
		p.grow()
		p.s.Grant(w.w)
		p.sim.at(time.Microsecond, p.pump)
		return
	}
	if !p.ending {
		p.ending = true
		p.sim.trace("publisher %d ends at packet %d", p.index, p.t.next)
		p.s.End(now)
		p.pump()
		return
	}
	if p.s.Drained() {
		p.t.ended = true
		p.end("is finished")
	}
}

// writeIndex continues an index round that is due.
func (p *publisher) writeIndex(now reliable.Instant) {
	for w := p.writers[0]; !p.ending && !w.midMessage() && now >= p.s.IndexDue(); {
		p.s.WriteIndex(now, w.w)
		w.flush = p.s.Assign(now, w.w, true) != events.ReasonNone
		p.grow()
		p.s.Grant(w.w)
	}
}

// rest sleeps until the next action.
func (p *publisher) rest() {
	d := p.s.Deadline()
	if p.stuck {
		d = reliable.Never // data cannot be sent before packets have left the queue
	}
	if n := len(p.egress); n > 0 {
		i := n / 2
		if p.stuck {
			i = 0
		}
		d = min(d, p.egress[i].done+p.offset)
	}
	if x := &p.state; x.s != nil && !p.ending {
		if x.again != 0 {
			d = min(d, x.again)
		} else {
			d = min(d, x.s.Due())
		}
	}
	for _, w := range p.writers {
		if w.flushAt != 0 {
			d = min(d, w.flushAt)
		}
	}
	if !p.ending && !p.writers[0].midMessage() {
		d = min(d, p.s.IndexDue())
	}
	p.s.Rests(d)
	p.sleep(d)
}

// transmit passes packets of t to the network as far as there is room, and returns their number.
func (p *publisher) transmit(t *transport.Outbound) int {
	n := t.Count
	if room := p.sim.o.Net.Egress; room > 0 {
		n = min(n, max(0, room-len(p.egress)))
	}
	if t.Count > 1 && len(t.Data) > t.Stride*t.Count {
		p.sim.fail("publisher %d: train of %d packets of %d bytes has %d bytes", p.index, t.Count, t.Stride, len(t.Data))
	}
	p.t.handedOut(p.sim.now, t)
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = t.Data[i*t.Stride:][:t.Lens[i]]
	}
	if n > 0 {
		for i, b := range p.sim.seal(p.index, false, p.outbound(packets)...) {
			p.send(packets[i], b)
		}
	}
	if p.o.EqualTrains && p.o.Compress == "" && wire.Type(t.Data[3]) == wire.TypeData && wire.Flags(t.Data[4])&wire.FlagRepair == 0 {
		for i, l := range t.Lens[:t.Count] {
			if l > t.Lens[0] || l < t.Lens[0] && i < t.Count-1 {
				p.sim.fail("publisher %d: packet %d of an equal train of %d has %d bytes", p.index, i, t.Count, t.Lens[i])
			}
		}
	}
	return n
}

// send passes a packet b to the network, which carries it sealed.
func (p *publisher) send(b, sealed []byte) {
	s := p.sim
	p.posted++
	p.free = max(p.free, s.now)
	if bw := s.o.Net.Bandwidth; bw > 0 {
		p.free += reliable.Instant((int64(len(b)) + s.o.Net.Overhead) * 1e9 / bw)
	}
	done := max(p.free, s.now.Add(p.o.Completion))
	if done > s.now {
		p.egress = append(p.egress, outgoing{src: b, copy: s.pool.get(b, 0), done: done})
	} else {
		p.completed++
	}
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
	lost := s.multicast(p.free, int(p.index), sealed)
	if s.o.Trace != nil {
		s.trace("publisher %d sends %v", p.index, describe{b})
	}
	if repair {
		s.report.after++
	} else if data {
		s.lastData = max(s.lastData, p.free)
		s.firstData, s.report.after = min(s.firstData, s.now), 0
		s.report.Sending = s.lastData.Sub(s.firstData)
		if p.t.lost = append(p.t.lost, lost); lost > 0 {
			s.report.LostPackets++
			s.report.LostCopies += uint64(bits.OnesCount64(lost))
		}
	}
}

// complete releases the memory of packets that have left the queue. Their content must be unchanged.
func (p *publisher) complete() {
	n := 0
	for n < len(p.egress) && p.egress[n].done <= p.sim.now {
		o := p.egress[n]
		if !bytes.Equal(o.src, o.copy.b) {
			p.sim.fail("publisher %d: a packet changed while the network was sending it", p.index)
		}
		p.sim.pool.drop(o.copy)
		n++
	}
	if n > 0 {
		p.completed += uint64(n)
		p.egress = append(p.egress[:0], p.egress[n:]...)
	}
}
