package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Ratio is a probability in millionths: an integer, so that a seed yields the same run on every machine.
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
	Second      *Net // network of the second leg, which carries the same packets; nil: one leg
	Publishers  []Publisher
	Subscribers []Subscriber
	Cuts        []Cut
	Freezes     []Freeze
	Attack      Attack
	Content     *Content // nil: generated messages
	Sealing     Sealing  // nil: packets are sent unprotected
	// Trust defines which keys may publish on which topics, if Sealing authenticates them; nil: every publisher on every
	// topic.
	Trust    topics.TopicTrust
	Checksum bool
	// Faults is the duration of the network's faults and of the attacks, unless Attack.Lasts.
	Faults time.Duration
	// Drain is the time limit for the rest of the run, after the faults and the last write.
	Drain time.Duration
	// Drop, if not nil, selects packets that a subscriber loses.
	Drop func(subscriber int, packet []byte) bool
	// Trace, if not nil, receives a line for each step of the run.
	Trace io.Writer
}

// Net are the properties and faults of a network.
type Net struct {
	Latency time.Duration // one way
	Detour  Detour
	Jitter  time.Duration // added at random, without reordering
	Scatter time.Duration // added at random, with reordering
	// SharedLoss affects all receivers, Loss each one independently; both in runs of mean length Run.
	// UnicastLoss affects NAKs and statuses.
	SharedLoss, Loss, UnicastLoss Ratio
	Run                           int // packets
	Duplicate                     Ratio
	// Reorder is the share of packets that are overtaken by at most ReorderDepth later ones.
	Reorder      Ratio
	ReorderDepth int
	// Bandwidth is that of a publisher's link, in bytes a second; 0: no limit. Overhead is that
	// of a packet on it, in bytes.
	Bandwidth, Overhead int64
	// Egress is the size of a publisher's send queue, in packets.
	Egress int
}

// Detour adds latency to all packets from some time on.
type Detour struct {
	At   time.Duration
	More time.Duration // one way; 0: no detour
}

// Link is a subscriber's last hop: it drops packets when its queue is full.
type Link struct {
	Rate  int64 // bytes a second, including headers; 0: no limit
	Queue int64 // bytes
}

// RTT returns the round trip of an undisturbed packet.
func (n *Net) RTT() time.Duration { return 2 * n.Latency }

// Flow is a kind of flow control.
type Flow uint8

const (
	FlowMin Flow = iota
	FlowNone
	FlowQuorum // with Publisher.Quorum; 1 is reliable.MaxFlow
)

// tag is the tag of all tagged subscribers.
const tag = "book"

// Stop is how a publisher's life or a subscriber's stay ends.
type Stop uint8

const (
	// StopEnd: a publisher ends its stream and lingers; a subscriber leaves.
	StopEnd Stop = iota
	// StopKill: it ends at once, without a trace.
	StopKill
	// StopNever: it lasts to the end of the run.
	StopNever
)

func (s Stop) String() string { return [...]string{"end", "kill", "never"}[s] }

// Life is one epoch of a publisher.
type Life struct {
	After    time.Duration // after the previous life, or the beginning of the run
	Messages int           // of each writer
	Stop     Stop          // StopKill: after For, even with messages left
	For      time.Duration
	Epoch    uint64 // 0: 10, 11, … in the order of the lives
}

// Publisher describes a publisher.
type Publisher struct {
	// As is 1 + the number of an earlier publisher with the same id; 0: an id of its own.
	As         int
	PacketSize int
	Trains
	Window     int // packets
	Await      int // it begins to write when so many subscribers are present
	Flow       Flow
	Quorum     int
	Tagged     bool // FlowTagged: only for subscribers with the tag
	Slow       reliable.SlowLimit
	Rate       int64         // bytes a second
	Silence    time.Duration // 0: defaultSilence
	StallLimit time.Duration
	Topics     int
	Writers    int
	Size       [2]int // bytes of a message: from, to
	Large      Ratio  // share of messages with LargeBytes, sent in fragments
	LargeBytes int
	Burst      int           // messages of a writer at a time
	Gap        time.Duration // between two bursts
	Linger     time.Duration // how long the last packet of a burst stays open
	Abandon    Ratio         // share of large messages that are abandoned under back-pressure
	Requests   Ratio         // share of messages that are requests
	Repairs    Ratio         // share of the data rate for repairs; 0: defaultShare
	Queries    time.Duration // interval of queries for the subscribers of a topic; 0: none
	// ReadsReplies: its writers read NAKs and statuses, beside the loop.
	ReadsReplies bool
	PacketMemory
	StateOptions
	Lives []Life
}

// PacketMemory limits a publisher's packet memory.
type PacketMemory struct {
	Refuse     Ratio         // share of the blocks requested by the window that are refused
	Completion time.Duration // minimum time for which the network uses packet memory
}

// StateOptions configures the state that a publisher keeps, and compression.
type StateOptions struct {
	State      int   // 1 + bytes of state of each topic; 0: none
	StateFails Ratio // share of states that cannot be made
	Compression
}

// Trains are the options of a publisher's trains.
type Trains struct {
	MaxTrain    int
	Full        int // maximum of full packets in a train, which may have more short ones; 0: MaxTrain
	EqualTrains bool
	Pad         int   // packets are padded to a multiple of this, in bytes; 0: no padding
	Unreadable  Ratio // share of data packets with an unknown codec
}

// Compression is how a publisher compresses.
type Compression struct {
	Compress   string // in the syntax of compress.Parse
	Dictionary bool
}

// Stay is one presence of a subscriber, each with a new id.
type Stay struct {
	After time.Duration // after the previous stay, or the beginning of the run
	Stop  Stop
	For   time.Duration
}

// Pause stops a subscriber's process for a while: its buffer fills up.
type Pause struct{ At, For time.Duration }

// Reader reads a subscriber's streams through cursors.
type Reader struct {
	Block bool
	// Slow is what happens to a slow reader otherwise. With Conflate it gets the newest message of each
	// of Conflate keys.
	Slow     slow.Policy
	Conflate int
	Delay    time.Duration // after each packet; 0: none
	Stops    []Pause       // when it does not read
}

// Subscriber describes a subscriber.
type Subscriber struct {
	Window   int           // bytes
	Memory   int           // bytes
	Keep     int           // maximum of packets kept where they arrived
	Buffer   int           // packets in the receive buffer
	Deadline time.Duration // 0: defaultDeadline
	Topics   int           // it subscribes to the first Topics topics
	Patterns []Pattern     // and to those that match a pattern
	Tagged   bool          // its statuses carry the tag
	Lists    bool          // it also lists topics
	InPlace  bool
	Turn     int // messages with which handlers use up the time of a turn; 0: they take no time
	Readers  []Reader
	Service  time.Duration // processing time of a packet
	Wake     time.Duration // delay from the first packet to the poll
	Batch    int           // packets a poll, at most 16
	Late     time.Duration // maximum delay of timers
	// FromWindow: it begins with the publishers' windows: with all of them if From is 0, else with each topic's message
	// number From-1 or shortly before it (wantedFrom).
	FromWindow bool
	From       uint64
	FromState  bool // it begins with the state of the publishers
	Location
	Max int // maximum of a message, in bytes; 0: no limit
	Replies
	Streams int // maximum; 0: defaultStreams
	Stays   []Stay
	Pauses  []Pause
}

// Location is the place of a subscriber in the network.
type Location struct {
	Link         Link
	ExtraLatency time.Duration // additional one-way latency
	Only         int           // 1 or 2: its only leg; 0: all legs
	Own          int           // 1 + the publisher with its first life in the same process, 0: none
}

// Replies is how a subscriber replies to requests, and whether it has the dictionary.
type Replies struct {
	Reply int           // maximum size, in bytes
	Think time.Duration // maximum time to a reply
	// NoDictionary: it loses packets that are compressed with a dictionary.
	NoDictionary bool
}

// tag returns the tag in its statuses.
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
	Up, Down    bool   // directions: to the publisher, from it
	Data        bool   // from the publisher: only data packets
}

// Freeze stops processes for a while, up to a whole group: none of their timers, readers and
// writers runs, and packets wait in their receive buffers.
type Freeze struct {
	Pause
	Publishers, Subscribers uint64 // bit sets
}

// Attack is what an attacker in the group sends.
type Attack struct {
	Every time.Duration // between two packets; 0: none
	Lasts bool          // it continues after the faults to the end of the run
	// The kinds of packets.
	Garbage, Truncate, Damage, Replay, Far, Forge bool
	Splice                                        bool // the beginning of one packet joined to the end of another
	Stranger                                      bool // packets sealed by other senders
}

// The defaults of the library: docs/protocol §20.2.
const (
	defaultSilence  = time.Second
	defaultLinger   = 50 * time.Microsecond
	defaultShare    = 50 * Percent
	defaultStreams  = 64
	defaultDeadline = 2 * time.Second
)

// tolerated is how long a subscriber may be cut off or stopped without losses under min.
const tolerated = 200 * time.Millisecond

// canLose reports whether the options let a subscriber lose messages under min flow control.
func (o *Options) canLose(s *Subscriber, number int) bool {
	if o.forged() && (o.Attack.Replay || o.Attack.Forge) || s.Deadline > 0 && s.Deadline < time.Second {
		return true
	}
	for _, p := range s.Pauses {
		if p.For > tolerated {
			return true
		}
	}
	for _, c := range o.Cuts {
		if c.Subscribers&(1<<number) != 0 && c.For > tolerated && (c.Leg == 0 || o.Second == nil || s.Only == c.Leg) {
			return true
		}
	}
	return false
}

// String returns all options, for a report of a failure.
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
