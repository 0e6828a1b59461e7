package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func TestPayload(t *testing.T) {
	sent := time.Unix(1577716200, 75566)
	b := appendPayload([]byte("x"), sent, 42, []byte("itch"))[1:]
	gotSent, number, msg, err := parsePayload(b)
	if err != nil || !gotSent.Equal(sent) || number != 42 || string(msg) != "itch" {
		t.Errorf("parsePayload: time %v, number %d, message %q, error %v, want %v, 42 and itch", gotSent, number, msg, err, sent)
	}
	for n := range prefixLen {
		if _, _, _, err := parsePayload(b[:n]); !errors.Is(err, errShortPayload) {
			t.Errorf("parsePayload of %d bytes: error %v, want %v", n, err, errShortPayload)
		}
	}
}

// sent is a message as received by an outlet.
type sent struct {
	topic   int
	payload []byte
}

// log is an outlet for all topics that stores messages.
type log struct{ all []sent }

type logOutlet struct {
	log   *log
	topic int
}

func (o logOutlet) Publish(ctx context.Context, payload []byte) error {
	o.log.all = append(o.log.all, sent{o.topic, bytes.Clone(payload)})
	return ctx.Err()
}

func (l *log) outlets(p *plan) (all []outlet) {
	for topic := range p.Topics {
		all = append(all, logOutlet{l, topic})
	}
	return all
}

func open(t testing.TB, cfg config) *source {
	t.Helper()
	src, err := openSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// published returns the messages that a publisher sends for a feed, after reading some in advance, and its last state.
func published(t testing.TB, cfg config, p *plan, ahead uint64) ([]sent, *publisherState) {
	t.Helper()
	l, src := &log{}, open(t, cfg)
	defer src.close()
	pub := newPublisher(p, l.outlets(p), false)
	if err := src.advance(p, pub.books, ahead); err != nil {
		t.Fatal(err)
	}
	reports := 0
	if err := pub.run(t.Context(), src, func(*publisherState) error { reports++; return nil }); err != nil {
		t.Fatal(err)
	}
	if reports == 0 {
		t.Error("no report")
	}
	return l.all, pub.done()
}

func small(t testing.TB) (config, *plan) {
	t.Helper()
	cfg := config{Symbols: 5, Messages: 5000, Rate: defaultRate, Seed: 9}
	p, err := makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, p
}

// shuffle reorders messages like a network of several groups: each topic keeps its order.
func shuffle(all []sent, topics int, rnd *rand.Rand) []sent {
	queues := make([][]sent, topics)
	for _, s := range all {
		queues[s.topic] = append(queues[s.topic], s)
	}
	var mixed []sent
	for len(mixed) < len(all) {
		if q := &queues[rnd.IntN(topics)]; len(*q) > 0 {
			mixed = append(mixed, (*q)[0])
			*q = (*q)[1:]
		}
	}
	return mixed
}

// A receiver of all messages has the same order books as the publisher, whatever the order between topics.
func TestPublisherToReceiver(t *testing.T) {
	cfg, p := small(t)
	all, want := published(t, cfg, p, 0)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, order := range [][]sent{all, shuffle(all, len(p.Topics), rand.New(rand.NewPCG(seed, 0)))} {
		r := newReceiver(p.Topics, 1)
		for _, s := range order {
			if err := r.message(p.Topics[s.topic], s.payload, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		got := r.done(time.Now())
		if got.Digest != want.Digest || got.Messages != want.Published || got.Disorder != 0 || got.Latency.P50 <= 0 {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if len(got.Top) != 5 || got.Top[0].Symbol != "AAPL" || got.Top[0].Messages < got.Top[1].Messages {
			t.Errorf("top symbols %+v, want 5 in descending order, AAPL first", got.Top)
		}
	}
}

// A receiver detects all faults that a network could cause in a topic; only reported losses are not
// errors of the library.
func TestReceiverDetectsDisorder(t *testing.T) {
	cfg, p := small(t)
	all, want := published(t, cfg, p, 0)
	// The second and third message of the busiest topic.
	var at []int
	for i, s := range all {
		if s.topic == 0 {
			at = append(at, i)
		}
	}
	i, j := at[1], at[2]
	swapped := append([]sent{}, all...)
	swapped[i], swapped[j] = swapped[j], swapped[i]
	without := append(append([]sent{}, all[:i]...), all[i+1:]...)
	for name, c := range map[string]struct {
		order    []sent
		gapAt    int // before this message, -1 for none
		gap      uint64
		disorder uint64
		lost     uint64
		equal    bool
	}{
		"all":              {all, -1, 0, 0, 0, true},
		"doubled":          {append(append(append([]sent{}, all[:i+1]...), all[i]), all[i+1:]...), -1, 0, 1, 0, true},
		"swapped":          {swapped, -1, 0, 2, 0, false},
		"silent loss":      {without, -1, 0, 1, 0, false},
		"reported loss":    {without, i, 1, 0, 1, false},
		"wrong count":      {without, i, 2, 1, 2, false},
		"gap without loss": {all, i, 1, 1, 1, true},
	} {
		r := newReceiver(p.Topics, 1)
		for n, s := range c.order {
			if n == c.gapAt {
				r.gap(p.Topics[0], c.gap)
			}
			if err := r.message(p.Topics[s.topic], s.payload, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		got := r.done(time.Now())
		if got.Disorder != c.disorder || got.Lost != c.lost || (got.Digest == want.Digest) != c.equal {
			t.Errorf("%s: disorder %d, lost %d, equal %v, want %d, %d, %v", name,
				got.Disorder, got.Lost, got.Digest == want.Digest, c.disorder, c.lost, c.equal)
		}
	}
}

func TestReceiverRefuses(t *testing.T) {
	r := newReceiver([]string{"a"}, 1)
	now := time.Now()
	for name, err := range map[string]error{
		"other topic": r.message("b", appendPayload(nil, now, 0, (&itch.Message{Type: itch.TypeOrderDelete}).Append(nil)), now),
		"no prefix":   r.message("a", []byte("short"), now),
		"no message":  r.message("a", appendPayload(nil, now, 0, nil), now),
		"half of one": r.message("a", appendPayload(nil, now, 0, []byte{'A'}), now),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Reading the feed or a part of it in advance does not change the published messages.
func TestPublisherReadsAhead(t *testing.T) {
	cfg, p := small(t)
	want, end := published(t, cfg, p, 0)
	for _, ahead := range []uint64{1, 1000, maxPrepared} {
		got, last := published(t, cfg, p, ahead)
		same := slices.EqualFunc(got, want, func(a, b sent) bool {
			return a.topic == b.topic && bytes.Equal(a.payload[8:], b.payload[8:]) // after the time
		})
		if !same || last.Digest != end.Digest || last.Published != end.Published {
			t.Errorf("%d messages in advance: %d published, same %t, digest %v, not %v", ahead, len(got), same, last.Digest, end.Digest)
		}
	}
}

func TestReceiverNoAllocations(t *testing.T) {
	r := newReceiver([]string{"a"}, 1)
	now := time.Now()
	add := (&itch.Message{Type: itch.TypeAddOrder, Locate: 1, Ref: 1, Side: itch.Buy, Shares: 1, Price: 1}).Append(nil)
	del := (&itch.Message{Type: itch.TypeOrderDelete, Locate: 1, Ref: 1}).Append(nil)
	var buf []byte
	var n uint64
	if a := testing.AllocsPerRun(1000, func() {
		for _, m := range [][]byte{add, del} {
			buf = appendPayload(buf[:0], now, n, m)
			n++
			if over, err := r.handle(pubsub.Message{Topic: "a", Data: buf}, nil, now); over {
				t.Fatal(err)
			}
		}
	}); a != 0 {
		t.Errorf("handling two messages makes %v allocations, want none", a)
	}
}

// A receiver is done when the publisher has ended in all groups, or with an error.
func TestReceiverEnds(t *testing.T) {
	type yielded struct {
		msg pubsub.Message
		err error
	}
	event := func(kind events.Kind, group string) yielded {
		return yielded{err: &pubsub.PublisherEvent{Kind: kind, Group: group}}
	}
	gap := yielded{err: &pubsub.GapError{Topic: "a", Count: 3}}
	up, x, y := event(events.PublisherUp, "x"), event(events.PublisherEnded, "x"), event(events.PublisherEnded, "y")
	for name, c := range map[string]struct {
		steps []yielded
		over  bool // at the last step, not before
		err   bool
	}{
		"one group":        {[]yielded{up, x, x, gap}, false, false},
		"both groups":      {[]yielded{up, x, gap, y}, true, false},
		"lost":             {[]yielded{event(events.PublisherLost, "x")}, true, true},
		"an unknown topic": {[]yielded{{msg: pubsub.Message{Topic: "c"}}}, true, true},
	} {
		r := newReceiver([]string{"a", "b"}, 2)
		for i, s := range c.steps {
			over, err := r.handle(s.msg, s.err, time.Now())
			if last := i == len(c.steps)-1; over != (c.over && last) || (err != nil) != (c.err && last) {
				t.Errorf("%s: step %d: over %t, error %v, want over %t and an error %t", name, i, over, err, c.over && last, c.err && last)
			}
		}
	}
}

type brokenOutlet struct{}

var errBroken = errors.New("broken")

func (brokenOutlet) Publish(context.Context, []byte) error { return errBroken }

func TestPublisherStops(t *testing.T) {
	cfg, p := small(t)
	var broken []outlet
	for range p.Topics {
		broken = append(broken, brokenOutlet{})
	}
	quiet := func(*publisherState) error { return nil }
	if err := newPublisher(p, broken, false).run(t.Context(), open(t, cfg), quiet); !errors.Is(err, errBroken) {
		t.Errorf("a broken outlet: error %v, want %v", err, errBroken)
	}

	outlets := (&log{}).outlets(p)
	if err := newPublisher(p, outlets, false).run(t.Context(), open(t, cfg), func(*publisherState) error { return errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("a report that fails: error %v, want %v", err, errBroken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newPublisher(p, outlets, true).run(ctx, open(t, cfg), quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled publisher: error %v, want %v", err, context.Canceled)
	}
}

// A receiver refuses an invalid state, and continues after a valid one.
func TestReceiverJoins(t *testing.T) {
	r := newReceiver([]string{"a"}, 1)
	now := time.Now()
	for name, err := range map[string]error{
		"other topic": r.begin("b", nil),
		"a byte":      r.begin("a", []byte{1}),
		"no book":     r.begin("a", []byte{0, 1, 2}),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	add := (&itch.Message{Type: itch.TypeAddOrder, Locate: 1, Ref: 1, Side: itch.Buy, Shares: 1, Price: 1}).Append(nil)
	other := newReceiver([]string{"a"}, 1)
	if err := other.message("a", appendPayload(nil, now, 0, add), now); err != nil {
		t.Fatal(err)
	}
	b := other.books.Book(1)
	for _, record := range [][]byte{{0, 0, 0, 0, 0, 0, 0, 1}, b.AppendState([]byte{0, 1})} {
		if err := r.begin("a", record); err != nil {
			t.Fatal(err)
		}
	}
	if r.books.Book(1).Digest() != b.Digest() {
		t.Error("the book of the state differs")
	}
	if err := r.message("a", appendPayload(nil, now, 1, add), now); err != nil {
		t.Fatal(err)
	}
	if s := r.state; s.Before != 1 || s.Disorder != 0 || s.Messages != 1 {
		t.Errorf("receiver's state %+v, want 1 message, 1 before the state and none out of order", s)
	}
}
