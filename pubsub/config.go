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

// Config is the configuration of a bus. The zero value is valid; each field states its default. Open copies it.
type Config struct {
	// Name identifies this bus as a publisher across restarts: its PublisherID is derived from it, and subscribers see it
	// (Message.PublisherName). Each start of a bus is an instance of the name with its own Message.Epoch. Several may run
	// at the same time, as in a rolling update: all are delivered, each in its own order. events.DuplicateName reports
	// instances that run at the same time for more than 5 s. At most 64 bytes of printable UTF-8, without spaces. Default:
	// no name, and a random identity. Subscribers without a name are shown by host and process.
	Name string

	// Tag marks this bus's subscriptions: publishers with FlowTagged of this tag wait for them, and for no others. At
	// most 32 bytes of printable UTF-8, without spaces and commas. Default: none.
	Tag string

	// Loopback delivers the bus's own messages to its subscriptions, too. The bus then counts among its own subscribers,
	// also for flow control: a goroutine that both publishes and reads waits for itself once the window is full, and a
	// handler gets ErrInHandler there. The fabric must return a bus's packets to it: mem://, sim://, roce:// and udp://
	// (unless with loop=false) do, adapters of rdma:// may not; if it does not, the log reports that after 5 s. Default:
	// own messages are not delivered.
	Loopback bool

	// FlowControl of this bus's publishers: FlowMin, FlowMax, FlowNone, FlowQuorum(n), or one of these for subscribers
	// with a tag only (FlowTagged, Tagged). Default FlowMin.
	FlowControl FlowControl
	// Pad: packets with messages or replies are padded to a multiple of Pad bytes, at most to a full packet. It hides the
	// sizes of messages from an observer of sealed packets. It costs bandwidth when messages come one by one, and nothing
	// when they fill packets. Packets of a bus with Compress are not padded. The option pad=N of a URL sets the same: omit
	// one of them. From 1 (no padding) to 65507. Default: 1472 with Keys, which is a full packet on UDP, and 1 without.
	Pad int
	// Rate limits new data of each group this bus publishes to, in bytes a second on the wire. Default 0: no limit.
	Rate int64
	// Compress is how this bus compresses the packets that it publishes: CompressS2, CompressZstd, or one of their
	// levels such as "s2:better" or "zstd:fastest". It takes processor time, and saves bytes on the wire: packets that
	// do not get shorter are sent uncompressed. Subscribers need no setting, except the dictionary if there is one.
	// Default CompressNone.
	Compress Compression
	// Dictionaries let short packets compress well, too. Each is an output of fanfare dict, or any 16 bytes to 1 MiB
	// similar to the published data. This bus compresses with the first, and decompresses packets made with any of them.
	// Packets made with a dictionary that is missing here are lost, and events.DictionaryMissing names it. The bytes
	// must not change. Default: none.
	Dictionaries [][]byte
	// RepairShare bounds the rate of repairs, as a share of the rate of new data. They are sent in addition to it.
	// Default 0.5.
	RepairShare float64
	// StateShare bounds the rate at which state is sent to joining subscribers (Publisher.State), as a share of Rate or,
	// without Rate, of the recent data rate. Without Rate at least 8 MiB/s are allowed. Default 0.1.
	StateShare float64
	// Silence is how long flow control waits for a subscriber that sends nothing. Meanwhile the publisher solicits it at
	// least ten times. A subscriber that died blocks publishers for that long. Above StallLimit it has no effect:
	// StallLimit releases the subscriber first. At least 30 round trips. Default 1 s. How long an interruption may last
	// without loss depends on RecoveryDeadline.
	Silence time.Duration
	// StallLimit is how long flow control waits for a subscriber that is alive and makes no progress. Then it is released:
	// the publisher continues without it, and messages that it can no longer fetch are a gap of CauseReleased there. The
	// publisher waits for it again when it has caught up. Default 30 s; NoStallLimit, or any negative time, waits forever.
	// A subscriber that reads at least one packet in that time is still waited for: SlowBehind bounds that.
	StallLimit time.Duration
	// SlowBehind bounds how many packets, missing or unread, a subscriber may be behind. If it exceeds this throughout
	// SlowFor it is released, with events.SlowSubscriber, and has gaps of CauseReleased if it falls out of the
	// publisher's window. A subscriber that blocks the publisher throughout SlowFor, and therefore cannot fall that
	// far behind, is released, too. The publisher waits for it again when it is at most half as far behind. Default 0:
	// no bound but the windows.
	SlowBehind int
	// SlowFor is the time for SlowBehind. Default 5 s.
	SlowFor time.Duration
	// WindowBytes bounds the memory in which each published group keeps packets for repairs. Memory grows as it is used.
	// Rounded down to a power of two of packets. Default 8 MiB.
	WindowBytes int
	// PublishMemoryBytes bounds the memory for repairs of all published groups together. Each group may take about 450
	// KiB (with packets of 1,472 bytes) in addition. When a group needs memory, groups with more than an equal share
	// release some. Default 24 MiB, or WindowBytes if that is more.
	PublishMemoryBytes int
	// FlushAfter bounds how long a message waits for others to share its packet when messages are published fast.
	// Default 50 µs. After 128 sends without a pause the last messages wait up to 1 ms, or up to 2 ms if messages go to
	// several groups in turn. Flush sends immediately.
	FlushAfter time.Duration
	// Wait is how the bus waits for packets, and Next and Messages for messages. Default WaitAdaptive.
	Wait Wait
	// Linger bounds how long Close waits until subscribers have received everything. Default 5 s; negative: Close does
	// not wait. Subscribers that did not receive the end of the stream see events.PublisherLost some seconds later,
	// instead of events.PublisherEnded.
	Linger time.Duration

	// RecoveryDeadline is how long a lost packet is requested before it is given up as a gap. The publisher's
	// RepairShare limits repairs while data is sent steadily: an interruption of up to RepairShare times
	// RecoveryDeadline, 1 s with the defaults, is repaired completely; of a longer one some packets may be given up,
	// whatever Silence is. Repairs are faster when data pauses. Default 2 s.
	RecoveryDeadline time.Duration
	// ReceiveWindowBytes bounds the memory, for each publisher received, of packets that wait for a lost one or for a
	// subscription to read them. Default 8 MiB.
	ReceiveWindowBytes int
	// ReceiveMemoryBytes bounds the receive windows of all publishers of one group; with many publishers each gets less.
	// State that a subscription begins with, From(State), must fit into about a quarter of it. Default 64 MiB.
	ReceiveMemoryBytes int
	// MaxPublishers bounds the publishers received in each group. Default 64.
	MaxPublishers int
	// MaxMessage is the longest message that subscriptions deliver, in bytes; longer ones are gaps. Default and maximum
	// 16 MiB.
	MaxMessage int

	// Keys encrypt and authenticate (seal) every packet: without a key, an attacker sees no topic, no message and no
	// message size, and cannot forge, change or replay anything. Keys are shared: any holder can impersonate any
	// publisher. The option keys=FILE of a URL reads keys from a file and follows its changes; it and Keys exclude each
	// other. Default: none; packets are not encrypted.
	Keys KeyProvider
	// Sign is the key with which this bus signs its messages: a subscriber that trusts the key knows that no other bus
	// sent them, not even one with the same Keys. The publisher id contains the key's id. When messages are published
	// fast, each waits up to 100 µs for others to share a signature. The option sign=FILE of a URL reads the key from a
	// file; it and Sign exclude each other. Default: none.
	Sign ed25519.PrivateKey
	// Trust says which keys may publish on which topics. Packets that are not signed by one of these keys are refused,
	// and so are messages on topics for which their key is not trusted (stats.Bus.Sign, RefusedMessages,
	// events.PacketsUnreadable, and events.PublisherFault with FaultTopic). Refused packets and messages are not gaps.
	// The option trust=FILE of a URL reads this from a file and follows its changes; it and Trust exclude each other.
	// Default: all publishers are received.
	Trust TrustProvider

	// Clock names the source that this host's clock follows, such as "ptp". Delivery times (Distributions.Delivery) are
	// measured between buses with the same Clock: give one name to all hosts with closely synchronised clocks. "none"
	// measures nothing. The option clock=NAME of a URL sets the same: leave one of them out. At most 64 bytes of
	// printable UTF-8, without spaces. Default: no name; times are measured between buses on one host.
	Clock string

	// Faults drops, repeats, reorders and delays packets that this bus receives, for tests:
	// "loss=0.05,dup=0.02,reorder=0.05,burst=8,seed=7". See package transport/faulty. Default: none.
	Faults string

	// Inspect controls whether other processes of the same user on this host may inspect this bus (fanfare ls, top and
	// web). Default InspectAuto. FANFARE_INSPECT=off in the environment of a process is InspectOff for all of its buses.
	Inspect Inspect
	// OnEvent is called when publishers come up, end, get lost or restart, when subscribers fall silent or hold publishers
	// up, and more: see the kinds of events. It is called once at a time, from the bus's own goroutine except for
	// events.HandlerSlow, and must not block; calls that wait for the bus return ErrInHandler. Default: none.
	OnEvent func(events.Event)
	// Trace has functions that are called as packets are sent, lost and repaired. Default: none.
	Trace *Trace
	// Logger receives log lines for operators, listed in docs/operate/logs.md. Its slog.Handler may publish; calls that
	// wait for the bus may return ErrInHandler there. Default: warnings and errors to slog.Default(). Set slog.Default()
	// here to log all lines.
	Logger *slog.Logger

	epoch events.ID // for tests; 0: Open makes one
	packs packs
}

// Inspect controls whether other processes may inspect a bus.
type Inspect string

const (
	// InspectAuto allows it for buses on fabrics that leave the process, but not for mem://, sim:// and OpenTransport:
	// tests use these, with clocks that do not run.
	InspectAuto Inspect = "auto"
	// InspectOn allows it on every fabric. It does not work within testing/synctest.
	InspectOn Inspect = "on"
	// InspectOff does not allow it, and opens no socket.
	InspectOff Inspect = "off"
)

// Wait is how a bus waits for packets and messages.
type Wait string

const (
	// WaitAdaptive parks, but at half a million packets a second and more it polls for 30 µs first: waking it for each
	// packet would cost the publisher more.
	WaitAdaptive Wait = "adaptive"
	// WaitPark parks whenever nothing is there: it never polls.
	WaitPark Wait = "park"
	// WaitSpin always polls: the lowest latency, but the bus keeps one processor busy, and each goroutine in Next or
	// Messages another one.
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
