package engine

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Publication is this process's stream to one group, for any number of topics and publishers.
type Publication struct {
	l           *Loop
	group       int
	tag         uint32
	size        int    // longest message that is appended whole, in bytes
	passed      int    // loop only: ticks in a row that found mu locked
	selfDriven  bool   // loop only: as of the last tick, publishers do what is due themselves
	repliesLost uint64 // loop only: inbox.repliesLost, as of the last tick

	mu      sync.Mutex
	s       *reliable.Sender // under mu, as all fields below
	m       *topics.Sender
	open    open // published and not numbered yet
	life    lifecycle
	out     outlet
	memory  packetMemory
	waiters waiters
	since   reliable.Instant // when it was opened
	stalls  stalls
	states  states
	sent    reliable.Instant // end of the last send of new data
}

// outgoing has the publications of a bus, and what they share.
type outgoing struct {
	byGroup   map[int]*Publication // under Loop.mu
	list      atomic.Pointer[[]*Publication]
	departure *departure
	windows   *windowMemory
	repliesAt atomic.Int64 // when a publisher last read replies, which come to one address for all groups
}

func newOutgoing(t transport.Transport, cfg *Config, c clock) outgoing {
	d := newDeparture(cfg.FlushAfter, cfg.Signer != nil, c)
	return outgoing{byGroup: make(map[int]*Publication), departure: d, windows: newWindowMemory(t, cfg.WindowsBytes)}
}

// add adds a group's publication. Under Loop.mu.
func (o *outgoing) add(group int, p *Publication) {
	o.byGroup[group] = p
	list := append(slices.Clone(o.publications()), p)
	o.list.Store(&list)
}

// publications returns the opened publications. The slice never changes.
func (o *outgoing) publications() []*Publication {
	if list := o.list.Load(); list != nil {
		return *list
	}
	return nil
}

// Publication returns the stream to group. It opens the stream at first use, and joins the group again after a failure.
func (l *Loop) Publication(group int) (*Publication, error) {
	p, err := l.publication(group)
	if err != nil {
		return nil, err
	}
	return p, p.rejoin()
}

// known returns the publication of a group, or nil. It waits for one that is being opened: its group may
// be joined already.
func (l *Loop) known(group int) *Publication {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byGroup[group]
}

func (l *Loop) publication(group int) (*Publication, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shutdown.dead {
		return nil, l.closedError()
	}
	if l.shutdown.begun {
		return nil, net.ErrClosed
	}
	if p := l.byGroup[group]; p != nil {
		return p, nil
	}
	cfg := l.cfg.Sender
	cfg.Publisher, cfg.Epoch = l.cfg.Publisher, l.cfg.Epoch
	cfg.GroupTag, cfg.LegTags = wire.GroupTag(l.t.GroupAddress(group)), l.inbox.legs.tags(group)
	cfg.PacketSize, cfg.Groups, cfg.Mapping = l.caps.PacketSize, l.caps.Groups, l.cfg.Mapping
	cfg.MaxTrain, cfg.MaxTrainBytes = l.caps.MaxTrain, l.caps.MaxTrainBytes
	cfg.EqualTrains, cfg.Checksum = l.caps.EqualTrains, !l.caps.Checked || l.caps.PeersUnchecked
	cfg.WindowPackets = floorPow2(max(32, l.cfg.WindowBytes/cfg.PacketSize))
	sink := &senderSink{l, group}
	encoder := topics.NewEncoder(l.cfg.Compression.Packer, cfg.PacketSize)
	cfg.Sink, cfg.Packed = sink, encoder != nil
	cfg.Renew = l.windows.renew
	mem, err := l.windows.alloc(cfg.LeastBlocks(), cfg.BlockBytes())
	if err != nil {
		return nil, fmt.Errorf("packet memory for a publication: %w", err)
	}
	s, err := reliable.NewSender(cfg, mem, l.now())
	if err != nil {
		l.t.Free(mem)
		return nil, err
	}
	s.SetClock(l.cfg.Clock)
	tx, err := l.newSender(group)
	if err != nil {
		l.t.Free(mem)
		return nil, fmt.Errorf("joining group %s as a sender: %w", l.t.GroupAddress(group), err)
	}
	m := topics.NewSender(s, encoder, sink)
	m.Forget(l.cfg.TopicRuns)
	p := &Publication{
		l: l, group: group, tag: cfg.GroupTag, size: m.MaxInBlock(),
		s: s, m: m, open: open{w: m.NewWriter()},
		memory: packetMemory{block: cfg.BlockBytes(), own: [][]byte{mem}}, waiters: newWaiters(),
		since: l.now(),
	}
	s.Grant(p.open.w.Packets)
	p.out.use(tx)
	p.out.onReply, p.out.address = p.reply, p.out.replyAddress
	l.outgoing.add(group, p)
	l.wakeBy(0)
	return p, nil
}

// unjoined closes the publication until the next call needs it: its group cannot be joined.
func (p *Publication) unjoined(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.fail(err)
	p.interrupt()
}

// rejoin joins the group of a publication again after a failure.
func (p *Publication) rejoin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.life.reopens() {
		return nil // if it is closed, publishing returns the error
	}
	p.out.tx.Close()
	tx, err := p.l.newSender(p.group)
	if err != nil {
		return fmt.Errorf("joining group %s as a sender: %w", p.l.t.GroupAddress(p.group), err)
	}
	p.out.use(tx)
	p.life.reopen()
	p.l.wakeBy(0)
	return nil
}

func floorPow2(n int) int {
	p := 1
	for p*2 <= n {
		p *= 2
	}
	return p
}

// Topic returns the publication's topic named name. Each call needs a Release.
func (p *Publication) Topic(name string) (*topics.Topic, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.m.Topics()
	t, err := p.m.Topic(name)
	if p.m.Topics() > before {
		p.l.hellos.publishes(t.ID)
	}
	return t, err
}

// Release ends one use of a topic, once the messages that are written now have sequences, in a later call.
func (p *Publication) Release(t *topics.Topic) {
	p.enter()
	defer p.leave()
	o := &p.open
	o.released = append(o.released, releasedTopic{t, o.w.Begun()})
	for len(o.released) > 0 && o.w.Packets.Assigned() >= o.released[0].begun {
		p.m.Release(o.released[0].t)
		o.released = o.released[1:]
	}
}

// Append is Publish for a message that need only be copied into the open packet, as nearly all. It returns false,
// without effect, if Publish has more to do. It takes no context, which would have to be saved across the copy.
func (p *Publication) Append(t *topics.Topic, msg []byte) bool {
	left := p.open.gate.enter()
	if left == 0 {
		return false
	}
	w := p.open.w
	if w.Goes(t) && w.Tail.Append(msg) || w.Append(t, msg) {
		p.open.gate.leave(left - 1)
		return true
	}
	p.open.gate.leave(left)
	return false
}

// Publish publishes a copy of msg on topic t. With wait it waits for room until ctx ends; without, it returns a
// *BackPressureError.
func (p *Publication) Publish(ctx context.Context, t *topics.Topic, msg []byte, wait bool) error {
	if p.Append(t, msg) {
		return nil
	}
	if err := p.live(ctx); err != nil {
		return err
	}
	return p.publish(ctx, t, msg, wait)
}

// enter locks mu and takes the open packets. leave undoes both. It is deferred, because calls in between may be user
// code that panics: a context, a Logger, a Trace, a KeyProvider.
func (p *Publication) enter() {
	p.mu.Lock()
	p.open.take()
}

func (p *Publication) leave() {
	p.giveOpen()
	p.mu.Unlock()
}

// publish is Publish with the publication's lock: it appends msg and decides whether to send it.
func (p *Publication) publish(ctx context.Context, t *topics.Topic, msg []byte, wait bool) error {
	p.enter()
	defer p.leave()
	if err := p.append(ctx, t, msg, wait); err != nil {
		return err
	}
	p.open.count++
	p.look()
	return nil
}

// giveOpen undoes open.take.
func (p *Publication) giveOpen() { p.open.give(p.life.shut()) }

// PublishBatch publishes msgs on topic t in order, a block at a time. It returns how many it published.
func (p *Publication) PublishBatch(ctx context.Context, t *topics.Topic, msgs [][]byte) (int, error) {
	for done := 0; done < len(msgs); {
		if err := p.live(ctx); err != nil {
			return done, err
		}
		n, err := p.publishSome(ctx, t, msgs[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(msgs), nil
}

// publishSome publishes the first of msgs, and those after it that the block has room for. It returns their number.
func (p *Publication) publishSome(ctx context.Context, t *topics.Topic, msgs [][]byte) (int, error) {
	p.enter()
	defer p.leave()
	n, err := p.appendAll(ctx, t, msgs)
	if err != nil {
		return 0, err
	}
	p.open.count += uint64(n)
	p.look()
	return n, nil
}

// appendAll appends as many of msgs as the block has room for, at least one. Under mu, which it may release to wait.
func (p *Publication) appendAll(ctx context.Context, t *topics.Topic, msgs [][]byte) (int, error) {
	if !p.life.shut() && !p.open.large {
		if n := p.open.w.AppendAll(t, msgs); n > 0 {
			return n, nil
		}
	}
	if err := p.append(ctx, t, msgs[0], true); err != nil {
		return 0, err
	}
	return 1, nil
}

// append writes msg into the open packet. Under mu, which it may release to wait.
func (p *Publication) append(ctx context.Context, t *topics.Topic, msg []byte, wait bool) error {
	for p.life.shut() || p.open.large || !p.open.w.Append(t, msg) {
		if len(msg) > p.size {
			return p.appendLarge(ctx, t, msg, wait, nil)
		}
		if err := p.makeRoom(ctx, wait, false); err != nil {
			return err
		}
	}
	return nil
}

// appendLarge writes msg as fragments, in as many blocks as needed. Fragments are consecutive, so other publishers wait
// until the last one is written. If r is not nil, msg is that request.
func (p *Publication) appendLarge(ctx context.Context, t *topics.Topic, msg []byte, wait bool,
	r *topics.Request) error {
	if len(msg) > wire.MaxMessage {
		return fmt.Errorf("%w: %d bytes, the limit is %d", topics.ErrMessageTooLarge, len(msg), wire.MaxMessage)
	}
	for p.life.shut() || p.open.large {
		if err := p.makeRoom(ctx, wait, false); err != nil {
			return err
		}
	}
	// Without wait the message begins only if there is room for all of it, or nothing in flight to wait for: then it is
	// larger than the window.
	if !wait {
		need := uint64(len(msg)/wire.MaxFragment(p.s.PacketSize())) + 2 + p.open.w.Begun() - p.open.w.Packets.Assigned()
		for p.s.Room() < need && p.s.Larger() && p.grow() {
		}
		switch {
		case p.m.Busy(p.open.w):
			return p.backPressure(events.ReasonOther)
		case p.s.Room() < need && (p.open.w.Pending() || !p.s.Drained()):
			return p.backPressure(events.ReasonFlow)
		}
	}
	p.open.large = true
	offset := 0
	defer func() {
		if offset < len(msg) { // ctx has ended or panicked
			p.m.Abandon(p.open.w)
		}
		p.open.large = false
		p.l.wakeBy(p.deadline()) // others have waited for the end of the message
		p.waiters.signal()
	}()
	for offset < len(msg) {
		next := p.m.WriteFragment(p.open.w, t, msg, offset, r)
		if next > offset {
			offset = next
			continue
		}
		if err := p.makeRoom(ctx, true, true); err != nil {
			return err
		}
	}
	return nil
}
