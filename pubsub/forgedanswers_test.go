package pubsub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// answering is the target of an insider that forges answers: a publisher that signs, keeps state and sends requests,
// and a subscriber that trusts it and replies. The insider has the group's key but neither signing key, and can
// receive and send any packet. docs/security.md lists the effects.
type answering struct {
	t        *testing.T
	open     func(Config) *Bus
	pub, sub *Bus
	common   Config // of all buses
	trusts   TrustProvider
	x        *insider
	peer     transport.Peer // the publisher's bus
	header   wire.Header    // of the publisher's stream
	own      *signed.Signer // the insider's key, trusted for other topics
	theirs   *signed.Signer // the subscriber's, for replies that the insider has recorded

	mu       sync.Mutex
	reported []events.Event // under mu: at the publisher
}

const answerLimit = 2 * time.Second // StallLimit

func newAnswering(t *testing.T) *answering {
	t.Helper()
	network, ours, theirs, own := mem.NewNetwork(), signingKey(t), signingKey(t), signingKey(t)
	set, err := NewKeySet(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	a := &answering{t: t, common: Config{Logger: quiet, Keys: StaticKeys(set), Wait: WaitPark, Silence: time.Minute, WindowBytes: 1 << 20}}
	a.trusts = trust(t, trustLine("md.>", ours), trustLine("md.q", theirs), trustLine("his.>", own))
	a.open = func(c Config) *Bus {
		m, err := mem.Open(mem.Config{Network: network, Groups: 1})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.OpenTransport(m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	trusting, signing := a.common, a.common
	trusting.Trust, trusting.Sign = a.trusts, theirs
	if a.own, err = signed.NewSigner(own, nil, nil); err == nil {
		a.theirs, err = signed.NewSigner(theirs, nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	signing.Sign, signing.Trust, signing.StallLimit = ours, a.trusts, answerLimit
	signing.OnEvent = func(e events.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reported = append(a.reported, e)
	}
	a.sub, a.pub = a.open(trusting), a.open(signing)
	a.x = newInsider(t, network, set, own)
	t.Cleanup(func() { endTransport(a.x.tr) })
	return a
}

// meet waits until the insider has received the publisher's stream.
func (a *answering) meet() {
	a.t.Helper()
	for a.peer == 0 || a.header.Publisher == 0 {
		b := transport.NewBatch(16)
		if err := a.x.tr.Poll(b); err != nil {
			a.t.Fatal(err)
		}
		for i := range b.Trains {
			tr := &b.Trains[i]
			for k := range tr.Count() {
				if p := tr.Packet(k); wire.IsSigned(p) {
					a.x.seen = append(a.x.seen, append([]byte(nil), p...))
					if h, err := wire.ParseHeader(wire.Content(p)); err == nil && h.Type == wire.TypeHeartbeat && a.peer == 0 {
						if a.peer, err = a.x.tr.Retain(tr.From); err != nil {
							a.t.Fatal(err)
						}
						a.header = wire.Header{GroupTag: h.GroupTag, Publisher: h.Publisher, Epoch: h.Epoch}
					}
				}
			}
			a.x.tr.Release(tr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer sends a packet to the publisher.
func (a *answering) answer(p []byte) {
	a.t.Helper()
	if err := a.x.tr.Reply(a.peer, p); err != nil {
		a.t.Fatal(err)
	}
	synctest.Wait()
}

// toAll sends packet p to the group in each possible way: unchanged, with a proof of the publisher, and signed by the
// insider.
func (a *answering) toAll(p []byte) {
	a.t.Helper()
	proof := a.x.seen[len(a.x.seen)-1]
	proof = proof[:len(proof)-len(wire.Content(proof))]
	for _, send := range []struct {
		tx transport.Sender
		p  []byte
	}{{a.x.plain, p}, {a.x.plain, append(append([]byte(nil), proof...), p...)}, {a.x.signs, p}} {
		if _, err := send.tx.Send(&transport.Outbound{Data: send.p, Stride: len(send.p), Count: 1, Lens: []uint16{uint16(len(send.p))}}); err != nil {
			a.t.Fatal(err)
		}
	}
}

// count is the number of events of a kind at the publisher.
func (a *answering) count(kind events.Kind) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.reported {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// An insider without a trusted signing key forges answers. Forged state and topic names are refused. Forged statuses
// hold a publisher up for at most the stall limit, and events report it. Forged answers to hellos cause a bounded
// number of events. Replies are accepted only with a proof by a key that is trusted for the topic: forged ones are
// refused, and do not keep out the genuine reply. docs/protocol §24.7, §29.1, §29.6, §29.10.
func TestForgedAnswers(t *testing.T) {
	t.Parallel() // the test mostly waits
	for name, test := range map[string]func(*testing.T, *answering){
		"state": forgedState, "status": forgedStatus, "hello": forgedHello, "reply": forgedReply,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newAnswering(t)) })
		})
	}
}

// While subscribers begin with state, the insider sends state in its own rounds and between those of the publisher,
// in the publisher's name and in its own, and index rounds that name topics.
func forgedState(t *testing.T, a *answering) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	pub := publisher(t, a.pub, "md.x")
	if err := pub.Retain(); err != nil {
		t.Fatal(err)
	}
	wide := subscribe(t, a.sub, ">") // matches every topic
	publish(t, ctx, pub, "message 0")
	a.meet()
	attacking, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(0); attacking.Err() == nil; i++ {
			for _, topic := range []string{"md.x", "md.other"} {
				a.toAll(a.round(i%40, topic))
			}
			time.Sleep(time.Millisecond)
		}
	}()
	n := 1
	for range 5 {
		late := a.common
		late.Trust = a.trusts
		bus := a.open(late)
		s := subscribe(t, bus, "md.x", From(State))
		got, next := stateOf(t, ctx, s)
		if len(got) != 1 || got[0] != fmt.Sprint("message ", n-1) || next != uint64(n) {
			t.Errorf("state %q as of %d, want message %d as of %d", got, next, n-1, n)
		}
		for range 5 {
			publish(t, ctx, pub, fmt.Sprint("message ", n))
			if m, err := s.Next(ctx); err != nil || string(m.Data) != fmt.Sprint("message ", n) || m.Number != uint64(n) {
				t.Errorf("message %q, number %d, error %v, want \"message %d\" with that number", m.Data, m.Number, err, n)
			}
			n++
		}
		bus.Close()
	}
	stop()
	<-done
	for i := range n {
		if m, err := wide.Next(ctx); err != nil || m.Topic != "md.x" || string(m.Data) != fmt.Sprint("message ", i) {
			t.Fatalf("message %q of %s, error %v, want \"message %d\" of md.x", m.Data, m.Topic, err, i)
		}
	}
	if st := a.sub.Stats(); st.Sign.Unsigned == 0 || st.Sign.Forged == 0 {
		t.Errorf("packets refused %+v, want some unsigned and some forged", st.Sign)
	}
}

// round is a complete round of state of a topic, and an index round with the topic, in the publisher's name.
func (a *answering) round(seq uint64, topic string) []byte {
	b := make([]byte, wire.DataHeaderLen)
	wire.PutDataHeader(b, a.header, 512)
	wire.SetSeq(b, seq)
	run := func(marks wire.StateMarks, record []byte) {
		p := make([]byte, wire.RunHeaderLen+wire.StateHeaderLen+len(record))
		wire.PutStateRun(p, wire.TopicID(topic), 3, &wire.State{Marks: marks, Round: uint32(seq), Bytes: record})
		b = append(b, p...)
	}
	run(wire.StateBegins, nil)
	run(wire.StateFirst|wire.StateLast, wire.AppendRecord(nil, []byte("forged")))
	run(wire.StateEnds, nil)
	name := make([]byte, wire.RunHeaderLen+len(topic))
	wire.PutTopicRun(name, wire.TopicID(topic), topic)
	wire.SetRunNumber(name, 50)
	return slices.Concat(b, wiretest.Index(wire.IndexBegins|wire.IndexAll, 0), name, wiretest.Index(wire.IndexEnds, 1))
}

// Forged statuses report no room: the invented receivers together block the publisher for the stall limit, and then
// it continues. Events name them.
func forgedStatus(t *testing.T, a *answering) {
	ctx := t.Context()
	sub, pub := subscribe(t, a.sub, "md.x"), publisher(t, a.pub, "md.x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "message 0")
	a.meet()
	const invented = 50
	for i := range uint64(invented) {
		a.answer(wire.AppendStatus(nil, a.header, &wire.Status{Receiver: 1000 + i, Next: 1, Limit: 1}, []uint64{wire.TopicID("md.x")}))
	}
	began := time.Now()
	const n = 1000
	for i := 1; i < n; i++ {
		publish(t, ctx, pub, fmt.Sprint("message ", i))
	}
	if err := pub.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if m, err := sub.Next(ctx); err != nil || string(m.Data) != fmt.Sprint("message ", i) {
			t.Fatalf("message %d is %q, error %v, want \"message %d\"", i, m.Data, err, i)
		}
	}
	took := time.Since(began) // by the test's own clock
	if took < answerLimit/2 || took > answerLimit+time.Second {
		t.Errorf("the insider has blocked the publisher for %v, the stall limit is %v", took, answerLimit)
	}
	time.Sleep(time.Second)
	if stalled, released := a.count(events.PublisherStalled), a.count(events.SubscriberReleased); stalled == 0 || released != invented {
		t.Errorf("%d events that the publisher is stalled, and %d that a subscriber was released, want %d", stalled, released, invented)
	}
	t.Logf("blocked for %v by %d invented receivers", took, invented)
}

// The insider answers hellos in the names of invented buses.
func forgedHello(t *testing.T, a *answering) {
	pub := publisher(t, a.pub, "md.x")
	subscribe(t, a.sub, "md.x")
	wait(t, t.Context(), pub, 1)
	a.meet()
	h, began := a.header, time.Now()
	const n = 1000
	for i := range events.ID(n) {
		h.Publisher = 1_000_000 + i
		a.answer(wire.AppendHello(nil, h, &wire.Hello{Settings: wire.Settings{Groups: 77}, PacketSize: 512, Answer: true}))
	}
	time.Sleep(time.Second)
	if reported, most := a.count(events.ConfigMismatch), 16+int(time.Since(began)/time.Second)+1; reported == 0 || reported > most {
		t.Errorf("%d buses were reported, want at most %d", reported, most)
	}
	publish(t, t.Context(), pub, "goes on")
}

// The insider replies to requests before the subscriber does, in its name and in invented names: without a proof, with
// its own proofs, and with the subscriber's proof for another request. All are refused, and the genuine reply arrives.
func forgedReply(t *testing.T, a *answering) {
	ctx, topic := t.Context(), "md.q"
	asked := make(chan Message, 1)
	responder, err := a.sub.Handle(topic, func(m Message, err error) {
		if err == nil && m.IsRequest() {
			asked <- m.Clone()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	pub := publisher(t, a.pub, topic)
	wait(t, ctx, pub, 1)
	a.meet()
	asks := uint64(pub.Receivers()[0].ID)
	reply := func(receiver, number uint64, proven bool, text []byte) {
		h := a.header
		if proven {
			h.Flags = wire.FlagSigned
		}
		a.answer(wire.AppendReply(nil, h, &wire.Reply{Receiver: receiver, Topic: wire.TopicID(topic), Number: number, Total: len(text), Bytes: text}))
	}
	type result struct {
		replies []string
		err     error
	}
	for i := range 3 {
		got := make(chan result)
		go func() {
			var r result
			within, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			for x, err := range a.pub.RequestMany(within, topic, []byte("?"), 0) {
				if err != nil {
					r.err = err
					break
				}
				r.replies = append(r.replies, string(x.Data))
			}
			got <- r
		}()
		m := <-asked
		to := signed.ReplyTo{Instance: a.header.Instance(), Topic: wire.TopicID(topic), Number: m.Number, Receiver: asks}
		other := to
		other.Number += 7
		for _, receiver := range []uint64{asks, 4711} {
			to.Receiver = receiver
			reply(receiver, m.Number+7, false, []byte("no such request"))
			reply(receiver, m.Number, false, []byte("forged"))
			reply(receiver, m.Number, true, a.own.Reply(&to, []byte("signed with a key for other topics")))
			reply(receiver, m.Number, true, a.theirs.Reply(&other, []byte("to another request")))
			changed := a.theirs.Reply(&to, []byte("changed"))
			changed[0]++
			reply(receiver, m.Number, true, changed)
		}
		if err := m.Respond(fmt.Appendf(nil, "genuine %d", i)); err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.err != nil || len(r.replies) != 1 || r.replies[0] != fmt.Sprintf("genuine %d", i) {
			t.Errorf("request %d: replies %q, error %v, want \"genuine %d\" alone", i, r.replies, r.err, i)
		}
	}
	if st := a.pub.Stats().Sign; st.Unsigned < 6 || st.Untrusted < 6 || st.Forged < 12 {
		t.Errorf("statistics %+v, want at least 6 unsigned, 6 untrusted and 12 forged packets refused", st)
	}
	if n := a.count(events.PacketsUnreadable); n != 3 {
		t.Errorf("%d events, want one for each reason", n)
	}
}

// A requester without Config.Trust accepts replies with and without proofs, and delivers them without; a responder
// without a signing key can reply to it. One with Config.Trust also accepts the proofs of a subscription that begins with
// the window: for publishers that is another receiver. docs/protocol §24.7.
func TestReplyProofIsRemoved(t *testing.T) {
	for _, x := range []struct{ signs, trusts bool }{{}, {signs: true}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			network := mem.NewNetwork()
			open := func(c Config) *Bus {
				m, err := mem.Open(mem.Config{Network: network, Groups: 1})
				if err != nil {
					t.Fatal(err)
				}
				c.Logger = quiet
				b, err := c.OpenTransport(m)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				return b
			}
			var c, trusting Config
			from := From(Live)
			if x.signs {
				c.Sign = signingKey(t)
			}
			if x.trusts {
				trusting.Trust, from = trust(t, trustLine(">", c.Sign)), From(Window)
			}
			sub, pub := open(c), open(trusting)
			responder, err := sub.Handle("q", func(m Message, err error) {
				if err == nil && m.IsRequest() {
					m.Respond(m.Data)
				}
			}, from)
			if err != nil {
				t.Fatal(err)
			}
			defer responder.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, n := range []int{0, 1, 1332, 1333, 1400, 1401, 100_000} {
				want := make([]byte, n)
				for i := range want {
					want[i] = byte(i * 7)
				}
				r, err := pub.Request(ctx, "q", want)
				if err != nil || string(r.Data) != string(want) {
					t.Errorf("%+v: reply of %d bytes, error %v, want the %d bytes of the request", x, len(r.Data), err, n)
				}
			}
		})
	}
}
