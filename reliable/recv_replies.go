package reliable

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Errors of Respond.
var (
	// ErrAnswered says that this receiver has replied to the request.
	ErrAnswered = errors.New("the request has a reply of this receiver")
	// ErrRequesterGone says that the publisher of the request has ended, or is lost.
	ErrRequesterGone = errors.New("the publisher of the request is gone")
)

// keptReplies are the replies of a receiver that their publishers may still ask for. They are kept for replyKeep after
// they were sent last, and up to maxKeptBytes: then those go that were sent least recently. docs/protocol §24.
type keptReplies struct {
	byKey  map[replyKey]*keptReply
	first  *keptReply // sent least recently
	last   *keptReply
	bytes  int
	budget tokenBucket // for what is sent again
}

// replyKey names a request at a receiver.
type replyKey struct {
	st      *Stream
	request requestKey
}

// keptReply is one of them.
type keptReply struct {
	key        replyKey
	signed     bool // its proof stands at the end of data
	data       []byte
	at, end    int    // what of it is to be sent now
	queued     bool   // in its stream's queue
	again      bool   // it was asked for again
	sentAt     upTime // last; when it was made before that
	prev, next *keptReply
}

const (
	// replyKeep is how long a reply is kept since it was sent last.
	replyKeep = 10 * time.Second
	// maxKeptBytes bounds the replies kept of a group, replyCost what one costs beside its bytes.
	maxKeptBytes = 32 << 20
	replyCost    = 256
	// recallRate and recallBurst are what replies that are asked for again may take, in bytes a
	// second and at once: a forged recall shall not cost more.
	recallRate  = 64 << 20
	recallBurst = 1 << 20
)

// CheckReply says that data is too long for a reply.
func CheckReply(data []byte) error {
	if len(data) > wire.MaxMessage {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrMessageTooLarge, len(data), wire.MaxMessage)
	}
	return nil
}

// Respond replies with data, which it keeps, to the request that is the message number of a topic of a publisher.
// signed says that its proof stands at its end (wire.ReplyProofLen). docs/protocol §24.2, §24.7.
func (r *Receiver) Respond(now Instant, publisher, epoch, topic, number uint64, data []byte, signed bool) error {
	if err := CheckReply(data); err != nil {
		return err
	}
	st := r.instances.streams[Instance{publisher, epoch}]
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

// send queues a piece of a reply.
func (st *Stream) send(a *keptReply, offset int) {
	a.at = offset
	a.end = min(len(a.data), offset+replyBurst(st.packetSize))
	if !a.queued {
		a.queued = true
		st.path.replies = append(st.path.replies, a)
	}
	st.r.wake.by(0)
}

// appendReply appends the next packet of a reply that is to be sent to buf, or returns nil. again: it
// was sent before. docs/protocol §24.2.
func (st *Stream) appendReply(now Instant, buf []byte) (p []byte, again bool) {
	for len(st.path.replies) > 0 {
		a := st.path.replies[0]
		if !a.queued || st.life.down { // it was dropped meanwhile
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

// dequeue takes the first reply from the queue.
func (x *paths) dequeue() {
	x.replies[0].queued = false
	x.replies[0] = nil
	if x.replies = x.replies[1:]; len(x.replies) == 0 {
		x.replies = nil
	}
}

// recall takes in what a publisher asks for again. docs/protocol §24.4.
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
			r.stats.RepliesUnknown++ // not yet, or not any more
		case a.queued || e.Offset > len(a.data) || e.Offset == len(a.data) && e.Offset > 0:
		case e.Offset < a.end && r.up(now).sub(a.sentAt) < st.nak.rtt.value()/2: // it is on its way
		default:
			n := min(len(a.data)-e.Offset, replyBurst(st.packetSize))
			if q.budget.refill(now); !q.budget.take(now, n) {
				continue // it will be asked for again
			}
			r.stats.RepliesRecalled++
			a.again = e.Offset < a.end
			st.send(a, e.Offset)
		}
	}
}

// replyBurst is how many bytes of a reply go at a time: its publisher asks for more. docs/protocol §24.2.
func replyBurst(packetSize int) int {
	return min(32, max(1, 65536/packetSize)) * wire.MaxReplyBytes(packetSize)
}

// append adds a as the one sent last.
func (q *keptReplies) append(a *keptReply) {
	a.prev, a.next = q.last, nil
	if q.last == nil {
		q.first = a
	} else {
		q.last.next = a
	}
	q.last = a
}

// unlink takes a out of the list.
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

// renew notes that a was just sent.
func (q *keptReplies) renew(a *keptReply) {
	if q.byKey[a.key] == a {
		q.unlink(a)
		q.append(a)
	}
}

// drop forgets a reply.
func (q *keptReplies) drop(a *keptReply) {
	q.unlink(a)
	delete(q.byKey, a.key)
	q.bytes -= len(a.data) + replyCost
	a.queued = false
}

// forget forgets the replies to a stream that is removed.
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

// expires is when a reply is to be forgotten, if there is one.
func (q *keptReplies) expires() upTime {
	return q.first.sentAt.add(replyKeep)
}

// expire forgets the replies of long ago.
func (q *keptReplies) expire(now upTime) {
	for q.first != nil && now >= q.expires() {
		q.drop(q.first)
	}
}
