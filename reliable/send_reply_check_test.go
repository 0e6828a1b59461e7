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
	given []CompleteReply
}

func (x *judging) Replied(r *CompleteReply) bool {
	x.given = append(x.given, *r)
	return bytes.Equal(r.Proof, bytes.Repeat([]byte{'p'}, wire.ReplyProofLen))
}

// A reply that is refused leaves its receiver owing one. It is asked for more and more seldom, and taken when it comes,
// without its proof. A reply of a receiver that was not asked leaves nothing behind. docs/protocol §24.7.
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
		a.s.Handle(a.now, wire.AppendReply(nil, h, &wire.Reply{Receiver: receiver, Topic: a.topic.ID, Total: len(text), Bytes: []byte(text)}), nil)
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

// A piece that contradicts those before it, by its total or by whether it is signed, is dropped; but one of both is forged, so that
// where the reply is not complete when it is asked for, all of it is dropped, and asked for from its beginning: whichever came first,
// the genuine one is taken, and nothing is left of the other. docs/protocol §24.3.
func TestForgedPieceOfReply(t *testing.T) {
	for _, c := range []struct {
		name     string
		total    int
		flags    wire.Flags
		first    bool // the forged piece comes before the genuine one
		waits    bool // for the reply to be asked for again
		stranger bool
	}{
		{name: "a longer one first", total: 70_000, first: true, waits: true},
		{name: "a shorter one first", total: 5, first: true, waits: true},
		{name: "a signed one first", total: 300, flags: wire.FlagSigned, first: true, waits: true},
		{name: "a longer one behind", total: 70_000},
		{name: "a longer one behind, and the rest is lost", total: 70_000, waits: true},
		{name: "of a stranger, first", total: 70_000, first: true, waits: true, stranger: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAsking(t, 1, nil)
			a.answers[0].silent = true
			r := a.ask(1)
			a.exchange()
			receiver, genuine := uint64(100), bytes.Repeat([]byte("genuine "), 300/8+1)[:300]
			if c.stranger {
				receiver = 4711
			}
			piece := func(flags wire.Flags, total, offset int, b []byte) {
				h := a.header()
				h.Flags |= flags
				a.s.Handle(a.now, wire.AppendReply(nil, h, &wire.Reply{Receiver: receiver, Topic: a.topic.ID, Total: total, Offset: offset, Bytes: b}), nil)
			}
			forged := func() { piece(c.flags, c.total, 0, []byte("bad")) }
			if c.first {
				forged()
			}
			piece(0, len(genuine), 0, genuine[:200])
			if !c.first {
				forged()
			}
			if refused := a.s.Stats().RepliesRefused; refused != 1 {
				t.Errorf("%d pieces are refused", refused)
			}
			if c.waits {
				for range 1000 { // asked again, more than once
					a.now = a.now.Add(time.Millisecond)
					a.exchange()
				}
				if n := a.s.requests.bytes; n != 0 {
					t.Fatalf("%d bytes are left of what was doubted", n)
				}
				piece(0, len(genuine), 0, genuine[:200])
			}
			piece(0, len(genuine), 200, genuine[200:])
			if x, ok := r.Take(a.s); !ok || !bytes.Equal(x.Data, genuine) || x.Receiver != receiver || a.s.requests.bytes != 0 {
				t.Errorf("%q of %x, %v, %d bytes", x.Data, x.Receiver, ok, a.s.requests.bytes)
			}
		})
	}
}
