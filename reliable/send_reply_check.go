package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// Replies that are whole, and whether they are taken: docs/protocol §24.7.

// CompleteReply is a whole reply that is to be judged (SenderSink.Replied).
type CompleteReply struct {
	Topic    *Topic
	Number   uint64
	Receiver uint64
	Data     []byte
	Proof    []byte // that stood behind it; empty: none
	// First says that its receiver was asked, and that none of it was refused before.
	First bool
}

// takes reports whether the reply of f is taken, and takes its proof away.
func (s *Sender) takes(r *Request, f *responder, x *Reply) bool {
	var proof []byte
	if f.signed { // it is that long: wire.ParseReply
		n := len(x.Data) - wire.ReplyProofLen
		x.Data, proof = x.Data[:n:n], x.Data[n:]
	}
	return s.cfg.Sink.Replied(&CompleteReply{
		Topic: r.topic, Number: r.key.number, Receiver: f.id, Data: x.Data, Proof: proof, First: !f.stranger && !f.refused,
	})
}

// refuse has a receiver owe its reply still: the one that came in its name is forged. One that was not asked owes
// none. It is asked again as seldom as one that does not answer.
func (q *requests) refuse(now Instant, f *responder) {
	q.bytes -= len(f.data)
	f.data, f.total, f.refused, f.doubted = nil, -1, true, false
	if f.due = Never; !f.stranger {
		f.due = now.Add(min(maxRecall, q.retry()<<min(f.tries, 8)))
		f.tries = min(f.tries+1, 200)
		q.due = min(q.due, f.due)
	}
}

// again drops what has come of a reply that is doubted, and is due to be asked for: it is asked for from its beginning.
// Else one forged piece that came first would keep the reply out for ever. docs/protocol §24.3.
func (q *requests) again(now Instant, f *responder) {
	q.refuse(now, f)
	if !f.stranger {
		f.due = now
	}
}
