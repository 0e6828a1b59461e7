package pubsub

import "github.com/fanfaremq/fanfare/reliable"

// ErrPublisherFault: a publisher does not keep the rules of the protocol. *FaultError
// says what it does.
var ErrPublisherFault = reliable.ErrPublisherFault

// FaultError says what a publisher does wrong: its program is at fault, or somebody
// forges its packets. It is the Err of events of kind PublisherFault, which tell of the
// 1st, 2nd, 4th, 8th … time. It matches ErrPublisherFault.
type FaultError struct {
	Publisher PublisherID
	Epoch     uint64
	Topic     string // of the latest; empty for FaultPacket
	Fault     Fault
	Count     uint64 // how many so far
}

func (e *FaultError) Error() string {
	r := reliable.FaultError{Publisher: uint64(e.Publisher), Epoch: e.Epoch, Topic: e.Topic, Fault: reliable.Fault(e.Fault), Count: e.Count}
	return r.Error()
}

// Is makes errors.Is(err, ErrPublisherFault) true.
func (e *FaultError) Is(target error) bool { return target == ErrPublisherFault }

// Fault is a way to break the protocol that missing packets do not explain.
type Fault uint8

const (
	// FaultNumbers: message numbers that were there before come again. What has them
	// is not delivered.
	FaultNumbers Fault = Fault(reliable.FaultNumbers)
	// FaultHole: message numbers are left out. A gap is delivered.
	FaultHole Fault = Fault(reliable.FaultHole)
	// FaultFragments: the parts of a large message do not follow each other. The
	// message is lost.
	FaultFragments Fault = Fault(reliable.FaultFragments)
	// FaultPacket: a packet is malformed. Nothing of it is delivered.
	FaultPacket Fault = Fault(reliable.FaultPacket)
	// FaultAnnounced: more messages of a topic are announced than were sent. A gap is
	// delivered.
	FaultAnnounced Fault = Fault(reliable.FaultAnnounced)
	// FaultTopic: messages of a topic for which the publisher's signing key is not trusted
	// (Config.Trust). None of them is delivered, and they are no gap. Told once for each topic,
	// until the trust changes.
	FaultTopic Fault = Fault(reliable.FaultTopic)
	// FaultUnsupported: a packet is sound, and has a codec, a kind of run or a packet size that this version does
	// not read. Its messages are lost, with gaps of CauseUnreadable.
	FaultUnsupported Fault = Fault(reliable.FaultUnsupported)
	// FaultClock: the publisher was lost although heartbeats came, for their times did not grow: it sends them with a
	// clock that stands still or goes back, or old ones are played back.
	FaultClock Fault = Fault(reliable.FaultClock)
)

func (f Fault) String() string { return reliable.Fault(f).String() }

func publicFault(e *reliable.FaultError) *FaultError {
	return &FaultError{Publisher: PublisherID(e.Publisher), Epoch: e.Epoch, Topic: e.Topic, Fault: Fault(e.Fault), Count: e.Count}
}
