package reliable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// requester is a publisher of requests with receivers that reply, on a network without delay in
// virtual time.
type requester struct {
	*bench
	topic      *Topic
	responders []*replier
	lose       func(p sent) bool // nil: no loss
	sent       map[wire.Type]int
	open       []*Request
	replies    []map[uint64]string // replies by receiver, for each request
}

type replier struct {
	id       uint64
	r        *Receiver
	executed map[uint64]int // executions, by number
	silent   bool           // it does not reply
	reply    func(number uint64, msg []byte) []byte
}

func newRequester(t *testing.T, receivers int, change func(*SenderConfig)) *requester {
	t.Helper()
	a := &requester{bench: newBench(t, change), sent: make(map[wire.Type]int)}
	a.topic = a.bench.topic("a.b")
	for i := range receivers {
		x := &replier{id: uint64(100 + i), executed: make(map[uint64]int)}
		x.reply = func(number uint64, msg []byte) []byte { return fmt.Appendf(nil, "%d:%d:%d", x.id, number, len(msg)) }
		l := &log{}
		x.r = newReceiver(t, l, func(c *ReceiverConfig) { c.ID = x.id })
		var read assembler
		l.onPacket = func(st *Stream, runs []byte) {
			for _, m := range read.messages(runs) {
				if !m.request {
					t.Errorf("message %d is not a request", m.number)
					continue
				}
				x.executed[m.number]++
				if x.silent {
					continue
				}
				if err := x.r.Respond(a.now, st.Instance, m.topic, m.number, x.reply(m.number, m.text), false); err != nil {
					t.Errorf("receiver %d, request %d: %v", x.id, m.number, err)
				}
			}
		}
		a.responders = append(a.responders, x)
	}
	a.exchange()
	return a
}

func (a *requester) lost(p sent) bool {
	a.sent[p.Type]++
	return a.lose != nil && a.lose(p)
}

// exchange delivers packets in both directions until none is left.
func (a *requester) exchange() {
	for again := true; again; {
		again = false
		for _, p := range a.bench.next() {
			for _, x := range a.responders {
				if !a.lost(p) {
					x.r.Handle(a.now, 5, p.b)
				}
			}
			again = true
		}
		for _, x := range a.responders {
			for _, p := range replies(x.r, a.now) {
				if !a.lost(p) {
					a.s.Handle(a.now, p.b, nil)
				}
				again = true
			}
		}
	}
	for i, r := range a.open {
		for {
			x, ok := r.Take(a.s)
			if !ok {
				break
			}
			if _, twice := a.replies[i][x.Receiver]; twice {
				a.t.Errorf("request %d: a second reply of %d", i, x.Receiver)
			}
			a.replies[i][x.Receiver] = string(x.Data)
		}
	}
}

// run lets time pass.
func (a *requester) run(d time.Duration) {
	for end := a.now.Add(d); a.now < end; a.exchange() {
		next := a.s.Deadline()
		for _, x := range a.responders {
			next = min(next, x.r.Deadline())
		}
		a.now = min(end, max(next, a.now.Add(10*time.Microsecond)))
	}
}

// ask publishes a request of n bytes.
func (a *requester) ask(n int) *Request {
	a.t.Helper()
	r := &Request{Ready: func() {}}
	a.open, a.replies = append(a.open, r), append(a.replies, make(map[uint64]string))
	msg := make([]byte, n)
	for at, tries := 0, 0; ; tries++ {
		switch {
		case n <= a.s.MaxInPacket() && a.w.AppendRequest(a.topic, msg, r):
			at = n + 1
		case n > a.s.MaxInPacket():
			at = max(a.w.AppendRequestFragment(a.topic, msg, at, r), at)
		}
		if at >= n && (at > n || n > a.s.MaxInPacket()) {
			break
		}
		if tries > 100 {
			a.t.Fatalf("no room for a request of %d bytes: %v", n, a.s.Blocked())
		}
		a.s.Assign(a.now, a.w, false)
		a.s.Grant(a.w)
		a.run(time.Millisecond)
	}
	a.s.Assign(a.now, a.w, true)
	a.s.Grant(a.w)
	return r
}

// answered checks that each receiver executed each request once, and that its reply arrived.
func (a *requester) answered() {
	a.t.Helper()
	for i := range a.open {
		for _, x := range a.responders {
			if x.executed[uint64(i)] != 1 {
				a.t.Errorf("request %d was executed %d times by %d", i, x.executed[uint64(i)], x.id)
			}
			if _, ok := a.replies[i][x.id]; !ok {
				a.t.Errorf("request %d has no reply of %d", i, x.id)
			}
		}
	}
}

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
		if st := r.State(a.s); !st.Over() || st.Answered != 3 || st.Heard != 3 || st.Subscribers != 3 {
			t.Errorf("%+v", st)
		}
		r.Close(a.s)
	}
	if a.s.requests.bytes != 0 || len(a.s.requests.open) != 0 || a.s.requests.due != Never {
		t.Errorf("%+v", a.s.requests)
	}
}

// With any losses each request is executed once, and its reply arrives. docs/protocol §24.3, §24.4, §2.22.
func TestRequestWithLoss(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a := newRequester(t, 3, nil)
		a.lose = func(p sent) bool { return rnd.IntN(100) < 20 }
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
		a.lose = func(p sent) bool { return rnd.IntN(100) < percent }
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
	a.narrow, a.lose = true, func(p sent) bool { return p.Type == wire.TypeReply }
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
	if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 0, []byte("late"), false); err != nil {
		t.Fatal(err)
	}
	a.exchange()
	if a.replies[0][x.id] != "late" {
		t.Errorf("%q", a.replies[0])
	}
	if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 0, nil, false); !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}
	if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 4}, a.topic.ID, 0, nil, false); !errors.Is(err, ErrRequesterGone) {
		t.Error(err)
	}
	if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, 1, make([]byte, wire.MaxMessage+1), false); !errors.Is(err, ErrMessageTooLarge) {
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
	if st := r.State(a.s); st.Over() || woken != 1 {
		t.Errorf("%+v, woken %d times", st, woken)
	}
	a.responders[0].r.Close(a.now)
	a.exchange()
	a.run(time.Millisecond)
	if st := r.State(a.s); !st.Over() || st.Gone != 1 || st.Answered != 1 || woken != 2 {
		t.Errorf("%+v, woken %d times", st, woken)
	}
	if a.s.requests.due != Never {
		t.Errorf("a deadline is set: %v", a.s.requests.due)
	}
}

// A member that answers that it does not want the topic of a request does not count as a subscriber, nor as
// gone. The publisher waits for it until then, and one that unsubscribes is gone. docs/protocol §7.10, §24.5.
func TestRequestWithUnrelatedPattern(t *testing.T) {
	a := newQuerier(t, "a.b")
	x := a.receive("a.b", "c.d")
	a.receive("md.>")
	a.run(300 * time.Millisecond)
	topic := a.s.topics.byID[wire.TopicID("a.b")]
	if known, open := a.s.Ask(a.now, topic.ID); known != 1 || !open {
		t.Fatalf("%d receivers are known, others possible: %v", known, open)
	}
	r := &Request{Ready: func() {}}
	a.s.Grant(a.w)
	if !a.w.AppendRequest(topic, []byte("?"), r) {
		t.Fatal("no room for a request")
	}
	a.s.Assign(a.now, a.w, true)
	if st := r.State(a.s); st.Subscribers != 1 || st.Owe != 2 {
		t.Errorf("before the answer: %+v", st)
	}
	a.run(300 * time.Millisecond)
	if st := r.State(a.s); st.Over() || st.Subscribers != 1 || st.Heard != 1 || st.Gone != 0 || st.Owe != 1 {
		t.Errorf("after the answer: %+v", st)
	}
	x.r.Unwant("a.b")
	x.r.TopicsChanged(a.now)
	a.run(300 * time.Millisecond)
	if st := r.State(a.s); !st.Over() || st.Subscribers != 1 || st.Gone != 1 {
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
		if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, i, make([]byte, size), false); err != nil {
			t.Fatal(err)
		}
		replies(x.r, a.now)
	}
	if q := &x.r.kept; q.bytes > maxKeptBytes || q.bytes < maxKeptBytes-2*size || len(q.byKey) != 31 {
		t.Errorf("%d bytes in %d replies", q.bytes, len(q.byKey))
	}
	if n := x.r.Stats().RepliesDropped; n != 9 {
		t.Errorf("%d dropped", n)
	}
	before := x.r.Stats()
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
		replies(x.r, a.now)
	}
	if st := x.r.Stats(); st.RepliesRecalled-before.RepliesRecalled != 1 || st.RepliesUnknown-before.RepliesUnknown != 100 {
		t.Errorf("%+v", st)
	}
	// Repeated recalls of all replies are limited by the budget.
	sent := 0
	begin := a.now
	for a.now < begin.Add(time.Second) {
		for i := range uint64(40) {
			recall(i)
		}
		for _, p := range replies(x.r, a.now) {
			sent += len(p.b)
		}
		a.now = a.now.Add(time.Millisecond)
	}
	if sent > recallRate*13/10+recallBurst {
		t.Errorf("%d bytes were recalled in a second", sent)
	}
	a.now = a.now.Add(replyKeep + time.Second)
	x.r.Tick(a.now)
	if q := &x.r.kept; q.bytes != 0 || len(q.byKey) != 0 || q.first != nil || q.last != nil {
		t.Errorf("%d bytes in %d replies", q.bytes, len(q.byKey))
	}
}

// A reply lost just before requester and responder stop for a long time arrives when both continue.
func TestReplyAcrossAStop(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, time.Hour} {
		a, runs := newRequester(t, 1, nil), new(Running)
		x := a.responders[0]
		x.r.SetRunning(runs)
		both := func() {
			runs.Runs(a.now)
			a.s.Runs(a.now)
			runs.Rests(x.r.Deadline())
			a.s.Rests(a.s.Deadline())
		}
		a.run(time.Second)
		a.lose = func(p sent) bool { return p.Type == wire.TypeReply }
		q := a.ask(100)
		a.exchange()
		both()
		a.now, a.lose = a.now.Add(d), nil
		both()
		x.r.Tick(a.now)
		a.run(100 * time.Millisecond)
		if len(a.replies[0]) != 1 || x.executed[0] != 1 {
			t.Errorf("%v: %d replies, made %d times, the request is %+v", d, len(a.replies[0]), x.executed[0], q.State(a.s))
		}
	}
}

// Invalid replies only change counters, and memory is limited. docs/protocol §24.3, §24.6, §13.1.
func TestInvalidReplies(t *testing.T) {
	a := newRequester(t, 1, func(c *SenderConfig) { c.MaxReceivers = 4 })
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
	if st := a.s.Stats(); st.RepliesLate != 2 || st.RepliesDuplicate != 1 || st.RepliesRefused != 1+7 || st.Replies != 0 {
		t.Errorf("%+v", st)
	}
	if st := r.State(a.s); st.Subscribers != 4 || st.Answered != 0 || a.s.requests.bytes != 4*3 {
		t.Errorf("%+v, %d bytes", st, a.s.requests.bytes)
	}
	behind.Bytes = []byte("def")
	handle(behind)
	if got, ok := r.Take(a.s); !ok || string(got.Data) != "abcdef" || got.Receiver != 100 {
		t.Errorf("%+v", got)
	}
	handle(x)
	handle(behind)
	if got, ok := r.Take(a.s); ok || a.s.Stats().RepliesDuplicate != 3 {
		t.Errorf("a duplicate reply is delivered twice: %+v, %+v", got, a.s.Stats())
	}
	r.Close(a.s)
	if a.s.requests.bytes != 0 {
		t.Errorf("%d bytes", a.s.requests.bytes)
	}
}

// A request closed before its packet has a sequence leaves no state.
func TestRequestClosedEarly(t *testing.T) {
	a := newRequester(t, 1, nil)
	r, other := &Request{Ready: func() {}}, &Request{Ready: func() {}}
	a.s.Grant(a.w)
	if !a.w.AppendRequest(a.topic, nil, r) || !a.w.AppendRequest(a.topic, nil, other) {
		t.Fatal("no room")
	}
	r.Close(a.s)
	a.s.Assign(a.now, a.w, true)
	a.exchange()
	if len(a.s.requests.open) != 1 || other.key.number != 1 || !slices.Equal(a.w.requests, nil) {
		t.Errorf("%d open, the second is %d", len(a.s.requests.open), other.key.number)
	}
}

// A receiver that has replied knows until when the reply may be recalled: for a while after its
// end, and as long as its publisher may request more of it. docs/protocol §24.5.
func TestPendingReplies(t *testing.T) {
	a := newRequester(t, 1, nil)
	x := a.responders[0]
	x.silent = true
	all := func(uint64) bool { return true }
	owed := func() time.Duration { return max(0, x.r.Owed(a.now, all).Sub(a.now)) }
	respond := func(number uint64, size int) {
		t.Helper()
		if err := x.r.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, number, make([]byte, size), false); err != nil {
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
	replies(x.r, a.now)
	if d := owed(); d != wholeReplyOwed {
		t.Errorf("of a reply that was sent: %v", d)
	}
	if until := x.r.Owed(a.now, func(topic uint64) bool { return topic != a.topic.ID }); until > a.now {
		t.Errorf("on another topic, until %v", until.Sub(a.now))
	}
	a.now = a.now.Add(wholeReplyOwed)
	if d := owed(); d != 0 {
		t.Errorf("later: %v", d)
	}
	respond(2, 1<<20)
	replies(x.r, a.now) // sends the first burst
	respond(3, 100)
	replies(x.r, a.now)
	a.now = a.now.Add(wholeReplyOwed)
	if d := owed(); d != moreReplyOwed-wholeReplyOwed {
		t.Errorf("of an incomplete reply before a short one: %v", d)
	}
	a.now = a.now.Add(moreReplyOwed)
	if d := owed(); d != 0 {
		t.Errorf("of a reply that is not recalled: %v", d)
	}
}
