package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// delivered records how far a topic's messages are delivered, as of the last call of DeliveredOn. It only grows.
type delivered struct {
	number uint64 // all messages below it are delivered
	// Packets from the last frontier up to searched have no message of the topic. If known, the topic's first message in
	// packet searched is number.
	searched uint64
	known    bool
}

// DeliveredOn is the number of messages of t, from the first on, that have arrived at every member that is not
// released, or at as many as flow control needs. A message of several packets counts when all of them have.
//
// It searches the packets behind Delivered for the topic's next message, and so inspects each packet of the stream once
// for each topic asked.
func (s *Sender) DeliveredOn(t *Topic) uint64 {
	d := &t.delivered
	at := s.stream.Delivered()
	if d.known && at <= d.searched {
		return d.number
	}
	for seq := max(at, d.searched, s.stream.Trail()); seq < s.stream.Lead(); seq++ {
		if number, ok := s.firstOf(seq, t.ID); ok {
			d.number, d.searched, d.known = max(d.number, number), seq, true
			return d.number
		}
	}
	d.searched, d.known = s.stream.Lead(), false
	d.number = max(d.number, t.next)
	return d.number
}

// firstOf is the number of the topic's first message in packet seq.
func (s *Sender) firstOf(seq, topic uint64) (number uint64, ok bool) {
	runs := s.runs(seq)
	for {
		r, rest, ok := wire.NextRun(runs)
		if !ok {
			return 0, false
		}
		if r.Topic == topic && (r.Kind == wire.RunMessages || r.Kind == wire.RunFragment) {
			return r.Number, true
		}
		runs = rest
	}
}

// runs returns the runs of packet seq of the window, in readable form.
func (s *Sender) runs(seq uint64) []byte {
	p := s.stream.Packet(seq)
	if wire.CodecOf(p) != wire.CodecNone {
		p = s.encoder.Readable(p)
	}
	return reliable.PacketData(p)
}

// UnsentMessages is the number of messages that have a sequence but were never sent.
func (s *Sender) UnsentMessages() (n uint64) {
	for seq := s.stream.Transmitted(); seq < s.stream.Lead(); seq++ {
		runs := s.runs(seq)
		for {
			run, rest, ok := wire.NextRun(runs)
			if !ok {
				break
			}
			runs = rest
			n += endsIn(run)
		}
	}
	return n
}

// endsIn is the number of messages that end in a run.
func endsIn(run wire.Run) (n uint64) {
	switch run.Kind {
	case wire.RunFragment:
		if f, err := wire.ParseFragment(run.Body); err == nil && f.Offset+len(f.Bytes) == f.Total {
			n = 1
		}
	case wire.RunMessages:
		for _, body, ok := wire.NextMessage(run.Body); ok; _, body, ok = wire.NextMessage(body) {
			n++
		}
	}
	return n
}
