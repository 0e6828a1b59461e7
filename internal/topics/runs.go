package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Fast ways to take single messages and runs from a packet. The caller reads the rest with Next.

// One returns the message of the next run, if the run has no other and nothing is to be reported before it. With many
// topics nearly every run is like that. Otherwise the topic is nil.
func (r *Reader) One() (t *Track, number uint64, msg []byte) {
	if r.track != nil && len(r.body) > 0 {
		return nil, 0, nil
	}
	topic, number, msg, ok := wire.PeekMessage(r.runs)
	if !ok || len(msg) > r.max {
		return nil, 0, nil
	}
	if t = r.follows(topic, number); t == nil {
		return nil, 0, nil
	}
	t.next++
	r.track, r.runs = nil, r.runs[wire.RunHeaderLen+wire.MessageHeaderLen+len(msg):]
	return t, number, msg
}

// Open begins the next run of the packet, if its messages follow the delivered ones with nothing to report before them.
// Run returns them.
func (r *Reader) Open() bool {
	if r.track != nil && len(r.body) > 0 {
		return false
	}
	topic, number, n, ok := wire.PeekMessages(r.runs)
	if !ok {
		return false
	}
	t := r.follows(topic, number)
	if t == nil {
		return false
	}
	body := r.runs[wire.RunHeaderLen:n:n]
	r.runs = r.runs[n:]
	r.begin(t, body)
	return true
}

// Run returns the rest of the run that Open has begun, or that the last message was in: its topic, its body for
// NextMessage with step, and the number of the first message in it. The caller takes messages of up to MaxMessage bytes
// and reports with Took how far it came; Next continues there. The topic is nil if nothing is left, or if the messages
// are requests, which only Next delivers.
func (r *Reader) Run() (t *Track, body []byte, step int, number uint64) {
	if t = r.track; t == nil || r.asks {
		return nil, nil, 0, 0
	}
	return t, r.body, r.step, t.next
}

// Following returns the next message of the packet, if nothing is to be reported before it. Otherwise the topic is nil:
// call Next.
func (r *Reader) Following() (t *Track, number uint64, msg []byte) {
	if t = r.track; t != nil && !r.asks {
		if msg, rest, ok := NextMessage(r.body, r.step, r.max); ok {
			number = t.next
			r.body, t.next = rest, number+1
			return t, number, msg
		}
	}
	if t, number, msg = r.One(); t != nil {
		return t, number, msg
	}
	if !r.Open() {
		return nil, 0, nil
	}
	msg, rest, ok := NextMessage(r.body, r.step, r.max)
	if !ok {
		return nil, 0, nil
	}
	t = r.track
	number = t.next
	r.body, t.next = rest, number+1
	return t, number, msg
}

// NextMessage splits the first message off the rest of a run. It returns false at the end, and before a message longer
// than most bytes, which Reader.Next reports.
func NextMessage(body []byte, step, most int) (msg, rest []byte, ok bool) {
	if step > 0 && len(body) >= step {
		return body[wire.MessageHeaderLen:step:step], body[step:], true
	}
	msg, rest, ok = wire.NextMessage(body)
	return msg, rest, ok && len(msg) <= most
}

// Took sets the rest of the run, and the number of the next message.
func (r *Reader) Took(rest []byte, next uint64) { r.body, r.track.next = rest, next }

// MaxMessage returns the longest message that is delivered, in bytes.
func (r *Reader) MaxMessage() int { return r.max }

// fragment adds a fragment. After the last one it returns true and fills in it: with the message, or with a gap if the
// message is too long or incomplete. docs/protocol §10.2.
func (r *Reader) fragment(t *Track, run wire.Run, it *Item) bool {
	f, err := wire.ParseFragment(run.Body)
	if err != nil {
		r.drop()
		return false
	}
	r.unused = 0
	last := f.Offset+len(f.Bytes) == f.Total
	switch {
	case f.Total > r.max:
		r.expect, r.broken = 0, events.CauseTooLarge
	case f.Offset == 0:
		r.partial, r.expect, r.pTrack, r.pNumber, r.broken = r.partial[:0], f.Total, t, run.Number, events.CauseNone
	case r.expect == 0 && r.broken != events.CauseNone: // its beginning was lost
	case r.expect == 0 || r.pTrack != t || r.pNumber != run.Number || f.Total != r.expect || f.Offset != len(r.partial):
		r.expect, r.broken = 0, events.CauseMisnumbered
		r.fault(events.FaultFragments, t)
	}
	if r.expect == 0 {
		if last {
			// Reported with the last fragment: no later message may ever arrive.
			*it = Item{Topic: t, Number: run.Number, Lost: 1, Cause: r.broken}
			t.next, r.broken = run.Number+1, events.CauseNone
		}
		return last
	}
	r.partial = append(r.partial, f.Bytes...)
	if len(r.partial) < f.Total {
		return false
	}
	r.expect = 0
	*it = Item{Topic: t, Number: run.Number, Data: r.partial}
	t.next = run.Number + 1
	return true
}

// A reader frees memory for fragments of more than keptPartial bytes when unusedPackets in a row had none, so that one
// large message does not hold memory permanently.
const (
	keptPartial   = 1 << 20
	unusedPackets = 256
)
