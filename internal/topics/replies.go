package topics

import (
	"container/list"
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Errors of Respond.
var (
	// ErrAnswered: this receiver has already replied to the request.
	ErrAnswered = errors.New("the request has a reply of this receiver")
	// ErrRequesterGone: the publisher of the request has ended or is lost.
	ErrRequesterGone = errors.New("the publisher of the request is gone")
)

// Replies holds the replies of one receiver that publishers may still ask for. A reply is kept for replyKeep after it
// was last sent; beyond maxKeptBytes the least recently sent replies are dropped. It is the receiver's
// reliable.ReceiverControl. docs/protocol §24.
//
//	          Respond            its burst is sent        replyKeep, or no memory
//	┌──────┐ ──────────► ┌────────┐ ────────────► ┌──────┐ ────────────► ┌─────────┐
//	│ none │             │ queued │               │ kept │               │ dropped │
//	└──────┘             └────────┘ ◄──────────── └──────┘               └─────────┘
//	                              a recall: sent again
type Replies struct {
	ID       uint64 // of the receiver, for publishers
	to       func(of events.Instance) (x reliable.Recipient, ok bool)
	runs     *reliable.Running
	byKey    map[replyKey]*keptReply
	order    list.List                        // of all *keptReply, the least recently sent first
	queues   map[events.Instance][]*keptReply // replies with packets to be sent
	bytes    int
	budget   float64          // bytes that may be recalled
	budgetAt reliable.Instant // when
	stats    stats.ReceiverMessages
}

// replyKey identifies a request at a receiver.
type replyKey struct {
	of      events.Instance
	request requestKey
}

// requestKey identifies a request within a stream.
type requestKey struct{ topic, number uint64 }

// keptReply is one kept reply.
type keptReply struct {
	key     replyKey
	signed  bool // data ends with its proof
	data    []byte
	at, end int              // range of data that is to be sent now
	queued  bool             // in its stream's queue
	again   bool             // the queued piece was sent before
	sentAt  reliable.Instant // Running.Ran of the last time; before the first, of when the reply was made
	inOrder *list.Element
}

const (
	// replyKeep is how long a reply is kept after it was last sent.
	replyKeep = 10 * time.Second
	// maxKeptBytes bounds the replies kept for a group, replyCost is the overhead of one, in bytes.
	maxKeptBytes = 32 << 20
	replyCost    = 256
	// recallRate and recallBurst bound recalled replies, in bytes a second and bytes at once: forged recalls must not cost
	// more.
	recallRate  = 64 << 20
	recallBurst = 1 << 20
	// wholeReplyOwed is how long a publisher may ask again for a reply that was sent to its end. It asks after the usual
	// time of a reply, which is a few milliseconds if receivers reply at once.
	wholeReplyOwed = 50 * time.Millisecond
	// moreReplyOwed is the same for a reply of which the publisher still has to ask for more, after maxRecall at the
	// latest.
	moreReplyOwed = 2 * maxRecall
)

// NewReplies returns the replies of the receiver with that id. to is its method Recipient; runs records when its owner
// runs.
func NewReplies(id uint64, to func(events.Instance) (reliable.Recipient, bool), runs *reliable.Running) *Replies {
	return &Replies{ID: id, to: to, runs: runs, budget: recallBurst,
		byKey: make(map[replyKey]*keptReply), queues: make(map[events.Instance][]*keptReply)}
}

// CheckReply returns an error that wraps ErrMessageTooLarge if data is too long for a reply.
func CheckReply(data []byte) error {
	if len(data) > wire.MaxMessage {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrMessageTooLarge, len(data), wire.MaxMessage)
	}
	return nil
}

// Respond replies with data to the request that is message number of a topic of a publisher. It keeps data. signed:
// data ends with its proof (wire.ReplyProofLen). It returns ErrAnswered, ErrRequesterGone or an error of CheckReply.
// docs/protocol §24.2, §24.7.
func (q *Replies) Respond(now reliable.Instant, of events.Instance, topic, number uint64, data []byte,
	signed bool) error {
	if err := CheckReply(data); err != nil {
		return err
	}
	to, ok := q.to(of)
	if !ok || to.Down {
		return ErrRequesterGone
	}
	key := replyKey{of, requestKey{topic, number}}
	if q.byKey[key] != nil {
		return ErrAnswered
	}
	a := &keptReply{key: key, signed: signed, data: data, sentAt: q.runs.Ran(now)}
	q.byKey[key], a.inOrder = a, q.order.PushBack(a)
	for q.bytes += len(data) + replyCost; q.bytes > maxKeptBytes && q.oldest() != a; {
		q.drop(q.oldest())
		q.stats.RepliesDropped++
	}
	q.send(a, 0, to.PacketSize)
	q.stats.Replies++
	return nil
}

// send queues a burst of a reply, from offset on.
func (q *Replies) send(a *keptReply, offset, packetSize int) {
	a.at = offset
	a.end = min(len(a.data), offset+replyBurst(packetSize))
	if !a.queued {
		a.queued = true
		q.queues[a.key.of] = append(q.queues[a.key.of], a)
	}
}

// Append implements reliable.ReceiverControl. It also drops the replies that were last sent long ago. docs/protocol
// §24.2, §24.5.
func (q *Replies) Append(now reliable.Instant, to events.Instance, buf []byte) (p []byte, again bool) {
	for a := q.oldest(); a != nil && q.runs.Ran(now).Sub(a.sentAt) >= replyKeep; a = q.oldest() {
		q.drop(a)
	}
	for len(q.queues[to]) > 0 {
		a := q.queues[to][0]
		x, _ := q.to(to)
		if !a.queued || x.Down { // dropped meanwhile
			q.dequeue(to)
			continue
		}
		n := min(wire.MaxReplyBytes(x.PacketSize), a.end-a.at)
		if a.signed {
			x.Header.Flags |= wire.FlagSigned
		}
		p = wire.AppendReply(buf, x.Header, &wire.Reply{
			Receiver: q.ID, Topic: a.key.request.topic, Number: a.key.request.number,
			Total: len(a.data), Offset: a.at, Bytes: a.data[a.at : a.at+n],
		})
		q.stats.ReplyPackets++
		if a.at += n; a.at == a.end {
			q.dequeue(to)
			a.sentAt = q.runs.Ran(now)
			q.order.MoveToBack(a.inOrder)
		}
		return p, a.again
	}
	return nil, false
}

// dequeue removes the first reply from a queue.
func (q *Replies) dequeue(to events.Instance) {
	x := q.queues[to]
	x[0].queued = false
	x[0] = nil
	if q.queues[to] = x[1:]; len(x) == 1 {
		delete(q.queues, to)
	}
}

// Handle implements reliable.ReceiverControl: it processes a publisher's requests for replies. docs/protocol §24.4.
func (q *Replies) Handle(now reliable.Instant, from events.Instance, b []byte) error {
	x, err := wire.ParseRecall(b)
	if err != nil {
		return err
	}
	to, ok := q.to(from)
	if !ok {
		return nil
	}
	if now > q.budgetAt {
		q.budget, q.budgetAt = min(recallBurst, q.budget+recallRate*now.Sub(q.budgetAt).Seconds()), now
	}
	for i := range x.Count {
		e := x.At(i)
		if e.Receiver != q.ID {
			continue
		}
		a := q.byKey[replyKey{from, requestKey{e.Topic, e.Number}}]
		switch {
		case a == nil:
			q.stats.RepliesUnknown++ // not made yet, or dropped
		case a.queued || e.Offset > len(a.data) || e.Offset == len(a.data) && e.Offset > 0:
		case e.Offset < a.end && q.runs.Ran(now).Sub(a.sentAt) < to.RTT/2: // in transit
		default:
			n := min(len(a.data)-e.Offset, replyBurst(to.PacketSize))
			if q.budget < float64(n) {
				continue // the publisher will ask again
			}
			q.budget -= float64(n)
			q.stats.RepliesRecalled++
			a.again = e.Offset < a.end
			q.send(a, e.Offset, to.PacketSize)
		}
	}
	return nil
}

// replyBurst is how many bytes of a reply are sent at a time, before the publisher asks for more. docs/protocol §24.2.
func replyBurst(packetSize int) int {
	return min(32, max(1, 65536/packetSize)) * wire.MaxReplyBytes(packetSize)
}

func (q *Replies) drop(a *keptReply) {
	q.order.Remove(a.inOrder)
	delete(q.byKey, a.key)
	q.bytes -= len(a.data) + replyCost
	a.queued = false
}

// Removed implements reliable.ReceiverControl: it drops the replies to a stream that is removed.
func (q *Replies) Removed(of events.Instance) {
	for key, a := range q.byKey {
		if key.of == of {
			q.drop(a)
		}
	}
	delete(q.queues, of)
}

// Deadline implements reliable.ReceiverControl.
func (q *Replies) Deadline() reliable.Instant {
	switch a := q.oldest(); {
	case len(q.queues) > 0:
		return 0
	case a != nil:
		return q.runs.WillHaveRan(a.sentAt.Add(replyKeep))
	}
	return reliable.Never
}

// oldest is the least recently sent reply; nil: none is kept.
func (q *Replies) oldest() *keptReply {
	if e := q.order.Front(); e != nil {
		return e.Value.(*keptReply)
	}
	return nil
}

// Owed is until when publishers may still ask for replies to requests on topics for which wanted reports true: if the
// receiver closes earlier, a requester may lack its reply. If there are none, it is not after now. §24.5.
func (q *Replies) Owed(now reliable.Instant, wanted func(topic uint64) bool) (until reliable.Instant) {
	for e := q.order.Back(); e != nil; e = e.Prev() {
		a := e.Value.(*keptReply)
		if q.runs.Ran(now).Sub(a.sentAt) >= moreReplyOwed {
			break
		}
		if to, ok := q.to(a.key.of); !ok || to.Down || !wanted(a.key.request.topic) {
			continue
		}
		switch {
		case a.queued:
			until = max(until, now.Add(moreReplyOwed))
		case a.end < len(a.data):
			until = max(until, q.runs.WillHaveRan(a.sentAt.Add(moreReplyOwed)))
		default:
			until = max(until, q.runs.WillHaveRan(a.sentAt.Add(wholeReplyOwed)))
		}
	}
	return until
}

// Stats returns the counters of replies; all others are zero.
func (q *Replies) Stats() stats.ReceiverMessages { return q.stats }
