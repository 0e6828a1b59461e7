package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// ErrBackPressure says that a message cannot be taken now: a subscriber is
// behind, or the rate limit is reached. *BackPressureError says which.
var ErrBackPressure = errors.New("back pressure")

// BackPressureError is the typed result of TryPublish. It matches
// ErrBackPressure.
type BackPressureError struct{ Reason reliable.Reason }

func (e *BackPressureError) Error() string {
	return fmt.Sprintf("back pressure: %s holds the publisher up, try again later", e.Reason)
}

// Is makes errors.Is(err, ErrBackPressure) true.
func (e *BackPressureError) Is(target error) bool { return target == ErrBackPressure }

// Publication is this process's stream to one group, whatever the number of
// topics and publishers on it.
type Publication struct {
	l     *Loop
	group int
	tag   uint32
	size  int // bytes of the longest message that fits one packet

	mu       sync.Mutex
	s        *reliable.Sender // under mu, as all below
	w        *reliable.Writer
	tx       transport.Sender
	train    reliable.Train
	out      transport.Outbound
	mem      []byte
	opened   reliable.Instant // when the oldest unsealed message came in; 0: none
	count    uint             // messages since then
	lastSend reliable.Instant
	sendCost time.Duration // smoothed, of one send call
	busy     bool          // the transport took less than it was given
	large    bool          // somebody is in the middle of a large message
	progress uint64        // the sender's, when those on room were woken last
	waiting  int           // goroutines on room
	room     chan struct{} // closed, and made anew, when it may be worth trying again
	closed   bool
	sendErrs uint64
}

// Publication returns the stream to group, opening it at first use.
func (l *Loop) Publication(group int) (*Publication, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pubs[group]; p != nil {
		return p, nil
	}
	if l.closing {
		return nil, net.ErrClosed
	}
	cfg := l.cfg.Sender
	cfg.Publisher, cfg.Epoch = l.cfg.Publisher, l.cfg.Epoch
	cfg.GroupTag = reliable.GroupTag(l.t.GroupAddress(group))
	cfg.PacketSize = l.caps.PacketSize
	cfg.MaxTrain, cfg.MaxTrainBytes = l.caps.MaxTrain, l.caps.MaxTrainBytes
	cfg.EqualTrains, cfg.Checksum = l.caps.EqualTrains, !l.caps.Checked
	cfg.WindowPackets = floorPow2(max(32, l.cfg.WindowBytes/cfg.PacketSize))
	bytes := cfg.Blocks() * cfg.BlockBytes()
	mem, err := l.t.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("packet memory for a publication: %w", err)
	}
	s, err := reliable.NewSender(cfg, mem, l.now())
	if err != nil {
		l.t.Free(mem)
		return nil, err
	}
	tx, err := l.t.NewSender(group)
	if err != nil {
		l.t.Free(mem)
		return nil, fmt.Errorf("joining group %s as a sender: %w", l.t.GroupAddress(group), err)
	}
	p := &Publication{
		l: l, group: group, tag: cfg.GroupTag, size: s.MaxInPacket(),
		s: s, w: s.NewWriter(), tx: tx, mem: mem, sendCost: 5 * time.Microsecond,
		room: make(chan struct{}),
	}
	s.Grant(p.w)
	l.pubs[group] = p
	list := append(append([]*Publication(nil), l.publications()...), p)
	l.pubList.Store(&list)
	l.wakeBy(0)
	return p, nil
}

func floorPow2(n int) int {
	p := 1
	for p*2 <= n {
		p *= 2
	}
	return p
}

// Topic returns the publication's topic of that name.
func (p *Publication) Topic(name string) (*reliable.Topic, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Topic(name)
}

// Publish sends msg on topic t. It copies msg. With wait it waits for room as
// long as ctx allows; without, it returns a *BackPressureError.
func (p *Publication) Publish(ctx context.Context, t *reliable.Topic, msg []byte, wait bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.append(ctx, t, msg, wait); err != nil {
		return err
	}
	p.appended()
	return nil
}

// PublishBatch sends msgs on topic t in one go and returns how many it took.
func (p *Publication) PublishBatch(ctx context.Context, t *reliable.Topic, msgs [][]byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range msgs {
		if err := p.append(ctx, t, m, true); err != nil {
			return i, err
		}
		if p.opened == 0 {
			p.opened = p.l.now()
		}
	}
	p.appended()
	return len(msgs), nil
}

// append writes msg into the open packet. Under mu, which it may give up for a
// while to wait.
func (p *Publication) append(ctx context.Context, t *reliable.Topic, msg []byte, wait bool) error {
	if len(msg) > p.size {
		return p.appendLarge(ctx, t, msg, wait)
	}
	for p.closed || p.large || !p.w.Append(t, msg) {
		if err := p.makeRoom(ctx, wait, false); err != nil {
			return err
		}
	}
	return nil
}

// appendLarge writes msg as fragments in packets of their own. Other
// publishers wait until it is through: fragments are consecutive.
func (p *Publication) appendLarge(ctx context.Context, t *reliable.Topic, msg []byte, wait bool) error {
	if len(msg) > wire.MaxMessage {
		return fmt.Errorf("%w: %d bytes, the limit is %d", reliable.ErrMessageTooLarge, len(msg), wire.MaxMessage)
	}
	for p.closed || p.large {
		if err := p.makeRoom(ctx, wait, false); err != nil {
			return err
		}
	}
	if fragments := len(msg)/wire.MaxFragment(p.s.PacketSize()) + 1; !wait && p.s.Room() < uint64(fragments)+1 {
		return &BackPressureError{reliable.ReasonFlow}
	}
	p.large = true
	defer func() {
		p.large = false
		p.signal()
	}()
	for offset := 0; offset < len(msg); {
		next := p.w.AppendFragment(t, msg, offset)
		if next > offset {
			offset = next
			continue
		}
		if err := p.makeRoom(ctx, true, true); err != nil {
			p.s.Abandon(p.w)
			return err
		}
	}
	return nil
}

// appended decides when what was appended leaves: at once when messages come
// half a send's cost apart or more, otherwise with its train, which goes when
// it is full, on Flush, or FlushAfter after its first message.
//
// A publisher that is not busy thus sends each message from its own goroutine.
// One in a tight loop fills trains; for it even reading the clock is dear, so
// that is done at the first, second, fourth, eighth … message of a train only.
func (p *Publication) appended() {
	p.count++
	if p.count&(p.count-1) != 0 && !p.w.Full() {
		return
	}
	now := p.l.now()
	if p.w.Full() || now.Sub(p.lastSend)/time.Duration(p.count) > p.sendCost/2 && !p.busy {
		p.send(now, !p.w.Full())
		return
	}
	if p.opened == 0 {
		p.opened = now
		p.l.wakeBy(now.Add(p.l.cfg.FlushAfter))
	}
}

// send seals what it may, with all the open packet too, and transmits. Under
// mu.
func (p *Publication) send(now reliable.Instant, all bool) {
	p.s.Seal(now, p.w, all)
	p.transmit(now)
	p.s.Grant(p.w)
	p.count = 0
	switch {
	case !p.w.Pending():
		p.opened = 0
	case p.opened == 0:
		p.opened = now
	}
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
}

// transmit hands everything that is ready to the transport. Under mu.
func (p *Publication) transmit(now reliable.Instant) {
	p.s.Completed(p.tx.Completed())
	p.busy = false
	for p.s.Next(now, &p.train) {
		p.out = transport.Outbound{Data: p.train.Data, Stride: p.train.Stride, Count: p.train.Count, Lens: p.train.Lens}
		n, err := p.tx.Send(&p.out)
		p.s.Sent(now, n, p.tx.Completed())
		if n == p.out.Count {
			end := p.l.now()
			// Being preempted in between is no cost of sending.
			p.sendCost += (min(end.Sub(now), 2*p.sendCost) - p.sendCost) / 8
			p.lastSend, now = end, end
			continue
		}
		p.busy = true
		if !errors.Is(err, transport.ErrBusy) && !errors.Is(err, transport.ErrNotReady) {
			p.sendErrs++
			if p.sendErrs&(p.sendErrs-1) == 0 { // the 1st, 2nd, 4th, 8th …
				p.l.log.Warn("sending failed", "group", p.l.t.GroupAddress(p.group), "err", err, "times", p.sendErrs)
			}
		}
		return
	}
}

// busyRetry is how soon the loop tries again when the transport was busy.
const busyRetry = 50 * time.Microsecond

// deadline is when the loop must look at the publication again. Under mu.
func (p *Publication) deadline() reliable.Instant {
	d := p.s.Deadline()
	if p.opened != 0 && p.s.Blocked() != reliable.ReasonFlow && p.s.Blocked() != reliable.ReasonPace {
		d = min(d, p.opened.Add(p.l.cfg.FlushAfter))
	}
	if p.busy {
		d = min(d, p.lastSend.Add(busyRetry), p.l.now().Add(busyRetry))
	}
	return d
}

// makeRoom sends what can be sent and, if that gave no room, waits until it is
// worth trying again. mine says that the caller is the one in the middle of a
// large message. Under mu, which it gives up while it waits.
func (p *Publication) makeRoom(ctx context.Context, wait, mine bool) error {
	if p.closed {
		return net.ErrClosed
	}
	if !p.large || mine {
		p.send(p.l.now(), false)
		if !p.w.Full() {
			return nil
		}
	}
	if !wait {
		r := p.s.Blocked()
		if r == reliable.ReasonNone {
			r = reliable.ReasonOther
			if !p.large {
				r = reliable.ReasonMemory
			}
		}
		return &BackPressureError{r}
	}
	return p.wait(ctx)
}

// wait gives up mu until the loop sees a reason to try again.
func (p *Publication) wait(ctx context.Context) error {
	room := p.room
	p.waiting++
	p.mu.Unlock()
	var err error
	select {
	case <-room:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	p.waiting--
	if p.closed {
		return net.ErrClosed
	}
	return err
}

// signal wakes all who wait. Under mu.
func (p *Publication) signal() {
	if p.waiting > 0 {
		close(p.room)
		p.room = make(chan struct{})
	}
}

// handle takes in a NAK or status. Loop only.
func (p *Publication) handle(now reliable.Instant, b []byte) {
	p.mu.Lock()
	p.s.Handle(now, b)
	p.mu.Unlock()
}

// tick does what time and replies ask for, and returns when it wants to be
// called again. Loop only.
func (p *Publication) tick(now reliable.Instant) reliable.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return reliable.Never
	}
	if p.w.Pending() && (p.opened != 0 && now.Sub(p.opened) >= p.l.cfg.FlushAfter || p.s.Blocked() != reliable.ReasonNone || p.w.Full()) {
		p.s.Seal(now, p.w, !p.large)
		p.s.Grant(p.w)
		if !p.w.Pending() {
			p.opened, p.count = 0, 0
		}
	}
	p.transmit(now)
	p.s.Grant(p.w)
	if n := p.s.Progress(); n != p.progress {
		p.progress = n
		p.signal()
	}
	for _, id := range p.s.TakeReleased() {
		p.l.log.Warn("a subscriber fell silent and is not waited for any more", "receiver", fmt.Sprintf("%016x", id), "group", p.l.t.GroupAddress(p.group))
		p.l.event(Event{Kind: SubscriberSilent, Group: p.l.t.GroupAddress(p.group), Receiver: id})
	}
	return p.deadline()
}

// Flush sends everything published so far, waiting for room as long as ctx
// allows.
func (p *Publication) Flush(ctx context.Context) error {
	return p.until(ctx, func() bool { return !p.w.Pending() && !p.s.Unsent() && !p.large })
}

// Drain flushes and waits until all present subscribers have everything.
func (p *Publication) Drain(ctx context.Context) error {
	return p.until(ctx, func() bool {
		if p.w.Pending() || p.large {
			return false
		}
		p.s.Hurry(p.l.now())
		if due := p.deadline(); due != reliable.Never {
			p.l.wakeBy(due)
		}
		return p.s.Drained()
	})
}

// until sends and waits until the condition holds.
func (p *Publication) until(ctx context.Context, ok func() bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return net.ErrClosed
		}
		p.send(p.l.now(), !p.large)
		if ok() {
			return nil
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// Receivers is how many subscribers of topic are present: processes, not
// subscriptions. Topic zero counts all of the group.
func (p *Publication) Receivers(topic uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Receivers(topic)
}

// WaitReceivers waits until n subscribers of topic are present.
func (p *Publication) WaitReceivers(ctx context.Context, topic uint64, n int) error {
	return p.until(ctx, func() bool { return p.s.Receivers(topic) >= n })
}

// end begins the end of the stream and waits until subscribers have all.
func (p *Publication) end(ctx context.Context) error {
	if err := p.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.s.End(p.l.now())
	p.mu.Unlock()
	p.l.wakeBy(0)
	return p.Drain(ctx)
}

// kill ends the publication for everybody who uses it.
func (p *Publication) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.signal()
}

// free gives the packet memory back, once the transport has ended and reads it
// no more.
func (p *Publication) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l.t.Free(p.mem)
	p.mem = nil
}

// linger ends all publications in order.
func (l *Loop) linger(ctx context.Context, pubs []*Publication) error {
	errs := make(chan error, len(pubs))
	for _, p := range pubs {
		go func() { errs <- p.end(ctx) }()
	}
	var first error
	for range pubs {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	for _, p := range pubs {
		p.kill()
		p.tx.Close()
	}
	if first != nil && !errors.Is(first, net.ErrClosed) {
		return fmt.Errorf("closed before every subscriber had everything: %w", first)
	}
	return nil
}
