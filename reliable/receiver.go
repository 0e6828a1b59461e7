package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Receiver is the receiving side of one group: all streams that publishers send to it. Only one goroutine may use it.
type Receiver struct {
	cfg ReceiverConfig
	environment

	instances  instances
	list       []*Stream
	detached   []*Stream // streams that are over while their outputs still keep packets, the oldest first
	latest     *Stream   // stream of the last packet
	tombstones tombstones[events.Instance, formerStream]
	memory     int // bytes of all windows
	windows    int // streams with window memory, without detached ones
	interest
	counted counted
	async   bool // outputs of new streams will keep packets
	inHand

	historyLost  uint64    // packets sent before this receiver joined that are lost
	wake         wakeup    // nothing is due before
	stalledUntil upTime    // packets that arrived until then may be unread (NoteStall)
	turn         int       // index of the stream with which Next continues
	heldUp       []*Stream // streams that report that this receiver holds them up, or no longer does
	stats        stats.ReceiverPackets
	noticed
	leg  int         // leg of the packet that is being handled
	legs []legCounts // nil with one leg
}

// environment is what the owner of a Receiver provides.
type environment struct {
	sink    Sink
	peers   Sources
	control ReceiverControl
	clock   Clock // for times of deliveries
	runs    *Running
}

// inHand holds values of the call in progress, so that they are not allocated each time.
type inHand struct {
	scratch Event // the event being delivered
	status  wire.Status
}

// NewReceiver returns a receiver of one group. It fails if cfg is invalid.
func NewReceiver(cfg ReceiverConfig, sink Sink, peers Sources) (*Receiver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.LegTags = legTags(cfg.GroupTag, cfg.LegTags)
	r := &Receiver{
		cfg: cfg, interest: interest{name: []byte(cfg.Name), tag: []byte(cfg.Tag)},
		environment: environment{sink, peers, noReceiverControl{}, Clock{}, new(Running)},
		instances:   newInstances(), tombstones: formerStreams(), wake: wakeup{Never},
	}
	if n := len(cfg.LegTags); n > 1 {
		r.legs = make([]legCounts, n)
	}
	return r, nil
}

// SetAsync sets whether outputs of new streams will keep packets (Stream.Keep). New streams without memory for a window
// are then refused.
func (r *Receiver) SetAsync(async bool) { r.async = async }

// Streams returns the known streams, in no order. The slice belongs to r.
func (r *Receiver) Streams() []*Stream { return r.list }

// Memory is the size in bytes to which the windows of all streams may grow.
func (r *Receiver) Memory() int { return r.memory }

// MemoryUsed is the bytes that the windows of all streams have allocated.
func (r *Receiver) MemoryUsed() int {
	bytes := 0
	for _, st := range r.list {
		if st.win.slots != nil {
			bytes += st.win.slots.Memory()
		}
	}
	return bytes
}

// Stats returns the counters.
func (r *Receiver) Stats() stats.ReceiverPackets { return r.stats }

// Handle processes one packet of the group. from is its source, for Peers. A bad packet only changes a counter.
func (r *Receiver) Handle(now Instant, from uint64, b []byte) {
	if r.legs != nil && r.copied(now, b) {
		return
	}
	// Nearly all packets are new data of the same stream as the packet before. Packets with a checksum have a flag that
	// head lacks, and take the slow path.
	if st := r.latest; st != nil && st.plain.known && len(b) >= wire.DataHeaderLen && wire.Begins(b, &st.plain.head) {
		if d := (wire.Data{}); d.Parse(b) == nil && d.PacketSize == st.packetSize {
			st.takeData(now, b, &d, false)
			return
		}
	}
	h, ok := r.addressed(now, from, b)
	if !ok {
		return
	}
	switch h.Type {
	case wire.TypeData:
		r.data(now, from, &h, b)
	case wire.TypeHeartbeat:
		hb, err := wire.ParseHeartbeat(b)
		if err != nil {
			r.stats.Malformed++
			return
		}
		if d := r.cfg.Discovery; d != nil {
			d.Heartbeat(from, now, h, hb, r.cfg.LegTags)
		}
		if st := r.stream(now, from, &h, hb.PacketSize, extent{hb.Trail, hb.Lead}, hb.Name); st != nil {
			if hb.PacketSize != st.packetSize {
				st.malformed()
				return
			}
			if st.life.finished && h.Flags&wire.FlagEnd == 0 && st.clock.fresh(now, hb.SentAt) {
				r.revive(st)
				if st = r.stream(now, from, &h, hb.PacketSize, extent{hb.Trail, hb.Lead}, hb.Name); st == nil {
					return
				}
			}
			st.heartbeat(now, from, h.Flags, &hb)
		}
	case wire.TypeNCF, wire.TypeGone:
		n, err := wire.ParseRanges(b)
		if err != nil {
			r.stats.Malformed++
		} else if st := r.known(&h); st != nil {
			st.notice(now, h.Type, n)
		}
	default:
		if r.control.Handle(now, h.Instance(), b) != nil {
			r.stats.Malformed++
		} else {
			r.known(&h)
		}
	}
}

// known returns the stream that h names. If there is none it counts the packet as stale and returns nil.
func (r *Receiver) known(h *wire.Header) *Stream {
	st := r.instances.streams[h.Instance()]
	if st == nil {
		r.stats.Stale++
	}
	return st
}

// stream returns the stream that h names, and starts it if h's packet may do that: only heartbeats and first
// transmissions may (docs/protocol §4.1), and with FromWindow only heartbeats (§4.6). at and name are what the packet
// states of the publisher.
func (r *Receiver) stream(now Instant, from uint64, h *wire.Header, packetSize int, at extent, name []byte) *Stream {
	key := h.Instance()
	st := r.latest
	if st == nil || st.Instance != key {
		st = r.instances.streams[key]
	}
	if st != nil {
		r.latest = st
		return st
	}
	former, known := r.tombstones.find(key)
	if known && !former.evicted {
		r.stats.Stale++
		return nil
	}
	fetches := r.cfg.FromWindow && !known
	if h.Flags&(wire.FlagRepair|wire.FlagEnd) != 0 || fetches && h.Type != wire.TypeHeartbeat {
		return nil
	}
	if !r.admit(h.Publisher) {
		r.refuse(now, h, events.RefusedPublishers)
		return nil
	}
	peer, ok := r.peers.Retain(from)
	if !ok {
		r.refuse(now, h, events.RefusedPeers)
		return nil
	}
	start := at.lead
	if known {
		start = former.next // the stream was only evicted: the packets since then are missing, not unknown
	}
	st = newStream(r, h, packetSize, start, peer, now)
	st.life.continued = known
	if fetches {
		st.before(at)
	}
	st.origin.Store(&Origin{Instance: h.Instance(), Address: r.peers.Address(from)})
	st.named(name)
	if (r.async || r.cfg.Joins) && !st.window() {
		r.peers.Forget(peer)
		r.refuse(now, h, events.RefusedMemory)
		return nil
	}
	if st.Publisher == r.cfg.Own.Publisher && st.Instance != r.cfg.Own {
		r.stats.Namesakes++
	}
	if r.cfg.Joins && !known {
		st.win.join.phase = joinWaits
		st.stalled = true // packets in order wait, too
	}
	r.instances.add(st)
	r.list = append(r.list, st)
	r.counted.set(&r.cfg, true)
	st.report.share = r.cfg.Buffer.join(st.Publisher, r.cfg.GroupTag, st.high)
	r.latest = st
	r.stats.Streams++
	r.wake.by(now)
	st.out, st.contents = r.sink.Open(now, st)
	r.sink.StreamUp(st)
	if fetches {
		st.fetch(now, at.lead)
	}
	return st
}

// extent is the range of sequences, from trail up to lead, that a publisher can still repair.
type extent struct{ trail, lead uint64 }

// Tick ends a batch of Handle calls and processes timers. Losses are judged here, not packet by packet, so that
// reordering within a batch is no loss.
func (r *Receiver) Tick(now Instant) {
	for _, st := range r.list {
		st.report.share.note(now, !st.life.down, st.high)
	}
	for i := 0; i < len(r.list); {
		st := r.list[i]
		if st.tick(now) {
			r.remove(st)
			continue
		}
		if r.instances.expired(st, r.up(now)) {
			r.evict(st)
			continue
		}
		i++
	}
}

// Resume continues delivery to outputs that had no room and may have some now.
func (r *Receiver) Resume(now Instant) {
	for _, st := range r.list {
		if st.stalled {
			st.advance(now)
		}
	}
	r.wake.by(now)
}

// Next appends the next control packet, a NAK, one of the message layer or a status, to buf, and returns it with the
// peer to send it to. It reports false when there is none.
func (r *Receiver) Next(now Instant, buf []byte) (peer uint32, packet []byte, ok bool) {
	if r.wake.by(r.control.Deadline()); now < r.wake.at {
		return 0, nil, false
	}
	for range r.list {
		if r.turn >= len(r.list) {
			r.turn = 0
		}
		st := r.list[r.turn]
		if p := st.appendNAK(now, buf); p != nil {
			return st.path.to(st.nak.again), p, true
		}
		if p, again := st.appendControl(now, buf); p != nil {
			return st.path.to(again), p, true
		}
		if p := st.appendStatus(now, buf); p != nil {
			return st.path.to(st.report.sent%2 == 0), p, true
		}
		r.turn++
	}
	r.wake.at = r.deadline()
	return 0, nil, false
}

// Deadline is when Tick or Next is due next, unless a packet arrives or the owner calls another method before.
func (r *Receiver) Deadline() Instant {
	r.wake.by(r.deadline())
	return r.wake.at
}

// wakeup is when a Receiver may have something to send. Deadlines of its streams lower it; Next raises it.
type wakeup struct{ at Instant }

func (w *wakeup) by(at Instant) { w.at = min(w.at, at) }

func (r *Receiver) deadline() Instant {
	d := r.control.Deadline()
	for _, st := range r.list {
		d = min(d, st.deadline())
	}
	return d
}

// Close ends all streams. Next then returns the leaving statuses.
func (r *Receiver) Close(now Instant) {
	for _, st := range r.list {
		st.report.leaving = true
		st.report.by(now)
	}
}

// Free releases all memory. No output may keep packets.
func (r *Receiver) Free() {
	for len(r.list) > 0 {
		r.remove(r.list[0])
	}
	r.counted.set(&r.cfg, false)
}
