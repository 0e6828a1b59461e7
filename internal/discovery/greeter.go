package discovery

import (
	"math/rand/v2"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Config describes a bus to its Greeter.
type Config struct {
	Self events.Instance // this bus as a publisher
	// Name of the bus, for reports; truncated to wire.MaxName bytes.
	Name string
	// GroupTag is the tag of group 0. LegTags has its tags on each leg, if the bus has several.
	GroupTag uint32
	LegTags  []uint32
	Fabric   Fabric
	Rand     *rand.Rand // for the jitter of hellos
}

// Bus has the methods of a bus that its Greeter calls.
type Bus interface {
	reliable.Peers
	// Published returns the number of topics that the bus publishes and a filter of them; Subscribed the same for topics
	// that it subscribes to.
	Published() (topics int, filter wire.TopicFilter)
	Subscribed() (topics int, filter wire.TopicFilter)
	// Relevant reports whether the filter may contain a topic that the bus publishes, or, if not published, subscribes to.
	Relevant(filter *wire.TopicFilter, published bool) bool
	// Waits reports whether a goroutine waits for subscribers.
	Waits() bool
	// PublisherMissing reports whether there is a subscribed topic of which no publisher was detected.
	PublisherMissing() bool
	// Mismatch reports a bus that is configured differently, once. from is the source of its packet, or NoSource.
	// relevant: it may publish a topic that this bus subscribes to, or may subscribe to one that this bus publishes.
	Mismatch(err *events.ConfigMismatchError, from uint64, relevant bool)
	// Unreachable reports, for each answer, a bus that may subscribe to the topics of filter but cannot receive this bus's
	// packets.
	Unreachable(err *events.ConfigMismatchError, filter *wire.TopicFilter)
}

// NoSource means that the source is no longer known.
const NoSource = ^uint64(0)

// Greeter handles the hellos of a bus: it sends them, receives those of other buses, answers buses from which its own
// cannot receive, and reports buses that are configured differently. Only one goroutine may use it.
type Greeter struct {
	cfg     Config
	own     wire.Settings
	bus     Bus
	hello   helloSchedule
	search  search
	reports reports
	legs    reports // reports of buses with other legs
	answers answers
	due     reliable.Instant
	stats   Stats
}

// Stats are counters of a Greeter.
type Stats struct {
	Sent, Heard, Answered uint64 // hellos; Heard are those of other buses
	Searches              uint64
	Mismatches            uint64 // reported buses
}

// New returns the greeter of a bus.
func New(cfg Config, bus Bus) *Greeter {
	cfg.Name = cfg.Name[:min(len(cfg.Name), wire.MaxName)]
	if len(cfg.LegTags) == 0 {
		cfg.LegTags = []uint32{cfg.GroupTag}
	}
	cfg.Fabric.legs = len(cfg.LegTags)
	return &Greeter{
		cfg: cfg, own: cfg.Fabric.settings(), bus: bus, due: reliable.Never,
		hello: helloSchedule{due: reliable.Never, legs: len(cfg.LegTags)}, search: search{due: reliable.Never},
	}
}

// Stats returns the counters.
func (g *Greeter) Stats() Stats { return g.stats }

// Publishes starts hellos when the bus publishes a topic.
func (g *Greeter) Publishes(now reliable.Instant) {
	g.hello.begin(now)
	g.due = min(g.due, g.hello.due)
}

// Hurry makes a hello due when a goroutine begins to wait for subscribers.
func (g *Greeter) Hurry(now reliable.Instant) {
	g.hello.hurry(now)
	g.due = min(g.due, g.hello.due)
}

// Ends makes the first hello due if the bus ends before it was sent: otherwise buses that do not receive its packets
// would never detect it. docs/protocol §14.2.
func (g *Greeter) Ends(now reliable.Instant) {
	g.hello.end(now)
	g.due = min(g.due, g.hello.due)
}

// Wants restarts the search when the bus subscribes to new topics.
func (g *Greeter) Wants(now reliable.Instant) {
	g.search.begin(now)
	g.due = min(g.due, g.search.due)
}

// Searching reports whether the bus must receive hellos in group 0.
func (g *Greeter) Searching() bool { return g.search.on }

// Deadline returns the time at which Tick or Next must be called.
func (g *Greeter) Deadline() reliable.Instant { return g.due }

// Tick does what is due, except sending, for which Next is called.
func (g *Greeter) Tick(now reliable.Instant) {
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

// Next appends the next hello to buf, and returns it with the peer to which it is an answer, or zero if it is for group
// 0. It returns false if there is none.
func (g *Greeter) Next(now reliable.Instant, buf []byte) (peer uint32, packet []byte, ok bool) {
	if a := g.answers.next(); a != nil {
		topics, filter := g.bus.Subscribed()
		g.stats.Answered++
		return a.peer, g.appendHello(buf, a.tag, &wire.Hello{Topics: uint32(topics), Filter: filter, Answer: true}), true
	}
	if leg, ok := g.hello.next(now, g.cfg.Rand); ok {
		if topics, filter := g.bus.Published(); topics > 0 {
			g.stats.Sent++
			return 0, g.appendHello(buf, g.cfg.LegTags[leg],
				&wire.Hello{Topics: uint32(topics), Filter: filter, Waits: g.bus.Waits()}), true
		}
	}
	g.due = min(g.hello.due, g.search.due, g.answers.deadline())
	return 0, nil, false
}

// Unsent reports that the last hello to group 0 could not be sent: it is sent later.
func (g *Greeter) Unsent(now reliable.Instant) {
	g.stats.Sent--
	g.hello.retry(now)
	g.due = min(g.due, g.hello.due)
}

func (g *Greeter) appendHello(buf []byte, tag uint32, x *wire.Hello) []byte {
	x.Settings, x.PacketSize, x.Name = g.own, g.cfg.Fabric.PacketSize, []byte(g.cfg.Name)
	b := wire.AppendHello(buf, wire.Header{GroupTag: tag, Publisher: g.cfg.Self.Publisher, Epoch: g.cfg.Self.Epoch}, x)
	if g.cfg.Fabric.Checksum {
		wire.SetChecksum(b)
	}
	return b
}

// Heartbeat implements reliable.Discovery: it compares the settings and the legs in a heartbeat with those of this bus.
// tags are those of the heartbeat's group on each leg here.
func (g *Greeter) Heartbeat(from uint64, now reliable.Instant, h wire.Header, hb wire.Heartbeat, tags []uint32) {
	if legs := legsOf(h.GroupTag, &hb.Legs, tags); legs.shared < max(len(tags), legs.all) {
		g.report(now, from, &h, &g.legs, theirs{version: wire.Version, settings: g.own, legs: legs}, hb.Name, nil, false)
	}
	if hb.Settings == g.own && hb.PacketSize == g.cfg.Fabric.PacketSize {
		return
	}
	t := theirs{version: wire.Version, settings: hb.Settings, packetSize: hb.PacketSize}
	g.report(now, from, &h, &g.reports, t, hb.Name, nil, false)
}

// WithoutChecksum implements reliable.Discovery: a packet was refused because it has no checksum. Only a heartbeat
// or hello with settings that state this is reported; other packets count as damaged.
func (g *Greeter) WithoutChecksum(from uint64, now reliable.Instant, h wire.Header, b []byte) {
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
		g.report(now, from, &h, &g.reports, t, name, nil, false)
	}
}

// OtherVersion implements reliable.Discovery: it handles a packet of another version, if its tag is one of tags. It
// reports whether it did.
func (g *Greeter) OtherVersion(from uint64, now reliable.Instant, tags []uint32, b []byte) bool {
	return g.otherVersion(from, now, tags, b, false)
}

func (g *Greeter) otherVersion(from uint64, now reliable.Instant, tags []uint32, b []byte, unicast bool) bool {
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
	g.report(now, from, &h, &g.reports, theirs{version: version}, nil, nil, false)
	return true
}

// Hello implements reliable.Discovery: it handles a packet from group 0, and reports whether it is a hello of a bus on
// the same addresses. An answer sent to a group is refused, because one forged packet would reach all buses in it.
// docs/protocol §14.9.
func (g *Greeter) Hello(from uint64, now reliable.Instant, b []byte) bool {
	return g.take(from, now, b, false)
}

// Answer is Hello for a unicast packet. Only answers are sent by unicast.
func (g *Greeter) Answer(from uint64, now reliable.Instant, b []byte) bool {
	return g.take(from, now, b, true)
}

func (g *Greeter) take(from uint64, now reliable.Instant, b []byte, unicast bool) bool {
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
	g.heard(now, from, &h, &x,
		theirs{version: wire.Version, settings: x.Settings, packetSize: x.PacketSize, noChecksum: noChecksum})
	return true
}

func (g *Greeter) heard(now reliable.Instant, from uint64, h *wire.Header, x *wire.Hello, t theirs) {
	if h.Instance() == g.cfg.Self {
		return
	}
	g.stats.Heard++
	if t.version == wire.Version && !t.noChecksum && t.settings == g.own && t.packetSize == g.cfg.Fabric.PacketSize {
		return
	}
	g.report(now, from, h, &g.reports, t, x.Name, &x.Filter, x.Answer)
	list := g.cfg.Fabric.differences(&t)
	if harmless(list) {
		return
	}
	if x.Answer {
		g.bus.Unreachable(mismatch(h, x.Name, list), &x.Filter)
		return
	}
	if topics, _ := g.bus.Subscribed(); topics > 0 && from != NoSource {
		g.answers.ask(now, h, from, x.Waits, g.bus)
		g.due = min(g.due, now)
	}
}

// report reports a bus that is configured differently, if x has not yet. filter has the topics that it publishes, or
// subscribes to if answer; nil if unknown.
func (g *Greeter) report(now reliable.Instant, from uint64, h *wire.Header, x *reports, t theirs,
	name []byte, filter *wire.TopicFilter, answer bool) {
	if x.done(h.Instance(), t) {
		return
	}
	list := g.cfg.Fabric.differences(&t)
	if len(list) == 0 || !x.due(now, h.Instance(), t) {
		return
	}
	g.stats.Mismatches++
	g.bus.Mismatch(mismatch(h, name, list), from, filter != nil && g.bus.Relevant(filter, answer))
}

func mismatch(h *wire.Header, name []byte, list []events.ConfigDifference) *events.ConfigMismatchError {
	return &events.ConfigMismatchError{Publisher: h.Publisher, Epoch: h.Epoch,
		Name: wire.CleanName(name), Differences: list}
}

// Close releases all peers.
func (g *Greeter) Close() { g.answers.release(g.bus) }
