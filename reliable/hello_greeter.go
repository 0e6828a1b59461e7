package reliable

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// GreeterConfig describes a bus to its Greeter.
type GreeterConfig struct {
	Publisher, Epoch uint64
	// Name of the bus, for people; cut off at wire.MaxName bytes.
	Name string
	// GroupTag is group 0's, LegTags its tags on each leg where it has several.
	GroupTag uint32
	LegTags  []uint32
	Fabric   Fabric
	Rand     *rand.Rand // spreads hellos
}

// Neighbours tells a Greeter of its bus, when it has to know.
type Neighbours interface {
	Peers
	// Published is how many topics the bus publishes, and a filter of them;
	// Subscribed is the same of those it subscribes to.
	Published() (topics int, filter wire.TopicFilter)
	Subscribed() (topics int, filter wire.TopicFilter)
	// Relevant reports whether a topic of the filter may be among those that the bus
	// publishes, or, if not published, subscribes to.
	Relevant(filter *wire.TopicFilter, published bool) bool
	// Waits reports whether somebody waits for subscribers.
	Waits() bool
	// PublisherMissing reports whether a topic subscribed to has no publisher that is heard.
	PublisherMissing() bool
	// Mismatch tells of a bus that is configured differently, once. from is where it
	// was heard, or NoSource. relevant: it may publish a topic that this bus subscribes
	// to, or may itself subscribe to one.
	Mismatch(err *ConfigMismatchError, from uint64, relevant bool)
	// Unheard tells that a bus which may subscribe to the topics of filter cannot hear
	// this one: each time that it says so.
	Unheard(err *ConfigMismatchError, filter *wire.TopicFilter)
}

// NoSource stands for a source that is not known any more.
const NoSource = ^uint64(0)

// Greeter is a bus's part in hellos: it says them, reads those of others, answers
// those of buses that its own cannot hear, and tells who is configured differently
// (docs/protocol.md §14). One goroutine uses it.
type Greeter struct {
	cfg     GreeterConfig
	own     wire.Settings
	bus     Neighbours
	hello   helloSchedule
	search  search
	told    told
	legs    told // of buses on other legs
	answers answers
	due     Instant
	stats   GreeterStats
}

// GreeterStats counts what a Greeter did.
type GreeterStats struct {
	Sent, Heard, Answered uint64 // hellos; heard are those of other buses
	Searches              uint64
	Mismatches            uint64 // buses told of
}

// NewGreeter returns a bus's greeter.
func NewGreeter(cfg GreeterConfig, bus Neighbours) *Greeter {
	cfg.Name = cfg.Name[:min(len(cfg.Name), wire.MaxName)]
	cfg.LegTags = legTags(cfg.GroupTag, cfg.LegTags)
	cfg.Fabric.legs = len(cfg.LegTags)
	return &Greeter{
		cfg: cfg, own: cfg.Fabric.settings(), bus: bus,
		hello: helloSchedule{due: Never, legs: len(cfg.LegTags)}, search: search{due: Never}, due: Never,
	}
}

// Stats returns the counters.
func (g *Greeter) Stats() GreeterStats { return g.stats }

// Publishes notes that the bus has something to say hello for.
func (g *Greeter) Publishes(now Instant) {
	g.hello.begin(now)
	g.due = min(g.due, g.hello.due)
}

// Hurry makes a hello due: somebody begins to wait for subscribers.
func (g *Greeter) Hurry(now Instant) {
	g.hello.hurry(now)
	g.due = min(g.due, g.hello.due)
}

// Ends makes the first hello due, of a bus that ends before it was: who cannot hear it would
// never know. docs/protocol.md §14.2.
func (g *Greeter) Ends(now Instant) {
	if g.hello.said == 0 {
		g.hello.on, g.hello.due = true, now
		g.due = min(g.due, now)
	}
}

// Wants notes that the bus subscribes to something else than before.
func (g *Greeter) Wants(now Instant) {
	g.search.begin(now)
	g.due = min(g.due, g.search.due)
}

// Searching reports whether the bus is to listen to hellos in group 0.
func (g *Greeter) Searching() bool { return g.search.on }

// Deadline is when Tick or Next have something to do.
func (g *Greeter) Deadline() Instant { return g.due }

// Tick carries on what time brings. Next follows.
func (g *Greeter) Tick(now Instant) {
	if now < g.due {
		return
	}
	was := g.search.on
	g.search.tick(now, g.bus.PublisherMissing)
	if g.search.on && !was {
		g.stats.Searches++
	}
	g.answers.expire(now, g.bus)
}

// Next appends the next hello to send to buf, and returns it with the peer it
// answers, or zero if it goes to group 0. It reports false when there is none.
func (g *Greeter) Next(now Instant, buf []byte) (peer uint32, packet []byte, ok bool) {
	if a := g.answers.take(); a != nil {
		topics, filter := g.bus.Subscribed()
		g.stats.Answered++
		return a.peer, g.appendHello(buf, a.tag, &wire.Hello{Topics: uint32(topics), Filter: filter, Answer: true}), true
	}
	if leg, ok := g.hello.take(now, g.cfg.Rand); ok {
		if topics, filter := g.bus.Published(); topics > 0 {
			g.stats.Sent++
			return 0, g.appendHello(buf, g.cfg.LegTags[leg], &wire.Hello{Topics: uint32(topics), Filter: filter, Waits: g.bus.Waits()}), true
		}
	}
	g.due = min(g.hello.due, g.search.due, g.answers.deadline())
	return 0, nil, false
}

// Unsent tells that the last hello to group 0 could not be sent.
func (g *Greeter) Unsent(now Instant) {
	g.stats.Sent--
	g.hello.retry(now)
	g.due = min(g.due, g.hello.due)
}

func (g *Greeter) appendHello(buf []byte, tag uint32, x *wire.Hello) []byte {
	x.Settings, x.PacketSize, x.Name = g.own, g.cfg.Fabric.PacketSize, []byte(g.cfg.Name)
	b := wire.AppendHello(buf, wire.Header{GroupTag: tag, Publisher: g.cfg.Publisher, Epoch: g.cfg.Epoch}, x)
	if g.cfg.Fabric.Checksum {
		wire.SetChecksum(b)
	}
	return b
}

// Heartbeat takes in what a heartbeat says of its publisher's bus, and of its legs.
func (g *Greeter) Heartbeat(from uint64, now Instant, h *wire.Header, hb *wire.Heartbeat, legs theirLegs) {
	if own := len(g.cfg.LegTags); legs.shared < max(own, legs.all) {
		g.tell(now, from, h, &g.legs, theirs{version: wire.Version, settings: g.own, legs: legs}, hb.Name, nil, false)
	}
	if hb.Settings == g.own && hb.PacketSize == g.cfg.Fabric.PacketSize {
		return
	}
	t := theirs{version: wire.Version, settings: hb.Settings, packetSize: hb.PacketSize}
	g.tell(now, from, h, &g.told, t, hb.Name, nil, false)
}

// WithoutChecksum takes in a packet that was refused because it carries no checksum. Only a
// heartbeat or hello that says itself that its stream has none is taken for more than
// damaged.
func (g *Greeter) WithoutChecksum(from uint64, now Instant, h *wire.Header, b []byte) {
	t := theirs{version: wire.Version, noChecksum: true}
	var name []byte
	switch h.Type {
	case wire.TypeHeartbeat:
		hb, err := wire.ParseHeartbeat(b)
		if err != nil {
			return
		}
		t.settings, t.packetSize, name = hb.Settings, hb.PacketSize, hb.Name
	case wire.TypeHello:
		x, err := wire.ParseHello(b)
		if err != nil {
			return
		}
		t.settings, t.packetSize, name = x.Settings, x.PacketSize, x.Name
	default:
		return
	}
	if t.settings.Checksum == wire.ChecksumNone {
		g.tell(now, from, h, &g.told, t, name, nil, false)
	}
}

// OtherVersion takes in a packet of another version, in a group with one of those tags. It
// reports whether it is one.
func (g *Greeter) OtherVersion(from uint64, now Instant, tags []uint32, b []byte) bool {
	return g.otherVersion(from, now, tags, b, false)
}

func (g *Greeter) otherVersion(from uint64, now Instant, tags []uint32, b []byte, unicast bool) bool {
	version, h, err := wire.ParseKept(b)
	if err != nil || version == wire.Version || !slices.Contains(tags, h.GroupTag) {
		return false
	}
	if h.Type == wire.TypeHello {
		if x, err := wire.ParseHello(b); err == nil {
			if x.Answer == unicast {
				g.heard(now, from, &h, &x, theirs{version: version})
			}
			return x.Answer == unicast
		}
	}
	g.tell(now, from, &h, &g.told, theirs{version: version}, nil, nil, false)
	return true
}

// Hello takes in a packet from group 0 that may be a hello. It reports whether it is one,
// of a bus on the same addresses. Answers do not come from a group: one packet there would
// speak to everybody. docs/protocol.md §14.9.
func (g *Greeter) Hello(from uint64, now Instant, b []byte) bool {
	return g.take(from, now, b, false)
}

// Answer is Hello for a packet that came by unicast: only answers do.
func (g *Greeter) Answer(from uint64, now Instant, b []byte) bool {
	return g.take(from, now, b, true)
}

func (g *Greeter) take(from uint64, now Instant, b []byte, unicast bool) bool {
	h, err := wire.ParseHeader(b)
	switch {
	case err == wire.ErrVersion:
		return g.otherVersion(from, now, g.cfg.LegTags, b, unicast)
	case err != nil || h.Type != wire.TypeHello || !slices.Contains(g.cfg.LegTags, h.GroupTag):
		return false
	}
	x, err := wire.ParseHello(b)
	if err != nil || x.Answer != unicast {
		return false
	}
	noChecksum := h.Flags&wire.FlagChecksum == 0 && g.cfg.Fabric.DemandChecksum
	if noChecksum && x.Checksum != wire.ChecksumNone || wire.Verify(b, false) != nil {
		return false // damaged
	}
	g.heard(now, from, &h, &x, theirs{version: wire.Version, settings: x.Settings, packetSize: x.PacketSize, noChecksum: noChecksum})
	return true
}

// heard takes in a hello.
func (g *Greeter) heard(now Instant, from uint64, h *wire.Header, x *wire.Hello, t theirs) {
	if h.Publisher == g.cfg.Publisher && h.Epoch == g.cfg.Epoch {
		return
	}
	g.stats.Heard++
	if t.version == wire.Version && !t.noChecksum && t.settings == g.own && t.packetSize == g.cfg.Fabric.PacketSize {
		return
	}
	g.tell(now, from, h, &g.told, t, x.Name, &x.Filter, x.Answer)
	list := g.cfg.Fabric.differences(&t)
	if harmless(list) {
		return
	}
	if x.Answer {
		g.bus.Unheard(mismatch(h, x.Name, list), &x.Filter)
		return
	}
	if topics, _ := g.bus.Subscribed(); topics > 0 && from != NoSource {
		g.answers.ask(now, h, from, x.Waits, g.bus)
		g.due = min(g.due, now)
	}
}

// tell tells of a bus that is configured differently, once, as once remembers. filter is of the topics
// that it publishes, or subscribes to if it answers; nil if that is not known.
func (g *Greeter) tell(now Instant, from uint64, h *wire.Header, once *told, t theirs, name []byte, filter *wire.TopicFilter, answer bool) {
	if once.already(h.Publisher, h.Epoch, t) {
		return
	}
	list := g.cfg.Fabric.differences(&t)
	if len(list) == 0 || !once.fresh(now, h.Publisher, h.Epoch, t) {
		return
	}
	g.stats.Mismatches++
	g.bus.Mismatch(mismatch(h, name, list), from, filter != nil && g.bus.Relevant(filter, answer))
}

func mismatch(h *wire.Header, name []byte, list []Difference) *ConfigMismatchError {
	return &ConfigMismatchError{Publisher: h.Publisher, Epoch: h.Epoch, Name: wire.CleanName(name), Differences: list}
}

// helloSchedule decides when a bus says hello (docs/protocol.md §14.2).
type helloSchedule struct {
	due  Instant
	last Instant
	said int
	on   bool
	legs int // how many have a hello of their own each time
	leg  int // the next of them
}

const (
	// helloEvery is the distance between hellos, spread by a tenth, and helloSoon the
	// least.
	helloEvery = time.Second
	helloSoon  = 100 * time.Millisecond
)

// helloFirst is when the first hellos go, after the first publication.
var helloFirst = [...]time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

func (s *helloSchedule) begin(now Instant) {
	if !s.on {
		s.on, s.due = true, now.Add(helloFirst[0])
	}
}

// hurry makes a hello due, as soon as may be.
func (s *helloSchedule) hurry(now Instant) {
	s.begin(now)
	if s.said > 0 {
		s.due = min(s.due, max(now, s.last.Add(helloSoon)))
	}
}

// retry comes back soon.
func (s *helloSchedule) retry(now Instant) {
	if soon := now.Add(helloSoon); s.due <= now || s.due > soon {
		s.due = soon
	}
	s.leg = (s.leg + s.legs - 1) % s.legs // the same once more
}

// take reports whether one is to be said at now, and with the tag of which leg.
func (s *helloSchedule) take(now Instant, rnd *rand.Rand) (leg int, ok bool) {
	if !s.on || now < s.due {
		return 0, false
	}
	leg, s.last = s.leg, now
	if s.leg++; s.leg < s.legs {
		return leg, true // the others follow at once
	}
	s.leg = 0
	s.said++
	if s.said < len(helloFirst) {
		s.due = now.Add(helloFirst[s.said] - helloFirst[s.said-1])
	} else {
		s.due = now.Add(helloEvery*9/10 + time.Duration(rnd.Int64N(int64(helloEvery/5))))
	}
	return leg, true
}

// Close forgets all peers.
func (g *Greeter) Close() { g.answers.release(g.bus) }
