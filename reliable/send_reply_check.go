package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// How a publisher accepts complete replies. docs/protocol §24.7.

// CompleteReply is a complete reply to be verified (SenderSink.Replied).
type CompleteReply struct {
	Topic    *Topic
	Number   uint64
	Receiver uint64
	Data     []byte
	Proof    []byte // from behind its data; empty: none
	// First: the receiver was asked, and no reply in its name was refused before.
	First bool
}

// takes reports whether the complete reply of f is accepted, and removes its proof.
func (s *Sender) takes(r *Request, f *responder, x *Reply) bool {
	var proof []byte
	if f.signed { // it is at least that long: wire.ParseReply
		n := len(x.Data) - wire.ReplyProofLen
		x.Data, proof = x.Data[:n:n], x.Data[n:]
	}
	return s.cfg.Sink.Replied(&CompleteReply{
		Topic: r.topic, Number: r.key.number, Receiver: f.id, Data: x.Data, Proof: proof, First: !f.stranger && !f.refused,
	})
}

// refuse drops a reply that may be forged: its receiver, if it was asked, still owes one. It is asked again as rarely
// as one that does not answer.
func (q *requests) refuse(now Instant, f *responder) {
	q.bytes -= len(f.data)
	f.data, f.total, f.refused, f.doubted = nil, -1, true, false
	if f.due = Never; !f.stranger {
		f.due = now.Add(min(maxRecall, q.retry()<<min(f.tries, 8)))
		f.tries = min(f.tries+1, 200)
		q.due = min(q.due, f.due)
	}
}

// again drops the received pieces of a doubted reply that is due, and asks for it from the beginning. Otherwise one
// forged piece that arrived first would block the reply forever. docs/protocol §24.3.
func (q *requests) again(now Instant, f *responder) {
	q.refuse(now, f)
	if !f.stranger {
		f.due = now
	}
}
