// Package transport is the contract between the reliable layer and a fabric: a network that carries
// multicast datagrams.
//
// Words used here and in every implementation:
//
//   - packet: one datagram.
//   - group: one multicast address of the fabric, named by its index in the
//     transport's own range of groups (0 … Capabilities.Groups-1).
//   - train: packets that lie one after the other in memory and travel
//     together: one UDP GSO send, one UDP GRO receive, one batch of work
//     requests.
//   - source: names the sender of a received train for as long as the train is
//     lent. A peer is a source that the caller has retained to reply to.
//
// The contract, which package transporttest checks on every implementation:
//
//  1. Receive memory is lent. Trains that Poll returns point into memory of
//     the transport; they stay valid until Release, in any order. A caller may
//     keep Capabilities.LendMax trains past the next Poll. A caller
//     that keeps more is lent less, in the end nothing until it releases some:
//     never are more than LendMax + Batch trains lent, so that the receive
//     queue keeps its size. Polls that were cut short are counted
//     (stats.Transport.LendRefused), and what arrives meanwhile waits in the receive
//     queue, or is lost there as in any queue that is not read.
//  2. Nothing blocks but Wait. Join, Leave, NewSender and Close begin their
//     work; what is not done when they return is carried on by Poll and is
//     reported as an Event. So a transport over a simulated fabric runs
//     single-threaded in virtual time.
//  3. One goroutine, the loop, calls Poll, Release, Wait, Join, Leave, Retain,
//     Forget, Reply, SourceAddress and PeerAddress. NewSender may be called by any goroutine. A Sender is
//     used by one goroutine at a time, and different Senders by different
//     goroutines at once. Wake, Stats, Capabilities and Close may be called by
//     any goroutine at any time.
//  4. A transport delivers whole packets or nothing. It may lose, duplicate
//     and reorder them; it counts what it knows to be lost (Stats).
//  5. Nothing is allocated on the paths Send, Poll, Release and Reply.
package transport

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Unicast is the Group of a train that was addressed to this transport alone
// (a NAK or a status on its way to a publisher) and not to a group.
const Unicast = -1

// Errors of this package. Implementations wrap them; match with errors.Is. A call on a closed transport or sender
// returns an error that matches net.ErrClosed.
var (
	// ErrBusy means that the fabric currently takes no more packets: the socket buffer or the send queue is
	// full. The caller retries the rest later.
	ErrBusy = errors.New("transport: send queue is full, retry later")
	// ErrNotReady means that the group has not been joined yet, or is currently lost: an Event will
	// report when it is joined.
	ErrNotReady = errors.New("transport: group is not joined yet")
	// ErrPacketTooLarge says that a packet exceeds Capabilities.MaxPacket.
	ErrPacketTooLarge = errors.New("transport: packet is larger than the fabric carries")
	// ErrNoSuchGroup says that a group index is outside the transport's range.
	ErrNoSuchGroup = errors.New("transport: no such group")
	// ErrGroupLimit says that the fabric, the device or the kernel admits no further group: use fewer groups.
	ErrGroupLimit = errors.New("transport: group limit reached, use fewer groups")
	// ErrNoPeer says that a Peer was forgotten or never retained.
	ErrNoPeer = errors.New("transport: no such peer")
	// ErrPeerLimit says that Retain would exceed the transport's bound on peers: forget some first.
	ErrPeerLimit = errors.New("transport: peer limit reached, forget some")
)

// Transport is one endpoint on one fabric. See the package comment for which goroutine may call which method, and when.
type Transport interface {
	// Capabilities never change after the transport is opened, except that an
	// offload that the network card turns out to refuse is withdrawn.
	Capabilities() Capabilities

	// GroupAddress is the fabric's text for group, the same on every host with the same configuration ("239.20.0.3:7400").
	// Its hash is in packets, to separate groups that share a port or a queue pair. It returns "" for a group outside the
	// range.
	GroupAddress(group int) string

	// Alloc returns bytes of zeroed, page-aligned packet memory off the Go heap, from which Senders can transmit. It stays
	// valid until Free, even after the end of the transport, because its owner may still write to it.
	Alloc(bytes int) ([]byte, error)
	// Free frees exactly what Alloc returned. The caller must ensure that none of it is still being transmitted.
	Free(mem []byte)

	// NewSender begins joining group as a sender that does not receive
	// (send-only full member on RDMA, no membership at all on UDP).
	NewSender(group int) (Sender, error)

	// Join begins joining group as a receiver. An Event reports the result. Joining a joined group changes nothing.
	Join(group int) error
	// Leave begins leaving group. Trains already received may still be delivered. Leaving a group that was not joined
	// changes nothing.
	Leave(group int) error

	// Poll fills b with what has arrived, up to the capacity of its slices, without waiting, and
	// continues pending work. It returns an error that matches net.ErrClosed when a Close is complete;
	// other errors are final too, and name the fault.
	Poll(b *Batch) error
	// Release returns a lent train to the transport.
	Release(t *Train)

	// Wait blocks until Poll may have something, Wake is called, or timeout
	// has passed; a negative timeout means no limit. It may return early.
	Wait(timeout time.Duration) error
	// Wake makes the current or the next Wait return.
	Wake()

	// Retain turns the source of a lent train into a peer to reply to. The
	// same source gives the same peer; each Retain needs its Forget.
	Retain(from Source) (Peer, error)
	// Forget releases a peer once.
	Forget(p Peer)
	// Reply sends one packet to a peer. The packet is copied or sent before Reply returns. ErrBusy
	// means it was not sent: control packets may be lost, so callers count it and continue. If it takes
	// time to find the path to a peer, Poll then sends the latest packets to it.
	Reply(p Peer, packet []byte) error
	// SourceAddress is the fabric's text for the sender of a lent train ("10.0.0.7:40233"): for logs, and to group senders
	// by host, never an identity. It is empty if the transport no longer knows it.
	SourceAddress(from Source) string
	// PeerAddress is the same text for a retained peer.
	PeerAddress(p Peer) string

	// Stats is a snapshot of the counters.
	Stats() Stats

	// Close begins closing: senders and receivers stop, and lent memory becomes invalid when Poll reports the end. It is
	// idempotent.
	Close() error
}

// Sender transmits to one group from this transport's unicast address, where replies arrive (as trains of group
// Unicast).
type Sender interface {
	// Send transmits the packets of t in order and returns how many it accepted. If these are fewer than t.Count it also
	// returns an error: ErrBusy, ErrNotReady, or one of the fabric. The memory of an accepted packet must not change until
	// Completed includes it.
	Send(t *Outbound) (int, error)
	// Completed is how many of the packets accepted by Send since the sender was made are no longer read by the transport.
	// If sending is synchronous it equals the number accepted.
	Completed() uint64
	// Close ends the sender. It is idempotent.
	Close() error
}

// ReplyReader is a Sender with which its user can read packets that have arrived at the transport's unicast address:
// its goroutine is running, while the loop may have to wait for a processor.
type ReplyReader interface {
	Sender
	// ReadReplies calls handle with packets that have arrived for Unicast, without waiting. Only the Sender's goroutine
	// may call it, and the loop does not get these packets. A packet is valid during the call of handle. Only the first
	// call allocates.
	ReadReplies(handle func(packet []byte))
	// ReplyAddress is the source of the packet for which handle is being called, as Transport.SourceAddress has it.
	ReplyAddress() string
}

// Outbound is a train to send: Count packets, the i-th at Data[i*Stride:] with Lens[i] bytes. If all packets have
// length Stride, but the last, which may be shorter, the train goes out in one system call where the fabric has
// equal-size trains (Capabilities.EqualTrains).
type Outbound struct {
	Data   []byte
	Stride int
	Count  int
	Lens   []uint16 // bytes of each packet; len(Lens) >= Count
}

// Train is a run of received packets, back to back in lent memory: all take
// SegmentSize bytes but the last, which may take fewer.
type Train struct {
	Data        []byte
	SegmentSize int // bytes, > 0 when Data is not empty
	// Head and Tail are numbers of bytes at the beginning and at the end of each segment that are not part of the packet:
	// added by package transport/sealed.
	Head, Tail uint8
	Leg        uint8 // index of the leg on which it arrived; 0 without legs
	Group      int   // index of the group it was sent to, or Unicast
	From       Source
	Lease      uint64 // for the transport's use in Release
}

// Count is the number of packets in the train.
func (t *Train) Count() int {
	if t.SegmentSize <= 0 {
		return 0
	}
	return (len(t.Data) + t.SegmentSize - 1) / t.SegmentSize
}

// Packet returns the i-th packet of the train, 0 <= i < Count.
func (t *Train) Packet(i int) []byte {
	lo := i * t.SegmentSize
	hi := min(lo+t.SegmentSize, len(t.Data)) - int(t.Tail)
	return t.Data[lo+int(t.Head) : hi : hi]
}

// Source names the sender of a lent train, until the train is released.
type Source uint64

// Peer names a retained source: a socket address, an address handle. Zero is no peer.
type Peer uint32

// Batch receives the result of a Poll. The caller sets the capacity of the slices once; Poll sets their length, and the
// other fields.
type Batch struct {
	Trains []Train
	Events []Event
	// More means that some packets that had arrived when a round began may still be unread: the caller polls again before
	// it concludes that a packet is missing. A round begins with the first Poll after one without More. It ends when about
	// as much was read as the receive buffer held then, even if more arrives than is read.
	More bool
	// RepliesLost means that packets for Unicast were dropped on this host since the last Poll, as far as the
	// transport knows: a peer may only seem silent.
	RepliesLost bool
}

// NewBatch returns a batch for up to trains trains and 16 events a poll.
func NewBatch(trains int) *Batch {
	return &Batch{Trains: make([]Train, 0, trains), Events: make([]Event, 0, 16)}
}

// Role is the role in which a group was joined.
type Role uint8

const (
	// RoleReceiver is a full member (Join).
	RoleReceiver Role = iota
	// RoleSender is a send-only member (NewSender).
	RoleSender
)

func (r Role) String() string {
	if r == RoleSender {
		return "sender"
	}
	return "receiver"
}

// Membership is the state of a group in one role.
type Membership uint8

const (
	// Joined: packets flow.
	Joined Membership = iota
	// Left: the leave is complete.
	Left
	// Failed: the join was refused; Err has the reason. It is not retried.
	Failed
	// Lost: an established membership was lost; the transport is joining again, and reports Joined when it has.
	Lost
)

func (m Membership) String() string {
	switch m {
	case Joined:
		return "joined"
	case Left:
		return "left"
	case Failed:
		return "failed"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("Membership(%d)", uint8(m))
}

// EventKind is what an Event reports.
type EventKind uint8

const (
	// MembershipChanged: Group, Role and State say which membership, and what it is now. All other kinds concern the
	// endpoint; Err has the reason.
	MembershipChanged EventKind = iota
	// LegLost: a leg carries less than it should. LegJoined: it carries everything again.
	LegLost
	LegJoined
	// Unreadable: packets arrive that cannot be opened. Err is an *UnreadableError; each reason is reported once.
	Unreadable
	// Unfindable: new endpoints can no longer discover this one; existing connections continue. It is reported once.
	Undiscoverable
	// Unmet: this endpoint cannot connect to some others, because it has too few descriptors or they have another version:
	// neither side receives the other. Err has their number. It is reported again only after all were connected.
	Unmet
)

// Event reports a change of a group's membership, or of the endpoint.
type Event struct {
	Kind  EventKind
	Group int // this and the next two are for MembershipChanged
	Role  Role
	State Membership
	Leg   uint8 // for LegLost and LegJoined
	Err   error // for Failed and Lost, and for all other kinds but LegJoined
}

// Stats is a snapshot of what a transport counts.
type Stats struct {
	stats.Transport
	Legs []stats.Leg // of a transport over several others, in the order of the configuration
	Seal stats.Seal  // of a transport that seals
}

// Capabilities describes what the fabric can do and which offloads are in use.
type Capabilities struct {
	Name          string // "udp", "mem", "ud"
	Groups        int    // number of groups in the range
	MaxPacket     int    // bytes; the largest packet that fits the fabric
	PacketSize    int    // bytes; the size to fill packets to, <= MaxPacket
	MaxTrain      int    // packets in one Outbound, at most
	MaxTrainBytes int    // bytes in one Outbound, at most
	Batch         int    // trains that one Poll can return
	LendMax       int    // trains that may be kept past the next Poll; a caller that keeps more is lent less
	// ReceiveCapacity is how many packets of PacketSize bytes, each arriving on its own, wait for a
	// Poll without loss: the real capacity of the kernel's buffer or the receive queue.
	ReceiveCapacity int
	// GroupsTogether: ReceiveCapacity is for all groups together, not for each. SendersApart: it is for each sending
	// endpoint.
	GroupsTogether, SendersApart bool
	// EqualTrains: trains of packets of equal size are cheap (GSO), so that padding a nearly full packet saves time.
	// Otherwise padding is a waste.
	EqualTrains bool
	GSO         bool // UDP generic segmentation offload is in use
	GRO         bool // UDP generic receive offload is in use
	// PeersUnchecked: for other endpoints of the fabric Checked may be false, so publishers add a checksum for them.
	PeersUnchecked bool
	// Checked: the fabric itself protects packets against damage. Otherwise packets carry a CRC-32C.
	Checked bool
	// SealOverhead is the number of bytes that sealing adds to each packet, 0 without sealing. A transport that seals
	// delivers only packets that open (package transport/sealed).
	SealOverhead int
	// ReadOnly: other processes read the memory of received packets, too, so a write to it is a fault.
	ReadOnly bool
}
