package topics

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Requests holds the open requests of a publisher's stream, and schedules recalls. docs/protocol §24.
type Requests struct {
	members *members
	sink    SenderSink
	burst   int // bytes of a reply that come unasked
	open    map[requestKey]*Request
	waiting map[*Request]struct{} // written and not closed
	order   []*Request            // open requests, the oldest first, and some closed ones
	due     reliable.Instant      // next recall, or check whether a receiver has left
	took    replyTime
	bytes   int // of replies that are incomplete, or not taken
	scan    recallScan
	asked   []recalledReply // replies asked for by the last train
	stats   stats.SenderMessages
}

// Request is a message that receivers reply to, at its publisher. Topic and number identify it.
//
//	           its packet has a sequence            Close
//	┌─────────┐ ───────────────────────► ┌──────┐ ───────► ┌────────┐
//	│ written │                          │ open │          │ closed │
//	└─────────┘ ───────────────────────────────────────────► └────────┘
type Request struct {
	// Ready is called when there is a reply to take, or one fewer to wait for. It may close requests.
	Ready func()

	q        *Requests // nil: not written yet
	key      requestKey
	topic    *Topic
	at       reliable.Instant // when it got its sequence
	seq      uint64           // of the packet in which it ends
	open     bool
	closed   bool
	from     []responder
	replies  []Reply
	answered int
}

const (
	// minRecall is the shortest time before a reply is asked for again: receivers answer when they are scheduled.
	// firstRecall is that time before the first reply was measured; maxRecall bounds the doubling.
	minRecall   = time.Millisecond
	firstRecall = 10 * time.Millisecond
	maxRecall   = 250 * time.Millisecond
	// minReplyTime and maxReplyTime bound a plausible time of a reply, as for round trips of package reliable.
	minReplyTime, maxReplyTime = 5 * time.Microsecond, 500 * time.Millisecond
	// recallEvery is the shortest interval between two scans of all open requests.
	recallEvery = 500 * time.Microsecond
	// maxReplyBytes bounds the received replies of a publisher that are not taken.
	maxReplyBytes = 64 << 20
)

// init begins without requests, for a stream with these members and packets of packetSize bytes.
func (q *Requests) init(to *members, packetSize int, sink SenderSink) {
	*q = Requests{members: to, sink: sink, burst: replyBurst(packetSize), due: reliable.Never,
		open: make(map[requestKey]*Request), waiting: make(map[*Request]struct{})}
}

// Write is Writer.Append for a request.
func (q *Requests) Write(w *Writer, t *Topic, msg []byte, r *Request) bool {
	if !w.AppendAlone(t, msg, wire.RunFlagRequest) {
		return false
	}
	q.written(w, t, r)
	return true
}

// WriteFragment is Writer.AppendFragment for a request, or for an ordinary message if r is nil.
func (q *Requests) WriteFragment(w *Writer, t *Topic, msg []byte, offset int, r *Request) int {
	if r == nil {
		return w.AppendFragment(t, msg, offset, 0)
	}
	next := w.AppendFragment(t, msg, offset, wire.RunFlagRequest)
	if next == len(msg) && next > offset {
		q.written(w, t, r)
	}
	return next
}

// written records that the last message written is r.
func (q *Requests) written(w *Writer, t *Topic, r *Request) {
	w.Track(r)
	r.q, r.topic = q, t
	q.waiting[r] = struct{}{}
}

// Waiting is how many requests are written and not closed.
func (q *Requests) Waiting() int { return len(q.waiting) }

// Wake calls Ready of these requests.
func (q *Requests) Wake() {
	for r := range q.waiting {
		r.Ready()
	}
}

// Assigned implements Tracked: it opens the request.
func (r *Request) Assigned(now reliable.Instant, number, seq uint64) {
	if r.closed {
		return
	}
	q := r.q
	q.stats.Requests++
	r.key, r.seq, r.at, r.open = requestKey{r.topic.ID, number}, seq, now, true
	for _, m := range q.members.list {
		if _, known, may := q.members.member(m.m.ID, r.topic.ID); may {
			r.from = append(r.from, responder{id: m.m.ID, total: -1, due: now.Add(q.retry()), wants: known})
		}
	}
	q.open[r.key] = r
	q.order = append(q.order, r)
	q.due = min(q.due, now.Add(q.retry()))
	if len(r.from) == 0 {
		r.Ready()
	}
}

// Close ends the wait for replies. Later replies are dropped.
func (r *Request) Close() {
	q, closed := r.q, r.closed
	if r.closed = true; q == nil || closed {
		return
	}
	delete(q.waiting, r)
	for i := range r.from {
		q.bytes -= len(r.from[i].data)
	}
	for i := range r.replies {
		q.bytes -= len(r.replies[i].Data)
	}
	r.replies = nil
	if !r.open {
		return
	}
	delete(q.open, r.key)
	if len(q.open) == 0 {
		q.due = reliable.Never
	}
	if len(q.order) >= 2*len(q.open)+16 && !q.scan.open { // a scan may call Ready
		q.order = slices.DeleteFunc(q.order, func(r *Request) bool { return r.closed })
	}
}

// Take removes and returns the next reply.
func (r *Request) Take() (x Reply, ok bool) {
	if len(r.replies) == 0 {
		return Reply{}, false
	}
	x = r.replies[0]
	r.replies = slices.Delete(r.replies, 0, 1)
	r.q.bytes -= len(x.Data)
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

// State returns the state of the request.
func (r *Request) State() RequestState {
	x := RequestState{Sent: r.open, Answered: r.answered}
	for i := range r.from {
		f := &r.from[i]
		if f.stranger && f.refused && f.state != responderAnswered {
			continue // the receiver may not exist
		}
		if f.state == responderOwes {
			x.Owe++
		}
		m, _ := f.subscribes(r.q.members, r.topic.ID)
		if !f.wants {
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

// Waits reports whether the request still waits for a receiver's reply, and asks for it.
func (r *Request) Waits(receiver uint64) bool {
	i := slices.IndexFunc(r.from, func(f responder) bool { return f.id == receiver })
	return i >= 0 && r.from[i].state == responderOwes && !(r.from[i].stranger && r.from[i].total < 0)
}

// Deadline implements reliable.SenderControl.
func (q *Requests) Deadline() reliable.Instant { return q.due }

// memberLeft checks the requests: one may wait for the member that left.
func (q *Requests) memberLeft() {
	if len(q.open) > 0 {
		q.due = 0
	}
}

// retry is how long to wait for a reply before asking again.
func (q *Requests) retry() time.Duration {
	if q.took.smoothed == 0 {
		return firstRecall
	}
	return min(maxRecall, max(minRecall, q.took.smoothed+4*q.took.variance))
}

// Stats returns the counters.
func (q *Requests) Stats() stats.SenderMessages { return q.stats }
