package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/reliable"
)

// Ratio is a probability in parts of a million: whole numbers, so that a seed means the same on every machine.
type Ratio uint32

const (
	Percent Ratio = 10_000
	Always  Ratio = 1_000_000
)

func (r Ratio) String() string { return fmt.Sprintf("%g%%", float64(r)/float64(Percent)) }

// Options describe one run.
type Options struct {
	Seed        uint64
	Net         Net
	Second      *Net // of the second leg, which carries the same; nil: there is one leg
	Publishers  []Publisher
	Subscribers []Subscriber
	Cuts        []Cut
	Freezes     []Freeze
	Attack      Attack
	Content     *Content // nil: messages are made up
	Sealing     Sealing  // nil: packets go as they are
	// Trust says which keys may publish on which topics, if Sealing proves them; nil: all on all.
	Trust    reliable.TopicTrust
	Checksum bool
	// Faults is how long the network misbehaves and the attacker acts, unless that lasts.
	Faults time.Duration
	// Drain is how long all may take after that, once the last publisher has written everything.
	Drain time.Duration
	// Drop, if not nil, picks packets to be lost on their way to a subscriber.
	Drop func(subscriber int, packet []byte) bool
	// Trace, if not nil, gets a line for everything that happens.
	Trace io.Writer
}

// Net is what the network does to packets.
type Net struct {
	Latency time.Duration // one way
	Detour  Detour
	Jitter  time.Duration // added at random, the order kept
	Scatter time.Duration // added at random, the order not kept
	// SharedLoss happens upstream of all receivers, Loss at each by itself;
	// both in runs of a mean length. UnicastLoss is that of NAKs and statuses.
	SharedLoss, Loss, UnicastLoss Ratio
	Run                           int // packets
	Duplicate                     Ratio
	// Reorder is the share of packets that ReorderDepth or fewer later ones overtake.
	Reorder      Ratio
	ReorderDepth int
	// Bandwidth is that of a publisher's way out, bytes a second; 0: no limit. Around is how
	// many bytes a packet takes there beside its own.
	Bandwidth, Around int64
	// Egress is how many packets wait on the way out.
	Egress int
}

// Detour is a longer way that all packets take from some time on.
type Detour struct {
	At   time.Duration
	More time.Duration // one way; 0: there is none
}

// Link is a subscriber's last hop: packets that find its queue full are dropped.
type Link struct {
	Rate  int64 // bytes a second, packets' headers included; 0: no limit
	Queue int64 // bytes
}

// RTT is the round trip of an undisturbed packet.
func (n *Net) RTT() time.Duration { return 2 * n.Latency }

// Flow names a flow control.
type Flow uint8

const (
	FlowMin Flow = iota
	FlowNone
	FlowQuorum // Publisher.Quorum says how many; 1 is reliable.MaxFlow
)

// tag is the one that there is.
const tag = "book"

// Stop is how a publisher's life or a subscriber's stay ends.
type Stop uint8

const (
	// StopEnd: a publisher ends its stream and lingers; a subscriber leaves.
	StopEnd Stop = iota
	// StopKill: it is gone from one instant to the next.
	StopKill
	// StopNever: it stays to the end of the run.
	StopNever
)

func (s Stop) String() string { return [...]string{"end", "kill", "never"}[s] }

// Life is one epoch of a publisher.
type Life struct {
	After    time.Duration // after the life before, or the beginning of the run
	Messages int           // of each writer
	Stop     Stop          // StopKill: after For, whatever was sent by then
	For      time.Duration
	Epoch    uint64 // 0: 10 and more, in the order of its lives
}

// Publisher describes a publisher.
type Publisher struct {
	// As is 1 + the number of an earlier publisher with the same id; 0: it has one of its own.
	As         int
	PacketSize int
	Trains
	Window     int // packets
	Flow       Flow
	Quorum     int
	Tagged     bool // of those with the tag only
	Slow       reliable.SlowLimit
	Rate       int64         // bytes a second
	Silence    time.Duration // 0: usualSilence
	StallLimit time.Duration
	Topics     int
	Writers    int
	Size       [2]int // of messages, in bytes: from, to
	Large      Ratio  // of the messages are Large bytes long, in fragments
	LargeBytes int
	Burst      int           // messages of one writer at a time
	Gap        time.Duration // between two bursts
	Linger     time.Duration // how long the end of a burst stays in the open packet
	Abandon    Ratio         // of large messages that meet back-pressure
	Requests   Ratio         // of the messages are requests
	Repairs    Ratio         // of the data they may take; 0: usualShare
	Asks       time.Duration // between two questions for the subscribers of a topic; 0: there are none
	PacketMemory
	Keeps
	Lives []Life
}

// PacketMemory is how scarce that of a publisher is.
type PacketMemory struct {
	Stingy     Ratio         // of the blocks that its window wants it does not get
	Completion time.Duration // how long the network uses packet memory at least
}

// Keeps is what state a publisher keeps, and how it compresses.
type Keeps struct {
	State      int   // 1 + bytes of that of each topic; 0: none
	StateFails Ratio // of states cannot be made
	Packs
}

// Trains is how a publisher's packets are put together.
type Trains struct {
	MaxTrain    int
	Full        int // full packets a train has at most, where it may have more short ones; 0: MaxTrain
	EqualTrains bool
	Pad         int   // bytes that packets are padded to a multiple of; 0: they are not
	Unreadable  Ratio // of the data packets have a codec that no subscriber knows
}

// Packs is how a publisher compresses.
type Packs struct {
	Compress   string // as compress.Parse has it
	Dictionary bool
}

// Stay is one time that a subscriber is there, each with a new id.
type Stay struct {
	After time.Duration // after the stay before, or the beginning of the run
	Stop  Stop
	For   time.Duration
}

// Pause stops a subscriber's process for a while: its buffer fills.
type Pause struct{ At, For time.Duration }

// Reader reads a subscriber's streams through cursors.
type Reader struct {
	Block bool
	// Slow is what else becomes of it when it is slow. With Conflate it reads at once, and
	// keeps the newest message of each of so many keys: one is taken a turn.
	Slow     slow.Policy
	Conflate int
	Delay    time.Duration // after each packet; 0: it reads at once
	Stops    []Pause       // when it does not read at all
}

// Subscriber describes a subscriber.
type Subscriber struct {
	Window   int           // bytes
	Memory   int           // bytes
	Keep     int           // packets that may stay where they arrived
	Buffer   int           // packets in the receive buffer
	Deadline time.Duration // 0: usualDeadline
	Topics   int           // it wants the first so many
	Patterns []Pattern     // and what matches these
	Tagged   bool          // it carries the tag
	Lists    bool          // it lists topics beside
	InPlace  bool
	Turn     int // events that it takes at once in place, 0: all
	Readers  []Reader
	Service  time.Duration // for each packet
	Wake     time.Duration // from the first packet to the poll
	Batch    int           // packets a poll
	Late     time.Duration // timers fire late by up to this
	// Window says that it wants what publishers' windows hold; From is 1 + the number behind
	// which topics begin there (wantedFrom), 0: all.
	FromWindow bool
	From       uint64
	FromState  bool // it begins with the state that publishers keep
	Location
	Max int // bytes of the longest message; 0: no limit
	Replies
	Streams int // at most; 0: usualStreams
	Stays   []Stay
	Pauses  []Pause
}

// Location is where a subscriber is.
type Location struct {
	Link Link
	Away time.Duration // one way, beside Net.Latency
	Only int           // 1 or 2: it is on that leg only; 0: on all
	Own  int           // 1 + the publisher that in its first life is the same process, 0: none
}

// Replies is how a subscriber answers requests, and whether it understands what is compressed.
type Replies struct {
	Reply int           // bytes, at most
	Think time.Duration // until it replies, at most
	// NoDictionary: what is compressed with a dictionary is lost to it.
	NoDictionary bool
}

// tag is the one that it carries.
func (o *Subscriber) tag() string {
	if o.Tagged {
		return tag
	}
	return ""
}

// Cut separates publisher and subscribers for a while.
type Cut struct {
	At, For     time.Duration
	Publisher   int    // -1: all
	Subscribers uint64 // bit set
	Leg         int    // 1 or 2: only that one; 0: all
	Up, Down    bool   // towards the publisher, and from it
	Data        bool   // from it: packets of data only
}

// Freeze stops processes for a while, all of a group perhaps: none of their timers, readers and writers runs, and what
// comes waits in their receive buffers.
type Freeze struct {
	Pause
	Publishers, Subscribers uint64 // bit sets
}

// Attack is what an attacker on the group sends.
type Attack struct {
	Every time.Duration // between two packets; 0: none
	Lasts bool          // it goes on when the network's faults are over, to the end of the run
	// What it sends, bit by bit.
	Garbage, Truncate, Damage, Replay, Far, Forge bool
	Splice                                        bool // the beginning of one packet with the end of another
	Stranger                                      bool // packets of others that seal
}

// What users have unless they configure something else: docs/protocol §20.2.
const (
	usualSilence  = time.Second
	usualShare    = 50 * Percent
	usualStreams  = 64
	usualDeadline = 2 * time.Second
)

// bearable is how long a subscriber may be cut off or stopped without losing anything under min.
const bearable = 200 * time.Millisecond

// excuses reports whether the options let a subscriber lose something under min flow control.
func (o *Options) excuses(s *Subscriber, number int) bool {
	if o.forged() && (o.Attack.Replay || o.Attack.Forge) || s.Deadline > 0 && s.Deadline < time.Second {
		return true
	}
	for _, p := range s.Pauses {
		if p.For > bearable {
			return true
		}
	}
	for _, c := range o.Cuts {
		if c.Subscribers&(1<<number) != 0 && c.For > bearable && (c.Leg == 0 || o.Second == nil || s.Only == c.Leg) {
			return true
		}
	}
	return false
}

// String shows all options on one line, for a report of a failure.
func (o Options) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed=%d checksum=%v faults=%v drain=%v net=%+v", o.Seed, o.Checksum, o.Faults, o.Drain, o.Net)
	if o.Second != nil {
		fmt.Fprintf(&b, "\n  second leg: %+v", *o.Second)
	}
	for i, p := range o.Publishers {
		fmt.Fprintf(&b, "\n  publisher %d: %+v", i, p)
	}
	for i, s := range o.Subscribers {
		fmt.Fprintf(&b, "\n  subscriber %d: %+v", i, s)
	}
	for _, c := range o.Cuts {
		fmt.Fprintf(&b, "\n  cut: %+v", c)
	}
	if o.Attack.Every > 0 {
		fmt.Fprintf(&b, "\n  attack: %+v", o.Attack)
	}
	return b.String()
}
