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

// hellos is where a bus's greeter meets clock, transport and the other goroutines.
// It says hello through a sender of its own for group 0, and listens there as a
// receiver while the greeter searches, unless the bus has joined the group anyway.
type hellos struct {
	l  *Loop
	g  *discovery.Greeter // loop only, as all down to news
	tx transport.Sender   // nil: none yet
	// mem holds one hello, which must not change until the transport has released it.
	mem       []byte
	taken     uint64           // packets that tx has taken
	retryAt   reliable.Instant // when to try again to become a sender, or to say that nothing can be sent
	from      string           // where the hello came from that is being handled; empty: see SourceAddress
	joined    bool             // group 0 was joined for a search
	closed    bool
	wanted    wire.TopicFilter // of all topics subscribed to, unless anew
	topics    int              // how many
	anew      bool             // they are others than in wanted
	detection detectionTimer

	news    atomic.Bool  // what follows has changed since the loop looked
	waiting atomic.Int64 // goroutines that wait for subscribers

	mu        sync.Mutex
	hurry     bool             // under mu, as all below: a goroutine begins to wait
	published []uint64         // ids of all topics published
	filter    wire.TopicFilter // of them
	answers   []keptHello      // read by publishers on their way
	apart     [16]apartBus     // the latest that cannot hear us
	cannot    uint64           // how many such reports have come in all
}

// keptHello is a hello until the loop gets to it.
type keptHello struct {
	b    [wire.HelloLen]byte
	from string
}

// apartBus is a bus that subscribes and cannot hear this one.
type apartBus struct {
	err    *events.ConfigMismatchError
	filter wire.TopicFilter // of what it subscribes to
}

const (
	// helloMemory is what a transport allocates at the least.
	helloMemory = 4096
	// keptHellos bounds answers that wait for the loop.
	keptHellos = 8
	// senderRetry is how long after a failure to become a sender it is tried again.
	senderRetry = time.Minute
)

func newHellos(l *Loop) *hellos {
	h := &hellos{l: l, anew: true}
	c := &l.caps
	h.g = discovery.New(discovery.Config{
		Publisher: l.cfg.Publisher, Epoch: l.cfg.Epoch, Name: l.cfg.Receiver.Name,
		GroupTag: wire.GroupTag(l.t.GroupAddress(0)), LegTags: l.inbox.legs.tags(0),
		Fabric: discovery.Fabric{
			Groups: c.Groups, Mapping: l.cfg.Mapping, PacketSize: c.PacketSize, MaxPacket: l.t.Capabilities().MaxPacket,
			Checksum: !c.Checked || c.PeersUnchecked, DemandChecksum: !c.Checked,
		},
		Rand: l.cfg.Receiver.Rand,
	}, h)
	return h
}

// publishes notes a topic that is published.
func (h *hellos) publishes(topic uint64) {
	h.mu.Lock()
	h.published = append(h.published, topic)
	h.filter.Add(topic)
	first := len(h.published) == 1
	h.mu.Unlock()
	if first {
		h.news.Store(true)
		h.l.wakeBy(0)
	}
}

// await records that a goroutine waits for subscribers, until done is called.
func (h *hellos) await() (done func()) {
	h.waiting.Add(1)
	h.mu.Lock()
	h.hurry = true
	h.mu.Unlock()
	h.news.Store(true)
	h.l.wakeBy(0)
	return func() { h.waiting.Add(-1) }
}

// apartSince is a bus that may subscribe to the topic and cannot hear this one, of
// those that said so after the first n; nil if there is none.
func (h *hellos) apartSince(n, topic uint64) *events.ConfigMismatchError {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := max(n, h.cannot-min(h.cannot, uint64(len(h.apart)))); i < h.cannot; i++ {
		if b := &h.apart[i%uint64(len(h.apart))]; b.filter.May(topic) {
			return b.err
		}
	}
	return nil
}

// apartSoFar is for apartSince.
func (h *hellos) apartSoFar() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cannot
}

// keep keeps an answer that a publisher has read for the loop. It reports whether b
// is one. Beyond a few they are dropped: they come again.
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

// What follows is the loop's.

// packet takes in a packet of group 0 that only a search has joined.
func (h *hellos) packet(now reliable.Instant, from transport.Source, b []byte) {
	if h.joined && isHello(b) {
		h.g.Hello(uint64(from), now, b)
	}
}

// reply takes in a packet by unicast. It reports whether it is a hello of a bus on the same addresses.
func (h *hellos) reply(now reliable.Instant, from transport.Source, b []byte) bool {
	if !isHello(b) || h.closed {
		return false
	}
	h.from = h.l.t.SourceAddress(from)
	defer func() { h.from = "" }()
	return h.g.Answer(uint64(from), now, b)
}

// wants notes that other topics are subscribed to than before.
func (h *hellos) wants(now reliable.Instant) {
	h.anew = true
	h.detection.at = 0
	h.g.Wants(now)
}

// tick does what is due, and returns when it wants to be called again.
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

// ends says the first hello, if it was not said yet: the bus ends.
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

// send says hello.
func (h *hellos) send(now reliable.Instant, b []byte) {
	if err := h.open(now); err != nil {
		h.g.Unsent(now)
		return
	}
	if h.tx.Completed() < h.taken {
		h.g.Unsent(now) // the last one is still under way
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

// open becomes a sender to group 0.
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

// failed logs that the bus cannot become a sender of hellos, or cannot send one. Data is not affected.
func (h *hellos) failed(now reliable.Instant, err error) {
	h.retryAt = now.Add(senderRetry)
	report.HelloFailed.Log(h.l.log, "group", h.l.t.GroupAddress(0), "err", err)
}

// listen joins and leaves group 0 as the search wants it, unless it is joined anyway.
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
		_, _ = h.l.leave(0) // it can only be closed
	}
}

// takeOver hands group 0 over to a subscription there.
func (h *hellos) takeOver() { h.joined = false }

// membership handles the result of a join, or of a sender, that only hellos want. It reports whether e is one.
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

// close ends it: the transport is about to be closed.
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

// free gives the memory back, once the transport has ended.
func (h *hellos) free() {
	if h.mem != nil {
		h.l.t.Free(h.mem)
		h.mem = nil
	}
}
