package reliable

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Errors of Respond.
var (
	// ErrAnswered: this receiver has already replied to the request.
	ErrAnswered = errors.New("the request has a reply of this receiver")
	// ErrRequesterGone: the publisher of the request has ended or is lost.
	ErrRequesterGone = errors.New("the publisher of the request is gone")
)

// keptReplies holds the replies that publishers may still ask a receiver for. A reply is kept for replyKeep after it
// was last sent; beyond maxKeptBytes the least recently sent replies are dropped. docs/protocol §24.
type keptReplies struct {
	byKey  map[replyKey]*keptReply
	first  *keptReply // least recently sent
	last   *keptReply
	bytes  int
	budget tokenBucket // for recalled replies
}

// replyKey identifies a request at a receiver.
type replyKey struct {
	st      *Stream
	request requestKey
}

// keptReply is one kept reply.
type keptReply struct {
	key        replyKey
	signed     bool // data ends with its proof
	data       []byte
	at, end    int    // range of data that is to be sent now
	queued     bool   // in its stream's queue
	again      bool   // the queued piece was sent before
	sentAt     upTime // last time; before the first, when the reply was made
	prev, next *keptReply
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
)

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
func (r *Receiver) Respond(now Instant, of events.Instance, topic, number uint64, data []byte, signed bool) error {
	if err := CheckReply(data); err != nil {
		return err
	}
	st := r.instances.streams[of]
	if st == nil || st.life.down {
		return ErrRequesterGone
	}
	q := &r.kept
	key := replyKey{st, requestKey{topic, number}}
	if q.byKey[key] != nil {
		return ErrAnswered
	}
	if q.byKey == nil {
		q.byKey = make(map[replyKey]*keptReply)
		q.budget.init(recallRate, recallBurst, now)
	}
	a := &keptReply{key: key, signed: signed, data: data, sentAt: r.up(now)}
	q.byKey[key] = a
	q.append(a)
	for q.bytes += len(data) + replyCost; q.bytes > maxKeptBytes && q.first != a; {
		q.drop(q.first)
		r.stats.RepliesDropped++
	}
	st.send(a, 0)
	r.stats.Replies++
	return nil
}

// send queues a burst of a reply, from offset on.
func (st *Stream) send(a *keptReply, offset int) {
	a.at = offset
	a.end = min(len(a.data), offset+replyBurst(st.packetSize))
	if !a.queued {
		a.queued = true
		st.path.replies = append(st.path.replies, a)
	}
	st.r.wake.by(0)
}

// appendReply appends the next packet of a queued reply to buf, or returns nil. again: the packet was sent before.
// docs/protocol §24.2.
func (st *Stream) appendReply(now Instant, buf []byte) (p []byte, again bool) {
	for len(st.path.replies) > 0 {
		a := st.path.replies[0]
		if !a.queued || st.life.down { // dropped meanwhile
			st.path.dequeue()
			continue
		}
		n := min(wire.MaxReplyBytes(st.packetSize), a.end-a.at)
		h := st.header()
		if a.signed {
			h.Flags |= wire.FlagSigned
		}
		p = wire.AppendReply(buf, h, &wire.Reply{
			Receiver: st.r.cfg.ID, Topic: a.key.request.topic, Number: a.key.request.number,
			Total: len(a.data), Offset: a.at, Bytes: a.data[a.at : a.at+n],
		})
		p = append(p, make([]byte, padded(len(p)-len(buf), st.r.cfg.Pad, st.packetSize)-(len(p)-len(buf)))...)
		p = st.withChecksum(p)
		st.r.stats.ReplyPackets++
		again = a.again
		if a.at += n; a.at == a.end {
			st.path.dequeue()
			a.sentAt = st.r.up(now)
			st.r.kept.renew(a)
		}
		return p, again
	}
	return nil, false
}

// dequeue removes the first reply from the queue.
func (x *paths) dequeue() {
	x.replies[0].queued = false
	x.replies[0] = nil
	if x.replies = x.replies[1:]; len(x.replies) == 0 {
		x.replies = nil
	}
}

// recall processes a publisher's requests for replies. docs/protocol §24.4.
func (st *Stream) recall(now Instant, x *wire.Recall) {
	r, q := st.r, &st.r.kept
	for i := range x.Count {
		e := x.At(i)
		if e.Receiver != r.cfg.ID {
			continue
		}
		a := q.byKey[replyKey{st, requestKey{e.Topic, e.Number}}]
		switch {
		case a == nil:
			r.stats.RepliesUnknown++ // not made yet, or dropped
		case a.queued || e.Offset > len(a.data) || e.Offset == len(a.data) && e.Offset > 0:
		case e.Offset < a.end && r.up(now).sub(a.sentAt) < st.nak.rtt.value()/2: // in transit
		default:
			n := min(len(a.data)-e.Offset, replyBurst(st.packetSize))
			if q.budget.refill(now); !q.budget.take(now, n) {
				continue // the publisher will ask again
			}
			r.stats.RepliesRecalled++
			a.again = e.Offset < a.end
			st.send(a, e.Offset)
		}
	}
}

// replyBurst is how many bytes of a reply are sent at a time, before the publisher asks for more. docs/protocol §24.2.
func replyBurst(packetSize int) int {
	return min(32, max(1, 65536/packetSize)) * wire.MaxReplyBytes(packetSize)
}

// append adds a as the most recently sent reply.
func (q *keptReplies) append(a *keptReply) {
	a.prev, a.next = q.last, nil
	if q.last == nil {
		q.first = a
	} else {
		q.last.next = a
	}
	q.last = a
}

// unlink removes a from the list.
func (q *keptReplies) unlink(a *keptReply) {
	if a.prev == nil {
		q.first = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next == nil {
		q.last = a.prev
	} else {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
}

// renew moves a to the end: it was just sent.
func (q *keptReplies) renew(a *keptReply) {
	if q.byKey[a.key] == a {
		q.unlink(a)
		q.append(a)
	}
}

func (q *keptReplies) drop(a *keptReply) {
	q.unlink(a)
	delete(q.byKey, a.key)
	q.bytes -= len(a.data) + replyCost
	a.queued = false
}

// forget drops the replies to a stream that is removed.
func (q *keptReplies) forget(st *Stream) {
	for a := q.first; a != nil; {
		next := a.next
		if a.key.st == st {
			q.drop(a)
		}
		a = next
	}
	st.path.replies = nil
}

// expires is when the first reply is to be dropped. There must be one.
func (q *keptReplies) expires() upTime {
	return q.first.sentAt.add(replyKeep)
}

// expire drops the replies that were last sent long ago.
func (q *keptReplies) expire(now upTime) {
	for q.first != nil && now >= q.expires() {
		q.drop(q.first)
	}
}
