package reliable

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// SenderConfig describes a stream at its publisher. The caller sets every field, except where zero has a stated
// meaning: what users may configure, and the defaults, belong to the caller's package (docs/protocol §20.2).
type SenderConfig struct {
	Publisher uint64 // id of the publisher
	Epoch     uint64 // of this instance of the publisher: no other has the same
	// Name is what the publisher calls itself, for people to read: at most wire.MaxName bytes, or none.
	Name     []byte
	GroupTag uint32 // hash of the group's address
	// LegTags are the same on each leg, where there are several, this one first: at most MaxLegs.
	LegTags []uint32
	// Groups is the number of groups that the bus's topics map to, for heartbeats. Default 1.
	Groups int
	// Mapping is how they map, for heartbeats. Default: by hash.
	Mapping wire.Mapping
	// PacketSize is the size of a full packet in bytes.
	PacketSize int
	// MaxTrain bounds the packets of one train, MaxTrainBytes its bytes. Default 1, and PacketSize.
	MaxTrain      int
	MaxTrainBytes int
	// EqualTrains says that a train of equal packets is cheap to send: nearly full packets are padded.
	EqualTrains bool
	// Pad: packets are padded to a multiple of Pad bytes, at most to a full packet, to hide message sizes from an
	// observer of encrypted packets. 0: no padding. Compressed packets, and others beside them, are never padded.
	Pad int
	// Checksum says that the fabric does not protect packets by itself.
	Checksum bool
	// WindowPackets is how many packets are kept for repair. A power of two.
	WindowPackets int
	// Flow is the flow control; default MinFlow.
	Flow FlowControl
	// Rate limits new data, in bytes a second on the wire; 0 is no limit.
	Rate int64
	// Repairs is the budget of repairs that the senders of a bus share. Nil: one of its own.
	Repairs *RepairBudget
	// RepairShare is the share of their data that repairs may take.
	RepairShare float64
	// StateShare is the share of the rate limit, or of the recent data rate, that state for late joiners may take.
	// Default 0.1.
	StateShare float64
	// Packer compresses packets. Nil: they go as they are.
	Packer Packer
	// MaxReceivers bounds the subscribers that are kept account of. Default
	// 1024. Others are served all the same, but nothing waits for them.
	MaxReceivers int
	// Silence is how long a subscriber that flow control waits for may say nothing, while it is asked at least ten times,
	// before it is given up. Never less than 30 round trips.
	Silence time.Duration
	// StallLimit is how long a subscriber that flow control waits for may let no packet through, before it is released: it
	// is not waited for any more until it has caught up. 0: for ever.
	StallLimit time.Duration
	// Slow is how far a subscriber that flow control waits for may stay behind, and for
	// how long. Default: as far as it likes.
	Slow SlowLimit
	// Renew returns the memory in which a block of packet memory continues when its packets are no longer needed:
	// the same memory, or other memory while a reader may still use it, or nil if there is none. Nil: always the same.
	Renew func(block []byte) []byte
	// Sink gets events of the sender. Default: none.
	Sink SenderSink
}

// maxBlockPackets bounds the packets of one block of packet memory.
const maxBlockPackets = 128

func (c *SenderConfig) setDefaults() error {
	c.Groups = cmp.Or(c.Groups, 1)
	c.Mapping = cmp.Or(c.Mapping, wire.Mapping{Kind: wire.MappingHash})
	c.MaxTrain = cmp.Or(c.MaxTrain, 1)
	c.MaxTrainBytes = cmp.Or(c.MaxTrainBytes, c.PacketSize)
	c.StateShare = cmp.Or(c.StateShare, 0.1)
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
	case !(c.RepairShare > 0): // or it is no number
		return fmt.Errorf("repair share of %g is not above 0", c.RepairShare)
	case !(c.StateShare > 0):
		return fmt.Errorf("state share of %g is not above 0", c.StateShare)
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

// equal says that packets of a train are to have one size. Compressed ones never do.
func (c *SenderConfig) equal() bool { return c.EqualTrains && c.Packer == nil }

// slot is how far a packet of n bytes is from the next one in a block. Equal packets lie back to back, so
// that a train of them is one piece of memory, and holds more of them where they are shorter.
func (c *SenderConfig) slot(n int) int {
	if c.equal() {
		return n
	}
	return c.PacketSize
}

// perBlock is how many packets of PacketSize a block has room for.
func (c *SenderConfig) perBlock() int { return min(c.MaxTrain, max(1, c.MaxTrainBytes/c.PacketSize)) }

// perTrain is how many packets a block has at most.
func (c *SenderConfig) perTrain() int {
	if c.equal() {
		return c.MaxTrain
	}
	return c.perBlock()
}

// padded is the size of a packet that ends with n bytes.
func (c *SenderConfig) padded(n int) int {
	if c.Packer != nil {
		return n
	}
	return padded(n, c.Pad, c.PacketSize)
}

// padded is the next multiple of unit from n on, but most at most. docs/protocol §27.11.
func padded(n, unit, most int) int {
	if unit <= 1 {
		return n
	}
	return min((n+unit-1)/unit*unit, max(n, most))
}

// settings are what heartbeats say of the bus.
func (c *SenderConfig) settings() wire.Settings {
	return wire.SettingsOf(c.Groups, c.Mapping, c.Checksum)
}

// BlockBytes is the size of one block of packet memory of a sender so
// configured, and Blocks how many of them its window takes.
func (c SenderConfig) BlockBytes() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	return c.perBlock() * c.PacketSize
}

// Blocks is the number of blocks that a sender so configured has when its window has grown to WindowPackets: with those
// for staged repairs and control packets, and for one Writer. Each further Writer needs two more (Sender.AddMemory).
func (c SenderConfig) Blocks() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	n := c.perBlock()
	return max((c.WindowPackets+n-1)/n, leastWindowBlocks) + stageBlocks + firstWriterBlocks
}

// LeastBlocks is the number of blocks that it needs at least.
func (c SenderConfig) LeastBlocks() int {
	if err := c.setDefaults(); err != nil {
		return 0
	}
	return leastWindowBlocks + stageBlocks + firstWriterBlocks
}

// writerBlocks is how many blocks a Writer takes beside the window: the one that it writes into, and the next one; the
// first has one more, for the window may begin and end within a block. leastWindowBlocks is the least window: what is
// on its way, and what is asked for.
const (
	writerBlocks      = 2
	firstWriterBlocks = writerBlocks + 1
	leastWindowBlocks = 2
)

// Memory allocates packet memory for receive windows.
type Memory interface {
	// Alloc returns some. soon says that it will be filled: the window has filled as much before.
	Alloc(bytes int, soon bool) ([]byte, error)
	Free(mem []byte)
}

// History says what a receiver wants of what was sent before it came.
type History struct {
	// FromWindow says that streams start with what their publishers can still send
	// again, and not with what is heard first.
	FromWindow bool
	// Wanted is the number of the first message of a stream's topic that is wanted then: packets
	// before it are not fetched. Nil: all that publishers can send again is wanted.
	Wanted func(publisher, epoch, topic uint64) uint64
}

// ReceiverConfig describes a group at its subscriber. The caller sets every field, except where zero or nil has a
// stated meaning.
type ReceiverConfig struct {
	ID       uint64 // random id of this subscriber
	Name     string // what it calls itself, for people to read
	Tag      string // what publishers that wait for a tag look for; at most wire.MaxTag bytes
	GroupTag uint32
	// LegTags are the group's tags on each leg, where it has several: at most MaxLegs.
	LegTags []uint32
	// Own is this bus's publisher id and OwnEpoch its epoch: streams of that id are not received.
	Own, OwnEpoch uint64
	// Loopback says that our own streams are received all the same.
	Loopback bool
	// Checksum says that packets without a checksum are to be refused.
	Checksum bool
	// Pad is SenderConfig.Pad of packets with replies.
	Pad int
	// WindowBytes is the memory of one stream's receive window.
	WindowBytes int
	// MemoryBytes bounds the memory of all windows of the group. Half of it is shared equally by MaxStreams streams, so
	// that each can count on a window; of the other half the first streams get the most.
	MemoryBytes int
	// MaxStreams bounds the streams of the group; packets of others are counted and dropped.
	MaxStreams int
	// MaxMessage bounds reassembled messages, in bytes.
	MaxMessage int
	// Buffer is the room in the fabric's receive buffer. Receivers that share one buffer have the same pointer.
	Buffer *ReceiveBuffer
	History
	// FromState says that streams start with the state that their publishers keep of their topics.
	FromState bool
	// Deadline is how long a missing packet is asked for before it is given up.
	Deadline time.Duration
	// Memory allocates the windows.
	Memory Memory
	// Unpacker decompresses packets. Nil: those that are compressed are lost.
	Unpacker wire.Unpacker
	// Loans keeps packets out of the windows' memory. May be nil.
	Loans Loans
	// Trust returns which keys may publish on which topics now, if publishers have proved the keys that their ids
	// name (docs/protocol §29.1); then each key has a share of every bound. Nil: everything is allowed.
	Trust func() TopicTrust
	// Discovery gets what packets say about the configuration of their publishers. May be nil.
	Discovery Discovery
	// Rand spreads NAKs and statuses.
	Rand *rand.Rand
}

// Discovery compares the configuration of other buses with that of this one. tags are those of the
// receiver's group, one for each leg. docs/protocol §14.
type Discovery interface {
	// Hello takes in a hello, and reports whether it is for this bus.
	Hello(from uint64, now Instant, b []byte) bool
	Heartbeat(from uint64, now Instant, h wire.Header, hb wire.Heartbeat, tags []uint32)
	// WithoutChecksum takes in a packet that was refused because it carries no checksum.
	WithoutChecksum(from uint64, now Instant, h wire.Header, b []byte)
	// OtherVersion takes in a packet of another protocol version, and reports whether it has one of the tags.
	OtherVersion(from uint64, now Instant, tags []uint32, b []byte) bool
}

func (c *ReceiverConfig) check() error {
	switch {
	case c.Memory == nil || c.Rand == nil || c.Buffer == nil:
		return fmt.Errorf("receiver needs Memory, Rand and Buffer")
	case c.WindowBytes < 16*wire.MinPacket || c.MemoryBytes < c.WindowBytes:
		return fmt.Errorf("receive window of %d bytes of %d in all is too small", c.WindowBytes, c.MemoryBytes)
	case c.MaxMessage < 1 || c.MaxMessage > wire.MaxMessage:
		return fmt.Errorf("longest message of %d bytes is not within 1..%d", c.MaxMessage, wire.MaxMessage)
	case len(c.LegTags) > MaxLegs:
		return fmt.Errorf("%d legs are more than %d", len(c.LegTags), MaxLegs)
	case c.Buffer.packets < 1 || c.MaxStreams < 1 || c.Deadline <= 0:
		return fmt.Errorf("receive buffer, stream limit and deadline must be above 0")
	}
	return nil
}
