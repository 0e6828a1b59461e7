package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Request is a message that receivers reply to, at its publisher. Topic and number identify it. docs/protocol §24.
//
//	           its packet has a sequence            Close
//	┌─────────┐ ───────────────────────► ┌──────┐ ───────► ┌────────┐
//	│ written │                          │ open │          │ closed │
//	└─────────┘ ───────────────────────────────────────────► └────────┘
type Request struct {
	// Ready is called when there is a reply to take, or one fewer to wait for.
	Ready func()

	key      requestKey
	topic    *Topic
	at       Instant // when it got its sequence
	seq      uint64  // of the packet in which it ends
	open     bool
	closed   bool
	from     []responder
	replies  []Reply
	answered int
}

// requestKey identifies a request within a stream.
type requestKey struct{ topic, number uint64 }

// Reply is one receiver's reply to a request.
type Reply struct {
	Receiver uint64
	// Name, Address and Tag are those of the receiver, as in Member.
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
	due      Instant
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

// requests holds a stream's requests, and schedules recalls.
type requests struct {
	open  map[requestKey]*Request
	order []*Request // open requests, the oldest first, and some closed ones
	due   Instant    // next recall, or check whether a receiver has left
	rtt   rttEstimator
	bytes int             // of replies that are incomplete, or not taken
	asked []recalledReply // replies asked for by the last train
}

// recalledReply is a reply for which a packet of a train asks.
type recalledReply struct {
	r      *Request
	from   int // index in r.from
	packet int // of the train
}

const (
	// minRecall is the shortest time before a reply is asked for again: receivers answer when they are scheduled.
	// firstRecall is that time before the first reply was measured; maxRecall bounds the doubling.
	minRecall   = time.Millisecond
	firstRecall = 10 * time.Millisecond
	maxRecall   = 250 * time.Millisecond
	// recallEvery is the shortest interval between two scans of all open requests.
	recallEvery = 500 * time.Microsecond
	// maxReplyBytes bounds the received replies of a publisher that are not taken.
	maxReplyBytes = 64 << 20
)

// AppendRequest is Append for a request.
func (w *Writer) AppendRequest(t *Topic, msg []byte, r *Request) bool {
	w.endRun() // a request has its own run
	if !w.appendRun(t, msg, wire.RunFlagRequest) {
		return false
	}
	w.runs[len(w.runs)-1].request = true
	w.endRun()
	w.endTail()
	w.asked(t, r)
	return true
}

// AppendRequestFragment is AppendFragment for a request, or for an ordinary message if r is nil.
func (w *Writer) AppendRequestFragment(t *Topic, msg []byte, offset int, r *Request) int {
	if r == nil {
		return w.AppendFragment(t, msg, offset)
	}
	next := w.appendFragment(t, msg, offset, wire.RunFlagRequest)
	if next == len(msg) && next > offset {
		w.runs[len(w.runs)-1].request = true
		w.asked(t, r)
	}
	return next
}

// asked records that the last message written is r.
func (w *Writer) asked(t *Topic, r *Request) {
	r.topic = t
	w.requests = append(w.requests, r)
}

// assigned opens the oldest request that w has written, which has got its number and sequence.
func (q *requests) assigned(s *Sender, now Instant, w *Writer, number, seq uint64) {
	r := w.requests[0]
	if w.requests = slices.Delete(w.requests, 0, 1); r.closed {
		return
	}
	s.stats.Requests++
	r.key, r.seq, r.at, r.open = requestKey{r.topic.ID, number}, seq, now, true
	for _, m := range s.members.list {
		if m.mayWant(&s.members.questions, r.topic.ID) {
			r.from = append(r.from, responder{id: m.ID, total: -1, due: now.Add(q.retry())})
			r.from[len(r.from)-1].subscribes(&s.members.questions, m, r.topic.ID)
		}
	}
	if q.open == nil {
		q.open = make(map[requestKey]*Request)
	}
	q.open[r.key] = r
	q.order = append(q.order, r)
	q.due = min(q.due, now.Add(q.retry()))
	if len(r.from) == 0 {
		r.Ready()
	}
}

// retry is how long to wait for a reply before asking again.
func (q *requests) retry() time.Duration {
	if !q.rtt.measured {
		return firstRecall
	}
	return min(maxRecall, max(minRecall, q.rtt.smoothed+4*q.rtt.variance))
}

// Close ends the wait for replies. Later replies are dropped.
func (r *Request) Close(s *Sender) {
	if r.closed {
		return
	}
	r.closed = true
	for i := range r.from {
		s.requests.bytes -= len(r.from[i].data)
	}
	for i := range r.replies {
		s.requests.bytes -= len(r.replies[i].Data)
	}
	r.replies = nil
	if r.open {
		s.requests.close(r)
	}
}

func (q *requests) close(r *Request) {
	delete(q.open, r.key)
	if len(q.open) == 0 {
		q.due = Never
	}
	if len(q.order) >= 2*len(q.open)+16 {
		q.order = slices.DeleteFunc(q.order, func(r *Request) bool { return r.closed })
	}
}

// Take removes and returns the next reply.
func (r *Request) Take(s *Sender) (x Reply, ok bool) {
	if len(r.replies) == 0 {
		return Reply{}, false
	}
	x = r.replies[0]
	r.replies = slices.Delete(r.replies, 0, 1)
	s.requests.bytes -= len(x.Data)
	return x, true
}

// RequestState counts the members that have a request, and those that have replied.
type RequestState struct {
	Sent        bool // the request has its sequence
	Subscribers int  // members then, known to want the topic then or since, and others that have replied
	Heard       int  // of these, those that have received the request
	Answered    int  // of these, those that have replied
	Gone        int  // of these, those that left without a reply
	Owe         int  // the rest of these, and members that have not stated whether they want the topic
}

// Over reports whether no receiver is left that could reply.
func (x *RequestState) Over() bool { return x.Sent && x.Owe == 0 }

// Waits reports whether the request still waits for a receiver's reply, and asks for it.
func (r *Request) Waits(receiver uint64) bool {
	i := slices.IndexFunc(r.from, func(f responder) bool { return f.id == receiver })
	return i >= 0 && r.from[i].state == responderOwes && !(r.from[i].stranger && r.from[i].total < 0)
}

// subscribes reports whether the receiver, which is m if it is a member, was ever known to want the topic.
func (f *responder) subscribes(q *topicQuestions, m *Member, topic uint64) bool {
	f.wants = f.wants || m != nil && m.knownToWant(q, topic)
	return f.wants
}

// State returns the state of the request.
func (r *Request) State(s *Sender) RequestState {
	x := RequestState{Sent: r.open, Answered: r.answered}
	for i := range r.from {
		f := &r.from[i]
		if f.stranger && f.refused && f.state != responderAnswered {
			continue // the receiver may not exist
		}
		if f.state == responderOwes {
			x.Owe++
		}
		m := s.members.byID[f.id]
		if !f.subscribes(&s.members.questions, m, r.topic.ID) {
			continue
		}
		x.Subscribers++
		if f.state == responderAnswered || m != nil && m.Next > r.seq {
			x.Heard++
		}
		if f.state == responderGone {
			x.Gone++
		}
	}
	return x
}

// memberWent records that a member was removed: a request may wait for it.
func (q *requests) memberWent() {
	if len(q.open) > 0 {
		q.due = 0
	}
}

// handleReply processes a packet of a reply. docs/protocol §24.3.
func (s *Sender) handleReply(now Instant, signed bool, x *wire.Reply, address func() string) {
	s.stats.ReplyPackets++
	q := &s.requests
	r := q.open[requestKey{x.Topic, x.Number}]
	if r == nil {
		s.stats.RepliesLate++
		return
	}
	f := r.responder(x.Receiver, s.cfg.MaxReceivers)
	switch {
	case f == nil:
		s.stats.RepliesRefused++
		return
	case f.total >= 0 && (f.total != x.Total || f.signed != signed):
		s.stats.RepliesRefused++
		f.doubted = true
		return
	case f.state == responderAnswered:
		s.stats.RepliesDuplicate++
		return
	case x.Offset > len(f.data): // an earlier piece is lost or late
		f.due = min(f.due, now.Add(q.retry()/4))
		q.due = min(q.due, f.due)
		return
	case x.Offset+len(x.Bytes) <= len(f.data) && x.Total > 0:
		s.stats.RepliesDuplicate++
		return
	case q.bytes+len(x.Bytes) > maxReplyBytes:
		s.stats.RepliesRefused++
		return
	}
	if f.total < 0 && !f.recalled {
		q.rtt.sampleCut(now.Sub(r.at))
	}
	more := x.Bytes[len(f.data)-x.Offset:]
	f.state, f.total, f.signed = responderOwes, x.Total, signed
	if !f.refused {
		f.tries = 0
	}
	f.data = append(f.data, more...)
	q.bytes += len(more)
	if len(f.data) < f.total {
		f.due = now.Add(q.retry())
		if len(f.data)%replyBurst(s.cfg.PacketSize) == 0 {
			f.due = now // the burst that comes unasked is complete
		}
		q.due = min(q.due, f.due)
		return
	}
	reply := Reply{Receiver: f.id, Data: f.data, After: now.Sub(r.at)}
	if !s.takes(r, f, &reply) {
		q.refuse(now, f)
		s.stats.RepliesRefused++
		return
	}
	q.bytes -= len(f.data) - len(reply.Data)
	f.state, f.wants = responderAnswered, true
	r.answered++
	f.data = nil
	if m := s.members.byID[f.id]; m != nil {
		reply.Name, reply.Address, reply.Tag = m.Name, m.Address, m.Tag
	} else if address != nil {
		reply.Address = address()
	}
	r.replies = append(r.replies, reply)
	s.stats.Replies++
	r.Ready()
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
	r.from = append(r.from, responder{id: id, wants: true, total: -1, due: Never, stranger: true})
	return &r.from[len(r.from)-1]
}

// appendRecalls adds packets that ask for the replies that are due. docs/protocol §24.4.
func (s *Sender) appendRecalls(now Instant, c *control) {
	q := &s.requests
	if now < q.due || c.full() {
		return
	}
	next := Never
	q.asked = q.asked[:0]
	b := recallBuilder{c: c}
	for _, r := range q.order {
		if r.closed {
			continue
		}
		changed := false
		for i := range r.from {
			f := &r.from[i]
			if f.doubted && f.state == responderOwes && f.due <= now {
				q.again(now, f)
			}
			packet, m := c.count, s.members.byID[f.id]
			f.subscribes(&s.members.questions, m, r.topic.ID)
			switch {
			case f.state != responderOwes:
				continue
			case !f.stranger && (m == nil || !m.mayWant(&s.members.questions, r.topic.ID)):
				f.state, changed = responderGone, true
				continue
			case f.due <= now && b.add(&wire.Recalled{Receiver: f.id, Topic: r.key.topic, Number: r.key.number,
				Offset: len(f.data)}):
				s.stats.Recalled++
				f.due = now.Add(min(maxRecall, q.retry()<<min(f.tries, 8)))
				f.tries, f.recalled = min(f.tries+1, 200), true
				q.asked = append(q.asked, recalledReply{r, i, packet})
			}
			next = min(next, f.due)
		}
		if changed {
			r.Ready()
		}
	}
	b.finish()
	if q.due = next; next != Never {
		q.due = max(next, now.Add(recallEvery))
	}
}

// unsent makes due again the replies asked for by packets of the last train that the transport did not take, the ones
// from n on. Otherwise replies that always come last would never be asked for.
func (q *requests) unsent(s *Sender, now Instant, n int) {
	for _, a := range q.asked {
		if f := &a.r.from[a.from]; a.packet >= n {
			s.stats.Recalled--
			f.due, f.tries = now, f.tries-1
			q.due = min(q.due, now.Add(recallEvery))
		}
	}
	q.asked = q.asked[:0]
}
