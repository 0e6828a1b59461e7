package topics

import "github.com/fanfaremq/fanfare/internal/wire"

// How single messages and runs are taken from a packet by a caller that reads the rest with Next.

// One takes the message of the next run, if that holds just one and there is nothing to say
// before it: with many topics nearly every run is such. The topic is nil otherwise.
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

// Open begins the next run of the packet if there is nothing to say before it: its
// messages follow those that were delivered. Run returns them.
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

// Run returns what is left of the run that Open has begun, or that the last message was in: its topic, its body, to be
// split by NextMessage with that step, and the number of the first message in it. A caller that takes messages by
// itself, up to MaxMessage bytes each, says with Took how far it came; Next goes on from there. The topic is nil when
// nothing is left, and where they are requests: Next delivers each of those.
func (r *Reader) Run() (t *Track, body []byte, step int, number uint64) {
	if t = r.track; t == nil || r.asks {
		return nil, nil, 0, 0
	}
	return t, r.body, r.step, t.next
}

// Following takes the next message of the packet, if nothing else is to be reported before it. The topic is nil
// where Next has more to look at.
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

// NextMessage splits the first message off what is left of a run. It reports false at the end, and where a message
// follows that is longer than most bytes: Reader.Next reports that one.
func NextMessage(body []byte, step, most int) (msg, rest []byte, ok bool) {
	if step > 0 && len(body) >= step {
		return body[wire.MessageHeaderLen:step:step], body[step:], true
	}
	msg, rest, ok = wire.NextMessage(body)
	return msg, rest, ok && len(msg) <= most
}

// Took says what is left of the run, and the number of the message that follows.
func (r *Reader) Took(rest []byte, next uint64) { r.body, r.track.next = rest, next }

// MaxMessage is the longest message that is delivered, in bytes.
func (r *Reader) MaxMessage() int { return r.max }
