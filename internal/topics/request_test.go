package topics

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Without loss a request takes one packet, and each reply one. docs/protocol §24.1, §24.2, §2.21.
func TestRequestWithoutLoss(t *testing.T) {
	a := newRequester(t, 3, nil)
	for range 10 {
		a.ask(10)
		a.exchange()
	}
	a.answered()
	if a.sent[wire.TypeReply] != 30 || a.sent[wire.TypeRecall] != 0 || a.sent[wire.TypeData] != 30 {
		t.Errorf("sent %v", a.sent)
	}
	for _, r := range a.open {
		if st := r.State(); !st.Over() || st.Answered != 3 || st.Heard != 3 || st.Subscribers != 3 {
			t.Errorf("%+v", st)
		}
		r.Close()
	}
	if a.q.bytes != 0 || len(a.q.open) != 0 || a.q.due != reliable.Never {
		t.Errorf("%+v", a.q)
	}
}

// With any losses each request is executed once, and its reply arrives. docs/protocol §24.3, §24.4, §2.22.
func TestRequestWithLoss(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a := newRequester(t, 3, nil)
		a.lose = func(p packet) bool { return rnd.IntN(100) < 20 }
		for i := range 50 {
			a.ask(pick(rnd, 0, 10, 100, 400, 500, 2000))
			a.run(time.Duration(i%5) * 100 * time.Microsecond)
		}
		a.run(5 * time.Second)
		a.answered()
		if a.sent[wire.TypeRecall] == 0 {
			t.Errorf("seed %d: no reply was recalled: %v", seed, a.sent)
		}
	}
}

func pick(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }

// Replies of many packets arrive completely, a burst at a time. docs/protocol §24.2, §24.4.
func TestLargeReply(t *testing.T) {
	for _, percent := range []int{0, 10} {
		rnd := rand.New(rand.NewPCG(7, 1))
		a := newRequester(t, 2, nil)
		a.lose = func(p packet) bool { return rnd.IntN(100) < percent }
		burst := replyBurst(512)
		if burst != 32*440 || replyBurst(9000) != 7*(9000-72) || replyBurst(65507) != 65507-72 {
			t.Fatalf("bursts of %d, %d and %d bytes", burst, replyBurst(9000), replyBurst(65507))
		}
		want := make(map[uint64]string)
		for i, n := range []int{439, 440, 441, burst, burst + 1, 3*burst - 5} {
			data := bytes.Repeat([]byte{byte('a' + i)}, n)
			for _, x := range a.responders {
				x.reply = func(uint64, []byte) []byte { return data }
			}
			a.ask(1)
			a.exchange()
			want[uint64(i)] = string(data)
			if before := a.sent[wire.TypeRecall]; percent == 0 && (before > 0) != (i > 3) {
				t.Errorf("%d bytes: %d recalls", n, before)
			}
			a.run(time.Second)
		}
		a.run(3 * time.Second)
		a.answered()
		for i := range a.open {
			for id, got := range a.replies[i] {
				if got != want[uint64(i)] {
					t.Errorf("request %d: %d bytes of %d, want %d", i, len(got), id, len(want[uint64(i)]))
				}
			}
		}
	}
}

// A publisher whose transport accepts only one packet of a train recalls all replies, even if more of
// them than fit in one recall never arrive. docs/protocol §24.4.
func TestRecallsThatWereNotSent(t *testing.T) {
	a := newRequester(t, 2, nil)
	a.responders[0].silent = true
	a.narrow, a.lose = true, func(p packet) bool { return p.Type == wire.TypeReply }
	for range 60 {
		a.ask(1)
		a.exchange()
	}
	a.lose = nil
	a.run(3 * time.Second)
	for i := range a.open {
		if _, ok := a.replies[i][a.responders[1].id]; !ok {
			t.Errorf("request %d has no reply", i)
		}
	}
}

// A slow handler is not called again, and recalls become rarer with time. docs/protocol §24.4.
func TestSlowResponder(t *testing.T) {
	a := newRequester(t, 1, nil)
	x := a.responders[0]
	x.silent = true
	a.ask(1)
	a.run(10 * time.Second)
	if n := a.sent[wire.TypeRecall]; n < 30 || n > 60 || x.executed[0] != 1 {
		t.Errorf("%d recalls in 10 s, executed %d times", n, x.executed[0])
	}
	if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 0, []byte("late"), false); err != nil {
		t.Fatal(err)
	}
	a.exchange()
	if a.replies[0][x.id] != "late" {
		t.Errorf("%q", a.replies[0])
	}
	if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 0, nil, false); !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}
	if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 4}, a.topic.ID, 0, nil, false); !errors.Is(err, ErrRequesterGone) {
		t.Error(err)
	}
	if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 1, make([]byte, wire.MaxMessage+1), false); !errors.Is(err, ErrMessageTooLarge) {
		t.Error(err)
	}
}

// The publisher does not wait for a receiver that leaves. docs/protocol §24.5.
func TestResponderLeaves(t *testing.T) {
	a := newRequester(t, 2, nil)
	a.responders[0].silent = true
	r := a.ask(1)
	woken := 0
	r.Ready = func() { woken++ }
	a.exchange()
	if st := r.State(); st.Over() || woken != 1 {
		t.Errorf("%+v, woken %d times", st, woken)
	}
	a.responders[0].r.Close(a.now)
	a.exchange()
	a.run(time.Millisecond)
	if st := r.State(); !st.Over() || st.Gone != 1 || st.Answered != 1 || woken != 2 {
		t.Errorf("%+v, woken %d times", st, woken)
	}
	if a.q.due != reliable.Never {
		t.Errorf("a deadline is set: %v", a.q.due)
	}
}

// A request learns that a receiver has left also while the transport takes nothing, and recalls of earlier requests
// fill each train.
func TestResponderLeavesWhileBusy(t *testing.T) {
	a := newRequester(t, 2, func(c *reliable.SenderConfig) { c.MaxTrain, c.MaxTrainBytes = 1, 512 })
	leaves := a.responders[1]
	a.responders[0].silent, leaves.silent = true, true
	var last *Request
	for range 100 {
		last = a.ask(1)
		a.exchange()
	}
	leaves.r.Close(a.now)
	for _, p := range controlOf(leaves.r, a.now) {
		a.s.Handle(a.now, p.b, nil)
	}
	var tr transport.Outbound
	for range 100 {
		a.now = a.now.Add(time.Millisecond)
		if a.s.Next(a.now, &tr) {
			a.s.Sent(a.now, 0, a.posted)
		}
	}
	if st := last.State(); st.Gone != 1 || st.Owe != 1 {
		t.Errorf("%+v", st)
	}
}

// Ready may close requests while replies are recalled.
func TestReadyCloses(t *testing.T) {
	a := newRequester(t, 2, nil)
	a.responders[0].silent = true
	var all []*Request
	for i := range 40 {
		a.responders[1].silent = i == 39
		all = append(all, a.ask(1))
		a.exchange()
	}
	all[38].Ready = func() {
		for _, r := range all[:39] {
			r.Close()
		}
	}
	a.responders[0].r.Close(a.now)
	a.exchange()
	if len(a.q.open) != 1 {
		t.Errorf("%d are open", len(a.q.open))
	}
	for range 100 {
		if a.s.Deadline() <= a.now {
			t.Fatalf("due, though all was sent: %+v of %d requests", a.q.scan, len(a.q.order))
		}
		a.now = a.now.Add(100 * time.Microsecond)
		a.exchange()
	}
	before := a.sent[wire.TypeRecall]
	a.run(time.Second)
	if n := a.sent[wire.TypeRecall] - before; n < 4 {
		t.Errorf("%d recalls of the open request", n)
	}
}

// A member that answers that it does not want the topic of a request does not count as a subscriber, nor as
// gone. The publisher waits for it until then, and one that unsubscribes is gone. docs/protocol §7.10, §24.5.
func TestRequestWithUnrelatedPattern(t *testing.T) {
	a := newRequester(t, 0, nil)
	x, other := a.receive(42, "a.b", "c.d"), a.receive(43, "md.>")
	x.silent, other.silent = true, true
	a.run(300 * time.Millisecond)
	if known, open := a.m.Ask(a.now, a.topic.ID); known != 1 || !open {
		t.Fatalf("%d receivers are known, others possible: %v", known, open)
	}
	r := &Request{Ready: func() {}}
	a.s.Grant(a.w.Packets)
	if !a.q.Write(a.w, a.topic, []byte("?"), r) {
		t.Fatal("no room for a request")
	}
	a.m.Assign(a.now, a.w, true)
	if st := r.State(); st.Subscribers != 1 || st.Owe != 2 {
		t.Errorf("before the answer: %+v", st)
	}
	a.run(300 * time.Millisecond)
	if st := r.State(); st.Over() || st.Subscribers != 1 || st.Heard != 1 || st.Gone != 0 || st.Owe != 1 {
		t.Errorf("after the answer: %+v", st)
	}
	x.in.Unwant("a.b")
	x.in.TopicsChanged(a.now)
	a.run(300 * time.Millisecond)
	if st := r.State(); !st.Over() || st.Subscribers != 1 || st.Gone != 1 {
		t.Errorf("after the subscriber left: %+v", st)
	}
}

// The memory of kept replies is limited, in bytes and in time. docs/protocol §24.5, §24.6.
func TestKeptReplies(t *testing.T) {
	a := newRequester(t, 1, nil)
	x := a.responders[0]
	x.silent = true
	const size = 1 << 20
	for i := range uint64(40) {
		a.now = a.now.Add(time.Microsecond)
		if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, i, make([]byte, size), false); err != nil {
			t.Fatal(err)
		}
		controlOf(x.r, a.now)
	}
	if q := x.q; q.bytes > maxKeptBytes || q.bytes < maxKeptBytes-2*size || len(q.byKey) != 31 {
		t.Errorf("%d bytes in %d replies", q.bytes, len(q.byKey))
	}
	if n := x.q.stats.RepliesDropped; n != 9 {
		t.Errorf("%d dropped", n)
	}
	before := x.q.stats
	recall := func(number uint64) {
		p := wire.AppendRecallHeader(nil, a.header())
		p = wire.AppendRecalled(p, &wire.Recalled{Receiver: x.id, Topic: a.topic.ID, Number: number})
		wire.FinishRecall(p, 1)
		x.r.Handle(a.now, 5, p)
	}
	// A kept reply is sent again, at most once in half a round trip; the oldest is dropped.
	a.now = a.now.Add(time.Millisecond)
	for range 100 {
		recall(39)
		recall(0)
		controlOf(x.r, a.now)
	}
	if st := x.q.stats; st.RepliesRecalled-before.RepliesRecalled != 1 || st.RepliesUnknown-before.RepliesUnknown != 100 {
		t.Errorf("%+v", st)
	}
	// Repeated recalls of all replies are limited by the budget.
	sent := 0
	begin := a.now
	for a.now < begin.Add(time.Second) {
		for i := range uint64(40) {
			recall(i)
		}
		for _, p := range controlOf(x.r, a.now) {
			sent += len(p.b)
		}
		a.now = a.now.Add(time.Millisecond)
	}
	if sent > recallRate*13/10+recallBurst {
		t.Errorf("%d bytes were recalled in a second", sent)
	}
	a.now = a.now.Add(replyKeep + time.Second)
	controlOf(x.r, a.now)
	if q := x.q; q.bytes != 0 || len(q.byKey) != 0 || q.order.Len() != 0 {
		t.Errorf("%d bytes in %d replies", q.bytes, len(q.byKey))
	}
}

// A reply lost just before requester and responder stop for a long time arrives when both continue.
func TestReplyAcrossAStop(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, time.Hour} {
		a := newRequester(t, 1, nil)
		x, runs := a.responders[0], a.responders[0].runs
		both := func() {
			runs.Runs(a.now)
			a.s.Runs(a.now)
			runs.Rests(x.r.Deadline())
			a.s.Rests(a.s.Deadline())
		}
		a.run(time.Second)
		a.lose = func(p packet) bool { return p.Type == wire.TypeReply }
		q := a.ask(100)
		a.exchange()
		both()
		a.now, a.lose = a.now.Add(d), nil
		both()
		x.r.Tick(a.now)
		a.run(100 * time.Millisecond)
		if len(a.replies[0]) != 1 || x.executed[0] != 1 {
			t.Errorf("%v: %d replies, made %d times, the request is %+v", d, len(a.replies[0]), x.executed[0], q.State())
		}
	}
}

// Invalid replies only change counters, and memory is limited. docs/protocol §24.3, §24.6, §13.1.
func TestInvalidReplies(t *testing.T) {
	a := newRequester(t, 1, func(c *reliable.SenderConfig) { c.MaxReceivers = 4 })
	a.responders[0].silent = true
	r := a.ask(1)
	a.exchange()
	handle := func(x wire.Reply) { a.s.Handle(a.now, wire.AppendReply(nil, a.header(), &x), nil) }
	x := wire.Reply{Receiver: 100, Topic: a.topic.ID, Number: 0, Total: 6, Bytes: []byte("abc")}
	late, other, behind, total := x, x, x, x
	late.Number, other.Topic, behind.Offset, total.Total = 1, 5, 3, 7
	handle(late)
	handle(other)
	handle(behind)
	handle(x)
	handle(x)
	handle(total)
	for i := range uint64(10) {
		stranger := x
		stranger.Receiver = 1000 + i
		handle(stranger)
	}
	if st := a.q.stats; st.RepliesLate != 2 || st.RepliesDuplicate != 1 || st.RepliesRefused != 1+7 || st.Replies != 0 {
		t.Errorf("%+v", st)
	}
	if st := r.State(); st.Subscribers != 4 || st.Answered != 0 || a.q.bytes != 4*3 {
		t.Errorf("%+v, %d bytes", st, a.q.bytes)
	}
	behind.Bytes = []byte("def")
	handle(behind)
	if got, ok := r.Take(); !ok || string(got.Data) != "abcdef" || got.Receiver != 100 {
		t.Errorf("%+v", got)
	}
	handle(x)
	handle(behind)
	if got, ok := r.Take(); ok || a.q.stats.RepliesDuplicate != 3 {
		t.Errorf("a duplicate reply is delivered twice: %+v, %+v", got, a.q.stats)
	}
	r.Close()
	if a.q.bytes != 0 {
		t.Errorf("%d bytes", a.q.bytes)
	}
}

// A request closed before its packet has a sequence leaves no state.
func TestRequestClosedEarly(t *testing.T) {
	a := newRequester(t, 1, nil)
	r, other := &Request{Ready: func() {}}, &Request{Ready: func() {}}
	a.s.Grant(a.w.Packets)
	if !a.q.Write(a.w, a.topic, nil, r) || !a.q.Write(a.w, a.topic, nil, other) {
		t.Fatal("no room")
	}
	r.Close()
	a.m.Assign(a.now, a.w, true)
	a.exchange()
	if len(a.q.open) != 1 || other.key.number != 1 {
		t.Errorf("%d open, the second is %d", len(a.q.open), other.key.number)
	}
}

// A receiver that has replied knows until when the reply may be recalled: for a while after its
// end, and as long as its publisher may request more of it. docs/protocol §24.5.
func TestPendingReplies(t *testing.T) {
	a := newRequester(t, 1, nil)
	x := a.responders[0]
	x.silent = true
	all := func(uint64) bool { return true }
	owed := func() time.Duration { return max(0, x.q.Owed(a.now, all).Sub(a.now)) }
	respond := func(number uint64, size int) {
		t.Helper()
		if err := x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, number, make([]byte, size), false); err != nil {
			t.Fatal(err)
		}
	}
	if d := owed(); d != 0 {
		t.Errorf("before any reply: %v", d)
	}
	respond(1, 100)
	if d := owed(); d != moreReplyOwed {
		t.Errorf("of a reply to be sent: %v", d)
	}
	controlOf(x.r, a.now)
	if d := owed(); d != wholeReplyOwed {
		t.Errorf("of a reply that was sent: %v", d)
	}
	if until := x.q.Owed(a.now, func(topic uint64) bool { return topic != a.topic.ID }); until > a.now {
		t.Errorf("on another topic, until %v", until.Sub(a.now))
	}
	a.now = a.now.Add(wholeReplyOwed)
	if d := owed(); d != 0 {
		t.Errorf("later: %v", d)
	}
	respond(2, 1<<20)
	controlOf(x.r, a.now) // sends the first burst
	respond(3, 100)
	controlOf(x.r, a.now)
	a.now = a.now.Add(wholeReplyOwed)
	if d := owed(); d != moreReplyOwed-wholeReplyOwed {
		t.Errorf("of an incomplete reply before a short one: %v", d)
	}
	a.now = a.now.Add(moreReplyOwed)
	if d := owed(); d != 0 {
		t.Errorf("of a reply that is not recalled: %v", d)
	}
}

// A refused reply remains pending at its receiver. It is recalled at growing intervals, and accepted when it
// arrives, without its proof. A reply of a receiver that was not asked leaves no state. docs/protocol §24.7.
func TestRefusedReply(t *testing.T) {
	var checked []CompleteReply
	a := newRequester(t, 1, nil)
	a.accept = func(r *CompleteReply) bool { // with a proof of one repeated byte
		checked = append(checked, *r)
		return bytes.Equal(r.Proof, bytes.Repeat([]byte{'p'}, wire.ReplyProofLen))
	}
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
	if x, ok := r.Take(); ok {
		t.Fatalf("the reply %q is accepted", x.Data)
	}
	if st := r.State(); st.Subscribers != 1 || st.Answered != 0 || st.Over() || a.q.bytes != 0 || a.q.stats.RepliesRefused != 9 {
		t.Errorf("%+v, %d bytes, %+v", st, a.q.bytes, a.q.stats)
	}
	for i, x := range checked {
		if string(x.Data) != "forged" || x.First != (i == 0) || x.Topic != a.topic || x.Receiver != 100 && x.Receiver != 4711 {
			t.Errorf("reply %d was checked as %+v", i, x)
		}
	}
	before := a.q.stats.Recalled
	for range 1000 {
		a.now = a.now.Add(time.Millisecond)
		a.exchange()
	}
	if n := a.q.stats.Recalled - before; n < 1 || n > 8 {
		t.Errorf("recalled %d times in a second", n)
	}
	reply(100, true, "genuine"+proof("p"))
	if x, ok := r.Take(); !ok || string(x.Data) != "genuine" || x.Receiver != 100 || a.q.bytes != 0 {
		t.Errorf("%q, %v, %d bytes", x.Data, ok, a.q.bytes)
	}
	if st := r.State(); !st.Over() {
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
			if refused := a.q.stats.RepliesRefused; refused != 1 {
				t.Errorf("%d pieces are refused", refused)
			}
			if c.waits {
				for range 1000 { // recalled several times
					a.now = a.now.Add(time.Millisecond)
					a.exchange()
				}
				if n := a.q.bytes; n != 0 {
					t.Fatalf("%d bytes of the dropped reply remain", n)
				}
				piece(0, len(genuine), 0, genuine[:200])
			}
			piece(0, len(genuine), 200, genuine[200:])
			if x, ok := r.Take(); !ok || !bytes.Equal(x.Data, genuine) || x.Receiver != receiver || a.q.bytes != 0 {
				t.Errorf("%q of %x, %v, %d bytes", x.Data, x.Receiver, ok, a.q.bytes)
			}
		})
	}
}

// A reply forged in the name of a receiver of the request is accepted if it arrives first; a reply to
// no request is refused. Like the tests of forged_test.go in package reliable, it shows what docs/security.md states.
func TestForgedReply(t *testing.T) {
	a := newRequester(t, 1, nil)
	a.responders[0].silent = true
	r := a.ask(1)
	a.exchange()
	x := wire.Reply{Receiver: a.responders[0].id, Topic: a.topic.ID, Number: 7, Total: 3, Bytes: []byte("bad")}
	a.s.Handle(a.now, wire.AppendReply(nil, a.header(), &x), nil)
	if st := a.q.stats; st.Replies != 0 {
		t.Errorf("a reply to no request is accepted: %+v", st)
	}
	x.Number = 0
	a.s.Handle(a.now, wire.AppendReply(nil, a.header(), &x), nil)
	x.Bytes = []byte("now")
	a.s.Handle(a.now, wire.AppendReply(nil, a.header(), &x), nil)
	if st := a.q.stats; st.Replies != 1 || r.State().Answered != 1 {
		t.Errorf("%d replies are accepted, %+v", st.Replies, r.State())
	}
}
