package reliable

import (
	"bytes"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// judging takes the replies that have a proof of one byte, over and over.
type judging struct {
	noSenderSink
	given []GivenReply
}

func (x *judging) Replied(r *GivenReply) bool {
	x.given = append(x.given, *r)
	return bytes.Equal(r.Proof, bytes.Repeat([]byte{'p'}, wire.ReplyProofLen))
}

// A reply that is not taken leaves its receiver owing one, which is asked for more and more seldom and taken when it comes, without its
// proof; one of a receiver that nobody asked leaves nothing behind. docs/protocol.md §24.7.
func TestRefusedReply(t *testing.T) {
	sink := &judging{}
	a := newAsking(t, 1, func(c *SenderConfig) { c.Sink = sink })
	a.answers[0].silent = true
	r := a.ask(1)
	a.exchange()
	reply := func(receiver uint64, signed bool, text string) {
		h := a.header()
		if signed {
			h.Flags |= wire.FlagSigned
		}
		a.s.Handle(a.now, wire.AppendReply(nil, h, &wire.Reply{Receiver: receiver, Topic: a.topic.ID, Total: len(text), Bytes: []byte(text)}))
	}
	proof := func(c string) string { return string(bytes.Repeat([]byte(c), wire.ReplyProofLen)) }
	for range 3 {
		reply(100, false, "forged")
		reply(100, true, "forged"+proof("x"))
		reply(4711, true, "forged"+proof("x"))
	}
	if x, ok := r.Take(a.s); ok {
		t.Fatalf("%q is taken", x.Data)
	}
	if st := r.State(a.s); st.Subscribers != 1 || st.Answered != 0 || st.Over() || a.s.requests.bytes != 0 || a.s.Stats().RepliesRefused != 9 {
		t.Errorf("%+v, %d bytes, %+v", st, a.s.requests.bytes, a.s.Stats())
	}
	for i, x := range sink.given {
		if string(x.Data) != "forged" || x.First != (i == 0) || x.Topic != a.topic || x.Receiver != 100 && x.Receiver != 4711 {
			t.Errorf("%d was judged as %+v", i, x)
		}
	}
	before := a.s.Stats().Recalled
	for range 1000 {
		a.now = a.now.Add(time.Millisecond)
		a.exchange()
	}
	if n := a.s.Stats().Recalled - before; n < 1 || n > 8 {
		t.Errorf("asked %d times again in a second", n)
	}
	reply(100, true, "genuine"+proof("p"))
	if x, ok := r.Take(a.s); !ok || string(x.Data) != "genuine" || x.Receiver != 100 || a.s.requests.bytes != 0 {
		t.Errorf("%q, %v, %d bytes", x.Data, ok, a.s.requests.bytes)
	}
	if st := r.State(a.s); !st.Over() {
		t.Errorf("%+v", st)
	}
}
