package reliable

import (
	"errors"
	"fmt"
)

// ErrPublisherFault says that a publisher does not keep the rules of the protocol: its
// program is at fault, or forged packets come under its id. Match with errors.Is.
var ErrPublisherFault = errors.New("publisher breaks the protocol")

// Fault says what a publisher does wrong. Packets that are missing explain none of it.
// docs/protocol.md §10.3.
type Fault uint8

const (
	// FaultNumbers: message numbers that were there before come again. What has them
	// is not delivered.
	FaultNumbers Fault = iota
	// FaultHole: message numbers are left out. A gap is delivered.
	FaultHole
	// FaultFragments: the fragments of a message do not follow each other. The message
	// is lost.
	FaultFragments
	// FaultPacket: a packet does not parse, to the last message in it, or is larger
	// than the stream's packets. Nothing of it is delivered.
	FaultPacket
	// FaultAnnounced: more messages of a topic are announced than were sent. A gap is
	// delivered.
	FaultAnnounced
	// FaultTopic: messages of a topic on which the publisher may not publish. None of them is
	// delivered. Told of each topic, and Count is how often that has begun.
	FaultTopic
	// FaultUnsupported: a packet is sound, and its codec, kind of run or packet size is not one that is read
	// here. It is lost.
	FaultUnsupported
	// FaultClock: heartbeats came until the publisher was lost, and their times did not grow.
	FaultClock

	numFaults
)

func (f Fault) String() string {
	switch f {
	case FaultNumbers:
		return "message numbers come again"
	case FaultHole:
		return "message numbers are left out"
	case FaultFragments:
		return "fragments of a message do not follow each other"
	case FaultPacket:
		return "packets are malformed"
	case FaultAnnounced:
		return "more messages are announced than were sent"
	case FaultTopic:
		return "its key is not trusted for the topic"
	case FaultClock:
		return "the times of its heartbeats do not grow, by which it is lost"
	case FaultUnsupported:
		return "packets have a codec, kind of run or packet size that is not supported here"
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// FaultError is one kind of fault of a publisher. It matches ErrPublisherFault.
type FaultError struct {
	Publisher, Epoch uint64
	Topic            string // of the latest; empty for FaultPacket
	Fault            Fault
	Count            uint64 // how many so far
}

func (e *FaultError) Error() string {
	if e.Fault == FaultTopic {
		return fmt.Sprintf("messages of publisher %016x on topic %q are refused: its key, 0x%08x, is not trusted for that: add a line for it to the file of trust=, or find who runs it", e.Publisher, e.Topic, e.Publisher>>32)
	}
	if e.Fault == FaultUnsupported {
		return fmt.Sprintf("packets of publisher %016x cannot be read, %d so far: their codec, kind of run or packet size is not supported here: they are lost; run the same version of Fanfare on both sides", e.Publisher, e.Count)
	}
	topic := ""
	if e.Topic != "" {
		topic = fmt.Sprintf(" of topic %q", e.Topic)
	}
	return fmt.Sprintf("publisher %016x breaks the protocol: %s%s, %d so far: its program is at fault, or somebody forges its packets", e.Publisher, e.Fault, topic, e.Count)
}

// Is makes errors.Is(err, ErrPublisherFault) true.
func (e *FaultError) Is(target error) bool { return target == ErrPublisherFault }

// faults counts the faults of one publisher by kind.
type faults [numFaults]uint64

// add counts one. It reports whether it is to be told: the 1st, 2nd, 4th, 8th … is.
func (f *faults) add(kind Fault) (n uint64, tell bool) {
	f[kind]++
	n = f[kind]
	return n, n&(n-1) == 0
}

// toldFaults are those that a Reader finds, and who is told of them.
type toldFaults struct {
	faults
	tell func(*FaultError) // see TellFaults; nil: nobody listens
}

// TellFaults makes the reader call tell with the 1st, 2nd, 4th, 8th … fault of each kind
// that it finds, from within Next or Open. The error names no publisher.
func (r *Reader) TellFaults(tell func(*FaultError)) { r.faults.tell = tell }

func (r *Reader) fault(kind Fault, t *Track) {
	if n, tell := r.faults.add(kind); tell && r.faults.tell != nil {
		r.faults.tell(&FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}

// malformed notes that a packet of the stream does not parse.
func (st *Stream) malformed() {
	st.r.stats.Malformed++
	st.fault(FaultPacket)
}

// fault notes a fault of the publisher that a packet shows before it is read.
func (st *Stream) fault(kind Fault) {
	if n, tell := st.faults.add(kind); tell && !st.life.finished {
		e := st.r.event(EventFault, st.next)
		e.Fault = &FaultError{Publisher: st.Publisher, Epoch: st.Epoch, Fault: kind, Count: n}
		st.out.Deliver(e)
	}
}
