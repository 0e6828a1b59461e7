package reliable

import (
	"bytes"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// proofSink accepts replies with a proof of one byte, and records them.
type proofSink struct {
	noSenderSink
	replies []CompleteReply
}

func (x *proofSink) Replied(r *CompleteReply) bool {
	x.replies = append(x.replies, *r)
	return bytes.Equal(r.Proof, bytes.Repeat([]byte{'p'}, wire.ReplyProofLen))
}

// A refused reply remains pending at its receiver. It is recalled at growing intervals, and accepted when it
// arrives, without its proof. A reply of a receiver that was not asked leaves no state. docs/protocol §24.7.
func TestRefusedReply(t *testing.T) {
	sink := &proofSink{}
	a := newRequester(t, 1, func(c *SenderConfig) { c.Sink = sink })
	a.responders[0].silent = true
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
		t.Fatalf("the reply %q is accepted", x.Data)
	}
	if st := r.State(a.s); st.Subscribers != 1 || st.Answered != 0 || st.Over() || a.s.requests.bytes != 0 || a.s.Stats().RepliesRefused != 9 {
		t.Errorf("%+v, %d bytes, %+v", st, a.s.requests.bytes, a.s.Stats())
	}
	for i, x := range sink.replies {
		if string(x.Data) != "forged" || x.First != (i == 0) || x.Topic != a.topic || x.Receiver != 100 && x.Receiver != 4711 {
			t.Errorf("reply %d was checked as %+v", i, x)
		}
	}
	before := a.s.Stats().Recalled
	for range 1000 {
		a.now = a.now.Add(time.Millisecond)
		a.exchange()
	}
	if n := a.s.Stats().Recalled - before; n < 1 || n > 8 {
		t.Errorf("recalled %d times in a second", n)
	}
	reply(100, true, "genuine"+proof("p"))
	if x, ok := r.Take(a.s); !ok || string(x.Data) != "genuine" || x.Receiver != 100 || a.s.requests.bytes != 0 {
		t.Errorf("%q, %v, %d bytes", x.Data, ok, a.s.requests.bytes)
	}
	if st := r.State(a.s); !st.Over() {
		t.Errorf("%+v", st)
	}
}

// A piece that contradicts earlier ones, by its total or by whether it is signed, is dropped. Because either may
// be forged, an incomplete reply is dropped completely when it is recalled, and requested from its beginning:
// whichever arrived first, the genuine one is accepted, and nothing remains of the other. docs/protocol §24.3.
func TestForgedPieceOfReply(t *testing.T) {
	for _, c := range []struct {
		name     string
		total    int
		flags    wire.Flags
		first    bool // the forged piece arrives before the genuine one
		waits    bool // until the reply is recalled
		stranger bool
	}{
		{name: "a longer one first", total: 70_000, first: true, waits: true},
		{name: "a shorter one first", total: 5, first: true, waits: true},
		{name: "a signed one first", total: 300, flags: wire.FlagSigned, first: true, waits: true},
		{name: "a longer one last", total: 70_000},
		{name: "a longer one last, and the rest is lost", total: 70_000, waits: true},
		{name: "of an unknown receiver, first", total: 70_000, first: true, waits: true, stranger: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequester(t, 1, nil)
			a.responders[0].silent = true
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
				for range 1000 { // recalled several times
					a.now = a.now.Add(time.Millisecond)
					a.exchange()
				}
				if n := a.s.requests.bytes; n != 0 {
					t.Fatalf("%d bytes of the dropped reply remain", n)
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
