package pubsub

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"log/slog"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Config holds what may be configured of a bus. The zero value is good; each
// field's default is stated. It is copied by Open.
type Config struct {
	// Name identifies this bus as a publisher across restarts: its PublisherID is derived from it, and subscribers see it
	// (Message.PublisherName). Each start of a bus is an instance of the name with its own Message.Epoch. Several may run
	// at the same time, as in a rolling update: all are delivered, each in its own order. events.DuplicateName reports
	// instances that run at the same time for more than 5 s. At most 64 bytes of printable UTF-8, without spaces. Default:
	// no name, and a random identity. Subscribers without a name are shown by host and process.
	Name string

	// Tag is carried by this bus's subscriptions: publishers with FlowTagged of it wait for them, and for no others. At
	// most 32 bytes of UTF-8 that prints, without spaces and commas. Default: none.
	Tag string

	// Loopback lets the bus's subscriptions hear what the bus itself publishes. It then counts among its own subscribers,
	// with flow control and all: a goroutine that both publishes and reads waits for itself once the window is full, and a
	// handler gets ErrInHandler there. The fabric must return a bus's packets to it: mem://, sim://, roce:// and udp://
	// (unless with loop=false) do, adapters of rdma:// may not; the log says after 5 s if it does not. Default: the bus
	// does not hear itself.
	Loopback bool

	// FlowControl of this bus's publishers: FlowMin, FlowMax, FlowNone, FlowQuorum(n), or
	// one of these among the subscribers with a tag, FlowTagged. Default FlowMin.
	FlowControl FlowControl
	// Pad: packets with messages or replies are padded to a multiple of Pad bytes, at most to a full packet. It
	// hides the sizes of messages from an observer of sealed packets. It costs bandwidth when messages come one by
	// one, and nothing when they fill packets. Packets of a bus with Compress are not padded. The option pad=N of a
	// URL sets the same: leave one of them out. From 1, which is none, to 65507. Default: 1472 with Keys, which is
	// a full packet on UDP, and 1 without.
	Pad int
	// Rate limits new data of each group this bus publishes to, in bytes a second on the wire. Default 0: no limit.
	Rate int64
	// Compress is how this bus compresses what it publishes: CompressS2, CompressZstd, or one of their levels, "s2:better"
	// or "zstd:fastest". It takes processor time, and saves bytes on the wire: what does not get shorter goes as it is.
	// Subscribers need no setting, but the dictionary, if there is one. Default: it does not.
	Compress Compression
	// Dictionaries are what compressed packets share beforehand, so that also short ones get shorter: what fanfare dict
	// makes, or any bytes of 16 to 1 MiB like those that are published. What this bus publishes is compressed with the
	// first; what it receives may be compressed with any: where one is missing all is lost that is compressed with it, and
	// the event events.DictionaryMissing names it. They must not change. Default: none.
	Dictionaries [][]byte
	// RepairShare is the share of the data that is sent which repairs may take in addition. Default 0.5.
	RepairShare float64
	// StateShare is the share of Rate, or without that of the recent data rate, that the state for subscribers which join
	// may take (Publisher.State). Without Rate state may take 8 MiB/s in any case. Default 0.1.
	StateShare float64
	// Silence is how long a subscriber that flow control waits for may say nothing, while it is asked at least ten times,
	// before it is not waited for any more. A subscriber that died holds publishers up for that long. Longer than
	// StallLimit it has no effect, for that releases it first. Never less than 30 round trips. Default 1 s. How long an
	// interruption may last without loss depends on RecoveryDeadline.
	Silence time.Duration
	// StallLimit is how long flow control waits for a subscriber that is alive and makes no progress. Then it is released:
	// the publisher continues without it, and messages that it cannot catch up with are a gap of CauseReleased there. The
	// publisher waits for it again when it has caught up. Default 30 s; NoStallLimit, or any negative time, waits forever.
	// A subscriber that takes a packet in time, however rarely, is waited for: SlowBehind bounds that.
	StallLimit time.Duration
	// SlowBehind is how many packets a subscriber that flow control waits for may stay behind for all of SlowFor: such
	// that it misses, and such that it has not read. Then it is released, with events.SlowSubscriber, and has gaps of
	// CauseReleased if it falls out of the publisher's window. So is one that holds the publisher up for all of SlowFor,
	// and so cannot fall that far behind. It is waited for again when it is at most half as far behind. Default 0: as far
	// as the windows allow.
	SlowBehind int
	// SlowFor goes with SlowBehind. Default 5 s.
	SlowFor time.Duration
	// WindowBytes bounds the memory for repairs of a group published to, which grows
	// as it is used. Rounded down to a power of two of packets. Default 8 MiB.
	WindowBytes int
	// PublishMemoryBytes bounds the memory for repairs of all groups published to together, beyond some 450 KiB, with
	// packets of 1,472 bytes, that each may take anyway. Groups share it: where one lacks memory those that have more than
	// an equal share give back. Default 24 MiB, or WindowBytes if that is more.
	PublishMemoryBytes int
	// FlushAfter is the longest time that a message waits for others to share
	// its packet when messages come fast. Default 50 µs. After 128 sends without a pause the last messages wait up
	// to 1 ms, and up to 2 ms if messages go to several groups in turn. Flush ends all waiting.
	FlushAfter time.Duration
	// Wait is how the bus waits for packets, and Next and Messages for messages. Default WaitAdaptive.
	Wait Wait
	// Linger is how long Close waits for subscribers to have everything.
	// Default 5 s; negative: not at all. Then subscribers that have not heard the
	// end yet may see events.PublisherLost instead of events.PublisherEnded, after some seconds.
	Linger time.Duration

	// RecoveryDeadline is how long a lost packet is asked for before it is
	// given up as a gap. Repairs take the publisher's RepairShare of steady data at most: of an interruption of
	// up to RepairShare times RecoveryDeadline, 1 s with the defaults, no packet is given up so, of a longer
	// one some may be, however long Silence is. Where data pauses or is held up repairs are faster. Default 2 s.
	RecoveryDeadline time.Duration
	// ReceiveWindowBytes is the memory for packets that wait for a lost one, or
	// for a subscription to read them, a publisher heard. Default 8 MiB.
	ReceiveWindowBytes int
	// ReceiveMemoryBytes bounds the windows of all publishers of one group; where many share it each gets less. State that
	// a subscription begins with, From(State), must have room in about a quarter of it. Default 64 MiB.
	ReceiveMemoryBytes int
	// MaxPublishers bounds the publishers heard, a group. Default 64.
	MaxPublishers int
	// MaxMessage is the longest message that subscriptions take, in bytes; longer ones are gaps. Default and limit 16 MiB.
	MaxMessage int

	// Keys seal every packet: without a key, an attacker sees no topic, no message and no message size, and cannot forge,
	// change or replay anything. Keys are shared: any holder can impersonate any publisher. The option keys=FILE of a URL
	// reads keys from a file and follows its changes; it and Keys exclude each other. Default: none, and groups are open.
	Keys KeyProvider
	// Sign is the key with which this bus signs its messages: a subscriber that trusts the key knows that no other
	// bus sent them, not even one with the same Keys. The id of the publisher names the key. When messages come
	// fast, each waits up to 100 µs for others. The option sign=FILE of a URL reads the key from a file; it and Sign
	// exclude each other. Default: none.
	Sign ed25519.PrivateKey
	// Trust says which keys may publish on which topics. Packets that are not signed by one of these keys are
	// refused, and so are messages on topics for which their key is not trusted (stats.Bus.Sign, RefusedMessages,
	// events.PacketsUnreadable, and events.PublisherFault with FaultTopic). They are not gaps. The option trust=FILE
	// of a URL reads this from a file and follows its changes; it and Trust exclude each other. Default: all
	// publishers are received.
	Trust TrustProvider

	// Clock names the source that this host's clock follows, such as "ptp". Delivery times (Distributions.Delivery) are
	// measured between buses with the same Clock: give one name to all hosts with closely enough synchronised clocks.
	// "none" measures nothing. The option clock=NAME of a URL sets the same: leave one of them out. At most 64 bytes of
	// printable UTF-8, without spaces. Default: no name; times are measured between buses on one host.
	Clock string

	// Faults loses, repeats, reorders and delays packets that this bus receives, for tests:
	// "loss=0.05,dup=0.02,reorder=0.05,burst=8,seed=7". See package transport/faulty. Default: none.
	Faults string

	// Inspect says whether others on this host, of the same user, may look at this bus with
	// fanfare ls, top and web. Default InspectAuto. The variable FANFARE_INSPECT=off in the
	// environment of a process is InspectOff for all of its buses.
	Inspect Inspect
	// OnEvent is called when publishers come up, end, get lost or restart, when subscribers fall silent or hold publishers
	// up, and more: see the kinds of events. It is called once at a time, from the bus's own goroutine except for
	// events.HandlerSlow, and must not block; calls that wait for the bus return ErrInHandler. Default: none.
	OnEvent func(events.Event)
	// Trace has functions that are called for each packet, for tracing. Default: none, which costs nothing.
	Trace *Trace
	// Logger gets what an operator should know; docs/operate/logs.md has all lines. Its handler may
	// publish; what waits for the bus may return ErrInHandler. Default: warnings and errors to slog.Default();
	// give slog.Default() here for all lines.
	Logger *slog.Logger

	epoch uint64 // of tests; 0: made at Open
	packs packs
}

// Inspect says whether a bus can be looked at.
type Inspect string

const (
	// InspectAuto shows buses on fabrics that leave the process, and not those of mem:// and sim:// and of transports of
	// the program's own: tests have such, with a clock that does not run.
	InspectAuto Inspect = "auto"
	// InspectOn shows the bus whatever its fabric. Not for testing/synctest.
	InspectOn Inspect = "on"
	// InspectOff does not show it, and makes no socket.
	InspectOff Inspect = "off"
)

// Wait says how a bus waits.
type Wait string

const (
	// WaitAdaptive parks, but when packets come by the half million a second it looks for some more for 30 µs first: being
	// woken for each would cost the publisher more.
	WaitAdaptive Wait = "adaptive"
	// WaitPark always gives the processor up.
	WaitPark Wait = "park"
	// WaitSpin never does: the lowest latency, for a processor that the bus keeps
	// busy, and one for each goroutine in Next or Messages.
	WaitSpin Wait = "spin"
)

var waits = map[Wait]engine.Wait{WaitAdaptive: engine.WaitAdaptive, WaitPark: engine.WaitPark,
	WaitSpin: engine.WaitSpin}

// warnings is a handler that drops lines below WARN.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (c *Config) setDefaults() error {
	c.FlowControl = cmp.Or(c.FlowControl, FlowMin)
	c.RepairShare = cmp.Or(c.RepairShare, 0.5)
	c.StateShare = cmp.Or(c.StateShare, 0.1)
	c.Silence = cmp.Or(c.Silence, time.Second)
	c.StallLimit = cmp.Or(c.StallLimit, 30*time.Second)
	c.SlowFor = cmp.Or(c.SlowFor, 5*time.Second)
	c.WindowBytes = cmp.Or(c.WindowBytes, 8<<20)
	c.PublishMemoryBytes = cmp.Or(c.PublishMemoryBytes, max(24<<20, c.WindowBytes))
	c.FlushAfter = cmp.Or(c.FlushAfter, 50*time.Microsecond)
	c.Linger = cmp.Or(c.Linger, 5*time.Second)
	c.RecoveryDeadline = cmp.Or(c.RecoveryDeadline, 2*time.Second)
	c.ReceiveWindowBytes = cmp.Or(c.ReceiveWindowBytes, 8<<20)
	c.ReceiveMemoryBytes = cmp.Or(c.ReceiveMemoryBytes, max(64<<20, c.ReceiveWindowBytes))
	c.MaxPublishers = cmp.Or(c.MaxPublishers, 64)
	c.MaxMessage = cmp.Or(c.MaxMessage, 16<<20)
	if c.Logger == nil {
		c.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	c.Wait = cmp.Or(c.Wait, WaitAdaptive)
	c.Inspect = cmp.Or(c.Inspect, InspectAuto)
	return c.check()
}
