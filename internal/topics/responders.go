package topics

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Reply is one receiver's reply to a request.
type Reply struct {
	Receiver uint64
	// Name, Address and Tag are those of the receiver, as in reliable.Member.
	Name, Address, Tag string
	Data               []byte
	After              time.Duration // time since the request got its sequence
}

// responder is a receiver from which a request expects a reply.
type responder struct {
	id       uint64
	state    responderState
	wants    bool   // it was known to want the topic, and counts as a subscriber
	data     []byte // received bytes of its reply, up to the first hole
	total    int    // bytes of the whole reply; -1: no piece arrived
	due      reliable.Instant
	tries    uint8
	recalled bool // it was asked again
	stranger bool // it was no member when the request was published
	signed   bool // its reply ends with its proof
	doubted  bool // a piece contradicts data: one of both is forged
	refused  bool // a reply in its name was refused
}

type responderState uint8

const (
	responderOwes responderState = iota
	responderAnswered
	responderGone // or never a subscriber
)

// subscribes updates whether the receiver was ever known to want the topic. It returns the receiver if it is a member,
// and whether it wants, or may want, the topic.
func (f *responder) subscribes(members *members, topic uint64) (m *reliable.Member, may bool) {
	m, known, may := members.member(f.id, topic)
	f.wants = f.wants || known
	return m, may
}

// responder returns the receiver's responder, adding one if needed, or nil if there are limit already.
func (r *Request) responder(id uint64, limit int) *responder {
	for i := range r.from {
		if r.from[i].id == id {
			return &r.from[i]
		}
	}
	if len(r.from) >= limit {
		return nil
	}
	r.from = append(r.from, responder{id: id, wants: true, total: -1, due: reliable.Never, stranger: true})
	return &r.from[len(r.from)-1]
}

// Handle implements reliable.SenderControl: it processes a packet of a reply. docs/protocol §24.3.
func (q *Requests) Handle(now reliable.Instant, h wire.Header, b []byte, address func() string) (bool, error) {
	if h.Type != wire.TypeReply {
		return false, nil
	}
	x, err := wire.ParseReply(b)
	if err != nil {
		return true, err
	}
	q.stats.ReplyPackets++
	r := q.open[requestKey{x.Topic, x.Number}]
	if r == nil {
		q.stats.RepliesLate++
		return true, nil
	}
	f := r.responder(x.Receiver, q.members.max)
	if f == nil {
		q.stats.RepliesRefused++
		return true, nil
	}
	if q.piece(now, r, f, h.Flags&wire.FlagSigned != 0, &x) {
		q.complete(now, r, f, address)
	}
	return true, nil
}

// piece processes a piece of the reply of f. It reports whether the reply is complete now.
func (q *Requests) piece(now reliable.Instant, r *Request, f *responder, signed bool, x *wire.Reply) bool {
	switch {
	case f.total >= 0 && (f.total != x.Total || f.signed != signed):
		q.stats.RepliesRefused++
		f.doubted = true
		return false
	case f.state == responderAnswered || x.Offset+len(x.Bytes) <= len(f.data) && x.Total > 0:
		q.stats.RepliesDuplicate++
		return false
	case x.Offset > len(f.data): // an earlier piece is lost or late
		f.due = min(f.due, now.Add(q.retry()/4))
		q.due = min(q.due, f.due)
		return false
	case q.bytes+len(x.Bytes) > maxReplyBytes:
		q.stats.RepliesRefused++
		return false
	}
	if f.total < 0 && !f.recalled {
		q.took.sample(now.Sub(r.at))
	}
	more := x.Bytes[len(f.data)-x.Offset:]
	f.state, f.total, f.signed = responderOwes, x.Total, signed
	if !f.refused {
		f.tries = 0
	}
	f.data = append(f.data, more...)
	q.bytes += len(more)
	if len(f.data) >= f.total {
		return true
	}
	f.due = now.Add(q.retry())
	if len(f.data)%q.burst == 0 {
		f.due = now // the burst that comes unasked is complete
	}
	q.due = min(q.due, f.due)
	return false
}

// complete takes the complete reply of f, without its proof, or refuses it. docs/protocol §24.7.
func (q *Requests) complete(now reliable.Instant, r *Request, f *responder, address func() string) {
	x := CompleteReply{Topic: r.topic, Number: r.key.number, Receiver: f.id, Data: f.data}
	if x.First = !f.stranger && !f.refused; f.signed { // it is at least that long: wire.ParseReply
		n := len(f.data) - wire.ReplyProofLen
		x.Data, x.Proof = f.data[:n:n], f.data[n:]
	}
	if !q.sink.Accept(&x) {
		q.refuse(now, f)
		q.stats.RepliesRefused++
		return
	}
	q.bytes -= len(x.Proof)
	reply := Reply{Receiver: f.id, Data: x.Data, After: now.Sub(r.at)}
	f.state, f.wants = responderAnswered, true
	r.answered++
	f.data = nil
	if m, _, _ := q.members.member(f.id, r.topic.ID); m != nil {
		reply.Name, reply.Address, reply.Tag = m.Name, m.Address, m.Tag
	} else if address != nil {
		reply.Address = address()
	}
	r.replies = append(r.replies, reply)
	q.stats.Replies++
	r.Ready()
}

// CompleteReply is a complete reply to be verified.
type CompleteReply struct {
	Topic    *Topic
	Number   uint64
	Receiver uint64
	Data     []byte
	Proof    []byte // from behind its data; empty: none
	// First: the receiver was asked, and no reply in its name was refused before.
	First bool
}

// refuse drops a reply that may be forged: its receiver, if it was asked, still owes one. It is asked again as rarely
// as one that does not answer.
func (q *Requests) refuse(now reliable.Instant, f *responder) {
	q.bytes -= len(f.data)
	f.data, f.total, f.refused, f.doubted = nil, -1, true, false
	if f.due = reliable.Never; !f.stranger {
		f.due = now.Add(min(maxRecall, q.retry()<<min(f.tries, 8)))
		f.tries = min(f.tries+1, 200)
		q.due = min(q.due, f.due)
	}
}

// replyTime estimates how long a reply takes, as TCP does for round trips (RFC 6298).
type replyTime struct {
	smoothed, variance time.Duration // 0: nothing was measured
}

// sample adds a time. One that is much longer than usual moves the estimate by a limited amount.
func (x *replyTime) sample(d time.Duration) {
	if x.smoothed != 0 {
		d = min(d, x.smoothed+x.smoothed/2+100*time.Microsecond)
	}
	d = min(max(d, minReplyTime), maxReplyTime)
	if x.smoothed == 0 {
		x.smoothed, x.variance = d, d/2
		return
	}
	x.variance += (max(x.smoothed-d, d-x.smoothed) - x.variance) / 4
	x.smoothed += (d - x.smoothed) / 8
}

// recalledReply is a reply for which a packet of a train asks.
type recalledReply struct {
	r      *Request
	from   int // index in r.from
	packet int // of those in the train
}

// recallScan is a scan of all requests for replies to recall, which continues with the next packet of the train.
type recallScan struct {
	open     bool
	at, from int              // next: an index in Requests.order, and one in the from of that request
	next     reliable.Instant // when the next reply of those before is due
	packets  int              // in the train
}

// Append implements reliable.SenderControl: the packets ask for the replies that are due, for doubted ones
// from the beginning. docs/protocol §24.3, §24.4.
func (q *Requests) Append(now reliable.Instant, h wire.Header, buf []byte) []byte {
	if now < q.due {
		return nil
	}
	if !q.scan.open {
		q.scan = recallScan{open: true, next: reliable.Never}
	}
	p := q.recall(now, wire.AppendRecallHeader(buf, h), false)
	n := (len(p) - wire.RecallHeaderLen) / wire.RecallEntryLen
	if n == 0 {
		return nil
	}
	q.scan.packets++
	wire.FinishRecall(p, n)
	return p
}

// recall continues the scan, to its end or until p is full, and appends replies that are due to the packet p. If the
// train is full they stay due.
func (q *Requests) recall(now reliable.Instant, p []byte, full bool) []byte {
	x := &q.scan
	for ; x.at < len(q.order); x.at, x.from = x.at+1, 0 {
		for r := q.order[x.at]; x.from < len(r.from) && !r.closed; x.from++ {
			f := &r.from[x.from]
			if f.doubted && f.state == responderOwes && f.due <= now { // else a forged first piece would block the reply
				if q.refuse(now, f); !f.stranger {
					f.due = now
				}
			}
			_, may := f.subscribes(q.members, r.topic.ID)
			switch {
			case f.state != responderOwes:
				continue
			case !f.stranger && !may:
				f.state = responderGone
				r.Ready()
				continue
			case f.due > now || full:
			case len(p)+wire.RecallEntryLen > cap(p):
				return p
			default:
				p = wire.AppendRecalled(p, &wire.Recalled{Receiver: f.id, Topic: r.key.topic, Number: r.key.number,
					Offset: len(f.data)})
				q.stats.Recalled++
				f.due = now.Add(min(maxRecall, q.retry()<<min(f.tries, 8)))
				f.tries, f.recalled = min(f.tries+1, 200), true
				q.asked = append(q.asked, recalledReply{r, x.from, x.packets})
			}
			x.next = min(x.next, f.due)
		}
	}
	if q.due, x.open = x.next, false; x.next != reliable.Never {
		q.due = max(x.next, now.Add(recallEvery))
	}
	return p
}

// Sent implements reliable.SenderControl: it makes due again the replies asked for by packets that were not sent.
// Otherwise replies that always come last would never be asked for.
func (q *Requests) Sent(now reliable.Instant, n int) {
	if q.scan.open { // the train was full: see which receivers of the rest have left
		q.recall(now, nil, true)
	}
	for _, a := range q.asked {
		if f := &a.r.from[a.from]; a.packet >= n {
			q.stats.Recalled--
			f.due, f.tries = now, f.tries-1
			q.due = min(q.due, now.Add(recallEvery))
		}
	}
	q.asked, q.scan = q.asked[:0], recallScan{}
}
