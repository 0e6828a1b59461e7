package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// outbox is the train that Next returned last, and the memory that the transport still reads.
type outbox struct {
	kind  trainKind
	count int
	block *block
	lens  [maxBlockPackets]uint16
	seqs  [maxBlockPackets]uint64 // of repairs

	control int // index in the train of the first packet of the message layer

	posted uint64  // packets handed to the transport in total
	done   uint64  // of these, packets with memory that it has released
	stuck  Instant // since when the transport has taken nothing; 0: it took some of the last train
	stages [stageBlocks]stage
	ctl    control
}

// down reports whether the transport has taken nothing for longer than a busy one may.
func (x *outbox) down(now Instant) bool { return x.stuck != 0 && now.Sub(x.stuck) > mostLate }

type trainKind uint8

const (
	trainNone trainKind = iota
	trainControl
	trainRepair
	trainData
)

// stage is a block for copies of packets to be repaired, and for control packets. It is free when the transport has
// released it.
type stage struct {
	block *block
}

func (x *outbox) freeStage() *stage {
	for i := range x.stages {
		if st := &x.stages[i]; st.block.post <= x.done {
			return st
		}
	}
	return nil
}

// Next fills t with the next train to transmit: control packets that are due, otherwise repairs within their budget,
// otherwise new data in order. It reports false if there is nothing to send now. Call Sent with the result before the
// next call.
func (s *Sender) Next(now Instant, t *transport.Outbound) bool {
	s.out.kind = trainNone
	return s.controlTrain(now, t) || s.repairTrain(now, t) || s.dataTrain(now, t)
}

// Sent reports that the transport took the first n packets of the last train. completed counts all packets that it took
// so far and has released. Next returns data and repairs that it did not take once more; other control
// packets are built anew when they are due; the message layer makes its own due again.
func (s *Sender) Sent(now Instant, n int, completed uint64) {
	o := &s.out
	s.out.posted += uint64(n)
	if n > 0 {
		o.stuck = 0
	} else if o.stuck == 0 {
		o.stuck = max(now, 1)
	}
	s.out.done = completed
	if n > 0 && o.block != nil {
		o.block.post = s.out.posted
	}
	switch o.kind {
	case trainControl:
		s.stats.ControlSent += uint64(n)
		s.stats.ControlUnsent += uint64(o.count - n)
		if n == 0 && o.count > 0 { // a heartbeat that was not sent asks no member
			s.members.unsent = true
			s.RepliesLost()
		}
		s.control.Sent(now, max(0, n-o.control))
	case trainRepair:
		for _, seq := range o.seqs[:n] {
			e := s.win.at(seq)
			e.repairedAt, e.lead = max(now, 1), s.win.sent
		}
		for _, seq := range o.seqs[n:o.count] {
			s.repairs.again(&s.win, seq)
		}
		s.stats.RepairsSent += uint64(n)
		if n > 0 {
			s.cfg.Sink.Sent(SentTrain{Repair: true, First: o.seqs[0], Packets: n, Bytes: o.bytes(n)})
		}
	case trainData:
		first, bytes := s.win.sent, o.bytes(n)
		s.win.sent += uint64(n)
		s.stats.PacketsSent += uint64(n)
		s.stats.BytesSent += uint64(bytes)
		s.repairs.accrue(now, bytes)
		if n > 0 {
			s.heartbeat.data(now)
			s.cfg.Sink.Sent(SentTrain{First: first, Packets: n, Bytes: bytes})
		}
	}
	o.kind, o.block = trainNone, nil
}

// bytes is the size of the first n packets of the train.
func (o *outbox) bytes(n int) (bytes int) {
	for _, l := range o.lens[:n] {
		bytes += int(l)
	}
	return bytes
}

// Unsent reports whether assigned packets wait to be transmitted.
func (s *Sender) Unsent() bool { return s.win.sent < s.win.next }

// Completed reports how many packets the transport has released, outside of Sent.
func (s *Sender) Completed(completed uint64) { s.out.done = max(s.out.done, completed) }

// ready reports whether new packets may be transmitted now, and the transport takes packets.
func (s *Sender) ready() bool { return s.out.stuck == 0 && s.win.sent < min(s.win.next, s.flow.limit) }

// dataTrain collects packets that are consecutive in sequence and in memory. Packets assigned before a member joined
// may be beyond its limit: they wait, too.
func (s *Sender) dataTrain(now Instant, t *transport.Outbound) bool {
	end := min(s.win.next, s.flow.limit)
	if held := s.win.sent >= end && s.win.sent < s.win.next; held != s.flow.held {
		if s.flow.held = held; held {
			s.heartbeat.probe(now, s.rtt.value())
			s.updateStall(now)
		}
	}
	if s.win.sent >= end {
		return false
	}
	equal := s.cfg.equal()
	first := s.win.at(s.win.sent)
	stride := s.cfg.slot(int(first.size))
	n, off := 0, first.off
	for seq := s.win.sent; seq < end && n < s.blocks.perTrain; seq++ {
		e := s.win.at(seq)
		if e.block != first.block || e.off != off {
			break
		}
		if equal && e.size > first.size {
			break
		}
		s.out.lens[n] = e.size
		n++
		off += uint32(stride)
		if equal && e.size < first.size {
			break // a shorter packet ends an equal train
		}
	}
	s.timer.leaves(s.win.sent, n)
	b := s.blocks.all[first.block]
	*t = transport.Outbound{Data: b.mem[first.off : off-uint32(stride)+uint32(s.out.lens[n-1])],
		Stride: stride, Count: n, Lens: s.out.lens[:n]}
	s.out.kind, s.out.count, s.out.block = trainData, n, b
	return true
}

// repairTrain copies queued repairs, in the order of turns, into a stage.
func (s *Sender) repairTrain(now Instant, t *transport.Outbound) bool {
	if s.repairs.count == 0 {
		return false
	}
	st := s.out.freeStage()
	if st == nil || !st.block.renew(s.cfg.Renew) {
		return false
	}
	n, stride := 0, s.cfg.PacketSize
	for n < s.blocks.perBlock {
		seq, ok := s.repairs.take(s, now)
		if !ok {
			break
		}
		e := s.win.at(seq)
		p := st.block.mem[n*stride:][:e.size]
		copy(p, s.blocks.packet(e))
		wire.SetFlags(p, wire.Flags(p[4])|wire.FlagRepair)
		s.out.lens[n], s.out.seqs[n] = e.size, seq
		n++ // the transport divides packets of different sizes into several trains
	}
	if n == 0 {
		return false
	}
	*t = transport.Outbound{Data: st.block.mem[:(n-1)*stride+int(s.out.lens[n-1])], Stride: stride,
		Count: n, Lens: s.out.lens[:n]}
	s.out.kind, s.out.count, s.out.block = trainRepair, n, st.block
	return true
}

// control collects control packets in a stage.
type control struct {
	s     *Sender
	st    *stage
	count int
}

func (c *control) full() bool { return c.st == nil || c.count >= c.s.blocks.perBlock }

// begin returns an empty buffer for a packet.
func (c *control) begin() []byte {
	stride := c.s.cfg.PacketSize
	return c.st.block.mem[c.count*stride : c.count*stride : (c.count+1)*stride]
}

// end adds packet p, which was built in begin's buffer.
func (c *control) end(p []byte) {
	if c.s.cfg.Checksum {
		wire.SetChecksum(p)
	}
	c.s.out.lens[c.count] = uint16(len(p))
	c.count++
}

// controlTrain builds the control packets that are due.
func (s *Sender) controlTrain(now Instant, t *transport.Outbound) bool {
	if !s.repairs.notice(now) && now < s.heartbeat.due && now < s.control.Deadline() {
		return false
	}
	st := s.out.freeStage()
	if st == nil || !st.block.renew(s.cfg.Renew) {
		return false
	}
	c := &s.out.ctl
	*c = control{s: s, st: st}
	if s.stall.next != nil {
		s.appendHeartbeat(now, c) // before the notice that it explains
	}
	s.repairs.appendNotices(s, now, c)
	s.appendHeartbeat(now, c)
	for s.out.control = c.count; !c.full(); {
		p := s.control.Append(now, s.header, c.begin())
		if p == nil {
			break
		}
		c.end(p)
	}
	if c.count == 0 {
		return false
	}
	stride := s.cfg.PacketSize
	*t = transport.Outbound{Data: st.block.mem[:(c.count-1)*stride+int(s.out.lens[c.count-1])],
		Stride: stride, Count: c.count, Lens: s.out.lens[:c.count]}
	s.out.kind, s.out.count, s.out.block = trainControl, c.count, st.block
	return true
}
