package engine

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/discovery"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// hellos connects a bus's greeter with clock, transport and the other goroutines. It sends hellos to group 0 through a
// sender of its own. While the greeter searches it receives group 0, unless the bus has joined the group anyway.
type hellos struct {
	l  *Loop
	g  *discovery.Greeter // loop only, as all fields up to news
	tx transport.Sender   // nil: not open
	// mem holds one hello. It must not change until the transport has released it.
	mem         []byte
	taken       uint64           // packets that tx has accepted
	retryAt     reliable.Instant // when to open tx again, or to log again that a hello cannot be sent
	from        string           // source address of the hello that is handled; empty: see SourceAddress
	joined      bool             // group 0 is joined for a search only
	closed      bool
	wanted      wire.TopicFilter // filter of all subscribed topics, unless wantedStale
	topics      int              // number of topics in wanted
	wantedStale bool             // subscriptions have changed since wanted was made
	detection   detectionTimer

	news    atomic.Bool  // the fields below have changed since the loop read them
	waiting atomic.Int64 // goroutines that wait for subscribers

	mu               sync.Mutex
	hurry            bool                // under mu, as all below: a goroutine has begun to wait
	published        map[uint64]struct{} // ids of all topics published
	filter           wire.TopicFilter    // filter of published, and of topics forgotten since it was made
	forgotten        int                 // number of these
	answers          []keptHello         // read by publishers, for the loop
	unreachable      [16]unreachableBus  // the latest buses that cannot receive this one
	unreachableCount uint64              // number of such reports so far
}

// keptHello is a hello that waits for the loop.
type keptHello struct {
	b    [wire.HelloLen]byte
	from string
}

// unreachableBus is a subscribing bus that cannot receive this one.
type unreachableBus struct {
	err    *events.ConfigMismatchError
	filter wire.TopicFilter // of its subscribed topics
}

const (
	// helloMemory is the least that a transport allocates, in bytes.
	helloMemory = 4096
	// keptHellos bounds the answers that wait for the loop.
	keptHellos = 8
	// senderRetry is the time between attempts to become a sender.
	senderRetry = time.Minute
)

func newHellos(l *Loop) *hellos {
	h := &hellos{l: l, wantedStale: true}
	c := &l.caps
	h.g = discovery.New(discovery.Config{
		Self: l.cfg.Instance, Name: l.cfg.Receiver.Name,
		GroupTag: wire.GroupTag(l.t.GroupAddress(0)), LegTags: l.inbox.legs.tags(0),
		Fabric: discovery.Fabric{
			Groups: c.Groups, Mapping: l.cfg.Mapping, PacketSize: c.PacketSize, MaxPacket: l.t.Capabilities().MaxPacket,
			Checksum: !c.Checked || c.PeersUnchecked, DemandChecksum: !c.Checked,
		},
		Rand: l.cfg.Receiver.Rand,
	}, h)
	return h
}

// publishes adds a published topic.
func (h *hellos) publishes(topic uint64) {
	h.mu.Lock()
	if h.published == nil {
		h.published = make(map[uint64]struct{})
	}
	h.published[topic] = struct{}{}
	h.filter.Add(topic)
	first := len(h.published) == 1
	h.mu.Unlock()
	if first {
		h.news.Store(true)
		h.l.wakeBy(0)
	}
}

// forgets removes a topic that is not published any more.
func (h *hellos) forgets(topic uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.published, topic)
	if h.forgotten++; h.forgotten <= len(h.published) {
		return
	}
	h.forgotten, h.filter = 0, wire.TopicFilter{}
	for id := range h.published {
		h.filter.Add(id)
	}
}

// await records that a goroutine waits for subscribers until done is called.
func (h *hellos) await() (done func()) {
	h.waiting.Add(1)
	h.mu.Lock()
	h.hurry = true
	h.mu.Unlock()
	h.news.Store(true)
	h.l.wakeBy(0)
	return func() { h.waiting.Add(-1) }
}

// unreachableSince returns a bus that may subscribe to the topic and cannot receive this one, if its report came after
// the first n; nil if there is none.
func (h *hellos) unreachableSince(n, topic uint64) *events.ConfigMismatchError {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := max(n, h.unreachableCount-min(h.unreachableCount, uint64(len(h.unreachable)))); i < h.unreachableCount; i++ {
		if b := &h.unreachable[i%uint64(len(h.unreachable))]; b.filter.May(topic) {
			return b.err
		}
	}
	return nil
}

// unreachableSoFar returns the number of reports so far, for unreachableSince.
func (h *hellos) unreachableSoFar() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unreachableCount
}

// keep stores an answer that a publisher has read, for the loop. It reports whether b is a hello. Beyond keptHellos
// answers are dropped, because other buses repeat them.
func (h *hellos) keep(b []byte, from transport.ReplyReader) bool {
	if !isHello(b) {
		return false
	}
	h.mu.Lock()
	if len(h.answers) < keptHellos && len(b) >= wire.HelloLen {
		h.answers = append(h.answers, keptHello{[wire.HelloLen]byte(b), from.ReplyAddress()})
	}
	h.mu.Unlock()
	h.news.Store(true)
	h.l.wakeBy(0)
	return true
}

// isHello reports whether b is most likely a hello, of any version.
func isHello(b []byte) bool {
	_, h, err := wire.ParseKept(b)
	return err == nil && h.Type == wire.TypeHello
}

// The functions below are loop only.

// packet handles a packet of group 0, if only a search has joined it.
func (h *hellos) packet(now reliable.Instant, from transport.Source, b []byte) {
	if h.joined && isHello(b) {
		h.g.Hello(uint64(from), now, b)
	}
}

// reply handles a unicast packet. It reports whether the packet is a hello of a bus on the same addresses.
func (h *hellos) reply(now reliable.Instant, from transport.Source, b []byte) bool {
	if !isHello(b) || h.closed {
		return false
	}
	h.from = h.l.t.SourceAddress(from)
	defer func() { h.from = "" }()
	return h.g.Answer(uint64(from), now, b)
}

// wants records that the subscribed topics have changed.
func (h *hellos) wants(now reliable.Instant) {
	h.wantedStale = true
	h.detection.at = 0
	h.g.Wants(now)
}

// tick does what is due, and returns when to call it again.
func (h *hellos) tick(now reliable.Instant) reliable.Instant {
	if h.news.Load() {
		h.takeNews(now)
	}
	if h.closed {
		return reliable.Never
	}
	if due := h.g.Deadline(); now < due {
		return due
	}
	h.g.Tick(now)
	h.listen()
	for {
		peer, b, ok := h.g.Next(now, h.l.ctl[:0])
		switch {
		case !ok:
			return max(h.g.Deadline(), now+1)
		case peer == 0:
			h.send(now, b)
		default:
			h.l.replyTo(peer, b)
		}
	}
}

// ends sends the first hello, if none was sent yet: the bus ends.
func (h *hellos) ends(now reliable.Instant) {
	h.mu.Lock()
	any := len(h.published) > 0
	h.mu.Unlock()
	if any {
		h.g.Ends(now)
		h.tick(now)
	}
}

func (h *hellos) takeNews(now reliable.Instant) {
	h.news.Store(false)
	h.detection.at = 0
	h.mu.Lock()
	hurry, any, kept := h.hurry, len(h.published) > 0, h.answers
	h.hurry, h.answers = false, nil
	h.mu.Unlock()
	switch {
	case h.closed:
		return
	case hurry && any:
		h.g.Hurry(now)
	case any:
		h.g.Publishes(now)
	}
	for i := range kept {
		h.from = kept[i].from
		if !h.g.Answer(discovery.NoSource, now, kept[i].b[:]) {
			h.l.counters.foreignReplies.Add(1)
		}
	}
	h.from = ""
}

func (h *hellos) send(now reliable.Instant, b []byte) {
	if err := h.open(now); err != nil {
		h.g.Unsent(now)
		return
	}
	if h.tx.Completed() < h.taken {
		h.g.Unsent(now) // the transport still has the last one
		return
	}
	n := copy(h.mem, b)
	sent, err := h.tx.Send(&transport.Outbound{Data: h.mem[:n], Stride: n, Count: 1, Lens: []uint16{uint16(n)}})
	h.taken += uint64(sent)
	if err == nil {
		return
	}
	h.g.Unsent(now)
	if now >= h.retryAt && !errors.Is(err, transport.ErrBusy) && !errors.Is(err, transport.ErrNotReady) &&
		!errors.Is(err, net.ErrClosed) {
		h.failed(now, err)
	}
}

var errLater = errors.New("not yet")

// open opens tx, a sender to group 0.
func (h *hellos) open(now reliable.Instant) (err error) {
	if h.tx != nil {
		return nil
	}
	if now < h.retryAt {
		return errLater
	}
	if h.mem == nil {
		if h.mem, err = h.l.t.Alloc(helloMemory); err != nil {
			h.failed(now, err)
			return err
		}
	}
	if h.tx, err = h.l.newSender(0); err != nil {
		h.tx = nil
		h.failed(now, err)
	}
	return err
}

// failed logs that hellos cannot be sent. Data is not affected.
func (h *hellos) failed(now reliable.Instant, err error) {
	h.retryAt = now.Add(senderRetry)
	report.HelloFailed.Log(h.l.log, "group", h.l.t.GroupAddress(0), "err", err)
}

// listen joins group 0 while the greeter searches, and leaves it afterwards, unless a subscription uses it.
func (h *hellos) listen() {
	search := h.g.Searching() && h.l.groups[0] == nil
	switch {
	case search == h.joined:
	case search:
		if err := h.l.join(0); err != nil {
			report.SearchFailed.Log(h.l.log, "err", err)
			return
		}
		h.joined = true
	default:
		h.joined = false
		_, _ = h.l.leave(0) // fails only if the transport is closed
	}
}

// takeOver hands the membership of group 0 to a subscription.
func (h *hellos) takeOver() { h.joined = false }

// membership handles an event of a membership in group 0 that only hellos use. It reports whether e is one.
func (h *hellos) membership(e *transport.Event) bool {
	if e.Group != 0 {
		return false
	}
	if e.Role == transport.RoleReceiver {
		if h.l.groups[0] != nil {
			return false
		}
		if e.State == transport.Failed {
			h.joined = false
			report.SearchFailed.Log(h.l.log, "group", h.l.t.GroupAddress(0), "err", e.Err)
		}
		return true
	}
	for _, p := range h.l.publications() {
		if p.group == 0 {
			return false
		}
	}
	if e.State == transport.Failed && h.tx != nil {
		h.tx.Close()
		h.tx, h.taken = nil, 0
		h.failed(h.l.now(), e.Err)
	}
	return true
}

// close stops the hellos: the transport is about to be closed.
func (h *hellos) close() {
	if h.closed {
		return
	}
	h.closed = true
	h.g.Close()
	if h.tx != nil {
		h.tx.Close()
	}
}

// free frees the memory after the transport has been closed.
func (h *hellos) free() {
	if h.mem != nil {
		h.l.t.Free(h.mem)
		h.mem = nil
	}
}
