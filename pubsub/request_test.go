package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// echo subscribes to topic with a handler that replies to each request with its data, and counts the deliveries of
// each request.
func echo(t testing.TB, b *Bus, topic string) *sync.Map {
	t.Helper()
	var times sync.Map
	if _, err := b.Handle(topic, func(m Message, err error) {
		if err != nil || !m.IsRequest() {
			t.Errorf("want a request, got %q, error %v", m.Data, err)
			return
		}
		n, _ := times.LoadOrStore(fmt.Sprint(m.Publisher(), m.Epoch(), m.Number), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		if err := m.Respond(append([]byte("re:"), m.Data...)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return &times
}

func TestRequest(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		responder := openBus(t, Config{Name: "responder", Tag: "adds"}, url)
		echo(t, responder, "rpc.add")
		requester := openBus(t, Config{}, url)
		wait(t, ctx, publisher(t, requester, "rpc.add"), 1) // waits longer than Request would on a busy host
		for _, size := range []int{0, 1, 1000, 5000, 300_000} {
			msg := bytes.Repeat([]byte{'x'}, size)
			r, err := requester.Request(ctx, "rpc.add", msg)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Data) != "re:"+string(msg) || r.Name != "responder" || r.Tag != "adds" || r.Responder == 0 || r.After <= 0 {
				t.Fatalf("reply of %d bytes after %v, want %d bytes from responder with tag adds", len(r.Data), r.After, len(msg)+3)
			}
		}
		var st stats.Sender
		for _, p := range requester.Stats().Publications {
			st = p.Sender
		}
		if st.Requests != 5 || st.Replies != 5 {
			t.Errorf("statistics %+v, want 5 requests and 5 replies", st)
		}
	})
}

// With loss each responder answers each request, and executes it once.
func TestRequestsWithLoss(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) { requestsWithLoss(t, url, 320, "0.05") })
}

// The same with 10,000 requests and 1 % loss.
func TestTenThousandRequests(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	requestsWithLoss(t, udpURL(t), n, "0.01")
}

// requestsWithLoss sends n requests from several goroutines of one bus to three responders; each of the four buses
// loses a share of the packets it receives.
func requestsWithLoss(t *testing.T, url string, n int, loss string) {
	t.Helper()
	const requesters = 8
	ctx := testContext(t)
	var times []*sync.Map
	for i := range 3 {
		b := openBus(t, Config{Name: fmt.Sprint("responder", i), Faults: fmt.Sprintf("loss=%s,seed=%d", loss, i+1)}, url)
		times = append(times, echo(t, b, "rpc"))
	}
	requester := openBus(t, Config{Faults: "loss=" + loss + ",seed=9"}, url)
	wait(t, ctx, publisher(t, requester, "rpc"), 3)
	var wg sync.WaitGroup
	for i := range requesters {
		wg.Go(func() {
			for j := range n / requesters {
				from := make(map[string]bool)
				msg := fmt.Sprint(i, j)
				for r, err := range requester.RequestMany(ctx, "rpc", []byte(msg), 0) {
					if err != nil {
						t.Error(err)
						return
					}
					if string(r.Data) != "re:"+msg || from[r.Name] {
						t.Errorf("reply to request %s is %q from %s, repeated: %v, want \"re:%[1]s\" once", msg, r.Data, r.Name, from[r.Name])
					}
					from[r.Name] = true
				}
				if len(from) != 3 {
					t.Errorf("request %s has %d replies, want 3", msg, len(from))
				}
			}
		})
	}
	wg.Wait()
	for i, m := range times {
		had := 0
		m.Range(func(k, v any) bool {
			if had++; v.(*atomic.Int64).Load() != 1 {
				t.Errorf("responder %d: request %v was delivered %d times, want once", i, k, v.(*atomic.Int64).Load())
			}
			return true
		})
		if had != n {
			t.Errorf("responder %d had %d requests, want %d", i, had, n)
		}
	}
}

func TestRequestErrors(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	requester := openBus(t, Config{}, url)
	none := func(err error) *NoReplyError {
		t.Helper()
		var e *NoReplyError
		if !errors.As(err, &e) {
			t.Fatalf("want a NoReplyError, got %v", err)
		}
		return e
	}
	_, err := requester.Request(ctx, "rpc", nil)
	if e := none(err); !errors.Is(err, ErrNoResponders) || e.Subscribers != 0 {
		t.Error(err)
	}

	// A subscriber receives the request, and does not reply.
	other := openBus(t, Config{}, url)
	sub := subscribe(t, other, "rpc")
	wait(t, ctx, publisher(t, requester, "rpc"), 1)
	short, over := context.WithCancel(ctx)
	defer over()
	ended := make(chan error)
	go func() {
		_, err := requester.Request(short, "rpc", []byte("a"))
		ended <- err
	}()
	m := want(t, ctx, sub, "a")
	over()
	err = <-ended
	if e := none(err); !errors.Is(err, context.Canceled) || e.Subscribers != 1 || e.Answered != 0 || e.Gone != 0 {
		t.Error(err)
	}
	if err := m.Respond(nil); err != nil { // the requester no longer waits
		t.Error(err)
	}
	if err := m.Respond(nil); !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}

	// It closes its bus.
	go func() {
		sub.Next(ctx)
		other.Close()
	}()
	_, err = requester.Request(ctx, "rpc", []byte("b"))
	if e := none(err); !errors.Is(err, ErrNoResponders) || e.Subscribers != 1 || e.Gone != 1 {
		t.Error(err)
	}

	if err := (Message{}).Respond(nil); !errors.Is(err, ErrNoRequest) {
		t.Error(err)
	}
	if _, err := requester.Request(ctx, "rpc.*", nil); !errors.Is(err, ErrTopic) {
		t.Error(err)
	}
	for _, err := range requester.RequestMany(ctx, "rpc", nil, -1) {
		if err == nil {
			t.Error("RequestMany accepts -1 replies")
		}
	}
	canceled, cancelWith := context.WithCancelCause(ctx)
	cause := errors.New("a cause")
	cancelWith(cause)
	if _, err := requester.Request(canceled, "rpc", nil); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Error(err)
	}
}

// A subscriber with a pattern that does not match is neither counted as a subscriber of a request's topic nor as gone.
func TestRequestWithUnrelatedPattern(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t) + "?groups=1"
	requester, other := openBus(t, Config{}, url), openBus(t, Config{}, url)
	echo(t, openBus(t, Config{}, url), "calc.add")
	wait(t, ctx, publisher(t, requester, "calc.add"), 1)
	subscribe(t, other, "md.>")
	wait(t, ctx, publisher(t, requester, "md.x"), 1) // other is a member of the group, and was not asked about calc.add
	for _, c := range []struct {
		topic   string
		n       int
		replies int
		few     bool
	}{{"calc.add", 0, 1, false}, {"calc.add", 2, 1, true}, {"calc.none", 0, 0, true}} {
		replies := 0
		var few *NoReplyError
		for _, err := range requester.RequestMany(ctx, c.topic, []byte("a"), c.n) {
			if err == nil {
				replies++
			} else if !errors.As(err, &few) || !errors.Is(err, ErrNoResponders) || few.Subscribers != replies || few.Gone != 0 {
				t.Errorf("%+v: error %v, want %v after %d replies, no subscriber gone", c, err, ErrNoResponders, replies)
			}
		}
		if replies != c.replies || (few != nil) != c.few {
			t.Errorf("%+v: %d replies, error %v, want %d, ErrNoResponders: %v", c, replies, few, c.replies, c.few)
		}
	}
}

// A request ends when its bus closes, and Respond then returns ErrRequesterGone.
func TestRequesterCloses(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	requester, responder := openBus(t, Config{}, url), openBus(t, Config{}, url)
	sub := subscribe(t, responder, "rpc")
	wait(t, ctx, publisher(t, requester, "rpc"), 1)
	failed := make(chan error)
	go func() {
		_, err := requester.Request(ctx, "rpc", []byte("a"))
		failed <- err
	}()
	m := want(t, ctx, sub, "a")
	requester.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for {
		err := m.Respond(nil)
		if errors.Is(err, ErrRequesterGone) {
			break
		}
		if err != nil && !errors.Is(err, ErrAnswered) {
			t.Fatal(err)
		}
		if errors.Is(err, ErrAnswered) {
			break // the reply was quicker
		}
	}
	responder.Close()
	if err := m.Respond(nil); !errors.Is(err, net.ErrClosed) && !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}
}

// Request fails in a handler; Respond may be called after the handler has returned.
func TestRespondLater(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	responder, requester := openBus(t, Config{}, url), openBus(t, Config{}, url)
	if _, err := responder.Handle("rpc", func(m Message, err error) {
		if _, err := responder.Request(ctx, "other", nil); !errors.Is(err, ErrInHandler) {
			t.Errorf("a request in a handler: error %v, want %v", err, ErrInHandler)
		}
		m = m.Clone()
		go func() {
			if err := m.Respond(m.Data); err != nil {
				t.Error(err)
			}
		}()
	}); err != nil {
		t.Fatal(err)
	}
	wait(t, ctx, publisher(t, requester, "rpc"), 1)
	for i := range 100 {
		msg := fmt.Sprint(i)
		if r, err := requester.Request(ctx, "rpc", []byte(msg)); err != nil || string(r.Data) != msg {
			t.Fatalf("reply %q, error %v, want %q", r.Data, err, msg)
		}
	}
}

// Requests and other messages of a topic keep their order, with Next and NextBatch.
func TestRequestsAmongMessages(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	responder, requester := openBus(t, Config{}, url), openBus(t, Config{}, url)
	single, batch := subscribe(t, responder, "rpc"), subscribe(t, responder, "rpc")
	pub := publisher(t, requester, "rpc")
	wait(t, ctx, pub, 1)
	const n = 300
	go func() {
		for i := range n {
			if i%3 == 0 {
				if _, err := requester.Request(ctx, "rpc", fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
				continue
			}
			if err := pub.Publish(ctx, fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
	}()
	check := func(i int, m Message) {
		if string(m.Data) != fmt.Sprint(i) || m.IsRequest() != (i%3 == 0) {
			t.Fatalf("message %d is %q, a request: %v, want its number and %v", i, m.Data, m.IsRequest(), i%3 == 0)
		}
	}
	msgs := make([]Message, 8)
	for i, j := 0, 0; i < n; i++ {
		m := want(t, ctx, single, fmt.Sprint(i))
		check(i, m)
		if m.IsRequest() {
			if err := m.Respond(nil); err != nil {
				t.Fatal(err)
			}
		}
		for j <= i {
			k, err := batch.NextBatch(ctx, msgs)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs[:k] {
				check(j, m)
				j++
			}
		}
	}
}

// Over two legs with much loss each request has one reply.
func TestRequestOverLegs(t *testing.T) {
	ctx := testContext(t)
	urls := pair(memURL, t)
	echo(t, openLegs(t, Config{Faults: "loss=0.2,seed=1"}, urls...), "rpc")
	requester := openLegs(t, Config{Faults: "loss=0.2,seed=2"}, urls...)
	wait(t, ctx, publisher(t, requester, "rpc"), 1)
	for i := range 100 {
		msg := fmt.Sprint(i)
		if r, err := requester.Request(ctx, "rpc", []byte(msg)); err != nil || string(r.Data) != "re:"+msg {
			t.Fatalf("reply %q, error %v, want \"re:%s\"", r.Data, err, msg)
		}
	}
}
