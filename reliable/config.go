package reliable

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// SenderConfig configures the sending side of one stream. The caller sets every field, except where zero has a stated
// meaning. User settings and their defaults belong to the caller's package (docs/protocol §20.2).
type SenderConfig struct {
	Publisher events.ID // id of the publisher
	Epoch     events.ID // of this instance of the publisher, unique among its instances
	// Name is the publisher's name for people to read: at most wire.MaxName bytes, or empty.
	Name     []byte
	GroupTag uint32 // hash of the group's address
	// LegTags are the group's tags on the legs, this bus's first leg first; none with one leg. At most MaxLegs.
	LegTags []uint32
	// Groups is the number of groups that the bus's topics map to, stated in heartbeats. Default 1.
	Groups int
	// Mapping maps topics to groups, stated in heartbeats. Default: by hash.
	Mapping wire.Mapping
	// PacketSize is the size of a full packet in bytes.
	PacketSize int
	// MaxTrain is the maximum number of packets in a train (default 1), MaxTrainBytes of bytes (default PacketSize).
	MaxTrain      int
	MaxTrainBytes int
	// EqualTrains is set where the transport sends trains of equally long packets cheaply. The sender then pads packets
	// that are at least half full.
	EqualTrains bool
	// Pad is the unit of padding in bytes: packets are padded to a multiple of it, at most to a full packet, to hide
	// message sizes from observers of encrypted packets. 0: no padding. Packets that are Packed are never padded.
	Pad int
	// Checksum adds a checksum to every packet, for fabrics that do not protect packets themselves.
	Checksum bool
	// WindowPackets is how many packets are kept for repair. A power of two.
	WindowPackets int
	// Flow is the flow control; default MinFlow.
	Flow FlowControl
	// Rate limits new data, in bytes a second on the wire; 0: no limit.
	Rate int64
	// Repairs is the repair budget that the senders of a bus share. Nil: a budget of its own.
	Repairs *RepairBudget
	// RepairShare is the share of the data rate that repairs may take.
	RepairShare float64
	// Packed: the message layer makes packets shorter when they get their sequences (SequencePacked).
	Packed bool
	// MaxReceivers is the maximum number of members. Default 1024. Further receivers are served, but flow control does not
	// wait for them.
	MaxReceivers int
	// Silence is how long a member may give no sign of life, while it is asked at least ten times, before it is removed.
	// Never less than 30 round trips.
	Silence time.Duration
	// StallLimit is how long a member may block the publisher before it is released: flow control then ignores it until
	// it has caught up. 0: unlimited.
	StallLimit time.Duration
	// Slow limits how far, and for how long, a member that flow control waits for may stay behind. Default: no limit.
	Slow SlowLimit
	// Renew returns memory in which a block continues when its packets are no longer needed. It is the same memory, other
	// memory while a reader may still use the block, or nil if there is none. Nil: always the same memory.
	Renew func(block []byte) []byte
	// Sink receives the sender's events. Default: none.
	Sink SenderSink
}

// maxBlockPackets is the maximum number of packets in a block of packet memory.
const maxBlockPackets = 128

func (c *SenderConfig) setDefaults() error {
	c.Groups = cmp.Or(c.Groups, 1)
	c.Mapping = cmp.Or(c.Mapping, wire.Mapping{Kind: wire.MappingHash})
	c.MaxTrain = cmp.Or(c.MaxTrain, 1)
	c.MaxTrainBytes = cmp.Or(c.MaxTrainBytes, c.PacketSize)
	c.MaxReceivers = cmp.Or(c.MaxReceivers, 1024)
	if c.Flow == nil {
		c.Flow = MinFlow{}
	}
	if c.Sink == nil {
		c.Sink = noSenderSink{}
	}
	if c.Repairs == nil {
		c.Repairs = NewRepairBudget(noLock{})
	}
	c.MaxTrain = min(c.MaxTrain, maxBlockPackets)
	switch {
	case c.PacketSize < wire.MinPacket || c.PacketSize > wire.MaxPacket:
		return fmt.Errorf("packet size %d is not within %d..%d bytes", c.PacketSize, wire.MinPacket, wire.MaxPacket)
	case c.WindowPackets < 16 || c.WindowPackets&(c.WindowPackets-1) != 0:
		return fmt.Errorf("window of %d packets is not a power of two of at least 16", c.WindowPackets)
	case !(c.RepairShare > 0): // or NaN
		return fmt.Errorf("repair share of %g is not above 0", c.RepairShare)
	case c.Silence <= 0:
		return fmt.Errorf("silence of %v is not above 0", c.Silence)
	case c.MaxReceivers < 0 || c.Groups < 0:
		return fmt.Errorf("negative receivers or groups")
	case c.StallLimit < 0:
		return fmt.Errorf("stall limit of %v is negative", c.StallLimit)
	case c.Slow.For < 0:
		return fmt.Errorf("limit of %v for slow subscribers is negative", c.Slow.For)
	case len(c.LegTags) > MaxLegs:
		return fmt.Errorf("%d legs are more than %d", len(c.LegTags), MaxLegs)
	case c.Rate < 0:
		return fmt.Errorf("rate of %d bytes/s is negative", c.Rate)
	}
	return nil
}

// equal reports whether the packets of a train must have one size. Those that are Packed never do.
func (c *SenderConfig) equal() bool { return c.EqualTrains && !c.Packed }

// slot is the distance in bytes from a packet of n bytes to the next one in its block. Equal packets lie back to back:
// a train of them is one piece of memory, and a block holds more of them if they are shorter.
func (c *SenderConfig) slot(n int) int {
	if c.equal() {
		return n
	}
	return c.PacketSize
}

// perBlock is how many packets of PacketSize fit a block.
func (c *SenderConfig) perBlock() int { return min(c.MaxTrain, max(1, c.MaxTrainBytes/c.PacketSize)) }

// perTrain is the maximum number of packets in a block.
func (c *SenderConfig) perTrain() int {
	if c.equal() {
		return c.MaxTrain
	}
	return c.perBlock()
}

// padded is the size to which a packet of n bytes is padded.
func (c *SenderConfig) padded(n int) int {
	if c.Packed {
		return n
	}
	return padded(n, c.Pad, c.PacketSize)
}

// padded rounds n up to a multiple of unit, but not beyond limit. docs/protocol §27.11.
func padded(n, unit, limit int) int {
	if unit <= 1 {
		return n
	}
	return min((n+unit-1)/unit*unit, max(n, limit))
}

// settings are the bus's settings, as heartbeats state them.
func (c *SenderConfig) settings() wire.Settings {
	return wire.SettingsOf(c.Groups, c.Mapping, c.Checksum)
}

// BlockBytes is the size in bytes of one block of packet memory; 0 if the configuration is invalid.
func (c SenderConfig) BlockBytes() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	return c.perBlock() * c.PacketSize
}

// Blocks is the number of blocks of a sender with its window grown to WindowPackets, including those for staged
// repairs, for control packets and for one writer. Each further one needs two more (Sender.AddMemory).
func (c SenderConfig) Blocks() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	n := c.perBlock()
	return max((c.WindowPackets+n-1)/n, leastWindowBlocks) + stageBlocks + firstWriterBlocks
}

// LeastBlocks is the minimum number of blocks of a sender.
func (c SenderConfig) LeastBlocks() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	return leastWindowBlocks + stageBlocks + firstWriterBlocks
}

// writerBlocks is how many blocks a writer needs beside the window: the one that it fills, and the next one. The first
// writer has one more, because the window may begin and end within a block. leastWindowBlocks is the smallest window:
// one block in transit, and one with packets that NAKs request.
const (
	writerBlocks      = 2
	firstWriterBlocks = writerBlocks + 1
	leastWindowBlocks = 2
)

// Memory allocates packet memory for receive windows.
type Memory interface {
	// Alloc allocates bytes. soon: the window held as many bytes before, so all of them will be written soon.
	Alloc(bytes int, soon bool) ([]byte, error)
	Free(mem []byte)
}

// ReceiverConfig configures the receiving side of one group. The caller sets every field, except where zero or nil has
// a stated meaning.
type ReceiverConfig struct {
	ID       uint64 // random id of this receiver
	Name     string // of this bus, for people to read
	Tag      string // for TaggedFlow at publishers; at most wire.MaxTag bytes
	GroupTag uint32
	// LegTags are the group's tags on the legs; none with one leg. At most MaxLegs.
	LegTags []uint32
	// Own is this bus as a publisher: the receiver drops packets of this instance.
	Own events.Instance
	// Loopback receives the bus's own streams nevertheless.
	Loopback bool
	// Checksum refuses packets without a checksum.
	Checksum bool
	// Pad is SenderConfig.Pad for reply packets.
	Pad int
	// WindowBytes is the maximum memory of one stream's receive window.
	WindowBytes int
	// MemoryBytes bounds the memory of all windows of the group. Half of it is divided equally among MaxStreams streams,
	// so that each has a window; of the other half the first streams get most.
	MemoryBytes int
	// MaxStreams is the maximum number of streams of the group; packets of further streams are counted and dropped.
	MaxStreams int
	// Buffer accounts for the fabric's receive buffer. Receivers that share one buffer have the same pointer.
	Buffer *ReceiveBuffer
	// FromWindow starts a stream with the oldest packet that its publisher can still repair, not with the first packet
	// that arrives.
	FromWindow bool
	// Joins: new streams deliver packets when their message layer has joined them (Contents.Join).
	Joins bool
	// Deadline is how long the receiver requests a missing packet before it gives the packet up.
	Deadline time.Duration
	// Memory allocates the windows.
	Memory Memory
	// Loans lets waiting packets stay in the fabric's memory. May be nil.
	Loans Loans
	// ProvedKeys: publishers have proved the keys that their ids name (docs/protocol §29.1), and each key has a share of
	// every bound.
	ProvedKeys bool
	// Discovery receives what packets state about their publishers' configuration. May be nil.
	Discovery Discovery
	// Rand randomises the times of NAKs and statuses.
	Rand *rand.Rand
}

// Discovery compares the configurations of other buses with this bus's. tags are the receiver's group tags, one per
// leg. docs/protocol §14.
type Discovery interface {
	// Hello handles a hello, and reports whether it is for this bus.
	Hello(from uint64, now Instant, b []byte) bool
	Heartbeat(from uint64, now Instant, h wire.Header, hb wire.Heartbeat, tags []uint32)
	// WithoutChecksum handles a packet that was refused because it has no checksum.
	WithoutChecksum(from uint64, now Instant, h wire.Header, b []byte)
	// OtherVersion handles a packet of another protocol version, and reports whether it has one of the tags.
	OtherVersion(from uint64, now Instant, tags []uint32, b []byte) bool
}

func (c *ReceiverConfig) check() error {
	switch {
	case c.Memory == nil || c.Rand == nil || c.Buffer == nil:
		return fmt.Errorf("receiver needs Memory, Rand and Buffer")
	case c.WindowBytes < 16*wire.MinPacket || c.MemoryBytes < c.WindowBytes:
		return fmt.Errorf("receive window of %d bytes of %d in all is too small", c.WindowBytes, c.MemoryBytes)
	case len(c.LegTags) > MaxLegs:
		return fmt.Errorf("%d legs are more than %d", len(c.LegTags), MaxLegs)
	case c.Buffer.packets < 1 || c.MaxStreams < 1 || c.Deadline <= 0:
		return fmt.Errorf("receive buffer, stream limit and deadline must be above 0")
	}
	return nil
}
